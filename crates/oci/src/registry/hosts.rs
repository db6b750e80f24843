//! Where registries are: their addresses, mirrors, and who may be spoken to without TLS.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use regex::Regex;

use super::file::{self, HostsError};
use super::keyring::Keyring;
use crate::error::ImageError;
use crate::reference::DEFAULT_REGISTRY;

/// The path of the API, where nothing else is said.
const API: &str = "/v2";
/// Where the default registry answers.
const DEFAULT_HOST: &str = "registry-1.docker.io";

/// What is known of registries besides their names. Has no `Debug`: there are secrets in it.
#[derive(Clone, Default)]
pub struct Hosts {
    /// By registry, whom to ask before it, in order. The key `*` is for all registries that have no entry of their own.
    pub mirrors: BTreeMap<String, Vec<Mirror>>,
    /// `host[:port]` that are spoken to in plain HTTP. Loopback addresses always are, but for port 443.
    pub plain_http: BTreeSet<String>,
    /// Certificate authorities to trust besides the system's, in PEM.
    pub authorities_pem: Vec<u8>,
    /// By `host[:port]` of whoever is asked, how TLS is spoken with it; `*` for all others.
    pub(super) tls: BTreeMap<String, TlsOptions>,
    /// The machine's own logins, by whoever is asked; those of a pod's secrets come first.
    pub(super) logins: Keyring,
}

/// Whom to ask before a registry.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// `https://mirror.example[:port][/path]`.
    pub address: String,
    /// The API is at the address itself, and not at `/v2` of it.
    pub(super) is_api_root: bool,
    /// How it calls repositories.
    pub(super) rewrites: Vec<Rewrite>,
}

/// Another name for the repositories that a pattern fits.
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    pub pattern: Regex,
    /// In which `$1` is the pattern's first group.
    pub replacement: String,
}

impl From<String> for Mirror {
    fn from(address: String) -> Mirror {
        Mirror { address, is_api_root: false, rewrites: Vec::new() }
    }
}

/// How TLS is spoken with somebody. Has no `Debug`: there is a key in it.
#[derive(Clone, Default)]
pub(super) struct TlsOptions {
    /// Certificate authorities to trust besides the system's, in PEM.
    pub authorities_pem: Vec<u8>,
    /// A certificate to show, and its key, in PEM.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// Whoever answers is believed.
    pub is_unverified: bool,
}

/// The host that answers for a registry of this name.
pub(super) fn canonical(registry: &str) -> String {
    match registry {
        DEFAULT_REGISTRY | "index.docker.io" => DEFAULT_HOST.to_owned(),
        other => other.to_owned(),
    }
}

/// An address: scheme, host, port, and the path with its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub tls: bool,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    pub path: String,
}

/// A place that serves a registry's API.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    /// The address; its path is what comes before that of the API.
    pub base: Target,
    /// The path of the API: `/v2`, or nothing where that is part of the address.
    pub api: &'static str,
    /// How it calls repositories.
    pub rewrites: Vec<Rewrite>,
    /// By what name credentials for it are filed.
    pub credentials: String,
    /// Asked in place of another.
    pub is_mirror: bool,
}

impl Endpoint {
    /// What it calls a repository: the first pattern that fits tells.
    pub fn repository(&self, repository: &str) -> String {
        let fitting = self.rewrites.iter().find(|rewrite| rewrite.pattern.is_match(repository));
        let rewritten = fitting.map(|rewrite| rewrite.pattern.replace_all(repository, rewrite.replacement.as_str()));
        rewritten.map_or_else(|| repository.to_owned(), Cow::into_owned)
    }
}

impl Hosts {
    /// Reads a file in the form of k3s's `registries.yaml`.
    ///
    /// # Errors
    /// What is wrong with it and where; no message quotes a login.
    pub fn read(path: &Path) -> Result<Hosts, HostsError> {
        file::read(path)
    }

    /// The places to ask for images of `registry`, in order; the registry itself is the last, unless it was named among
    /// its own mirrors: so its address is given where it is another than its name tells.
    pub(super) fn endpoints(&self, registry: &str) -> Result<Vec<Endpoint>, ImageError> {
        let mirrors = self.mirrors.get(registry).or_else(|| self.mirrors.get("*"));
        let host = canonical(registry);
        let mut endpoints = Vec::new();
        for mirror in mirrors.into_iter().flatten() {
            let mut base = Target::parse(&mirror.address)?;
            base.path = base.path.trim_end_matches('/').to_owned();
            self.permit(&base)?;
            let is_mirror = base.authority() != host;
            let credentials = if is_mirror { base.authority() } else { registry.to_owned() };
            let api = if mirror.is_api_root { "" } else { API };
            endpoints.push(Endpoint { base, api, rewrites: mirror.rewrites.clone(), credentials, is_mirror });
        }
        if endpoints.iter().any(|endpoint| !endpoint.is_mirror) {
            return Ok(endpoints);
        }
        let scheme = if self.is_plain(&host) { "http" } else { "https" };
        let mut base = Target::parse(&format!("{scheme}://{host}"))?;
        base.path.clear();
        let credentials = registry.to_owned();
        endpoints.push(Endpoint { base, api: API, rewrites: Vec::new(), credentials, is_mirror: false });
        Ok(endpoints)
    }

    /// Under which name it is said how TLS is spoken with `target`; `None` where nothing is said.
    pub(super) fn tls_name(&self, target: &Target) -> Option<&str> {
        let names = [target.authority(), format!("{}:{}", target.host, target.port), "*".to_owned()];
        names.iter().find_map(|name| self.tls.get_key_value(name)).map(|(name, _)| name.as_str())
    }

    fn is_plain(&self, authority: &str) -> bool {
        if self.plain_http.contains(authority) {
            return true;
        }
        let Ok(target) = Target::parse(&format!("http://{authority}")) else { return false };
        target.is_loopback() && target.port != 443
    }

    /// Refuses plain HTTP where it is not allowed.
    pub(super) fn permit(&self, target: &Target) -> Result<(), ImageError> {
        let listed = || self.plain_http.contains(&target.authority()) || self.plain_http.contains(&target.host);
        if target.tls || target.is_loopback() || listed() {
            return Ok(());
        }
        Err(ImageError::Denied(format!("{target}: plain HTTP is not allowed for this host")))
    }
}

impl Target {
    /// Reads `http://host[:port][/path]` or `https://...`.
    pub fn parse(text: &str) -> Result<Target, ImageError> {
        let refuse = || ImageError::Damaged(format!("{:?} is no address of a registry", shorten(text)));
        let uri: http::Uri = text.parse().map_err(|_| refuse())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(refuse()),
        };
        let authority = uri.authority().ok_or_else(refuse)?;
        if authority.as_str().contains('@') {
            return Err(refuse());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Target { tls, host, port, path })
    }

    /// The same place, another path; `location` may be relative to this one or an address of its own.
    pub fn redirected(&self, location: &str) -> Result<Target, ImageError> {
        if location.starts_with("//") {
            return Target::parse(&format!("{}:{location}", self.scheme()));
        }
        if location.starts_with('/') {
            return Target::parse(&format!("{}://{}{location}", self.scheme(), self.authority()));
        }
        Target::parse(location)
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// `host[:port]`, the port only where it is not the scheme's own.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// Whether credentials for one may be shown to the other.
    pub fn is_same_place(&self, other: &Target) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Without the query, which may carry a signature.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.split('?').next().unwrap_or("");
        write!(f, "{}://{}{path}", self.scheme(), self.authority())
    }
}

fn shorten(text: &str) -> String {
    text.split('?').next().unwrap_or("").chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(hosts: &Hosts, registry: &str) -> Vec<String> {
        hosts.endpoints(registry).unwrap().into_iter().map(|endpoint| endpoint.base.to_string()).collect()
    }

    #[test]
    fn registries_have_addresses() {
        let mirrors = [("docker.io".to_owned(), vec!["https://mirror.example/hub/".to_owned().into()])].into();
        let hosts = Hosts { mirrors, plain_http: ["lan:5000".to_owned()].into(), ..Hosts::default() };
        let check = |registry: &str, expected: &[&str]| assert_eq!(addresses(&hosts, registry), expected);
        check("docker.io", &["https://mirror.example/hub", "https://registry-1.docker.io"]);
        check("r.example:444", &["https://r.example:444"]);
        check("lan:5000", &["http://lan:5000"]);
        check("lan:5001", &["https://lan:5001"]);
        check("localhost:5000", &["http://localhost:5000"]);
        check("localhost:443", &["https://localhost"]);
        check("[::1]:5000", &["http://[::1]:5000"]);
        check("127.0.0.2", &["http://127.0.0.2"]);
    }

    #[test]
    fn plain_http_is_an_exception() {
        let mirrors = [("*".to_owned(), vec!["http://m.example".to_owned().into()])].into();
        let hosts = Hosts { mirrors, ..Hosts::default() };
        assert!(matches!(hosts.endpoints("r.example"), Err(ImageError::Denied(_))));
        let listed = Hosts { plain_http: ["m.example".to_owned()].into(), ..hosts };
        assert_eq!(addresses(&listed, "r.example"), ["http://m.example", "https://r.example"]);
    }

    #[test]
    fn redirections_are_read() {
        let from = Target::parse("https://r.example/v2/a?x=y").unwrap();
        let check = |location: &str, expected: Option<&str>| {
            assert_eq!(from.redirected(location).ok().map(|to| to.to_string()).as_deref(), expected, "{location}");
        };
        check("/b?secret", Some("https://r.example/b"));
        check("//cdn.example/b", Some("https://cdn.example/b"));
        check("http://cdn.example:81/b", Some("http://cdn.example:81/b"));
        check("ftp://cdn.example/b", None);
        check("https://user:password@cdn.example/b", None);
        check("b", None);
    }
}
