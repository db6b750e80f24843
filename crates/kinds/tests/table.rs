//! The table tests itself: sorted, unique, complete; every example is sound; what follows from it is a snapshot.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use kinds::{Catalog, KindDef, Rules, UpdateOf, built_in, validate_object_meta, validate_object_meta_update};
use meta::ObjectExt;
use serde_json::Value;

fn rules(def: &KindDef) -> &kinds::BuiltInRules {
    match &def.rules {
        Rules::BuiltIn(rules) => rules,
        Rules::Custom => panic!("{} is not built in", def.gvk()),
    }
}

/// The example as it would be stored: decoded, defaulted, prepared.
fn example(def: &KindDef) -> Value {
    let parsed: Value = serde_json::from_str(def.example).unwrap_or_else(|e| panic!("{}: {e}", def.gvk()));
    let conformed = schema::conform(def.schema.get(), parsed).unwrap_or_else(|e| panic!("{}: {e}", def.gvk()));
    assert_eq!(conformed.unknown, Vec::<String>::new(), "{}", def.gvk());
    let mut object = conformed.value;
    if def.is_namespaced() && object.namespace().is_empty() {
        object.put(&["metadata", "namespace"], "default");
    }
    (rules(def).default)(&mut object);
    (rules(def).prepare_create)(&mut object);
    object
}

#[test]
fn is_sorted_and_unique() {
    let key = |def: &KindDef| (def.group.to_string(), def.kind.to_lowercase(), def.version.to_string());
    let keys: Vec<_> = built_in().iter().map(|def| key(def)).collect();
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:#?}");
    let resources: BTreeSet<_> = built_in().iter().map(|def| def.gvr()).collect();
    assert_eq!(resources.len(), keys.len());
}

/// A file of the source tree that declares a kind, as `group::kind`.
fn declared(dir: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path()) {
        let stem = entry.file_stem().and_then(|stem| stem.to_str()).expect("UTF-8").to_owned();
        let name = if prefix.is_empty() { stem.clone() } else { format!("{prefix}::{stem}") };
        if entry.is_dir() {
            declared(&entry, &name, found);
        } else if std::fs::read_to_string(&entry).expect("readable").contains("pub fn def() -> KindDef") {
            found.insert(if stem == "mod" { prefix.to_owned() } else { name });
        }
    }
}

#[test]
fn every_file_is_in_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    declared(&source, "", &mut found);
    let table = std::fs::read_to_string(source.join("table.rs")).expect("readable");
    let listed: BTreeSet<String> =
        table.lines().filter_map(|line| line.trim().strip_suffix("::def,")).map(str::to_owned).collect();
    assert_eq!(found, listed);
}

#[test]
fn every_stable_kind_of_upstream_is_served() {
    let served: BTreeSet<String> =
        built_in().iter().map(|def| format!("{} {}", def.group_version(), def.kind)).collect();
    let wanted = include_str!("stable_kinds.txt");
    let missing: Vec<&str> = wanted.lines().filter(|line| !served.contains(*line)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn every_schema_exists() {
    for def in built_in() {
        let known = def.schema.get().body().is_some_and(|body| !body.fields.is_empty());
        assert!(known, "{} has no schema", def.gvk());
    }
}

#[test]
fn every_example_is_sound() {
    for def in built_in() {
        let object = example(&def);
        assert_eq!(object.gvk(), Some(def.gvk()));
        let faults = (rules(&def).validate)(&object);
        assert!(faults.is_empty(), "{}: {faults:?}", def.gvk());
        if def.is_stored() {
            let faults = validate_object_meta(&def, &object);
            assert!(faults.is_empty(), "{}: {faults:?}", def.gvk());
        }
        let again = schema::conform(def.schema.get(), object.clone()).expect("still conforms");
        assert_eq!(again.unknown, Vec::<String>::new(), "{}", def.gvk());
    }
}

#[test]
fn defaulting_is_idempotent() {
    for def in built_in() {
        let object = example(&def);
        let mut again = object.clone();
        (rules(&def).default)(&mut again);
        assert_eq!(again, object, "{}", def.gvk());
    }
}

#[test]
fn an_update_that_changes_nothing_is_allowed_and_changes_nothing() {
    for def in built_in().iter().filter(|def| def.is_stored()) {
        let old = example(def);
        let mut new = old.clone();
        (rules(def).prepare_update)(&mut new, &old, UpdateOf::Main);
        assert_eq!(new, old, "{}", def.gvk());
        let mut faults = validate_object_meta_update(def, &new, &old);
        faults.extend((rules(def).validate_update)(&new, &old, UpdateOf::Main));
        assert!(faults.is_empty(), "{}: {faults:?}", def.gvk());
    }
}

#[test]
fn a_conversion_loses_nothing() {
    let catalog = Catalog::built_in();
    for def in built_in() {
        let Some(conversion) = &def.conversion else { continue };
        let hub = catalog.kind(&conversion.hub).expect("the hub is served");
        assert!(hub.conversion.is_none());
        let object = example(&def);
        let mut there = object.clone();
        (conversion.to_hub)(&mut there);
        assert_eq!(there.gvk(), Some(hub.gvk()));
        let conformed = schema::conform(hub.schema.get(), there.clone()).expect("conforms");
        assert_eq!(conformed.unknown, Vec::<String>::new());
        (conversion.from_hub)(&mut there);
        assert_eq!(there, object);
    }
}

#[test]
fn every_stored_kind_can_be_shown() {
    let now = meta::Time::from_secs(1_800_000_000);
    for def in built_in().iter().filter(|def| def.is_stored()) {
        let object = example(def);
        assert!(def.columns.iter().any(|column| column.format == "name"), "{}", def.gvk());
        for column in &def.columns {
            let kinds::Cell::Of(cell) = &column.cell else { continue };
            let shown = cell(&object, now);
            assert!(!shown.is_object() && !shown.is_array(), "{} {}: {shown}", def.gvk(), column.name);
            // Whatever is stored, a cell is made without panic.
            cell(&Value::Null, now);
            cell(&serde_json::json!({"spec": [], "status": "x", "metadata": 1}), now);
        }
    }
}

#[test]
fn a_status_that_changes_nothing_is_allowed() {
    for def in built_in().iter().filter(|def| def.subresource("status").is_some()) {
        let old = example(def);
        let mut new = old.clone();
        (rules(def).prepare_update)(&mut new, &old, UpdateOf::Status);
        assert_eq!(new, old, "{}", def.gvk());
        let faults = (rules(def).validate_update)(&new, &old, UpdateOf::Status);
        assert!(faults.is_empty(), "{}: {faults:?}", def.gvk());
    }
}

/// Every function of a kind, on one object.
fn exercise(def: &KindDef, object: &Value) {
    let now = meta::Time::from_secs(1_800_000_000);
    let mut changed = object.clone();
    (rules(def).default)(&mut changed);
    (rules(def).prepare_create)(&mut changed);
    (rules(def).prepare_update)(&mut changed, object, UpdateOf::Main);
    (rules(def).validate)(object);
    validate_object_meta(def, object);
    for what in [UpdateOf::Main, UpdateOf::Status, UpdateOf::Other("approval"), UpdateOf::Other("finalize")] {
        (rules(def).validate_update)(&changed, object, what);
        (rules(def).validate_update)(object, &changed, what);
    }
    (rules(def).warnings)(object, Some(&changed));
    for column in &def.columns {
        if let kinds::Cell::Of(cell) = &column.cell {
            cell(object, now);
        }
    }
    for field in &def.selectable {
        (field.read)(object, &field.label);
    }
    if let kinds::Health::Of(judge) = &def.health {
        judge(object);
    }
    if let Some(conversion) = &def.conversion {
        (conversion.to_hub)(&mut changed);
        (conversion.from_hub)(&mut changed);
    }
}

/// JSON pointers to everything inside.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            pointers(value, &format!("{at}/{key}"), found);
        }),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| pointers(value, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

/// Decoding refuses wrong types before any of these functions runs; they must not panic even so.
#[test]
fn nothing_panics_whatever_stands_where() {
    let odd = [
        serde_json::json!(null),
        serde_json::json!(true),
        serde_json::json!(-1),
        serde_json::json!(i64::MAX),
        serde_json::json!(1.5),
        serde_json::json!(""),
        serde_json::json!("\u{e9}/%:-1Gi"),
        serde_json::json!([null, {}, "", 0]),
        serde_json::json!({"": null, "a/b": {}, "name": [], "spec": ""}),
    ];
    for def in built_in() {
        let object = example(&def);
        let mut places = Vec::new();
        pointers(&object, "", &mut places);
        for (place, value) in places.iter().flat_map(|place| odd.iter().map(move |value| (place, value))) {
            let mut broken = object.clone();
            if let Some(slot) = broken.pointer_mut(place) {
                *slot = value.clone();
            }
            exercise(&def, &broken);
        }
    }
}

/// One line a kind: what discovery and the store make of it.
fn line(def: &KindDef) -> String {
    let mut line = format!("{} {} {}", def.group_version(), def.plural, def.kind);
    let mut say = |word: &str, values: Vec<String>| {
        if !values.is_empty() {
            write!(line, " {word}={}", values.join(",")).expect("text");
        }
    };
    let texts = |list: &[kinds::Text]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    say("collection", if def.is_stored() { vec![def.collection().to_string()] } else { Vec::new() });
    say("short", texts(&def.short_names));
    say("categories", texts(&def.categories));
    say("verbs", def.verbs.iter().map(ToString::to_string).collect());
    say("subresources", def.subresources.iter().map(|sub| sub.name.to_string()).collect());
    say("fields", def.selectable.iter().map(|field| field.label.to_string()).collect());
    say("columns", def.columns.iter().map(|column| column.name.replace(' ', "_")).collect());
    for (flag, set) in [
        ("cluster", !def.is_namespaced()),
        ("generation", def.counts_generation),
        ("volatile", def.volatile),
        ("orphans", !def.cascades_by_default),
        ("graceful", def.grace_seconds.is_some()),
    ] {
        if set {
            line.push_str(&format!(" {flag}"));
        }
    }
    line
}

/// To bless a change on purpose: `BLESS=1 cargo test -p kinds`.
#[test]
fn what_follows_from_it_is_known() {
    let mut text: String = built_in().iter().map(|def| line(def) + "\n").collect();
    for group in Catalog::built_in().groups() {
        writeln!(text, "group {:?} {}", group.name, group.versions.join(" ")).expect("text");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/table.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).expect("writable");
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, known, "bless with BLESS=1 if this is meant");
}
