use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::builtin;

fn schema(name: &str) -> &'static Schema {
    builtin(&format!("io.k8s.api.{name}")).expect("known")
}

fn check(name: &str, value: Value, expected: Value) {
    let conformed = conform(schema(name), value).expect("conforms");
    assert_eq!(conformed.value, expected);
    assert_eq!(conformed.unknown, Vec::<String>::new());
    let again = conform(schema(name), conformed.value.clone()).expect("conforms");
    assert_eq!(again.value, conformed.value, "idempotent");
}

fn check_error(name: &str, value: Value, message: &str) {
    assert_eq!(conform(schema(name), value).expect_err("refused").to_string(), message);
}

#[test]
fn a_container_takes_the_form_that_go_writes() {
    let sent = json!({
        "name": "a", "image": "", "args": [], "tty": false, "command": null,
        "env": [{"name": "A", "value": ""}],
        "ports": [{"containerPort": 80, "hostPort": 0}],
        "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {}},
        "securityContext": {"privileged": false},
    });
    let expected = json!({
        "name": "a",
        "env": [{"name": "A"}],
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
        "securityContext": {"privileged": false},
    });
    check("core.v1.Container", sent, expected);
}

#[test]
fn values_that_go_always_writes_are_filled_in() {
    check("core.v1.Container", json!({}), json!({"name": "", "resources": {}}));
    check("rbac.v1.Role", json!({"rules": null}), json!({"metadata": {}, "rules": []}));
    let service = json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}});
    check("core.v1.Service", json!({}), service);
    let divisor = json!({"resource": "limits.cpu", "divisor": "0"});
    check("core.v1.ResourceFieldSelector", json!({"resource": "limits.cpu"}), divisor);
}

#[test]
fn a_part_is_not_filled_in() {
    let part = json!({"name": "", "args": []});
    let conformed = conform_as(schema("core.v1.Container"), part.clone(), Mode::Partial).expect("conforms");
    assert_eq!(conformed.value, part);
}

#[test]
fn scalars_take_canonical_forms() {
    let sent = json!({"metadata": {"creationTimestamp": "2026-11-30T03:25:50.5+01:00"}, "binaryData": {"a": "aGk=\n"}});
    let expected = json!({"metadata": {"creationTimestamp": "2026-11-30T02:25:50Z"}, "binaryData": {"a": "aGk="}});
    check("core.v1.ConfigMap", sent, expected);
    let zero = json!({"metadata": {"creationTimestamp": null, "deletionTimestamp": "0001-01-01T00:00:00Z"}});
    check("core.v1.ConfigMap", zero, json!({"metadata": {}}));
    let lease = json!({"renewTime": "2026-11-30T02:25:50Z"});
    check("coordination.v1.LeaseSpec", lease, json!({"renewTime": "2026-11-30T02:25:50.000000Z"}));
    check("core.v1.ConfigMap", json!({"data": {"a": null}}), json!({"metadata": {}, "data": {"a": ""}}));
    let port = json!({"port": 80, "targetPort": 0});
    check("core.v1.ServicePort", port, json!({"port": 80}));
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let sent = json!({
        "metadata": {"name": "a", "bogus": 1},
        "spec": {"containers": [{"name": "c"}, {"name": "d", "imagee": "x"}], "foo": {"bar": 1}},
    });
    let conformed = conform(schema("core.v1.Pod"), sent).expect("conforms");
    let unknown = [
        "unknown field \"metadata.bogus\"",
        "unknown field \"spec.containers[1].imagee\"",
        "unknown field \"spec.foo\"",
    ];
    assert_eq!(conformed.unknown, unknown);
    assert_eq!(conformed.value["spec"].get("foo"), None);
}

#[test]
fn wrong_types_are_refused_in_gos_words() {
    let deployment = |replicas: Value| json!({"spec": {"replicas": replicas}});
    let name = "apps.v1.Deployment";
    let message = "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32";
    check_error(name, deployment(json!("3")), message);
    let message =
        "json: cannot unmarshal number 4294967296 into Go struct field DeploymentSpec.spec.replicas of type int32";
    check_error(name, deployment(json!(4_294_967_296_i64)), message);
    let pod = json!({"spec": {"containers": [{"name": "a", "image": 1}]}});
    let message = "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string";
    check_error("core.v1.Pod", pod, message);
    let message = "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container";
    check_error("core.v1.Pod", json!({"spec": {"containers": {}}}), message);
    check_error("core.v1.Pod", json!([]), "json: cannot unmarshal array into Go value of type v1.Pod");
    let quantity = json!({"limits": {"cpu": "1 potato"}});
    let message = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    check_error("core.v1.ResourceRequirements", quantity, message);
    check_error("core.v1.ConfigMap", json!({"binaryData": {"a": "?"}}), "illegal base64 data at input byte 0");
    let port = json!({"targetPort": true});
    check_error("core.v1.ServicePort", port, "json: cannot unmarshal bool into Go value of type int32");
    let time = json!({"metadata": {"creationTimestamp": "noon"}});
    let message = "parsing time \"noon\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"noon\" as \"2006\"";
    check_error("core.v1.ConfigMap", time, message);
}

#[test]
fn nested_json_schemas_are_read_leniently() {
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let schema = builtin(name).expect("known");
    let sent = json!({
        "type": "object", "bogus": 1, "default": {"a": null}, "enum": [null, 1],
        "items": {"type": "string", "silent": 1}, "additionalProperties": true,
        "properties": {"a": {"type": "", "x-kubernetes-preserve-unknown-fields": false}},
    });
    let conformed = conform(schema, sent).expect("conforms");
    let expected = json!({
        "type": "object", "default": {"a": null}, "enum": [null, 1],
        "items": {"type": "string"}, "additionalProperties": true,
        "properties": {"a": {"x-kubernetes-preserve-unknown-fields": false}},
    });
    assert_eq!(conformed.value, expected);
    assert_eq!(conformed.unknown, ["unknown field \"bogus\""]);
}

#[test]
fn a_custom_resource_without_a_schema_still_has_metadata() {
    let sent = json!({"metadata": {"name": "a", "creationTimestamp": null, "x": 1}, "spec": {"any": [1.0, null]}});
    let conformed = conform(&Schema::default(), sent).expect("conforms");
    assert_eq!(conformed.value, json!({"metadata": {"name": "a"}, "spec": {"any": [1, null]}}));
    assert_eq!(conformed.unknown, ["unknown field \"metadata.x\""]);
}

#[test]
fn parts_are_bounded() {
    for item in [json!({}), Value::Null] {
        let pod = json!({"spec": {"containers": vec![item; STRUCTS_MAX]}});
        check_error("core.v1.Pod", pod, "the object has more than 100000 parts");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "containers",
        "name",
        "ports",
        "env",
        "value",
        "resources",
        "limits",
        "labels",
        "volumes",
        "emptyDir",
        "sizeLimit",
        "creationTimestamp",
        "tolerations",
        "template",
        "x",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9]{0,2}[a-zA-Z]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_conforms_stays_as_it_is(value in any_value()) {
        for name in ["core.v1.Pod", "core.v1.PodTemplate", "apps.v1.Deployment"] {
            if let Ok(once) = conform(schema(name), value.clone()) {
                let twice = conform(schema(name), once.value.clone()).expect("conforms");
                prop_assert_eq!(&twice.value, &once.value);
                prop_assert_eq!(twice.unknown, Vec::<String>::new());
            }
        }
    }
}
