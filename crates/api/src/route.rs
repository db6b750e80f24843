//! Addresses and what they mean: one bijection between a URL path, the attributes that authorisation sees and the
//! place in the store, so that no two of them can disagree.

use std::fmt::Write as _;
use std::sync::Arc;

use admit::{Attributes, UserInfo};
use kinds::Catalog;
use meta::Gvr;

use crate::{Target, Verb};

/// The longest path read. Group, version, resource, namespace, name and subresource need under 1,300 characters.
const PATH_BYTES_MAX: usize = 4_096;
/// The longest tail behind a subresource (`proxy/...`).
const SEGMENTS_MAX: usize = 64;

/// A resource address, by its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// API group; empty for the legacy group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Namespace; empty for cluster scope or all namespaces.
    pub namespace: String,
    /// Plural.
    pub resource: String,
    /// Object name; empty for the collection.
    pub name: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// What stands behind `proxy`.
    pub tail: String,
    /// The deprecated `/watch/` prefix stood before it.
    pub watch: bool,
}

/// Reads a path that is already free of its query but still percent-encoded. `None`: not a resource address (or
/// one that nobody may mean: empty, `.` or `..` segments, encoded slashes).
pub fn parse(path: &str) -> Option<Address> {
    if path.len() > PATH_BYTES_MAX {
        return None;
    }
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let segments = path.split('/').map(decoded).collect::<Option<Vec<String>>>()?;
    if segments.len() > SEGMENTS_MAX {
        return None;
    }
    let mut words = segments.iter().map(String::as_str);
    let (group, version) = match words.next()? {
        "api" => ("", words.next()?),
        "apis" => (words.next()?, words.next()?),
        _ => return None,
    };
    let mut rest: Vec<&str> = words.collect();
    let watch = rest.first() == Some(&"watch");
    if watch {
        rest.remove(0);
    }
    let address = Address { group: group.into(), version: version.into(), watch, ..Address::default() };
    words_of(address, &rest)
}

/// Reads the words behind group and version.
fn words_of(address: Address, rest: &[&str]) -> Option<Address> {
    let in_namespace = |namespace: &str| Address { namespace: namespace.to_owned(), ..address.clone() };
    match rest {
        [] => None,
        ["namespaces"] => Some(Address { resource: "namespaces".into(), ..address }),
        // `namespaces/x/status` is the namespace's own subresource, `namespaces/x/pods` a collection inside it.
        ["namespaces", name] => {
            Some(Address { resource: "namespaces".into(), name: (*name).into(), ..in_namespace(name) })
        }
        ["namespaces", name, sub @ ("status" | "finalize")] => Some(Address {
            resource: "namespaces".into(),
            name: (*name).into(),
            subresource: (*sub).into(),
            ..in_namespace(name)
        }),
        // Namespaces are not in namespaces: whoever may do anything inside one may not reach another through it.
        ["namespaces", _, "namespaces", ..] if address.group.is_empty() => None,
        ["namespaces", namespace, tail @ ..] => named(in_namespace(namespace), tail),
        tail => named(address.clone(), tail),
    }
}

fn named(address: Address, words: &[&str]) -> Option<Address> {
    let word = |at: usize| words.get(at).map(|w| (*w).to_owned()).unwrap_or_default();
    let address = Address { resource: word(0), name: word(1), subresource: word(2), ..address };
    match words.len() {
        1..=3 => Some(address),
        _ if address.subresource == "proxy" => Some(Address { tail: format!("/{}", words[3..].join("/")), ..address }),
        _ => None,
    }
}

/// Undoes percent-encoding. Segments that could mean another path than they show are refused.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let safe = !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0']);
    safe.then_some(text)
}

impl Address {
    /// The path that [`parse`] reads as this address.
    pub fn path(&self) -> String {
        let mut path =
            if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", encoded(&self.group)) };
        let _ = write!(path, "/{}", encoded(&self.version));
        if self.watch {
            path.push_str("/watch");
        }
        if !self.namespace.is_empty() && !self.is_of_namespace() {
            let _ = write!(path, "/namespaces/{}", encoded(&self.namespace));
        }
        for word in [&self.resource, &self.name, &self.subresource].into_iter().filter(|w| !w.is_empty()) {
            let _ = write!(path, "/{}", encoded(word));
        }
        path.push_str(&self.tail);
        path
    }

    /// Whether the namespace's own address is meant, in which its name stands once for both.
    fn is_of_namespace(&self) -> bool {
        let is_own = matches!(&*self.subresource, "" | "status" | "finalize");
        self.resource == "namespaces" && self.namespace == self.name && is_own
    }

    /// The kind meant and where; `None` when no such resource is served or the address does not fit its scope.
    pub fn target(&self, catalog: &Catalog) -> Option<Target> {
        let kind = catalog.resource(&Gvr::new(&*self.group, &*self.version, &*self.resource))?;
        let namespace = match (kind.is_namespaced(), self.namespace.is_empty()) {
            (true, false) => self.namespace.clone(),
            (true, true) if self.name.is_empty() => String::new(),
            (false, true) => String::new(),
            // The namespace's own address carries its name as the namespace too; nothing else may.
            (false, false) if self.is_of_namespace() => String::new(),
            _ => return None,
        };
        let served = self.subresource.is_empty() || kind.subresource(&self.subresource).is_some();
        served.then(|| Target {
            kind: kind.clone(),
            namespace,
            name: self.name.clone(),
            subresource: self.subresource.clone(),
        })
    }

    /// What authorisation sees of a user who asks for this.
    pub fn attributes(&self, user: &Arc<UserInfo>, verb: &str) -> Attributes {
        Attributes {
            user: Arc::clone(user),
            verb: verb.to_owned(),
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..Attributes::default()
        }
    }

    /// The verb that an HTTP method means here; `None` when the method is not allowed.
    pub fn verb(&self, method: &str, wants_watch: bool) -> Option<Verb> {
        let collection = self.name.is_empty();
        match method {
            "GET" | "HEAD" if collection && (wants_watch || self.watch) => Some(Verb::Watch),
            "GET" | "HEAD" if self.watch => Some(Verb::Watch),
            "GET" | "HEAD" if collection => Some(Verb::List),
            "GET" | "HEAD" => Some(Verb::Get),
            "POST" if collection || !self.subresource.is_empty() => Some(Verb::Create),
            "PUT" if !collection => Some(Verb::Update),
            "PATCH" if !collection => Some(Verb::Patch),
            "DELETE" if collection => Some(Verb::DeleteCollection),
            "DELETE" => Some(Verb::Delete),
            _ => None,
        }
    }
}

fn encoded(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for byte in word.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => out.push(char::from(byte)),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, group: &str, namespace: &str, resource: &str, name: &str, subresource: &str) {
        let address = parse(path).unwrap_or_else(|| panic!("{path} is an address"));
        let found = [&address.group, &address.namespace, &address.resource, &address.name, &address.subresource];
        assert_eq!(found, [group, namespace, resource, name, subresource], "{path}");
        assert_eq!(parse(&address.path()).as_ref(), Some(&address), "{path} and back");
    }

    #[test]
    fn paths_are_addresses() {
        check("/api/v1/pods", "", "", "pods", "", "");
        check("/api/v1/namespaces", "", "", "namespaces", "", "");
        check("/api/v1/namespaces/a", "", "a", "namespaces", "a", "");
        check("/api/v1/namespaces/a/status", "", "a", "namespaces", "a", "status");
        check("/api/v1/namespaces/a/pods", "", "a", "pods", "", "");
        check("/api/v1/namespaces/a/pods/p/log", "", "a", "pods", "p", "log");
        check("/apis/apps/v1/namespaces/a/deployments/d/scale", "apps", "a", "deployments", "d", "scale");
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            "rbac.authorization.k8s.io",
            "",
            "clusterroles",
            "system:node",
            "",
        );
        check("/api/v1/watch/namespaces/a/pods", "", "a", "pods", "", "");
    }

    #[test]
    fn what_could_mean_another_path_is_no_address() {
        for path in [
            "",
            "/",
            "/api",
            "/api/v1",
            "/healthz",
            "/apis/apps/v1",
            "//api/v1/pods",
            "/api/v1//pods",
            "/api/v1/namespaces/../pods",
            "/api/v1/namespaces/%2e%2e/pods",
            "/api/v1/pods/a%2fb",
            "/api/v1/pods/%00",
            "/api/v1/pods/%",
            "/api/v1/pods/%zz",
            "/api/v1/namespaces/a/pods/p/log/more",
            "/api/v1/namespaces/a/namespaces",
            "/api/v1/namespaces/a/namespaces/a",
            "/api/v1/namespaces/a/namespaces/b",
            "/api/v1/namespaces/a/namespaces/b/status",
            "/api/v1/watch/namespaces/a/namespaces/b",
        ] {
            assert_eq!(parse(path), None, "{path}");
        }
    }

    #[test]
    fn a_proxy_keeps_its_tail() {
        let address = parse("/api/v1/namespaces/a/pods/p/proxy/x/y").expect("an address");
        assert_eq!((&*address.subresource, &*address.tail), ("proxy", "/x/y"));
    }
}
