//! Server-side apply: who owns what after several have applied.

use std::sync::{Arc, LazyLock};

use kinds::KindDef;
use merge::fields::FieldSet;
use merge::managed::{self, Ledger, Writer};
use merge::typed;
use meta::{ObjectExt, Time};
use schema::{Mode, json};
use serde_json::{Value, json};

use crate::{example, examples, inputs, lines};

static KINDS: LazyLock<Vec<Arc<KindDef>>> = LazyLock::new(kinds::built_in);

/// Two or three lines are applied in turn, with force, by two managers. Applying the same again changes nothing; every
/// field that the applier set it owns; what is owned by somebody is there or was there.
pub fn ssa_merge(data: &[u8]) {
    let documents: Vec<Value> =
        lines(data).take(3).filter_map(|line| json::decode(line).ok()).map(|decoded| decoded.value).collect();
    let Some(first) = documents.first() else { return };
    let Some(kind) = KINDS.iter().find(|kind| kind.kind == first.text(&["kind"])) else { return };
    let mut live: Option<Value> = None;
    for (at, document) in documents.into_iter().enumerate() {
        let manager = if at % 2 == 0 { "first" } else { "second" };
        let Some(config) = configuration(kind, document) else { return };
        let Some(applied) = applied(kind, manager, live.as_ref(), &config) else { return };
        let again = self::applied(kind, manager, Some(&applied), &config).expect("what was applied can be applied");
        assert_eq!(without_times(again), without_times(applied.clone()), "again by {manager}");
        owns_what_it_set(kind, manager, &applied, &config);
        live = Some(applied);
    }
}

fn configuration(kind: &KindDef, mut document: Value) -> Option<Value> {
    if !document.is_object() {
        return None;
    }
    document.remove(&["metadata", "managedFields"]);
    document.put(&["apiVersion"], kind.group_version().to_string());
    document.put(&["kind"], kind.kind.to_string());
    let mut config = schema::conform_as(kind.schema.get(), document, Mode::Partial).ok()?.value;
    if !config.at(&["metadata"]).is_none_or(Value::is_object) {
        return None;
    }
    config.put(&["metadata", "name"], "x");
    Some(config)
}

fn writer<'a>(kind: &'a KindDef, manager: &'a str, api_version: &'a str) -> Writer<'a> {
    Writer {
        schema: kind.schema.get(),
        manager,
        api_version,
        subresource: "",
        now: Time::from_secs(1_800_000_000),
        reset: None,
        versions: None,
    }
}

fn applied(kind: &KindDef, manager: &str, live: Option<&Value>, config: &Value) -> Option<Value> {
    let api_version = kind.group_version().to_string();
    managed::apply(&writer(kind, manager, &api_version), live, config, true).ok().map(|applied| applied.object)
}

fn without_times(mut object: Value) -> Value {
    if let Some(entries) = object["metadata"].get_mut("managedFields").and_then(Value::as_array_mut) {
        entries.iter_mut().for_each(|entry| entry["time"] = Value::Null);
    }
    object
}

fn owns_what_it_set(kind: &KindDef, manager: &str, object: &Value, config: &Value) {
    let ledger = Ledger::of(object).expect("a written ledger can be read");
    let owned = ledger.owners.iter().find(|(id, _)| id.manager == manager).map(|(_, owned)| owned.set.clone());
    let set = managed::strip(typed::extract(kind.schema.get(), config));
    let missing = set.difference(&owned.unwrap_or_default());
    assert!(missing.is_empty(), "{manager} set but does not own {:?}", missing.paths());
}

pub fn ssa_merge_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = examples().map(|(_, tree)| format!("{tree}\n{tree}").into_bytes()).collect();
    let web = |spec: &str| format!("{{\"kind\":\"Deployment\",\"spec\":{spec}}}");
    let container =
        |fields: &str| format!("{{\"template\":{{\"spec\":{{\"containers\":[{{\"name\":\"a\",{fields}}}]}}}}}}");
    let first = web(&container("\"ports\":[{\"containerPort\":80},{\"containerPort\":80,\"protocol\":\"UDP\"}]"));
    let second = web(&container("\"image\":\"b\",\"env\":[{\"name\":\"x\",\"value\":\"y\"}]"));
    seeds.push(format!("{first}\n{second}\n{}", web("{\"replicas\":1}")).into_bytes());
    seeds.push(format!("{}\n{}", web("{\"replicas\":2}"), web("{\"replicas\":3}")).into_bytes());
    seeds.push([example("Service"), b"\n{\"spec\":{\"ports\":[{\"port\":80}]}}".to_vec()].concat());
    seeds
}

/// Sets as the wire has them, two lines: written as what is read as the same; and the laws of sets.
pub fn managed_fields(data: &[u8]) {
    let documents: Vec<Value> =
        lines(data).take(2).filter_map(|line| json::decode(line).ok()).map(|decoded| decoded.value).collect();
    for document in &documents {
        if let Ok(ledger) = Ledger::decode(document) {
            let again = Ledger::decode(&ledger.encode()).expect("a written ledger can be read");
            assert_eq!(again.owners.keys().collect::<Vec<_>>(), ledger.owners.keys().collect::<Vec<_>>());
        }
    }
    let sets: Vec<FieldSet> = documents.iter().filter_map(|document| FieldSet::from_value(document).ok()).collect();
    for set in &sets {
        assert_eq!(FieldSet::from_value(&set.to_value()).as_ref(), Ok(set), "{}", set.to_value());
        assert_eq!(set.paths().len(), set.len());
    }
    if let [a, b] = &sets[..] {
        let union = a.clone().union(b.clone());
        assert!(a.is_subset(&union) && b.is_subset(&union));
        let both = a.clone().intersection(b);
        assert!(both.is_subset(a) && both.is_subset(b));
        assert_eq!(union.len() + both.len(), a.len() + b.len());
        assert!(a.clone().difference(b).intersection(b).is_empty());
    }
}

pub fn managed_fields_seeds() -> Vec<Vec<u8>> {
    let set = "{\"f:spec\":{\"f:replicas\":{},\"f:containers\":{\".\":{},\"k:{\\\"name\\\":\\\"a\\\"}\":{\".\":{},\"f:image\":{}}},\"v:\\\"x\\\"\":{},\"i:0\":{}}}";
    let mut seeds =
        inputs(&["{\"f:a\":{},\"k:{}\":{},\"v:1e3\":{},\"i:-1\":{},\"z:?\":{},\".\":{}}\n{\"f:a\":{\"f:b\":{}}}"]);
    seeds.push(format!("{set}\n{set}").into_bytes());
    let entry = json!([{"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}]);
    seeds.push(entry.to_string().into_bytes());
    seeds
}
