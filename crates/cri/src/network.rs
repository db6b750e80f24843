//! The pods' network of a runtime that leaves it to CNI: told the range, and asked whether it is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use contract::{Cidr, Error, Result};

use crate::answer;
use crate::channel::CallError;
use crate::runtime::{ANSWER_TIMEOUT, Inner, RuntimeInfo};
use crate::wire;

/// How long a runtime may take to find a configuration that was written, before it is looked at from time to time
/// alone; and how often it is asked meanwhile.
const FOUND_WITHIN: Duration = Duration::from_secs(10);
const FOUND_LOOK: Duration = Duration::from_millis(100);
/// The condition of a runtime's status.
const NETWORK_READY: &str = "NetworkReady";

/// Who configures the network, in the directories that the runtime names.
pub trait PodNetwork: Send + Sync {
    /// Whether somebody else has: then no range is waited for.
    fn is_foreign(&self, runtime: &RuntimeInfo) -> bool;
    /// Makes pods get addresses of this range from now on, unless somebody else does.
    fn configure(&self, runtime: &RuntimeInfo, pod_cidr: Cidr) -> std::io::Result<()>;
}

/// What is known of it.
pub(crate) struct Network {
    plugin: Box<dyn PodNetwork>,
    /// Whether the range was told.
    is_told: AtomicBool,
    /// What the runtime said last.
    is_ready: AtomicBool,
}

impl Network {
    pub fn new(plugin: Box<dyn PodNetwork>, status: Option<&wire::RuntimeStatus>) -> Network {
        let (is_told, is_ready) = (AtomicBool::new(false), AtomicBool::new(says_ready(status)));
        Network { plugin, is_told, is_ready }
    }

    /// Whether a configuration may be there, but is one for an earlier range.
    pub fn awaits_range(&self, info: &RuntimeInfo) -> bool {
        !self.is_told.load(Ordering::Acquire) && !self.plugin.is_foreign(info)
    }

    /// Whether pods can be connected now.
    pub fn is_ready(&self, info: &RuntimeInfo) -> bool {
        self.is_ready.load(Ordering::Acquire) && !self.awaits_range(info)
    }
}

fn says_ready(status: Option<&wire::RuntimeStatus>) -> bool {
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    conditions.filter(|condition| condition.r#type == NETWORK_READY).any(|condition| condition.status)
}

impl Inner {
    /// Asks the runtime how it is, and notes whether its network is ready. One that does not answer says nothing of it.
    pub async fn look(&self, limit: Duration) -> std::result::Result<wire::StatusResponse, CallError> {
        let ask = wire::StatusRequest { verbose: false };
        let answer: wire::StatusResponse = self.ask("Status", &ask, limit).await?;
        let is_ready = says_ready(answer.status.as_ref());
        if self.network.is_ready.swap(is_ready, Ordering::AcqRel) != is_ready {
            tracing::info!(is_ready, "the runtime's network");
        }
        Ok(answer)
    }

    /// Tells the runtime the range, and configures the network for it.
    pub async fn use_range(self: &Arc<Self>, pod_cidr: Cidr) -> Result<()> {
        let network_config = Some(wire::NetworkConfig { pod_cidr: pod_cidr.to_string() });
        let runtime_config = Some(wire::RuntimeConfig { network_config });
        let ask = wire::UpdateRuntimeConfigRequest { runtime_config };
        let failed = |error: CallError| answer::error("runtime", "", "tell the range of the pods' addresses", error);
        self.ask::<wire::Empty>("UpdateRuntimeConfig", &ask, ANSWER_TIMEOUT).await.map_err(failed)?;
        let inner = Arc::clone(self);
        let doing = "configure the pods' network";
        let configured =
            tokio::task::spawn_blocking(move || inner.network.plugin.configure(&inner.info, pod_cidr)).await;
        configured.unwrap_or_else(|error| Err(std::io::Error::other(error))).map_err(Error::io(doing))?;
        self.network.is_told.store(true, Ordering::Release);
        // It finds the configuration by itself: until then it is not ready.
        let found = async {
            while !self.look(ANSWER_TIMEOUT).await.is_ok_and(|answer| says_ready(answer.status.as_ref())) {
                tokio::time::sleep(FOUND_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(FOUND_WITHIN, found).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network that is ours or not.
    struct Whose {
        is_foreign: bool,
    }

    impl PodNetwork for Whose {
        fn is_foreign(&self, _: &RuntimeInfo) -> bool {
            self.is_foreign
        }

        fn configure(&self, _: &RuntimeInfo, _: Cidr) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn our_network_waits_for_its_range() {
        let check = |is_foreign: bool, is_told: bool, said: Option<bool>, expected: bool| {
            let condition = |status| wire::RuntimeCondition {
                r#type: NETWORK_READY.to_owned(),
                status,
                ..wire::RuntimeCondition::default()
            };
            let status = said.map(|said| wire::RuntimeStatus { conditions: vec![condition(said)] });
            let network = Network::new(Box::new(Whose { is_foreign }), status.as_ref());
            network.is_told.store(is_told, Ordering::Release);
            assert_eq!(network.is_ready(&RuntimeInfo::default()), expected, "{is_foreign} {is_told} {said:?}");
        };
        check(false, false, Some(true), false);
        check(false, true, Some(true), true);
        check(false, true, Some(false), false);
        check(false, true, None, false);
        check(true, false, Some(true), true);
        check(true, false, Some(false), false);
    }
}
