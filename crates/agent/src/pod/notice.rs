//! Events about a pod and its containers, with upstream's reasons and sentences.

use std::time::Duration;

use brain::Note;

use super::probe::{Kind, ProbeAnswer};
use super::spec::{Container, Pod};
use super::step::{Answer, Failure, Op, Pulled, Step};
use crate::resize;

/// A note, and the container it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What there is to say.
    pub note: Note,
    /// `spec.containers{name}`; `None` when it is about the pod.
    pub field_path: Option<String>,
}

/// Longest output of a probe that an event carries (upstream's limit).
const PROBE_OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// What there is to say when a step begins.
pub fn begun_notes(pod: &Pod<'_>, step: &Step) -> Vec<Notice> {
    let about = |note| vec![Notice { note, field_path: path(pod, step) }];
    match step {
        Step::Pull { image, policy, .. } if policy == "Always" => {
            about(Note::normal("Pulling", format!("Pulling image \"{image}\"")))
        }
        _ => Vec::new(),
    }
}

/// What there is to say when a step has ended.
pub(super) fn ended_notes(pod: &Pod<'_>, step: &Step, answer: &Answer) -> Vec<Notice> {
    let field_path = path(pod, step);
    let note = match answer {
        Answer::Done => done(step),
        Answer::Pulled(pulled) => pulled_note(step, pulled),
        Answer::Probed(result) => probed(step, result),
        Answer::Failed(failure) if step.op() == Op::Resize => {
            return vec![resize::notice(pod.object, &resize::News::Error(&failure.message))];
        }
        Answer::Failed(failure) => return failed(step, failure, field_path),
    };
    note.map(|note| Notice { note, field_path }).into_iter().collect()
}

fn path(pod: &Pod<'_>, step: &Step) -> Option<String> {
    pod.container(step.container()?).map(|container| container.field_path())
}

fn done(step: &Step) -> Option<Note> {
    match step {
        Step::CreateContainer { .. } => Some(Note::normal("Created", "Container created")),
        Step::StartContainer { .. } => Some(Note::normal("Started", "Container started")),
        _ => None,
    }
}

fn pulled_note(step: &Step, pulled: &Pulled) -> Option<Note> {
    let Step::Pull { image, .. } = step else { return None };
    let message = match pulled.fetched {
        None => format!("Container image \"{image}\" already present on machine"),
        Some((took, size)) => {
            let took = go_duration(took);
            format!(
                "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: {size} bytes."
            )
        }
    };
    Some(Note::normal("Pulled", message))
}

fn go_duration(span: Duration) -> String {
    let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    meta::duration::format(millis.saturating_mul(1_000_000))
}

fn probed(step: &Step, answer: &ProbeAnswer) -> Option<Note> {
    let Step::Probe { kind, .. } = step else { return None };
    match answer {
        ProbeAnswer::Success => None,
        ProbeAnswer::Failure(output) => Some(unhealthy(*kind, "failed", output)),
        ProbeAnswer::Unknown(output) => Some(unhealthy(*kind, "errored", output)),
    }
}

fn unhealthy(kind: Kind, how: &str, output: &str) -> Note {
    let mut end = output.len().min(PROBE_OUTPUT_BYTES_MAX);
    while !output.is_char_boundary(end) {
        end -= 1;
    }
    Note::warning("Unhealthy", format!("{} probe {how}: {}", kind.title(), &output[..end]))
}

fn failed(step: &Step, failure: &Failure, field_path: Option<String>) -> Vec<Notice> {
    let message = &failure.message;
    let notes = match step {
        Step::Mount => vec![Note::warning("FailedMount", message.as_str())],
        Step::Pull { image, .. } if failure.reason == "ErrImageNeverPull" => {
            let why = format!("Container image \"{image}\" is not present with pull policy of Never");
            vec![Note::warning("ErrImageNeverPull", why), Note::warning("Failed", "Error: ErrImageNeverPull")]
        }
        Step::Pull { image, .. } if failure.reason == "InvalidImageName" => vec![
            Note::warning("InspectFailed", format!("Failed to apply default image tag \"{image}\": {message}")),
            Note::warning("Failed", "Error: InvalidImageName"),
        ],
        Step::Pull { image, .. } => vec![
            Note::warning("Failed", format!("Failed to pull image \"{image}\": {message}")),
            Note::warning("Failed", format!("Error: {}", failure.reason)),
        ],
        Step::CreateSandbox { .. } => {
            vec![Note::warning("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {message}"))]
        }
        Step::CreateContainer { .. } | Step::StartContainer { .. } => {
            vec![Note::warning("Failed", format!("Error: {message}"))]
        }
        Step::PostStart { .. } => {
            vec![Note::warning("FailedPostStartHook", "PostStartHook failed")]
        }
        Step::PreStop { .. } => vec![Note::warning("FailedPreStopHook", "PreStopHook failed")],
        Step::Stop { .. } | Step::StopSandbox { .. } => {
            vec![Note::warning("FailedKillPod", format!("error killing pod: {message}"))]
        }
        _ => Vec::new(),
    };
    notes.into_iter().map(|note| Notice { note, field_path: field_path.clone() }).collect()
}

/// A container is stopped because its pod is.
pub(super) fn killing(container: &Container<'_>) -> Notice {
    about(container, Note::normal("Killing", format!("Stopping container {}", container.name())))
}

/// A container is stopped for a reason of its own.
pub(super) fn killing_because(container: &Container<'_>, why: &str, restarts: bool) -> Notice {
    let after = if restarts { ", will be restarted" } else { "" };
    about(container, Note::normal("Killing", format!("Container {} {why}{after}", container.name())))
}

/// A container waits before it is started again.
pub(super) fn back_off(pod: &Pod<'_>, container: &Container<'_>) -> Notice {
    let name = container.name();
    about(
        container,
        Note::warning("BackOff", format!("Back-off restarting failed container {name} in pod {}", pod.full_name())),
    )
}

/// A container waits before its image is pulled again.
pub(super) fn image_back_off(container: &Container<'_>) -> Vec<Notice> {
    let message = format!("Back-off pulling image \"{}\"", container.image());
    vec![
        about(container, Note::normal("BackOff", message)),
        about(container, Note::warning("Failed", "Error: ImagePullBackOff")),
    ]
}

fn about(container: &Container<'_>, note: Note) -> Notice {
    Notice { note, field_path: Some(container.field_path()) }
}
