//! Structural difference of two objects, for people: change logs and plans.
//!
//! Unlike the comparison of server-side apply it looks into atomic values, and it tells values.

use std::collections::{BTreeMap, BTreeSet};

use schema::Schema;
use serde_json::{Map, Value};

use crate::fields::PathElement;
use crate::typed::{Atom, ListType, Type, step_of};

/// One changed value.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Where: `spec.containers[name=web].image`, `metadata.labels[app]`, `metadata.finalizers[=x]`,
    /// `spec.args[0]`. A new order of the same items has the path of the list with `[order]` behind it and the
    /// keys as values.
    pub path: String,
    /// The value before; `None` when it was absent.
    pub old: Option<Value>,
    /// The value after; `None` when it is absent.
    pub new: Option<Value>,
}

/// The changes from one object to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// In the order of the fields' names; at most as many as asked for.
    pub changes: Vec<Change>,
    /// Whether there are more.
    pub truncated: bool,
}

/// How `new` differs from `old`, told in at most `max` changes. What is added or removed as a whole is one change.
pub fn structural(schema: &Schema, old: &Value, new: &Value, max: usize) -> Diff {
    let mut walk = Walk { path: String::new(), max, out: Diff::default() };
    walk.value(Type::Object(schema), Some(old), Some(new));
    walk.out
}

/// One value of an object that holds no other, or that is told as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'v> {
    /// Where, written as [`Change::path`] is.
    pub path: String,
    /// Where, in the terms of field ownership.
    pub steps: Vec<PathElement>,
    /// What stands there.
    pub value: &'v Value,
}

/// The values of an object, one by one, in the order of their names: structures and lists with keys are taken apart.
pub fn rows<'v>(schema: &Schema, object: &'v Value) -> Vec<Row<'v>> {
    let mut rows = Vec::new();
    grow(Type::Object(schema), String::new(), &mut Vec::new(), object, &mut rows);
    rows
}

fn grow<'v>(ty: Type<'_>, path: String, steps: &mut Vec<PathElement>, value: &'v Value, rows: &mut Vec<Row<'v>>) {
    match (value, ty.atom(&Value::Null)) {
        (Value::Object(map), _) if !map.is_empty() => {
            for (name, value) in map {
                let (below, step) = member(ty, name);
                let step = if path.is_empty() { step.trim_start_matches('.').to_owned() } else { step };
                steps.push(PathElement::field(name));
                grow(below, format!("{path}{step}"), steps, value, rows);
                steps.pop();
            }
        }
        (Value::Array(items), Atom::List(list)) if keyed(&list, items).is_some_and(|keyed| !keyed.order.is_empty()) => {
            let keys = keyed(&list, items).map(|keyed| keyed.order).unwrap_or_default();
            for (step, value) in keys.into_iter().zip(items) {
                let text = format!("{path}{}", shown(&step));
                steps.push(step);
                grow(list.items, text, steps, value, rows);
                steps.pop();
            }
        }
        _ => rows.push(Row { path, steps: steps.clone(), value }),
    }
}

struct Walk {
    path: String,
    max: usize,
    out: Diff,
}

impl Walk {
    fn value(&mut self, ty: Type<'_>, old: Option<&Value>, new: Option<&Value>) {
        if self.out.truncated || old == new {
            return;
        }
        match (old, new) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => self.entries(ty, before, after),
            (Some(Value::Array(before)), Some(Value::Array(after))) => match ty.atom(&Value::Null) {
                Atom::List(list) => self.items(&list, before, after),
                _ => self.positions(Type::Deduced, before, after),
            },
            (old, new) => self.change(old.cloned(), new.cloned()),
        }
    }

    fn change(&mut self, old: Option<Value>, new: Option<Value>) {
        if self.out.changes.len() >= self.max {
            self.out.truncated = true;
            return;
        }
        self.out.changes.push(Change { path: self.path.clone(), old, new });
    }

    /// Runs `visit` one step deeper.
    fn below(&mut self, step: &str, visit: impl FnOnce(&mut Self)) {
        let len = self.path.len();
        let step = if len == 0 { step.strip_prefix('.').unwrap_or(step) } else { step };
        self.path.push_str(step);
        visit(self);
        self.path.truncate(len);
    }

    fn entries(&mut self, ty: Type<'_>, old: &Map<String, Value>, new: &Map<String, Value>) {
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names {
            let (below, step) = member(ty, name);
            self.below(&step, |walk| walk.value(below, old.get(name), new.get(name)));
        }
    }

    fn items(&mut self, list: &ListType<'_>, old: &[Value], new: &[Value]) {
        match (keyed(list, old), keyed(list, new)) {
            (Some(before), Some(after)) => self.keys(list, &before, &after),
            _ => self.positions(list.items, old, new),
        }
    }

    fn keys(&mut self, list: &ListType<'_>, old: &Keyed<'_>, new: &Keyed<'_>) {
        let steps: BTreeSet<&PathElement> = old.items.keys().chain(new.items.keys()).collect();
        for step in steps {
            let (before, after) = (old.items.get(step).copied(), new.items.get(step).copied());
            self.below(&shown(step), |walk| walk.value(list.items, before, after));
        }
        let shared = |one: &Keyed<'_>, other: &Keyed<'_>| -> Vec<Value> {
            let shared = one.order.iter().filter(|step| other.items.contains_key(step));
            shared.map(|step| Value::from(shown(step))).collect()
        };
        let (before, after) = (shared(old, new), shared(new, old));
        if before != after {
            self.below("[order]", |walk| walk.change(Some(before.into()), Some(after.into())));
        }
    }

    /// Items of lists without keys are told one by one while there are as many of them; else the list is one value.
    fn positions(&mut self, ty: Type<'_>, old: &[Value], new: &[Value]) {
        if old.len() != new.len() {
            return self.change(Some(old.to_vec().into()), Some(new.to_vec().into()));
        }
        for (at, (before, after)) in old.iter().zip(new).enumerate() {
            self.below(&format!("[{at}]"), |walk| walk.value(ty, Some(before), Some(after)));
        }
    }
}

/// The type of a member and its step: `.field` when the schema declares it, `[key]` when it is free.
fn member<'s>(ty: Type<'s>, name: &str) -> (Type<'s>, String) {
    match ty.atom(&Value::Object(Map::new())) {
        Atom::Map(map) => match map.member(name) {
            Some(member) if member.declared => (member.ty, format!(".{name}")),
            Some(member) if ty.is_untyped() && is_plain(name) => (member.ty, format!(".{name}")),
            Some(member) => (member.ty, format!("[{name}]")),
            None => (Type::Deduced, format!(".{name}")),
        },
        _ => (Type::Deduced, format!(".{name}")),
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

struct Keyed<'v> {
    items: BTreeMap<PathElement, &'v Value>,
    order: Vec<PathElement>,
}

/// The items by key; `None` when the list has no keys or some item cannot be told by its key.
fn keyed<'v>(list: &ListType<'_>, items: &'v [Value]) -> Option<Keyed<'v>> {
    let mut out = Keyed { items: BTreeMap::new(), order: Vec::with_capacity(items.len()) };
    for item in items {
        let step = step_of(list, item).ok()?;
        if out.items.insert(step.clone(), item).is_some() {
            return None;
        }
        out.order.push(step);
    }
    Some(out)
}

/// `[name=web]`: without the quotes that the paths of conflicts have.
fn shown(step: &PathElement) -> String {
    let bare = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match step {
        PathElement::Key(fields) => {
            let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", bare(value))).collect();
            format!("[{}]", pairs.join(","))
        }
        PathElement::Value(value) => format!("[={}]", bare(value)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_schema::deployment;
    use serde_json::json;

    fn lines(old: Value, new: Value, max: usize) -> Vec<String> {
        let text = |value: Option<Value>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let diff = structural(&deployment(), &old, &new, max);
        let more = diff.truncated.then(|| "...".to_owned());
        let changes = diff.changes.into_iter().map(|c| format!("{}: {} -> {}", c.path, text(c.old), text(c.new)));
        changes.chain(more).collect()
    }

    fn pod(pod: Value) -> Value {
        json!({"spec": {"template": {"spec": pod}}})
    }

    #[test]
    fn tells_every_changed_value() {
        let check = |old: Value, new: Value, expected: &[&str]| assert_eq!(lines(old, new, 100), expected);
        check(json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 1}}), &[]);
        check(json!({"spec": {"replicas": 1}}), json!({"spec": {"replicas": 2}}), &["spec.replicas: 1 -> 2"]);
        check(json!({}), json!({"spec": {"replicas": 2}}), &["spec: - -> {\"replicas\":2}"]);
        check(
            json!({"metadata": {"labels": {"a/b": "1", "c": "2"}, "finalizers": ["x"]}}),
            json!({"metadata": {"labels": {"a/b": "2"}, "finalizers": ["y"]}}),
            &[
                "metadata.finalizers[=x]: \"x\" -> -",
                "metadata.finalizers[=y]: - -> \"y\"",
                "metadata.labels[a/b]: \"1\" -> \"2\"",
                "metadata.labels[c]: \"2\" -> -",
            ],
        );
        check(
            pod(json!({"containers": [{"name": "a", "image": "1", "args": ["x", "y"]}, {"name": "b"}]})),
            pod(json!({"containers": [{"name": "b"}, {"name": "a", "image": "2", "args": ["x", "z"]}]})),
            &[
                "spec.template.spec.containers[name=a].args[1]: \"y\" -> \"z\"",
                "spec.template.spec.containers[name=a].image: \"1\" -> \"2\"",
                "spec.template.spec.containers[order]: [\"[name=a]\",\"[name=b]\"] -> [\"[name=b]\",\"[name=a]\"]",
            ],
        );
        check(
            pod(json!({"containers": [{"name": "a", "args": ["x"]}]})),
            pod(json!({"containers": [{"name": "a", "args": []}]})),
            &["spec.template.spec.containers[name=a].args: [\"x\"] -> []"],
        );
        check(
            json!({"spec": {"selector": {"matchLabels": {"a": "1"}}, "free": {"x": 1}}}),
            json!({"spec": {"selector": {"matchLabels": {"a": "2"}}, "free": {"x": 2}}}),
            &["spec.free.x: 1 -> 2", "spec.selector.matchLabels[a]: \"1\" -> \"2\""],
        );
    }

    #[test]
    fn rows_have_the_paths_of_changes() {
        let object = json!({
            "metadata": {"labels": {"a/b": "1"}, "finalizers": ["x"]},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "a", "args": ["x", "y"]}]}}},
        });
        let found: Vec<String> =
            rows(&deployment(), &object).into_iter().map(|row| format!("{}: {}", row.path, row.value)).collect();
        let expected = [
            "metadata.finalizers[=x]: \"x\"",
            "metadata.labels[a/b]: \"1\"",
            "spec.replicas: 1",
            "spec.template.spec.containers[name=a].args: [\"x\",\"y\"]",
            "spec.template.spec.containers[name=a].name: \"a\"",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn stops_at_the_limit() {
        let labels = |value: &str| json!({"metadata": {"labels": {"a": value, "b": value, "c": value}}});
        assert_eq!(lines(labels("1"), labels("2"), 1), ["metadata.labels[a]: \"1\" -> \"2\"", "..."]);
        assert_eq!(lines(labels("1"), labels("2"), 3).len(), 3);
    }
}
