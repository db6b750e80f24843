//! A pod's `/etc/hosts`, in the kubelet's wording.

use std::net::IpAddr;

use crate::spec::{HostAlias, NetworkMode, SandboxSpec};

/// The text of the file. `own` is the machine's, which pods on its network see.
pub fn hosts_file(spec: &SandboxSpec, address: Option<IpAddr>, own: &str) -> String {
    match spec.network {
        NetworkMode::Pod => pod_hosts(spec, address),
        NetworkMode::Node => node_hosts(own, &spec.host_aliases),
    }
}

fn pod_hosts(spec: &SandboxSpec, address: Option<IpAddr>) -> String {
    let mut text = String::from(
        "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
         fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n",
    );
    if let Some(address) = address {
        let full =
            if spec.domainname.is_empty() { String::new() } else { format!("{}.{}\t", spec.hostname, spec.domainname) };
        text.push_str(&format!("{address}\t{full}{}\n", spec.hostname));
    }
    text + &aliases(&spec.host_aliases)
}

fn node_hosts(host: &str, list: &[HostAlias]) -> String {
    format!("# Kubernetes-managed hosts file (host network).\n{host}{}", aliases(list))
}

fn aliases(list: &[HostAlias]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let lines = list.iter().map(|alias| format!("{}\t{}\n", alias.ip, alias.hostnames.join("\t")));
    format!("\n# Entries added by HostAliases.\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases() {
        let mut spec = SandboxSpec { hostname: "web-0".to_owned(), ..SandboxSpec::default() };
        let address = Some(IpAddr::from([10, 1, 0, 5]));
        assert!(hosts_file(&spec, address, "").ends_with("fe00::2\tip6-allrouters\n10.1.0.5\tweb-0\n"));
        spec.domainname = "web.default.svc.cluster.local".to_owned();
        spec.host_aliases =
            vec![HostAlias { ip: "1.2.3.4".to_owned(), hostnames: vec!["foo".to_owned(), "bar".to_owned()] }];
        assert!(hosts_file(&spec, address, "").ends_with(
            "10.1.0.5\tweb-0.web.default.svc.cluster.local\tweb-0\n\n\
             # Entries added by HostAliases.\n1.2.3.4\tfoo\tbar\n"
        ));
        spec.network = NetworkMode::Node;
        assert!(hosts_file(&spec, address, "127.0.0.1 here\n").contains("(host network).\n127.0.0.1 here\n"));
    }
}
