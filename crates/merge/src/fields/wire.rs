//! `FieldsV1`: `f:<name>`, `k:<json object>`, `v:<json value>`, `i:<index>` and `.` for the step itself.

use serde_json::{Map, Value};

use super::set::{FieldSet, Node};
use super::{PathElement, print_path};
use crate::go_text;

impl FieldSet {
    /// Reads the wire form. Steps of unknown kinds are skipped. The error says which step is malformed.
    pub fn from_value(value: &Value) -> Result<Self, String> {
        match value {
            Value::Null => Ok(Self::new()),
            Value::Object(map) => Ok(read(map)?.below),
            _ => Err("managedFields must be a map".to_owned()),
        }
    }

    /// The wire form.
    pub fn to_value(&self) -> Value {
        Value::Object(write(self))
    }
}

/// Reads the map below a step; an empty map makes the step a member.
fn read(map: &Map<String, Value>) -> Result<Node, String> {
    let mut node = Node { member: map.contains_key("."), below: FieldSet::new() };
    for (key, value) in map.iter().filter(|(key, _)| *key != ".") {
        let Some(step) = parse(key)? else { continue };
        let child = match value {
            Value::Object(map) => read(map)?,
            Value::Null => Node { member: true, below: FieldSet::new() },
            _ => return Err(format!("{} must hold a map", print_path(&[step]))),
        };
        node.below.nodes.insert(step, child);
    }
    node.member |= node.below.is_empty();
    Ok(node)
}

fn parse(key: &str) -> Result<Option<PathElement>, String> {
    if key.len() < 2 {
        return Err("key must be 2 characters long:".to_owned());
    }
    let (kind, rest) = key.split_once(':').filter(|(kind, _)| kind.len() == 1).ok_or_else(|| missing_colon(key))?;
    match kind {
        "f" => Ok(Some(PathElement::field(rest))),
        "v" => json(rest).map(|value| Some(PathElement::value(value))),
        "k" => match json(rest)? {
            Value::Object(map) => {
                let fields = map.into_iter().map(|(name, value)| (name.into_boxed_str(), value));
                Ok(Some(PathElement::key(fields)))
            }
            _ => Err(format!("expected an object of key fields: {key}")),
        },
        "i" => rest.parse().map(|index| Some(PathElement::Index(index))).map_err(|_| format!("invalid index: {key}")),
        _ => Ok(None),
    }
}

fn missing_colon(key: &str) -> String {
    format!("missing colon: {key}")
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn write(set: &FieldSet) -> Map<String, Value> {
    set.nodes.iter().map(|(step, node)| (print(step), Value::Object(write_node(node)))).collect()
}

fn write_node(node: &Node) -> Map<String, Value> {
    let mut map = write(&node.below);
    if node.member && !map.is_empty() {
        map.insert(".".to_owned(), Value::Object(Map::new()));
    }
    map
}

fn print(step: &PathElement) -> String {
    match step {
        PathElement::Field(name) => format!("f:{name}"),
        PathElement::Index(index) => format!("i:{index}"),
        PathElement::Value(value) => format!("v:{}", go_text::json(value)),
        PathElement::Key(fields) => {
            let pairs: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_ref()), go_text::json(value)))
                .collect();
            format!("k:{{{}}}", pairs.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_and_writes() {
        let check = |wire: Value, lines: &str| {
            let set = FieldSet::from_value(&wire).expect("valid");
            assert_eq!(set.to_string(), lines);
            assert_eq!(set.to_value(), wire);
        };
        check(json!({}), "");
        check(json!({"f:spec": {"f:replicas": {}}}), ".spec.replicas");
        check(json!({"f:a": {".": {}, "f:b": {}}}), ".a\n.a.b");
        check(
            json!({"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}),
            ".ports[containerPort=80,protocol=\"TCP\"]\n.ports[containerPort=80,protocol=\"TCP\"].name",
        );
        check(json!({"f:l": {"v:\"a\"": {}, "v:1": {}, "i:2": {}}}), ".l[=1]\n.l[=\"a\"]\n.l[2]");
        check(json!({"v:\"a\\u0026b\"": {}}), "[=\"a&b\"]");
    }

    #[test]
    fn reads_loosely_what_upstream_does() {
        let check =
            |wire: Value, lines: &str| assert_eq!(FieldSet::from_value(&wire).expect("valid").to_string(), lines);
        check(json!(null), "");
        check(json!({"f:a": {".": {}}}), ".a");
        check(json!({"f:a": null}), ".a");
        check(json!({"x:future": {}, "f:a": {}}), ".a");
    }

    #[test]
    fn refuses_malformed_steps() {
        for wire in [
            json!({"a": {}}),
            json!({"spec": {}}),
            json!({"i:x": {}}),
            json!({"k:1": {}}),
            json!({"v:{": {}}),
            json!([]),
        ] {
            assert!(FieldSet::from_value(&wire).is_err(), "{wire}");
        }
    }
}
