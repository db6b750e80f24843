//! A pod as the runtime's sandbox.

use std::net::IpAddr;

use agent::figures::Figures;
use agent::static_pod;
use contract::{DnsConfig, HostAlias, IpcMode, NetworkMode, PidMode, PodMeta, QosClass, Resources, SandboxSpec};
use meta::ObjectExt;
use serde_json::Value;

/// The domain of the cluster's names.
const CLUSTER_DOMAIN: &str = "cluster.local";
/// Longest host name.
const HOSTNAME_MAX: usize = 63;

/// The sandbox of `pod`.
pub(crate) fn sandbox_spec(pod: &Value, attempt: u32, cluster_dns: Option<IpAddr>) -> SandboxSpec {
    let spec = &pod["spec"];
    let is_on_host = spec.flag(&["hostNetwork"]);
    SandboxSpec {
        meta: PodMeta {
            name: pod.name().to_owned(),
            namespace: pod.namespace().to_owned(),
            uid: pod.uid().to_owned(),
            attempt,
        },
        labels: texts(pod, &["metadata", "labels"]),
        annotations: static_mark(pod),
        hostname: if is_on_host { String::new() } else { hostname(pod) },
        domainname: domain(pod),
        dns: dns(pod, cluster_dns),
        host_aliases: spec.items(&["hostAliases"]).iter().map(alias).collect(),
        network: if is_on_host { NetworkMode::Node } else { NetworkMode::Pod },
        pid: match (spec.flag(&["hostPID"]), spec.flag(&["shareProcessNamespace"])) {
            (true, _) => PidMode::Node,
            (_, true) => PidMode::Pod,
            _ => PidMode::Container,
        },
        ipc: if spec.flag(&["hostIPC"]) { IpcMode::Node } else { IpcMode::Pod },
        sysctls: spec
            .items(&["securityContext", "sysctls"])
            .iter()
            .map(|sysctl| (sysctl.text(&["name"]).to_owned(), sysctl.text(&["value"]).to_owned()))
            .collect(),
        qos: qos(pod),
        resources: resources(&Figures::of_pod(spec)),
        shm_bytes: 0,
    }
}

fn texts(pod: &Value, path: &[&str]) -> std::collections::BTreeMap<String, String> {
    let entries = pod.map(path).into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), value.as_str().unwrap_or("").to_owned())).collect()
}

/// A pod of a manifest is known to the API by its mirror, that is, by its name: its sandbox says so.
fn static_mark(pod: &Value) -> std::collections::BTreeMap<String, String> {
    let source = pod.annotation(static_pod::SOURCE).filter(|_| static_pod::is_static(pod));
    source.map(|source| (static_pod::SOURCE.to_owned(), source.to_owned())).into_iter().collect()
}

fn hostname(pod: &Value) -> String {
    let name = match pod.text(&["spec", "hostname"]) {
        "" => pod.name(),
        name => name,
    };
    let mut cut = name.len().min(HOSTNAME_MAX);
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    name[..cut].trim_end_matches(['-', '.']).to_owned()
}

fn domain(pod: &Value) -> String {
    match pod.text(&["spec", "subdomain"]) {
        "" => String::new(),
        subdomain => format!("{subdomain}.{}.svc.{CLUSTER_DOMAIN}", pod.namespace()),
    }
}

/// All empty: the machine's own.
fn dns(pod: &Value, cluster_dns: Option<IpAddr>) -> DnsConfig {
    let spec = &pod["spec"];
    let policy = match spec.text(&["dnsPolicy"]) {
        "ClusterFirst" if spec.flag(&["hostNetwork"]) => "Default",
        "ClusterFirstWithHostNet" | "" => "ClusterFirst",
        policy => policy,
    };
    let mut dns = match (policy, cluster_dns) {
        ("ClusterFirst", Some(server)) => DnsConfig {
            servers: vec![server.to_string()],
            searches: vec![
                format!("{}.svc.{CLUSTER_DOMAIN}", pod.namespace()),
                format!("svc.{CLUSTER_DOMAIN}"),
                CLUSTER_DOMAIN.to_owned(),
            ],
            options: vec!["ndots:5".to_owned()],
        },
        _ => DnsConfig::default(),
    };
    let own = |list: &str| {
        let items = spec.items(&["dnsConfig", list]).iter();
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    dns.servers.extend(own("nameservers"));
    dns.searches.extend(own("searches"));
    for option in spec.items(&["dnsConfig", "options"]) {
        dns.options.push(match option.text(&["value"]) {
            "" => option.text(&["name"]).to_owned(),
            value => format!("{}:{value}", option.text(&["name"])),
        });
    }
    dns
}

fn alias(alias: &Value) -> HostAlias {
    let names = alias.items(&["hostnames"]).iter().filter_map(|name| name.as_str().map(str::to_owned));
    HostAlias { ip: alias.text(&["ip"]).to_owned(), hostnames: names.collect() }
}

/// The quality of service, by the status or else by the spec.
fn qos(pod: &Value) -> QosClass {
    match pod.text(&["status", "qosClass"]) {
        "Guaranteed" => QosClass::Guaranteed,
        "Burstable" => QosClass::Burstable,
        _ => QosClass::BestEffort,
    }
}

/// Figures in the runtime's words.
pub(crate) fn resources(figures: &Figures) -> Resources {
    Resources {
        cpu_shares: u64::try_from(figures.cpu_shares).ok(),
        cpu_quota_us: figures.cpu_quota,
        cpu_period_us: u64::try_from(figures.cpu_period).ok(),
        memory_limit_bytes: figures.memory_max,
        ..Resources::default()
    }
}

/// The same, read back.
pub(crate) fn figures(resources: &Resources) -> Figures {
    let number = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok()).unwrap_or(0);
    Figures {
        cpu_shares: number(resources.cpu_shares),
        cpu_quota: resources.cpu_quota_us,
        cpu_period: number(resources.cpu_period_us),
        memory_max: resources.memory_limit_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_becomes_a_sandbox() {
        let pod = json!({
            "metadata": {"name": "web-0", "namespace": "d", "uid": "u", "labels": {"a": "b"}},
            "spec": {"hostname": "h", "subdomain": "s", "shareProcessNamespace": true, "dnsPolicy": "ClusterFirst",
                "dnsConfig": {"options": [{"name": "timeout", "value": "1"}]},
                "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["x"]}]},
            "status": {"qosClass": "Burstable"},
        });
        let spec = sandbox_spec(&pod, 2, Some(IpAddr::from([10, 96, 0, 10])));
        assert_eq!((spec.hostname.as_str(), spec.domainname.as_str()), ("h", "s.d.svc.cluster.local"));
        assert_eq!((spec.meta.attempt, spec.pid, spec.qos), (2, PidMode::Pod, QosClass::Burstable));
        assert_eq!(spec.dns.searches, ["d.svc.cluster.local", "svc.cluster.local", "cluster.local"]);
        assert_eq!(spec.dns.options, ["ndots:5", "timeout:1"]);
        assert_eq!(sandbox_spec(&pod, 0, None).dns.servers, Vec::<String>::new());
    }

    #[test]
    fn figures_are_read_back() {
        let all = [json!({}), json!({"limits": {"cpu": "1"}}), json!({"limits": {"memory": "1Mi", "cpu": "3m"}})];
        for given in all.map(|given| Figures::of(&given)) {
            assert_eq!(figures(&resources(&given)), given);
        }
    }

    #[test]
    fn on_the_hosts_network_the_hosts_name_stays() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"hostNetwork": true, "dnsPolicy": "ClusterFirst"}});
        let spec = sandbox_spec(&pod, 0, Some(IpAddr::from([10, 96, 0, 10])));
        assert_eq!((spec.hostname.as_str(), spec.network), ("", NetworkMode::Node));
        assert!(spec.dns.servers.is_empty());
    }
}
