//! One meaning for a URL, for authorisation and for the store: over all kinds, custom ones, subresources and scopes.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use admit::UserInfo;
use api::route;
use api::{Options, Payload, Request, Target, Verb};
use kinds::{Catalog, KindDef};
use proptest::prelude::*;
use serde_json::json;
use store::Key;

/// The built-in kinds, and custom ones whose names are near one another's.
static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let custom = [
        ("example.com", "foos", "Foo", "Namespaced"),
        ("example.com", "foosx", "FooX", "Namespaced"),
        ("example.com", "clusterfoos", "ClusterFoo", "Cluster"),
        ("apps.example.com", "pods", "Pod", "Cluster"),
        ("apps.example.com", "namespaces", "Namespace", "Namespaced"),
    ];
    Catalog::built_in()
        .with_custom(custom.map(|(group, plural, kind, scope)| Arc::new(definition(group, plural, kind, scope))))
});

fn definition(group: &str, plural: &str, kind: &str, scope: &str) -> KindDef {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": schema,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}},
    });
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": [version.clone()]},
    });
    kinds::custom::kind(&definition, &version)
}

fn percent(word: &str) -> String {
    word.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn path(kind: &KindDef, namespace: &str, name: &str, subresource: &str) -> String {
    let root = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    let mut path = format!("{root}/{}", kind.version);
    if !namespace.is_empty() {
        path += &format!("/namespaces/{}", percent(namespace));
    }
    for word in [&*kind.plural, &percent(name), subresource].into_iter().filter(|word| !word.is_empty()) {
        path += &format!("/{word}");
    }
    path
}

fn target(path: &str) -> Option<Target> {
    route::parse(path)?.target(&CATALOG)
}

/// What authorisation sees of a request there.
fn attributes(target: &Target) -> [String; 5] {
    let user = Arc::new(UserInfo::anonymous());
    let request = Request {
        user,
        verb: Verb::Get,
        target: target.clone(),
        options: Options::default(),
        body: Payload::default(),
        agent: String::new(),
    };
    let seen = request.attributes();
    [seen.group, seen.resource, seen.namespace, seen.name, seen.subresource]
}

#[test]
fn every_kind_is_reached_at_its_own_scope_only() {
    // Of kinds called so the first name is the namespace; the test below is for them.
    for kind in CATALOG.iter().filter(|kind| kind.plural != "namespaces") {
        let inside = target(&path(kind, "n", "x", ""));
        let outside = target(&path(kind, "", "x", ""));
        assert_eq!(inside.is_some(), kind.is_namespaced(), "{} inside a namespace", kind.plural);
        assert_eq!(outside.is_some(), !kind.is_namespaced(), "{} of the cluster", kind.plural);
        assert_eq!(target(&path(kind, "n", "", "")).is_some(), kind.is_namespaced(), "{} of a namespace", kind.plural);
        assert!(target(&path(kind, "", "", "")).is_some(), "all {}", kind.plural);
        for subresource in &kind.subresources {
            let (inside, outside) = (path(kind, "n", "x", &subresource.name), path(kind, "", "x", &subresource.name));
            assert_eq!(target(&inside).is_some(), kind.is_namespaced(), "{inside}");
            assert_eq!(target(&outside).is_some(), !kind.is_namespaced(), "{outside}");
        }
        assert!(target(&path(kind, if kind.is_namespaced() { "n" } else { "" }, "x", "nothing")).is_none());
    }
}

#[test]
fn no_namespace_is_reached_through_another() {
    let nested = [
        "/api/v1/namespaces/a/namespaces",
        "/api/v1/namespaces/a/namespaces/b",
        "/api/v1/namespaces/a/namespaces/b/status",
    ];
    for path in nested {
        assert!(target(path).is_none(), "{path}");
    }
    let own = target("/api/v1/namespaces/a").expect("a namespace");
    assert_eq!(own.key(), Key::new("core/namespaces", "a"));
    let custom = target("/apis/apps.example.com/v1/namespaces/a/namespaces/b").expect("a namespaced kind of that name");
    assert_eq!(custom.key(), Key::new("apps.example.com/namespaces", "a/b"));
}

#[test]
fn collections_are_apart_unless_they_are_stored_as_one() {
    let mut by_collection: BTreeMap<Arc<str>, (String, String)> = BTreeMap::new();
    for kind in CATALOG.iter().filter(|kind| kind.is_stored()) {
        let stored = kind.conversion.as_ref().map_or_else(
            || (kind.group.to_string(), kind.plural.to_string()),
            |conversion| (conversion.hub.group.clone(), conversion.hub_plural.to_string()),
        );
        let known = by_collection.entry(kind.collection()).or_insert_with(|| stored.clone());
        assert_eq!(*known, stored, "{}", kind.collection());
    }
}

/// Names as a hostile client may write them; of two strategies the first is likely to collide.
fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{1,2}", "[a-z0-9:%.~_-]{1,12}", "[^/\\x00]{1,8}"]
        .prop_filter("a segment", |word| word != "." && word != "..")
}

/// The stored kinds; tests choose among them by place, since a kind cannot be shown.
static STORED: LazyLock<Vec<Arc<KindDef>>> =
    LazyLock::new(|| CATALOG.iter().filter(|kind| kind.is_stored()).cloned().collect());

fn place() -> impl Strategy<Value = usize> {
    0..STORED.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_address_is_one_object_everywhere(at in place(), namespace in word(), name in word(), sub in any::<prop::sample::Index>()) {
        let kind = &STORED[at];
        let namespace = if kind.is_namespaced() { namespace } else { String::new() };
        let mut subresources: Vec<&str> = vec![""];
        subresources.extend(kind.subresources.iter().map(|subresource| &*subresource.name));
        let subresource = subresources[sub.index(subresources.len())];
        let path = path(kind, &namespace, &name, subresource);
        let address = route::parse(&path).expect("an address");
        prop_assert_eq!(route::parse(&address.path()), Some(address.clone()));
        let target = address.target(&CATALOG).expect("a target");
        // The URL, authorisation and the store say the same.
        let said = [kind.group.to_string(), kind.plural.to_string(), namespace.clone(), name.clone(), subresource.to_owned()];
        prop_assert_eq!(attributes(&target), said);
        let item = if kind.is_namespaced() { format!("{namespace}/{name}") } else { name.clone() };
        prop_assert_eq!(target.key(), Key::new(kind.collection(), item));
    }

    #[test]
    fn keys_are_equal_only_for_the_same_object_and_prefixes_cover_only_their_namespace(
        a in (place(), word(), word()), b in (place(), word(), word())
    ) {
        let of = |(at, namespace, name): &(usize, String, String)| {
            let kind = &STORED[*at];
            let namespace = if kind.is_namespaced() { namespace.clone() } else { String::new() };
            target(&path(kind, &namespace, name, "")).expect("a target")
        };
        let (a, b) = (of(&a), of(&b));
        let same = (a.kind.collection(), &a.namespace, &a.name) == (b.kind.collection(), &b.namespace, &b.name);
        prop_assert_eq!(a.key() == b.key(), same);
        if a.kind.is_namespaced() && a.kind.collection() == b.kind.collection() {
            prop_assert_eq!(b.key().item.starts_with(&a.prefix()), a.namespace == b.namespace);
        }
    }
}
