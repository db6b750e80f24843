//! Addresses: one meaning for the URL, for authorisation and for the store; and the options behind the question mark.

use std::sync::LazyLock;

use api::Options;
use api::route::{self, Address};
use kinds::Catalog;
use store::Key;

use crate::{inputs, lines, text_of};

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::built_in);

/// An address is written as the path that is read as it, and what it covers in the store is what authorisation was
/// asked about. Two lines: addresses of one key are one object.
pub fn url(data: &[u8]) {
    let read = |line: &[u8]| route::parse(text_of(line)?);
    let found: Vec<(Address, Key)> = lines(data).take(2).filter_map(read).filter_map(judged).collect();
    if let [(a, of_a), (b, of_b)] = &found[..]
        && of_a == of_b
    {
        assert_eq!((&a.group, &a.resource, &a.name), (&b.group, &b.resource, &b.name));
        let is_namespace = a.resource == "namespaces";
        assert!(is_namespace || a.namespace == b.namespace, "{a:?} and {b:?}");
    }
}

/// The address with the key of its object, where it is that of a stored object.
fn judged(address: Address) -> Option<(Address, Key)> {
    assert_eq!(route::parse(&address.path()).as_ref(), Some(&address), "{}", address.path());
    let target = address.target(&CATALOG)?;
    assert_eq!(&*target.kind.plural, address.resource);
    assert!(target.kind.is_namespaced() || target.namespace.is_empty());
    let prefix = target.prefix();
    assert!(prefix.is_empty() || prefix.ends_with('/'));
    if target.name.is_empty() || !target.kind.is_stored() {
        return None;
    }
    let key = target.key();
    match target.kind.is_namespaced() {
        true => {
            let (namespace, name) = key.item.split_once('/').expect("a namespaced key has a slash");
            assert_eq!((namespace, name), (&*address.namespace, &*address.name));
            assert!(key.item.starts_with(&prefix));
        }
        false => assert_eq!((&*key.item, key.item.contains('/')), (&*address.name, false)),
    }
    Some((address, key))
}

pub fn url_seeds() -> Vec<Vec<u8>> {
    let mut seeds = inputs(&[
        "/api/v1/namespaces/a/pods/p/log",
        "/api/v1/watch/namespaces/a/pods/p",
        "/api/v1/namespaces/a/status\n/api/v1/namespaces/a",
        "/api/v1/namespaces/a/pods/p/proxy/x//y/%2e%2e/z",
        "/api/v1/namespaces/%2e%2e/pods/%00\n/api/v1/namespaces/a%2fb/pods/c",
        "//api/v1/pods",
        "/api/v1/../pods;a=b",
        "/apis/apps/v1/namespaces/n/deployments/d/scale/",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node\n/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
    ]);
    for kind in CATALOG.iter() {
        let version = kind.group_version();
        let root = if kind.group.is_empty() { format!("/api/{}", kind.version) } else { format!("/apis/{version}") };
        let scope = if kind.is_namespaced() { "/namespaces/n" } else { "" };
        seeds.push(format!("{root}{scope}/{}/x", kind.plural).into_bytes());
    }
    seeds
}

/// Options are read or refused, nothing else.
pub fn list_options(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let pairs: Vec<(String, String)> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    match Options::from_query(&pairs) {
        Ok(options) => drop(format!("{options:?}")),
        Err(error) => assert!((400..500).contains(&error.code), "{error:?}"),
    }
}

pub fn list_options_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "limit=500&continue=abc&resourceVersion=1&resourceVersionMatch=Exact",
        "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=30",
        "labelSelector=a in (b,c),!d&fieldSelector=metadata.name=x,spec.nodeName!=y",
        "dryRun=All&fieldManager=me&fieldValidation=Strict&force=true&gracePeriodSeconds=-1&propagationPolicy=Orphan",
        "limit=-1&resourceVersion=99999999999999999999&orphanDependents=true",
    ])
}
