//! What the runtime shows, in the agent's words.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::pod::{Exit, Marks, Sandbox, Shown, ShownContainer, State};
use contract::{ContainerState, ContainerStatus, SandboxState, SandboxStatus};
use stdx::Time;

use crate::sandbox_spec::figures;

/// Annotations on containers: the agent's marks.
const HASH: &str = "setpoint.dev/hash";
const BACKOFF: &str = "setpoint.dev/backoff-seconds";
const RESOURCES: &str = "setpoint.dev/resources";
const CREATED: &str = "setpoint.dev/created-micros";

/// The marks as annotations.
pub(crate) fn annotations(marks: &Marks) -> BTreeMap<String, String> {
    BTreeMap::from([
        (HASH.to_owned(), marks.hash.clone()),
        (BACKOFF.to_owned(), marks.backoff.as_secs().to_string()),
        (RESOURCES.to_owned(), marks.resources.clone()),
        (CREATED.to_owned(), marks.created.as_micros().to_string()),
    ])
}

fn marks(container: &ContainerStatus, resized: Option<&String>) -> Marks {
    let written = |name: &str| container.spec.annotations.get(name).cloned().unwrap_or_default();
    let created = written(CREATED).parse().map(Time::from_micros).unwrap_or(container.created_at);
    Marks {
        created,
        hash: written(HASH),
        backoff: Duration::from_secs(written(BACKOFF).parse().unwrap_or(0)),
        resources: resized.cloned().unwrap_or_else(|| written(RESOURCES)),
    }
}

/// What the node knows about containers beside the runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside {
    /// Resources that running containers and sandboxes were resized to, by id.
    pub resized: BTreeMap<String, String>,
    /// Last words, by id.
    pub messages: BTreeMap<String, String>,
}

/// One sandbox.
pub(crate) fn sandbox(status: &SandboxStatus, beside: &Beside) -> Sandbox {
    let resized = beside.resized.get(&status.id).and_then(|text| serde_json::from_str(text).ok());
    Sandbox {
        id: status.id.clone(),
        attempt: status.spec.meta.attempt,
        is_ready: status.state == SandboxState::Ready,
        created: status.created_at,
        ips: status.ips.iter().map(ToString::to_string).collect(),
        figures: resized.unwrap_or_else(|| figures(&status.spec.resources)),
    }
}

/// One container.
pub(crate) fn container(status: &ContainerStatus, beside: &Beside) -> ShownContainer {
    ShownContainer {
        id: status.id.clone(),
        sandbox: status.sandbox.clone(),
        name: status.spec.name.clone(),
        attempt: status.spec.attempt,
        state: state(status, beside.messages.get(&status.id)),
        image_id: status.spec.root.image_id.clone(),
        marks: marks(status, beside.resized.get(&status.id)),
    }
}

fn state(status: &ContainerStatus, message: Option<&String>) -> State {
    match status.state {
        ContainerState::Created => State::Created,
        ContainerState::Running => State::Running { started: status.started_at.unwrap_or(status.created_at) },
        ContainerState::Exited => {
            let exit = status.exit.clone().unwrap_or_default();
            State::Exited(Exit {
                started: status.started_at,
                finished: exit.finished_at,
                code: i64::from(exit.exit_code),
                reason: exit.reason,
                message: message.filter(|message| !message.is_empty()).cloned().unwrap_or(exit.message),
            })
        }
    }
}

/// Everything, by pod.
pub(crate) fn by_pod(
    sandboxes: &[SandboxStatus],
    containers: &[ContainerStatus],
    beside: &Beside,
) -> BTreeMap<String, Shown> {
    let mut pods: BTreeMap<String, Shown> = BTreeMap::new();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for status in sandboxes {
        owners.insert(&status.id, &status.spec.meta.uid);
        pods.entry(status.spec.meta.uid.clone()).or_default().sandboxes.push(sandbox(status, beside));
    }
    for status in containers {
        // A container without a sandbox cannot be: the runtime is between two states.
        if let Some(shown) = owners.get(status.sandbox.as_str()).and_then(|uid| pods.get_mut(*uid)) {
            shown.containers.push(container(status, beside));
        }
    }
    pods
}
