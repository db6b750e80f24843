//! Probes and hooks: commands, requests, connections, waits. Each is performed once and ends within its time.

mod grpc;
mod http;
mod trust;

use std::time::Duration;

use agent::pod::{Container, ProbeAnswer};
use contract::{ContainerRuntime, Error};
use meta::ObjectExt;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How much of a command's output an answer carries: upstream's limit.
const OUTPUT_BYTES_MAX: usize = 10 * 1024;

/// Whom a probe or hook is for.
pub(crate) struct Target<'t> {
    pub runtime: &'t dyn ContainerRuntime,
    /// The running container.
    pub id: &'t str,
    pub container: Container<'t>,
    /// The pod's address.
    pub ip: &'t str,
}

/// Performs a probe.
pub(crate) async fn probe(target: &Target<'_>, spec: &Value, limit: Duration) -> ProbeAnswer {
    let part = |name: &str| spec.get(name).filter(|part| part.is_object());
    if let Some(exec) = part("exec") {
        return command(target, exec, limit).await;
    }
    let answer = if let Some(get) = part("httpGet") {
        timeout(limit, http::get(target, get)).await
    } else if let Some(tcp) = part("tcpSocket") {
        timeout(limit, connect(target, tcp)).await
    } else if let Some(grpc) = part("grpc") {
        timeout(limit, grpc::check(target, grpc)).await
    } else {
        return ProbeAnswer::Unknown("missing probe handler".to_owned());
    };
    answer.unwrap_or_else(|_| ProbeAnswer::Failure(format!("timeout: no answer within {}s", limit.as_secs())))
}

/// Performs a hook; the error is what it said.
pub(crate) async fn hook(target: &Target<'_>, spec: &Value, limit: Duration) -> Result<(), String> {
    if let Some(sleep) = spec.get("sleep").filter(|part| part.is_object()) {
        let seconds = sleep.int(&["seconds"]).and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(seconds).min(limit)).await;
        return Ok(());
    }
    match probe(target, spec, limit).await {
        ProbeAnswer::Success => Ok(()),
        ProbeAnswer::Failure(said) | ProbeAnswer::Unknown(said) => Err(said),
    }
}

async fn command(target: &Target<'_>, exec: &Value, limit: Duration) -> ProbeAnswer {
    let words = exec.items(&["command"]).iter().filter_map(|word| word.as_str().map(str::to_owned));
    let words: Vec<String> = words.collect();
    match target.runtime.exec_sync(target.id, &words, limit).await {
        Ok(output) if output.exit_code == 0 => ProbeAnswer::Success,
        Ok(output) => {
            let mut said = output.stdout;
            said.extend(output.stderr);
            said.truncate(OUTPUT_BYTES_MAX);
            ProbeAnswer::Failure(String::from_utf8_lossy(&said).into_owned())
        }
        Err(Error::Timeout { .. }) => ProbeAnswer::Failure(format!(
            "command timed out: {:?} timed out after {}s",
            words.join(" "),
            limit.as_secs()
        )),
        Err(Error::Start { message, .. }) => ProbeAnswer::Failure(message),
        Err(error) => ProbeAnswer::Unknown(error.to_string()),
    }
}

async fn connect(target: &Target<'_>, spec: &Value) -> ProbeAnswer {
    let address = match address(target, spec) {
        Ok(address) => address,
        Err(why) => return ProbeAnswer::Unknown(why),
    };
    match TcpStream::connect(&address).await {
        Ok(_) => ProbeAnswer::Success,
        Err(error) => ProbeAnswer::Failure(format!("dial tcp {address}: {error}")),
    }
}

/// `host:port` of a spec with `host` and `port`.
fn address(target: &Target<'_>, spec: &Value) -> Result<String, String> {
    let host = match spec.text(&["host"]) {
        "" => target.ip,
        host => host,
    };
    let port = port(&target.container, &spec["port"])?;
    Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// A port by number, or by its name in the container.
fn port(container: &Container<'_>, written: &Value) -> Result<u16, String> {
    let number = |number: i64| u16::try_from(number).ok().filter(|port| *port > 0);
    if let Some(port) = written.as_i64() {
        return number(port).ok_or_else(|| format!("invalid port number: {port}"));
    }
    let name = written.as_str().unwrap_or("");
    if let Some(port) = name.parse().ok().and_then(number) {
        return Ok(port);
    }
    let mut ports = container.spec.items(&["ports"]).iter();
    let found = ports.find(|port| port.text(&["name"]) == name).and_then(|port| port.int(&["containerPort"]));
    found.and_then(number).ok_or_else(|| format!("couldn't find port: {name:?} in container {}", container.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::pod::Pod;
    use serde_json::json;

    #[test]
    fn ports_by_number_and_name() {
        let pod = json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 80}]}]}});
        let container = Pod::new(&pod).container("c").expect("a container");
        let check = |written: Value, expected: Option<u16>| {
            assert_eq!(port(&container, &written).ok(), expected, "{written}");
        };
        check(json!(8080), Some(8080));
        check(json!("81"), Some(81));
        check(json!("http"), Some(80));
        check(json!("https"), None);
        check(json!(0), None);
        check(json!(70_000), None);
    }
}
