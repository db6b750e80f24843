//! The files that a sandbox gives its containers: hosts, hostname, resolv.conf. In the kubelet's wording.

use std::fs;
use std::io;
use std::path::Path;

use crate::record::SandboxRecord;
use contract::{NetworkMode, SandboxSpec};

/// Writes the three files.
pub(super) fn write(dir: &Path, record: &SandboxRecord) -> io::Result<()> {
    let spec = &record.spec;
    let own = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let hosts = contract::hosts_file(spec, record.net.as_ref().map(|net| net.address.into()), &own);
    fs::write(dir.join("hosts"), hosts)?;
    let hostname = match spec.network {
        NetworkMode::Pod => spec.hostname.clone(),
        NetworkMode::Node => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    fs::write(dir.join("hostname"), format!("{hostname}\n"))?;
    let resolver = resolver(spec).unwrap_or_else(|| fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    fs::write(dir.join("resolv.conf"), resolver)
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
    fn resolvers() {
        let mut spec = SandboxSpec::default();
        assert_eq!(resolver(&spec), None);
        spec.dns.servers = vec!["10.96.0.10".to_owned()];
        spec.dns.options = vec!["ndots:5".to_owned()];
        assert_eq!(resolver(&spec).as_deref(), Some("nameserver 10.96.0.10\noptions ndots:5\n"));
    }
}
