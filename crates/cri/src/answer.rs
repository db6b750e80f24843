//! What is, as the contract says it.

use std::net::IpAddr;
use std::path::PathBuf;

use contract::{
    ContainerSpec, ContainerState, ContainerStatus, CpuStats, Error, ExitRecord, MemoryStats, PodMeta, RootImage,
    SandboxSpec, SandboxState, SandboxStatus, Stats,
};
use stdx::Time;

use crate::channel::{CallError, code};
use crate::labels;
use crate::wire;

/// A call that failed.
pub fn error(what: &'static str, id: &str, doing: &str, error: CallError) -> Error {
    match error {
        CallError::Refused { code: code::NOT_FOUND, .. } => Error::NotFound { what, id: id.to_owned() },
        CallError::Refused { code: code::INVALID_ARGUMENT | code::UNIMPLEMENTED, message } => Error::Invalid(message),
        CallError::Refused { code: code::DEADLINE_EXCEEDED, .. } => {
            Error::Timeout { what: doing.to_owned(), limit_ms: 0 }
        }
        CallError::Refused { message, .. } => Error::WrongState(message),
        CallError::Late { limit } => {
            Error::Timeout { what: doing.to_owned(), limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX) }
        }
        CallError::Unreachable(source) => Error::Io { doing: format!("{doing}: ask the container runtime"), source },
    }
}

/// What a command or container could not be started for, if that was it.
pub fn start_error(error: Error) -> Error {
    // The runtimes below say it in words only.
    let words = ["OCI runtime", "failed to exec", "failed to create containerd task", "executable file not found"];
    match error {
        Error::WrongState(message) if words.iter().any(|word| message.contains(word)) => {
            let exit_code = if message.contains("permission denied") { 126 } else { 127 };
            Error::Start { message, exit_code }
        }
        other => other,
    }
}

fn time(nanos: i64) -> Time {
    Time::from_micros(nanos.div_euclid(1_000))
}

fn some_time(nanos: i64) -> Option<Time> {
    (nanos > 0).then(|| time(nanos))
}

/// The spec that a sandbox was made of.
pub fn sandbox_spec(sandbox: &wire::PodSandbox) -> SandboxSpec {
    let written = sandbox.annotations.get(labels::SANDBOX_SPEC);
    written.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| {
        let meta = sandbox.metadata.clone().unwrap_or_default();
        SandboxSpec {
            meta: PodMeta { name: meta.name, namespace: meta.namespace, uid: meta.uid, attempt: meta.attempt },
            ..SandboxSpec::default()
        }
    })
}

/// A sandbox with its addresses.
pub fn sandbox(sandbox: &wire::PodSandbox, ips: Vec<IpAddr>) -> SandboxStatus {
    SandboxStatus {
        id: sandbox.id.clone(),
        spec: sandbox_spec(sandbox),
        state: if sandbox.state == 0 { SandboxState::Ready } else { SandboxState::NotReady },
        created_at: time(sandbox.created_at),
        ips,
        shim_pid: None,
        netns: None,
    }
}

/// The addresses of a sandbox.
pub fn addresses(status: &wire::PodSandboxStatus) -> Vec<IpAddr> {
    let network = status.network.clone().unwrap_or_default();
    let all = [network.ip].into_iter().chain(network.additional_ips.into_iter().map(|one| one.ip));
    all.filter_map(|ip| ip.parse().ok()).collect()
}

/// Where a container is in its life. One that the runtime has lost has ended.
pub fn state(number: i32) -> ContainerState {
    match number {
        0 => ContainerState::Created,
        1 => ContainerState::Running,
        _ => ContainerState::Exited,
    }
}

/// A container.
pub fn container(sandbox: &str, status: wire::ContainerStatus) -> ContainerStatus {
    let state = state(status.state);
    let meta = status.metadata.unwrap_or_default();
    let annotations = labels::sorted(status.annotations);
    let image_id = annotations.get(labels::IMAGE_ID).cloned().unwrap_or(status.image_ref);
    let exit = (state == ContainerState::Exited).then(|| ExitRecord {
        exit_code: status.exit_code,
        signal: Some(status.exit_code.saturating_sub(128)).filter(|signal| (1..=64).contains(signal)),
        reason: reason(&status.reason, status.exit_code),
        message: status.message,
        oom_killed: status.reason == "OOMKilled",
        finished_at: time(status.finished_at),
    });
    ContainerStatus {
        // Where it is, only the runtime knows.
        writable_layer: std::path::PathBuf::new(),
        id: status.id,
        sandbox: sandbox.to_owned(),
        spec: ContainerSpec {
            name: meta.name,
            attempt: meta.attempt,
            labels: labels::sorted(status.labels),
            tty: annotations.get(labels::TTY).is_some_and(|text| text == "true"),
            annotations,
            root: RootImage { image: status.image.unwrap_or_default().image, image_id, ..RootImage::default() },
            ..ContainerSpec::default()
        },
        state,
        created_at: time(status.created_at),
        started_at: some_time(status.started_at),
        exit,
        pid: None,
        log_path: PathBuf::from(status.log_path),
    }
}

fn reason(told: &str, code: i32) -> String {
    match (told, code) {
        ("", 0) => "Completed".to_owned(),
        ("", _) => "Error".to_owned(),
        (told, _) => told.to_owned(),
    }
}

/// What one container uses.
pub fn stats(stats: &wire::ContainerStats) -> Stats {
    let number = |value: &Option<wire::UInt64Value>| value.as_ref().map_or(0, |value| value.value);
    let cpu = stats.cpu.clone().unwrap_or_default();
    let memory = stats.memory.clone().unwrap_or_default();
    Stats {
        cpu: CpuStats { usage_ns: number(&cpu.usage_core_nano_seconds), ..CpuStats::default() },
        memory: MemoryStats {
            usage_bytes: number(&memory.usage_bytes),
            working_set_bytes: number(&memory.working_set_bytes),
            rss_bytes: number(&memory.rss_bytes),
            limit_bytes: 0,
            page_faults: number(&memory.page_faults),
            major_page_faults: number(&memory.major_page_faults),
        },
        pids: 0,
    }
}

/// What all containers use together.
pub fn sum(all: &[wire::ContainerStats]) -> Stats {
    all.iter().map(stats).fold(Stats::default(), |mut sum, one| {
        sum.cpu.usage_ns = sum.cpu.usage_ns.saturating_add(one.cpu.usage_ns);
        let (total, own) = (&mut sum.memory, one.memory);
        total.usage_bytes = total.usage_bytes.saturating_add(own.usage_bytes);
        total.working_set_bytes = total.working_set_bytes.saturating_add(own.working_set_bytes);
        total.rss_bytes = total.rss_bytes.saturating_add(own.rss_bytes);
        total.page_faults = total.page_faults.saturating_add(own.page_faults);
        total.major_page_faults = total.major_page_faults.saturating_add(own.major_page_faults);
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let check = |code: i32, told: &str, reason: &str, signal: Option<i32>| {
            let status = wire::ContainerStatus {
                state: 2,
                exit_code: code,
                reason: told.to_owned(),
                finished_at: 5_000,
                ..wire::ContainerStatus::default()
            };
            let exit = container("s", status).exit.expect("an end");
            assert_eq!((exit.reason.as_str(), exit.signal, exit.finished_at.as_micros()), (reason, signal, 5));
        };
        check(0, "", "Completed", None);
        check(3, "", "Error", None);
        check(137, "OOMKilled", "OOMKilled", Some(9));
        check(128, "StartError", "StartError", None);
    }

    #[test]
    fn a_sandbox_of_another_version_is_still_a_sandbox() {
        let meta = wire::PodSandboxMetadata { name: "p".into(), uid: "u".into(), namespace: "d".into(), attempt: 3 };
        let mut sandbox = wire::PodSandbox { metadata: Some(meta), ..wire::PodSandbox::default() };
        sandbox.annotations.insert(labels::SANDBOX_SPEC.to_owned(), "{".to_owned());
        let spec = sandbox_spec(&sandbox);
        assert_eq!((spec.meta.uid.as_str(), spec.meta.attempt), ("u", 3));
    }

    #[test]
    fn refusals() {
        let refused = |code: u32, message: &str| {
            error("container", "c", "start it", CallError::Refused { code, message: message.to_owned() })
        };
        assert!(refused(5, "x").is_not_found());
        assert!(matches!(refused(12, "x"), Error::Invalid(_)));
        let cannot = refused(2, "OCI runtime create failed: exec: \"/x\": permission denied");
        assert!(matches!(start_error(cannot), Error::Start { exit_code: 126, .. }));
        assert!(matches!(start_error(refused(2, "busy")), Error::WrongState(_)));
    }
}
