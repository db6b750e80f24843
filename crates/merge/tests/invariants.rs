//! Laws that hold for every object, on built-in kinds.

use merge::fields::FieldSet;
use merge::managed::{self, Ledger, Writer};
use merge::{csa, diff, json_merge, json_patch, strategic, typed};
use meta::{ObjectExt as _, Time};
use proptest::prelude::*;
use schema::Schema;
use serde_json::{Value, json};

fn deployment() -> &'static Schema {
    schema::builtin("io.k8s.api.apps.v1.Deployment").expect("built in")
}

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        schema: deployment(),
        manager,
        api_version: "apps/v1",
        subresource: "",
        now: Time::from_secs(1_800_000_000),
        reset: None,
        versions: None,
    }
}

fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c", "d"])
}

fn container() -> impl Strategy<Value = (&'static str, Value)> {
    let ports =
        prop::collection::btree_set((1..4u16, prop::option::of(prop::sample::select(vec!["TCP", "UDP"]))), 0..3);
    let env = prop::collection::btree_map(word(), word(), 0..3);
    (word(), prop::option::of(word()), ports, env).prop_map(|(name, image, ports, env)| {
        let mut out = json!({"name": name});
        if let Some(image) = image {
            out.put(&["image"], image);
        }
        let mut seen = std::collections::BTreeSet::new();
        let ports: Vec<Value> = ports
            .into_iter()
            .filter(|(port, protocol)| seen.insert((*port, protocol.unwrap_or("TCP"))))
            .map(|(port, protocol)| match protocol {
                Some(protocol) => json!({"containerPort": port, "protocol": protocol}),
                None => json!({"containerPort": port}),
            })
            .collect();
        if !ports.is_empty() {
            out.put(&["ports"], ports);
        }
        if !env.is_empty() {
            let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            out.put(&["env"], env);
        }
        (name, out)
    })
}

/// A valid apply configuration.
fn config() -> impl Strategy<Value = Value> {
    (
        prop::option::of(1..4i64),
        prop::collection::btree_map(word(), word(), 0..3),
        prop::collection::btree_set(word(), 0..3),
        prop::collection::vec(container(), 0..3),
    )
        .prop_map(|(replicas, labels, finalizers, containers)| {
            let mut out = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
            if let Some(replicas) = replicas {
                out.put(&["spec", "replicas"], replicas);
            }
            if !labels.is_empty() {
                out.put(&["metadata", "labels"], json!(labels));
            }
            if !finalizers.is_empty() {
                out.put(&["metadata", "finalizers"], json!(finalizers));
            }
            let mut seen = std::collections::BTreeSet::new();
            let containers: Vec<Value> =
                containers.into_iter().filter(|(name, _)| seen.insert(*name)).map(|(_, value)| value).collect();
            if !containers.is_empty() {
                out.put(&["spec", "template", "spec", "containers"], containers);
            }
            out
        })
}

fn any_json() -> impl Strategy<Value = Value> {
    let names = vec![
        "metadata",
        "spec",
        "template",
        "containers",
        "name",
        "labels",
        "$patch",
        "$retainKeys",
        "op",
        "path",
        "value",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "finalizers",
        "managedFields",
        "fieldsV1",
        "operation",
        "from",
    ];
    let words = vec!["delete", "replace", "merge", "Apply", "add", "copy", "/spec/0", "/metadata", "", "FieldsV1", "a"];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(words).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(prop::sample::select(names.clone()).prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn owned(object: &Value) -> FieldSet {
    let ledger = Ledger::of(object).expect("written by us");
    ledger.owners.into_values().fold(FieldSet::new(), |all, owned| all.union(owned.set))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn applying_twice_changes_nothing(first in config(), second in config()) {
        let live = managed::apply(&writer("a"), None, &first, false).expect("nobody else").object;
        let live = managed::apply(&writer("b"), Some(&live), &second, true).expect("forced").object;
        let again = managed::apply(&writer("b"), Some(&live), &second, false).expect("its own");
        prop_assert!(!again.changed);
        prop_assert_eq!(again.object, live);
    }

    #[test]
    fn owners_cover_what_is_applied_and_only_what_is_there(first in config(), second in config()) {
        let live = managed::apply(&writer("a"), None, &first, false).expect("nobody else").object;
        let live = managed::apply(&writer("b"), Some(&live), &second, true).expect("forced").object;
        let mut bare = live.clone();
        bare.remove(&["metadata", "managedFields"]);
        let (all, held) = (owned(&live), typed::extract(deployment(), &bare));
        let wanted = managed::strip(typed::extract(deployment(), &second));
        prop_assert!(wanted.is_subset(&all), "unowned: {}", wanted.clone().difference(&all));
        prop_assert!(all.is_subset(&held), "gone: {}", all.clone().difference(&held));
        // Everything here was applied, so everything is owned.
        prop_assert!(managed::strip(held.clone()).is_subset(&all), "nobody's: {}", held.difference(&all));
    }

    #[test]
    fn a_manager_that_applies_nothing_leaves_the_others_config(first in config(), second in config()) {
        let mut nothing = first.clone();
        nothing.remove(&["spec"]);
        nothing.put(&["metadata"], json!({"name": "web"}));
        let alone = managed::apply(&writer("a"), None, &first, false).expect("nobody else").object;
        let both = match managed::apply(&writer("b"), Some(&alone), &second, false) {
            Ok(applied) => applied.object,
            Err(_) => return Ok(()),
        };
        let left = managed::apply(&writer("b"), Some(&both), &nothing, false).expect("takes nothing").object;
        let changes = diff::structural(deployment(), &alone, &left, 10).changes;
        let kept = changes.iter().all(|change| change.path.ends_with("[order]") || change.path.contains("managedFields"));
        prop_assert!(kept, "{changes:?}");
    }

    #[test]
    fn the_three_way_patch_sets_and_deletes(old in config(), new in config(), live in config()) {
        let patch = csa::three_way(Some(deployment()), &old, &new, &live).expect("valid");
        let result = strategic::apply(deployment(), live.clone(), &patch).expect("applies");
        if old == live {
            let again = csa::three_way(Some(deployment()), &new, &new, &result).expect("valid");
            prop_assert_eq!(strategic::apply(deployment(), result.clone(), &again).expect("applies"), result);
        }
    }

    #[test]
    fn no_json_makes_it_panic(one in any_json(), two in any_json()) {
        let limits = json_patch::Limits::default();
        let _ = json_patch::apply(&mut one.clone(), &two, &limits);
        let _ = json_patch::apply(&mut one.clone(), &json!([two, one]), &limits);
        let _ = json_merge::apply(&mut one.clone(), &two);
        let _ = strategic::apply(deployment(), one.clone(), &two);
        let _ = csa::three_way(Some(deployment()), &one, &two, &one);
        let _ = diff::structural(deployment(), &one, &two, 5);
        let _ = FieldSet::from_value(&one);
        let mut new = two.clone();
        managed::update(&writer("a"), Some(&one), &mut new);
        let mut config = two;
        if config.is_object() {
            config.put(&["apiVersion"], "apps/v1");
            let _ = managed::apply(&writer("kubectl"), Some(&one), &config, false);
            let _ = managed::apply(&writer("a"), Some(&one), &config, true);
        }
    }
}

#[test]
fn creators_own_what_upstream_says() {
    let mut new = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "nginx", "image": "nginx", "resources": {},
                        "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
                    "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
                },
            },
        },
        "status": {},
    });
    managed::update(&writer("kubectl-create"), None, &mut new);
    let expected = json!({
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:replicas": {}, "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"nginx\"}": {
                        ".": {}, "f:image": {}, "f:name": {}, "f:resources": {},
                        "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                            {".": {}, "f:containerPort": {}, "f:protocol": {}}},
                    }},
                    "f:dnsPolicy": {}, "f:schedulerName": {}, "f:securityContext": {},
                },
            },
        },
    });
    assert_eq!(new["metadata"]["managedFields"][0]["fieldsV1"], expected);
}
