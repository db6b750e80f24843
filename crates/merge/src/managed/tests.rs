use super::*;
use crate::test_schema::deployment;
use meta::{ApiError, Reason};
use serde_json::json;

const NOW: Time = Time::from_secs(1_800_000_000);
const LATER: Time = Time::from_secs(1_800_000_100);

fn writer<'a>(schema: &'a Schema, manager: &'a str) -> Writer<'a> {
    Writer { schema, manager, api_version: "apps/v1", subresource: "", now: NOW, reset: None, versions: None }
}

fn object(body: Value) -> Value {
    let mut out = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "d"}});
    for (key, value) in body.as_object().cloned().unwrap_or_default() {
        match (out.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
            (_, value) => out[key] = value,
        }
    }
    out
}

fn with_uid(mut object: Value) -> Value {
    object.put(&["metadata", "uid"], "u");
    object
}

/// `manager/operation/subresource: fields` of every entry.
fn owners(object: &Value) -> Vec<String> {
    let ledger = Ledger::of(object).expect("valid entries");
    ledger
        .owners
        .iter()
        .map(|(id, owned)| {
            let fields = owned.set.to_string().replace('\n', " ");
            let through = if id.subresource.is_empty() { String::new() } else { format!("/{}", id.subresource) };
            format!("{}/{}{through}: {fields}", id.manager, id.operation.as_str())
        })
        .collect()
}

fn applied(live: Option<&Value>, manager: &str, body: Value, force: bool) -> Result<Value, ApplyError> {
    apply(&writer(&deployment(), manager), live, &object(body), force).map(|applied| with_uid(applied.object))
}

fn updated(live: Option<&Value>, manager: &str, new: Value) -> Value {
    let mut new = with_uid(new);
    update(&writer(&deployment(), manager), live, &mut new);
    new
}

fn scaled(live: &Value, replicas: i64) -> Value {
    let mut new = live.clone();
    new.put(&["spec", "replicas"], replicas);
    new
}

#[test]
fn an_applier_owns_its_config() {
    let live = applied(None, "a", json!({"spec": {"replicas": 1, "paused": true}}), false).expect("applies");
    assert_eq!(owners(&live), ["a/Apply: .spec.paused .spec.replicas"]);
    let entry = &live["metadata"]["managedFields"][0];
    assert_eq!(entry["time"], NOW.to_rfc3339());
    assert_eq!(entry["apiVersion"], "apps/v1");
    assert_eq!(entry["fieldsV1"], json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}));
}

#[test]
fn what_is_applied_no_more_is_removed_unless_others_own_it() {
    let first = applied(None, "a", json!({"spec": {"replicas": 1, "paused": true}}), false).expect("applies");
    let alone = applied(Some(&first), "a", json!({"spec": {"replicas": 1}}), false).expect("applies");
    assert_eq!(alone["spec"], json!({"replicas": 1}));
    let shared = applied(Some(&first), "b", json!({"spec": {"paused": true}}), false).expect("equal values");
    assert_eq!(owners(&shared), ["a/Apply: .spec.paused .spec.replicas", "b/Apply: .spec.paused"]);
    let left = applied(Some(&shared), "a", json!({"spec": {"replicas": 1}}), false).expect("applies");
    assert_eq!(left["spec"], json!({"replicas": 1, "paused": true}));
    assert_eq!(owners(&left), ["a/Apply: .spec.replicas", "b/Apply: .spec.paused"]);
    let gone = applied(Some(&left), "b", json!({}), false).expect("applies");
    assert_eq!(gone["spec"], json!({"replicas": 1}));
    assert_eq!(owners(&gone), ["a/Apply: .spec.replicas"]);
}

#[test]
fn conflicts_are_told_and_forced() {
    let live = applied(None, "a", json!({"spec": {"replicas": 1}}), false).expect("applies");
    let live = updated(Some(&live), "kubectl-edit", {
        let mut new = live.clone();
        new.put(&["spec", "paused"], true);
        new
    });
    let config = json!({"spec": {"replicas": 2, "paused": false}});
    let error = ApiError::from(applied(Some(&live), "b", config.clone(), false).expect_err("conflicts"));
    assert_eq!((error.code, error.reason), (409, Some(Reason::Conflict)));
    assert_eq!(
        error.message,
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.replicas\nconflicts with \"kubectl-edit\" using \
         apps/v1:\n- .spec.paused"
    );
    let causes = error.to_value()["details"]["causes"].clone();
    assert_eq!(
        causes,
        json!([
            {"reason": "FieldManagerConflict", "message": "conflict with \"a\"", "field": ".spec.replicas"},
            {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl-edit\" using apps/v1",
             "field": ".spec.paused"},
        ])
    );
    let forced = applied(Some(&live), "b", config, true).expect("forced");
    assert_eq!(owners(&forced), ["b/Apply: .spec.paused .spec.replicas"]);
}

#[test]
fn one_conflict_has_its_own_sentence() {
    let schema = deployment();
    let live = applied(None, "a", json!({"spec": {"replicas": 1}}), false).expect("applies");
    let mut new = scaled(&live, 5);
    update(&Writer { subresource: "scale", ..writer(&schema, "hpa") }, Some(&live), &mut new);
    assert_eq!(owners(&new), ["hpa/Update/scale: .spec.replicas"]);
    let error = applied(Some(&new), "a", json!({"spec": {"replicas": 1}}), false).expect_err("conflicts");
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn equal_values_take_no_ownership_in_updates() {
    let live = applied(None, "a", json!({"spec": {"replicas": 1}}), false).expect("applies");
    assert_eq!(owners(&updated(Some(&live), "u", live.clone())), ["a/Apply: .spec.replicas"]);
    let changed = updated(Some(&live), "u", scaled(&live, 2));
    assert_eq!(owners(&changed), ["u/Update: .spec.replicas"]);
    let mut removed = changed.clone();
    removed.remove(&["spec"]);
    assert_eq!(owners(&updated(Some(&changed), "v", removed)), Vec::<String>::new());
}

#[test]
fn a_creator_owns_everything_but_identity() {
    let mut new = object(json!({"spec": {"replicas": 1}, "metadata": {"labels": {"a": "b"}}}));
    update(&writer(&deployment(), "kubectl-create"), None, &mut new);
    assert_eq!(owners(&new), ["kubectl-create/Update: .spec .metadata.labels .metadata.labels.a .spec.replicas"]);
}

#[test]
fn requests_may_edit_or_reset_owners() {
    let live = with_uid(applied(None, "a", json!({"spec": {"replicas": 1}}), false).expect("applies"));
    let check = |entries: Value, expected: &[&str]| {
        let mut new = live.clone();
        new.put(&["metadata", "managedFields"], entries.clone());
        assert_eq!(owners(&updated(Some(&live), "u", new)), expected, "{entries}");
    };
    check(json!([]), &[]);
    check(json!([{}]), &[]);
    check(Value::Null, &["a/Apply: .spec.replicas"]);
    check(json!([{"operation": "Frob"}]), &["a/Apply: .spec.replicas"]);
    let other = json!([{"manager": "x", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    check(other, &["x/Apply: .spec.replicas"]);
    let mut through_status = live.clone();
    through_status.put(&["metadata", "managedFields"], json!([]));
    let schema = deployment();
    update(&Writer { subresource: "status", ..writer(&schema, "u") }, Some(&live), &mut through_status);
    assert_eq!(owners(&through_status), ["a/Apply: .spec.replicas"]);
}

#[test]
fn untracked_objects_stay_untracked_until_applied() {
    let live = with_uid(object(json!({"spec": {"replicas": 1}})));
    let changed = updated(Some(&live), "u", scaled(&live, 2));
    assert_eq!(owners(&changed), Vec::<String>::new());
    let error = applied(Some(&changed), "a", json!({"spec": {"replicas": 3}}), false).expect_err("conflicts");
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    let forced = applied(Some(&changed), "a", json!({"spec": {"replicas": 3}}), true).expect("forced");
    assert_eq!(owners(&forced), ["a/Apply: .spec.replicas", "before-first-apply/Update: .spec"]);
}

#[test]
fn writes_that_change_nothing_keep_times() {
    let schema = deployment();
    let config = object(json!({"spec": {"replicas": 1}}));
    let live = apply(&writer(&schema, "a"), None, &config, false).expect("applies").object;
    let later = Writer { now: LATER, ..writer(&schema, "a") };
    let again = apply(&later, Some(&live), &config, false).expect("applies");
    assert!(!again.changed);
    assert_eq!(again.object, live);

    // A write that only spells a default differently: the caller's defaulting makes it the same again.
    let mut spelled = live.clone();
    spelled["metadata"]["managedFields"][0]["time"] = json!(LATER.to_rfc3339());
    assert!(settle(&live, &mut spelled));
    assert_eq!(spelled, live);
    let mut changed = scaled(&live, 3);
    assert!(!settle(&live, &mut changed));
    let mut owned = live.clone();
    owned["metadata"]["managedFields"][0]["manager"] = json!("b");
    assert!(!settle(&live, &mut owned));
}

#[test]
fn appliers_share_list_items_by_key() {
    let pod = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let live = applied(None, "a", pod(json!([{"name": "web", "image": "1"}])), false).expect("applies");
    let both = applied(Some(&live), "mesh", pod(json!([{"name": "side", "image": "2"}])), false).expect("applies");
    assert_eq!(
        both["spec"]["template"]["spec"]["containers"],
        json!([{"name": "web", "image": "1"}, {"name": "side", "image": "2"}])
    );
    let next = applied(Some(&both), "a", pod(json!([{"name": "web2", "image": "1"}])), false).expect("applies");
    let names: Vec<&str> = next["spec"]["template"]["spec"]["containers"]
        .as_array()
        .expect("list")
        .iter()
        .map(|c| c.text(&["name"]))
        .collect();
    assert_eq!(names, ["side", "web2"]);
}

#[test]
fn removed_items_take_unowned_fields_along_but_not_others() {
    let pod = |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let live =
        applied(None, "a", pod(json!([{"name": "web"}, {"name": "old", "image": "1"}])), false).expect("applies");
    // The server defaults an image that nobody owns.
    let mut live = live;
    live["spec"]["template"]["spec"]["containers"][1]["args"] = json!(["defaulted"]);
    let next = applied(Some(&live), "a", pod(json!([{"name": "web"}])), false).expect("applies");
    assert_eq!(next["spec"]["template"]["spec"]["containers"], json!([{"name": "web"}]));
    // An updater who owns only a field of the item does not own the item, so it goes as well.
    let with_args = |args: &str| {
        let mut new = live.clone();
        new["spec"]["template"]["spec"]["containers"][1]["args"] = json!([args]);
        new
    };
    let shared = updated(Some(&live), "u", with_args("mine"));
    let next = applied(Some(&shared), "a", pod(json!([{"name": "web"}])), false).expect("applies");
    assert_eq!(next["spec"]["template"]["spec"]["containers"], json!([{"name": "web"}]));
    // An applier of the item does own it.
    let both = applied(Some(&live), "b", pod(json!([{"name": "old"}])), false).expect("applies");
    let next = applied(Some(&both), "a", pod(json!([{"name": "web"}])), false).expect("applies");
    let left = &next["spec"]["template"]["spec"]["containers"];
    assert_eq!(left, &json!([{"name": "web"}, {"name": "old", "args": ["defaulted"]}]));
}

#[test]
fn reset_fields_are_never_owned() {
    let schema = deployment();
    let status = FieldSet::of_fields(&[&["status"]]);
    let main = Writer { reset: Some(&status), ..writer(&schema, "a") };
    let config = object(json!({"spec": {"replicas": 1}, "status": {"replicas": 3}}));
    let live = apply(&main, None, &config, false).expect("applies").object;
    assert_eq!(owners(&live), ["a/Apply: .spec.replicas"]);
    let spec = FieldSet::of_fields(&[&["spec"], &["metadata"]]);
    let through = Writer { reset: Some(&spec), subresource: "status", ..writer(&schema, "c") };
    let mut new = scaled(&live, 7);
    new.put(&["status", "replicas"], 4);
    update(&through, Some(&live), &mut new);
    assert_eq!(owners(&new), ["a/Apply: .spec.replicas", "c/Update/status: .status.replicas"]);
}

#[test]
fn old_updaters_are_merged_beyond_ten() {
    let schema = deployment();
    let mut live = with_uid(object(json!({"metadata": {"labels": {"l": "0"}}})));
    update(&writer(&schema, "m00"), None, &mut live);
    for at in 1..14i64 {
        let name = format!("m{at:02}");
        let mut new = live.clone();
        new.put(&["metadata", "labels", &name], "x");
        let writer = Writer { now: Time::from_secs(NOW.as_secs() + at), ..writer(&schema, &name) };
        update(&writer, Some(&live), &mut new);
        live = new;
    }
    let ledger = Ledger::of(&live).expect("valid");
    let names: Vec<&str> = ledger.owners.keys().map(|id| id.manager.as_str()).collect();
    assert_eq!(names, ["ancient-changes", "m05", "m06", "m07", "m08", "m09", "m10", "m11", "m12", "m13"]);
    let set = &ledger.owners.values().next().expect("bucket").set;
    assert!(set.to_string().contains(".metadata.labels.m04"));
}

#[test]
fn entries_are_sorted_by_operation_then_time() {
    let entry = |manager: &str, operation: &str, time: i64| {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:a": {}}, "time": Time::from_secs(time).to_rfc3339()})
    };
    let ledger = Ledger::decode(&json!([
        entry("c", "Update", 1),
        entry("a", "Update", 2),
        entry("b", "Update", 1),
        entry("z", "Apply", 9)
    ]));
    let names: Vec<Value> = ledger
        .expect("valid")
        .encode()
        .as_array()
        .expect("list")
        .iter()
        .map(|entry| entry["manager"].clone())
        .collect();
    assert_eq!(names, ["z", "b", "c", "a"]);
}

#[test]
fn malformed_entries_are_named() {
    let check = |entry: Value, text: &str| {
        assert_eq!(Ledger::decode(&json!([entry])).expect_err("malformed"), text);
    };
    check(json!({}), "operation must be `Apply` or `Update`");
    check(json!({"operation": "Apply"}), "apiVersion must not be empty");
    check(json!({"operation": "Apply", "apiVersion": "v1"}), "missing fieldsType in managed fields entry 0");
    check(
        json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "X"}),
        "invalid fieldsType \"X\" in managed fields entry 0",
    );
}

#[test]
fn malformed_configs_are_refused() {
    let schema = deployment();
    let check = |config: Value, error: ApplyError| {
        assert_eq!(apply(&writer(&schema, "a"), None, &config, false), Err(error));
    };
    check(
        json!({"apiVersion": "v1", "kind": "Pod"}),
        ApplyError::BadRequest("invalid object type: /v1, Kind=Pod".into()),
    );
    check(
        object(json!({"metadata": {"managedFields": []}})),
        ApplyError::BadRequest("metadata.managedFields must be nil".into()),
    );
    check(
        object(json!({"spec": {"foo": 1}})),
        ApplyError::Unclassified(
            "failed to create typed patch object (d/web; apps/v1, Kind=Deployment): .spec.foo: field not declared in \
             schema"
                .into(),
        ),
    );
}

#[test]
fn kubectl_takes_over_what_client_side_apply_set() {
    let config = object(json!({"spec": {"replicas": 1}}));
    let live = |replicas: i64| {
        let mut live = object(json!({"spec": {"replicas": replicas}}));
        live.put(&["metadata", "annotations", LAST_APPLIED], config.to_string());
        updated(None, "kubectl-client-side-apply", live)
    };
    let next = json!({"spec": {"replicas": 4}});
    let merged = applied(Some(&live(1)), "kubectl", next.clone(), false).expect("its own all along");
    assert_eq!(merged["spec"]["replicas"], 4);
    let written: Value = serde_json::from_str(merged.annotation(LAST_APPLIED).expect("kept")).expect("JSON");
    assert_eq!(written, object(next.clone()));
    assert!(applied(Some(&live(1)), "other", next.clone(), false).is_err());
    assert!(applied(Some(&live(2)), "kubectl", next, false).is_err(), "changed since by someone");
}

#[test]
fn scale_moves_the_owner_of_replicas() {
    let path = vec![crate::fields::PathElement::field("spec"), crate::fields::PathElement::field("replicas")];
    let paths = std::collections::BTreeMap::from([("apps/v1".to_owned(), Some(path))]);
    let live = applied(None, "a", json!({"spec": {"replicas": 1, "paused": true}}), false).expect("applies");
    let parent = Ledger::of(&live).expect("valid");
    let mut scale = scale_to_subresource(&parent, &paths);
    assert_eq!(scale.owners.values().map(|o| o.api_version.as_str()).collect::<Vec<_>>(), ["autoscaling/v1"]);
    let hpa = ManagerId::new("hpa", Operation::Update, "autoscaling/v1", "scale");
    let taken = scale.owners.pop_first().expect("one").1;
    scale.owners.insert(hpa, taken);
    let mut object = live.clone();
    scale_to_parent(parent, scale, "apps/v1", &paths).write_to(&mut object);
    assert_eq!(owners(&object), ["a/Apply: .spec.paused", "hpa/Update/scale: .spec.replicas"]);
}

/// A kind whose version v2 calls `replicas` `count`.
struct TwoVersions(Schema);

impl Versions for TwoVersions {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Schema)> {
        let mut out = object.clone();
        let (from, to) = match api_version {
            "apps/v2" => ("replicas", "count"),
            "apps/v1" => ("count", "replicas"),
            _ => return None,
        };
        if let Some(value) = out.remove(&["spec", from]) {
            out.put(&["spec", to], value);
        }
        Some((out, &self.0))
    }
}

#[test]
fn owners_in_other_versions_conflict_in_their_terms() {
    let any = Schema::default();
    let versions = TwoVersions(any.clone());
    let in_v1 = Writer { versions: Some(&versions), ..writer(&any, "a") };
    let in_v2 = Writer { api_version: "apps/v2", manager: "b", ..in_v1 };
    let live = apply(&in_v1, None, &object(json!({"spec": {"replicas": 1}})), false).expect("applies").object;
    let (live, _) = versions.convert(&live, "apps/v2").expect("known");
    let mut config = object(json!({"spec": {"count": 2}}));
    config.put(&["apiVersion"], "apps/v2");
    let error = apply(&in_v2, Some(&live), &config, false).expect_err("conflicts");
    assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas");
    let forced = apply(&in_v2, Some(&live), &config, true).expect("forced").object;
    assert_eq!(owners(&forced), ["a/Apply: .spec", "b/Apply: .spec .spec.count"]);
}
