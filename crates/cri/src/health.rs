//! Whether the runtime can be used: asked from time to time, as the kubelet does. One question tells of its network, too.

use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer;
use crate::runtime::Inner;
use crate::wire;

/// How often the runtime is asked: upstream's period.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long it may take to answer. It looks nothing up for that; but the machine may be busy.
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// For how long it may be without a good answer: one that hangs is told of after a single question, and one that is only
/// started again is not told of at all, since a node that is not ready takes its pods out of their Services.
const SILENCE_MAX: Duration = LOOK_EVERY.saturating_add(LOOK_TIMEOUT);
/// The condition of a runtime's status.
const RUNTIME_READY: &str = "RuntimeReady";

/// What is known of it.
pub(crate) struct Health {
    trouble: watch::Sender<Option<String>>,
}

impl Health {
    /// Of a runtime that has just answered.
    pub fn new(socket: &Path, status: Option<&wire::RuntimeStatus>) -> Health {
        Health { trouble: watch::Sender::new(judge(socket, Ok(status), Duration::ZERO)) }
    }

    /// Why the runtime cannot be used, as that changes.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.subscribe()
    }

    fn tell(&self, trouble: Option<String>) {
        let is_new = self.trouble.send_if_modified(|known| {
            let is_new = *known != trouble;
            known.clone_from(&trouble);
            is_new
        });
        match trouble {
            Some(why) if is_new => tracing::warn!("{why}"),
            None if is_new => tracing::info!("the container runtime can be used again"),
            _ => {}
        }
    }
}

/// Asks until the runtime's last user has gone.
pub(crate) async fn run(inner: Weak<Inner>) {
    let mut well = Instant::now();
    loop {
        let Some(runtime) = inner.upgrade() else { return };
        let asked = runtime.look(LOOK_TIMEOUT).await;
        let asked = asked.map_err(|error| answer::error("runtime", "", "its status", error).to_string());
        let status = asked.as_ref().map(|answer| answer.status.as_ref()).map_err(String::as_str);
        let trouble = judge(runtime.channel.socket(), status, well.elapsed());
        if status.is_ok() && trouble.is_none() {
            well = Instant::now();
        }
        runtime.health.tell(trouble);
        drop(runtime);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Why a runtime that answered like this, and had no good answer for so long, cannot be used: in the kubelet's words, with the
/// runtime's address.
fn judge(socket: &Path, status: Result<Option<&wire::RuntimeStatus>, &str>, silence: Duration) -> Option<String> {
    let endpoint = socket.display();
    let status = match status {
        Ok(status) => status,
        Err(why) if silence >= SILENCE_MAX => {
            return Some(format!("container runtime is down: unix://{endpoint}: {why}"));
        }
        Err(_) => return None,
    };
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    let unready = conditions.find(|condition| condition.r#type == RUNTIME_READY && !condition.status)?;
    let (reason, message) = (&unready.reason, &unready.message);
    Some(format!(
        "container runtime not ready: unix://{endpoint}: RuntimeReady=false reason:{reason} message:{message}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_and_words() {
        let said = |r#type: &str, status: bool| {
            let (reason, message) = ("Why".to_owned(), "so it is".to_owned());
            let condition = wire::RuntimeCondition { r#type: r#type.to_owned(), status, reason, message };
            wire::RuntimeStatus { conditions: vec![condition] }
        };
        let check = |status: Result<&wire::RuntimeStatus, &str>, seconds: u64, expected: Option<&str>| {
            let found = judge(Path::new("/run/x.sock"), status.map(Some), Duration::from_secs(seconds));
            assert_eq!(found.as_deref(), expected, "after {seconds} s");
        };
        check(Ok(&said("RuntimeReady", true)), 0, None);
        check(Ok(&said("RuntimeReady", true)), 100, None);
        check(Ok(&said("NetworkReady", false)), 0, None);
        let unready = "container runtime not ready: unix:///run/x.sock: RuntimeReady=false reason:Why message:so it is";
        check(Ok(&said("RuntimeReady", false)), 0, Some(unready));
        check(Err("refused"), 14, None);
        check(Err("refused"), 15, Some("container runtime is down: unix:///run/x.sock: refused"));
    }
}
