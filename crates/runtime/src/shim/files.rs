//! The files that a sandbox gives its containers: hosts, hostname, resolv.conf. In the kubelet's wording.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::record::SandboxRecord;
use crate::spec::{HostAlias, NetworkMode, SandboxSpec};

/// Writes the three files.
pub(super) fn write(dir: &Path, record: &SandboxRecord) -> io::Result<()> {
    let spec = &record.spec;
    let hosts = match spec.network {
        NetworkMode::Pod => pod_hosts(spec, record.net.as_ref().map(|net| net.address)),
        NetworkMode::Node => node_hosts(&fs::read_to_string("/etc/hosts").unwrap_or_default(), &spec.host_aliases),
    };
    fs::write(dir.join("hosts"), hosts)?;
    let hostname = match spec.network {
        NetworkMode::Pod => spec.hostname.clone(),
        NetworkMode::Node => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    fs::write(dir.join("hostname"), format!("{hostname}\n"))?;
    let resolver = resolver(spec).unwrap_or_else(|| fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    fs::write(dir.join("resolv.conf"), resolver)
}

fn pod_hosts(spec: &SandboxSpec, address: Option<Ipv4Addr>) -> String {
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

/// `None` when nothing is given: then the host's file is used.
fn resolver(spec: &SandboxSpec) -> Option<String> {
    let dns = &spec.dns;
    if dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty() {
        return None;
    }
    let mut text = String::new();
    if !dns.searches.is_empty() {
        text.push_str(&format!("search {}\n", dns.searches.join(" ")));
    }
    dns.servers.iter().for_each(|server| text.push_str(&format!("nameserver {server}\n")));
    if !dns.options.is_empty() {
        text.push_str(&format!("options {}\n", dns.options.join(" ")));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_resolver() {
        let mut spec = SandboxSpec { hostname: "web-0".to_owned(), ..SandboxSpec::default() };
        let address = Some(Ipv4Addr::new(10, 1, 0, 5));
        assert!(pod_hosts(&spec, address).ends_with("fe00::2\tip6-allrouters\n10.1.0.5\tweb-0\n"));
        spec.domainname = "web.default.svc.cluster.local".to_owned();
        spec.host_aliases =
            vec![HostAlias { ip: "1.2.3.4".to_owned(), hostnames: vec!["foo".to_owned(), "bar".to_owned()] }];
        assert!(pod_hosts(&spec, address).ends_with(
            "10.1.0.5\tweb-0.web.default.svc.cluster.local\tweb-0\n\n# Entries added by HostAliases.\n1.2.3.4\tfoo\tbar\n"
        ));
        assert_eq!(resolver(&spec), None);
        spec.dns.servers = vec!["10.96.0.10".to_owned()];
        spec.dns.options = vec!["ndots:5".to_owned()];
        assert_eq!(resolver(&spec).as_deref(), Some("nameserver 10.96.0.10\noptions ndots:5\n"));
    }
}
