//! State changes: the runtime's own events where it has them, and what two lists differ by in any case.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use clock::Clock;
use contract::{ContainerState, Event, EventKind, ExitRecord, LogLimits};

use crate::answer;
use crate::channel::{CallError, code};
use crate::labels;
use crate::logs;
use crate::runtime::Inner;
use crate::wire;

/// How often everything is listed where the runtime tells nothing: upstream's period.
const LIST_EVERY: Duration = Duration::from_secs(1);
/// How often it is listed where the runtime tells: what was missed is seen all the same.
const LIST_SELDOM: Duration = Duration::from_secs(10);
/// How often lengths of logs are looked at: upstream's period.
const LOGS_EVERY: Duration = Duration::from_secs(10);
/// How long a runtime that went away is left alone.
const RETRY: Duration = Duration::from_secs(1);
/// How long a list may take before somebody is told: many times what the longest one takes.
const QUIET_MAX: Duration = Duration::from_secs(2);

/// That the runtime does not answer.
const SILENT: Event = Event { sandbox: String::new(), kind: EventKind::Silent };

/// Sandboxes and containers with their states.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    sandboxes: BTreeMap<String, i32>,
    /// With their sandboxes.
    containers: BTreeMap<String, (String, i32)>,
}

/// Watches until the runtime's last user has gone.
pub async fn run(inner: Weak<Inner>) {
    let mut events = tokio::spawn(listen(inner.clone()));
    let mut seen: Option<Seen> = None;
    let mut is_told = true;
    let mut logs_at = tokio::time::Instant::now();
    loop {
        let Some(runtime) = inner.upgrade() else { break };
        let looked = look_patiently(&runtime).await;
        if looked.is_err() {
            runtime.publish(SILENT);
        }
        if let Ok(next) = looked {
            if let Some(seen) = &seen {
                changes(seen, &next).into_iter().for_each(|event| runtime.publish(event));
            }
            if logs_at <= tokio::time::Instant::now() {
                look_at_logs(&runtime, &next).await;
                logs_at = tokio::time::Instant::now() + LOGS_EVERY;
            }
            seen = Some(next);
        }
        drop(runtime);
        let pause = if is_told { LIST_SELDOM } else { LIST_EVERY };
        tokio::select! {
            _ = &mut events, if is_told => is_told = false,
            () = tokio::time::sleep(pause) => {}
        }
    }
    events.abort();
}

/// Listens to the runtime's events; returns when it has none.
async fn listen(inner: Weak<Inner>) {
    loop {
        let Some(runtime) = inner.upgrade() else { return };
        let listened = runtime.channel.listen("/runtime.v1.RuntimeService/GetContainerEvents", &wire::Empty {}).await;
        let mut answers = match listened {
            Ok(answers) => answers,
            Err(CallError::Refused { code: code::UNIMPLEMENTED, .. }) => return,
            Err(_) => {
                drop(runtime);
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        drop(runtime);
        loop {
            let next = answers.next::<wire::ContainerEventResponse>().await;
            let Some(runtime) = inner.upgrade() else { return };
            match next {
                Ok(Some(event)) => {
                    // What exactly happened the lists tell: this only says when to look.
                    let kind = EventKind::ContainerStarted { container: event.container_id };
                    runtime.publish(Event { sandbox: String::new(), kind });
                }
                Err(CallError::Refused { code: code::UNIMPLEMENTED, .. }) => return,
                Ok(None) | Err(_) => break,
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Looks, and tells if that takes long.
async fn look_patiently(runtime: &Inner) -> Result<Seen, CallError> {
    let mut looking = std::pin::pin!(look(runtime));
    tokio::select! {
        looked = &mut looking => return looked,
        () = tokio::time::sleep(QUIET_MAX) => runtime.publish(SILENT),
    }
    looking.await
}

async fn look(runtime: &Inner) -> Result<Seen, CallError> {
    let sandboxes = runtime.sandboxes(labels::own(&runtime.agent.node)).await?;
    let filter =
        wire::ContainerFilter { label_selector: labels::own(&runtime.agent.node), ..wire::ContainerFilter::default() };
    let containers = runtime.containers(&filter).await?;
    Ok(Seen {
        sandboxes: sandboxes.into_iter().map(|one| (one.id, one.state)).collect(),
        containers: containers.into_iter().map(|one| (one.id, (one.pod_sandbox_id, one.state))).collect(),
    })
}

/// What has changed between two looks.
fn changes(before: &Seen, now: &Seen) -> Vec<Event> {
    let mut events = Vec::new();
    for (id, state) in &now.sandboxes {
        if before.sandboxes.get(id) != Some(state) {
            let kind = if *state == 0 { EventKind::SandboxReady } else { EventKind::SandboxNotReady };
            events.push(Event { sandbox: id.clone(), kind });
        }
    }
    for id in before.sandboxes.keys().filter(|id| !now.sandboxes.contains_key(*id)) {
        events.push(Event { sandbox: id.clone(), kind: EventKind::SandboxRemoved });
    }
    for (id, (sandbox, state)) in &now.containers {
        if before.containers.get(id).is_none_or(|(_, known)| known != state) {
            let container = id.clone();
            let kind = match answer::state(*state) {
                ContainerState::Created => EventKind::ContainerCreated { container },
                ContainerState::Running => EventKind::ContainerStarted { container },
                // How it ended a list does not tell; its status does.
                ContainerState::Exited => EventKind::ContainerExited { container, exit: ExitRecord::default() },
            };
            events.push(Event { sandbox: sandbox.clone(), kind });
        }
    }
    for (id, (sandbox, _)) in before.containers.iter().filter(|(id, _)| !now.containers.contains_key(*id)) {
        events.push(Event { sandbox: sandbox.clone(), kind: EventKind::ContainerRemoved { container: id.clone() } });
    }
    events
}

async fn look_at_logs(runtime: &Arc<Inner>, seen: &Seen) {
    let running = seen.containers.iter().filter(|(_, (_, state))| answer::state(*state) == ContainerState::Running);
    for (id, (_, state)) in running {
        let Ok(status) = runtime.container_status(id, *state).await else { continue };
        let path = std::path::PathBuf::from(status.log_path);
        let now = runtime.clock.now();
        let looked = tokio::task::spawn_blocking(move || logs::put_aside(&path, &LogLimits::default(), now)).await;
        match looked {
            Ok(Ok(true)) => {
                if let Err(error) = runtime.reopen_log(id).await {
                    tracing::warn!(container = id, ?error, "the runtime does not open a log again");
                }
            }
            Ok(Ok(false)) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(container = id, %error, "a log cannot be put aside"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sandboxes: &[(&str, i32)], containers: &[(&str, i32)]) -> Seen {
        Seen {
            sandboxes: sandboxes.iter().map(|(id, state)| ((*id).to_owned(), *state)).collect(),
            containers: containers.iter().map(|(id, state)| ((*id).to_owned(), ("s".to_owned(), *state))).collect(),
        }
    }

    #[test]
    fn looks_differ_by_events() {
        let check = |before: Seen, now: Seen, expected: &[&str]| {
            let found: Vec<String> = changes(&before, &now)
                .iter()
                .map(|event| format!("{:?}", event.kind).split([' ', '{']).next().unwrap_or("").to_owned())
                .collect();
            assert_eq!(found, expected);
        };
        let start = seen(&[("s", 0)], &[("c", 1)]);
        check(start.clone(), start.clone(), &[]);
        check(Seen::default(), start.clone(), &["SandboxReady", "ContainerStarted"]);
        check(start.clone(), seen(&[("s", 1)], &[("c", 2)]), &["SandboxNotReady", "ContainerExited"]);
        check(start, Seen::default(), &["SandboxRemoved", "ContainerRemoved"]);
    }
}
