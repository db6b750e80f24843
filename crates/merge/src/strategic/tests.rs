use super::*;
use crate::PatchErrorKind;
use crate::test_schema::deployment;
use serde_json::json;

fn in_pod(pod: Value) -> Value {
    json!({"kind": "Deployment", "spec": {"template": {"spec": pod}}})
}

fn check_pod(live: Value, patch: Value, expected: Value) {
    let patch = json!({"spec": {"template": {"spec": patch}}});
    assert_eq!(apply(&deployment(), in_pod(live), &patch).expect("applies"), in_pod(expected));
}

#[test]
fn maps_and_scalars_merge() {
    let check = |live: Value, patch: Value, expected: Value| {
        assert_eq!(apply(&deployment(), live, &patch).expect("applies"), expected);
    };
    check(json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 2}}));
    check(
        json!({"spec": {"replicas": 1, "paused": true}}),
        json!({"spec": {"paused": null}}),
        json!({"spec": {"replicas": 1}}),
    );
    check(
        json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
        json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
        json!({"metadata": {"labels": {"c": "3"}}}),
    );
    check(
        json!({"metadata": {"labels": {"a": "1"}}}),
        json!({"metadata": {"labels": {"$patch": "delete"}}}),
        json!({"metadata": {"labels": {}}}),
    );
    check(json!({}), json!({"spec": {"replicas": null, "paused": true}}), json!({"spec": {"paused": true}}));
    check(json!({"kind": "X"}), Value::Null, json!({"kind": "X"}));
}

#[test]
fn lists_of_maps_merge_by_key() {
    check_pod(
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
        json!({"containers": [{"name": "b", "image": "2"}]}),
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
    );
    check_pod(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c"}, {"name": "b"}]}),
    );
    check_pod(
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c"}]}),
    );
    check_pod(
        json!({"containers": [{"name": "a", "args": ["x", "y"]}]}),
        json!({"containers": [{"name": "a", "args": ["z"]}]}),
        json!({"containers": [{"name": "a", "args": ["z"]}]}),
    );
    check_pod(json!({"containers": [{"name": "a"}]}), json!({"containers": null}), json!({}));
}

#[test]
fn element_order_is_set() {
    check_pod(
        json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}),
        json!({"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": [{"name": "c", "image": "2"}]}),
        json!({"containers": [{"name": "b"}, {"name": "c", "image": "2"}, {"name": "a"}]}),
    );
    check_pod(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        json!({"containers": [{"name": "b"}, {"name": "a"}]}),
    );
    check_pod(
        json!({}),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b"}, {"name": "a"}]}),
        json!({"containers": [{"name": "b"}, {"name": "a"}]}),
    );
}

#[test]
fn lists_of_scalars_merge_and_shrink() {
    let check = |live: Value, patch: Value, expected: Value| {
        let live = json!({"metadata": {"finalizers": live}});
        let merged = apply(&deployment(), live, &json!({"metadata": patch})).expect("applies");
        assert_eq!(merged["metadata"]["finalizers"], expected);
    };
    check(json!(["a", "b"]), json!({"finalizers": ["c"]}), json!(["c", "a", "b"]));
    check(json!(["a", "b"]), json!({"finalizers": ["b", "c"]}), json!(["a", "b", "c"]));
    check(json!(["a", "b", "c"]), json!({"$deleteFromPrimitiveList/finalizers": ["b"]}), json!(["a", "c"]));
    check(
        json!(["a", "b"]),
        json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"], "$setElementOrder/finalizers": ["c", "b"]}),
        json!(["c", "b"]),
    );
}

#[test]
fn retained_keys_clear_the_rest() {
    check_pod(
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
    );
}

#[test]
fn refusals_read_like_upstream() {
    let check = |patch: Value, kind: PatchErrorKind, detail: &str| {
        let live = in_pod(json!({"containers": [{"name": "a", "env": [{"name": "e"}]}]}));
        let error = apply(&deployment(), live, &patch).expect_err("refused");
        assert_eq!((error.kind, error.detail.as_str()), (kind, detail));
    };
    let pod = |pod: Value| json!({"spec": {"template": {"spec": pod}}});
    let other = PatchErrorKind::Unclassified;
    check(
        pod(json!({"containers": [{"image": "x"}]})),
        other,
        "map: map[image:x] does not contain declared merge key: name",
    );
    check(pod(json!({"$patch": "frob"})), other, "unknown patch type: frob in map: map[$patch:frob]");
    check(
        pod(json!({"containers": [{"name": "a", "$patch": "merge"}]})),
        other,
        "merging lists cannot yet be specified in the patch",
    );
    check(
        pod(json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]})),
        other,
        "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
    );
    check(
        json!({"spec": {"$retainKeys": ["paused"], "replicas": 1}}),
        PatchErrorKind::Malformed,
        "invalid patch format of retainKeys",
    );
    check(
        json!({"$deleteFromPrimitiveListfinalizers": ["b"]}),
        PatchErrorKind::Malformed,
        "invalid patch format of primitive list",
    );
    check(
        json!([1]),
        PatchErrorKind::Malformed,
        "json: cannot unmarshal array into Go value of type map[string]interface {}",
    );
    check(
        pod(json!({"containers": [{"name": "a"}, "x"]})),
        other,
        "list element types are not identical: [[map[env:[map[name:e]] name:a]] [map[name:a] x]]",
    );
}
