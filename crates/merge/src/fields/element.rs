//! One step of a field path.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde_json::{Map, Number, Value};

use crate::go_text;

/// One step of a field path. Cheap to clone. Ordered as upstream orders sets: fields, keys, values, indexes.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of a struct or a key of a map.
    Field(Arc<str>),
    /// An item of a list of maps, by its key fields (sorted by name).
    Key(Arc<[(Box<str>, Value)]>),
    /// An item of a set, by its value.
    Value(Arc<Value>),
    /// An item of a list by position.
    Index(i64),
}

impl PathElement {
    /// A field of a struct or a key of a map.
    pub fn field(name: &str) -> Self {
        Self::Field(Arc::from(name))
    }

    /// An item of a list of maps.
    pub fn key(fields: impl IntoIterator<Item = (Box<str>, Value)>) -> Self {
        let mut fields: Vec<(Box<str>, Value)> = fields.into_iter().collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Self::Key(fields.into())
    }

    /// An item of a set.
    pub fn value(value: Value) -> Self {
        Self::Value(Arc::new(value))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => compare_values(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

fn compare_keys(left: &[(Box<str>, Value)], right: &[(Box<str>, Value)]) -> Ordering {
    let pairs = left.iter().zip(right);
    let differs = pairs.map(|(l, r)| l.0.cmp(&r.0).then_with(|| compare_values(&l.1, &r.1)));
    differs.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// A total order of JSON values in which 1 equals 1.0: numbers, texts, booleans, lists, maps, null.
pub fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => compare_lists(left, right),
        (Value::Object(left), Value::Object(right)) => compare_maps(left, right),
        _ => value_rank(left).cmp(&value_rank(right)),
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let (left, right) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

fn compare_lists(left: &[Value], right: &[Value]) -> Ordering {
    let mut pairs = left.iter().zip(right).map(|(left, right)| compare_values(left, right));
    pairs.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn compare_maps(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let mut pairs = left.iter().zip(right).map(|(l, r)| l.0.cmp(r.0).then_with(|| compare_values(l.1, r.1)));
    pairs.find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// As error messages write it: `.spec`, `[name="web"]`, `[="x"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Value(value) => write!(f, "[={}]", shown(value)),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(fields) => {
                let pairs: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
                write!(f, "[{}]", pairs.join(","))
            }
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect(),
        scalar => go_text::plain(scalar),
    }
}

/// `.spec.containers[name="web"].image`.
pub(crate) fn print_path(path: &[PathElement]) -> String {
    path.iter().fold(String::new(), |mut out, step| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{step}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn prints_like_upstream() {
        let check = |step: PathElement, text: &str| assert_eq!(step.to_string(), text);
        check(PathElement::field("spec"), ".spec");
        check(
            PathElement::key([("protocol".into(), json!("TCP")), ("containerPort".into(), json!(80))]),
            "[containerPort=80,protocol=\"TCP\"]",
        );
        check(PathElement::value(json!("a")), "[=\"a\"]");
        check(PathElement::value(json!(1.5)), "[=1.5]");
        check(PathElement::Index(3), "[3]");
    }

    #[test]
    fn orders_by_kind_then_value() {
        let mut steps = [
            PathElement::Index(0),
            PathElement::value(json!(2)),
            PathElement::value(json!("a")),
            PathElement::key([("name".into(), json!("b"))]),
            PathElement::field("z"),
            PathElement::field("a"),
        ];
        steps.sort();
        let shown: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [".a", ".z", "[name=\"b\"]", "[=2]", "[=\"a\"]", "[0]"]);
        assert_eq!(PathElement::value(json!(1)), PathElement::value(json!(1.0)));
    }
}
