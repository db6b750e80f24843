//! What validation is written with: a value together with the path where it stands, and the checks that every kind
//! repeats. Faults are collected, never returned early, so that users see all of them at once.

use meta::{FieldError, FieldPath};
use serde_json::{Map, Value};

/// Collected faults, in the order found.
pub(crate) type Faults = Vec<FieldError>;

static ABSENT: Value = Value::Null;

/// A value and where it stands. An absent field is null here: decoding has already dropped nulls.
#[derive(Clone, Copy)]
pub(crate) struct At<'v, 'p> {
    /// The value.
    pub value: &'v Value,
    /// Where it stands.
    pub path: FieldPath<'p>,
}

impl<'v> At<'v, 'static> {
    /// The object itself.
    pub fn root(value: &'v Value) -> Self {
        Self { value, path: FieldPath::ROOT }
    }
}

/// Descending and reading.
impl<'v, 'p> At<'v, 'p> {
    /// A field of this object.
    pub fn field<'s>(&'s self, name: &'s str) -> At<'v, 's> {
        At { value: self.value.get(name).unwrap_or(&ABSENT), path: self.path.field(name) }
    }

    /// An entry of this map.
    pub fn entry<'s>(&'s self, key: &'s str) -> At<'v, 's> {
        At { value: self.value.get(key).unwrap_or(&ABSENT), path: self.path.key(key) }
    }

    /// The items of this list.
    pub fn each<'s>(&'s self) -> impl Iterator<Item = At<'v, 's>> {
        self.items().iter().enumerate().map(|(index, value)| At { value, path: self.path.index(index) })
    }

    /// The entries of this map, with their keys.
    pub fn entries<'s>(&'s self) -> impl Iterator<Item = (&'v str, At<'v, 's>)>
    where
        'v: 's,
    {
        let map = self.value.as_object().into_iter().flatten();
        map.map(|(key, value)| (key.as_str(), At { value, path: self.path.key(key) }))
    }

    /// Another value at the same place.
    pub fn with<'w>(&self, value: &'w Value) -> At<'w, 'p> {
        At { value, path: self.path }
    }

    /// Whether there is a value.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether this object has a value for the field.
    pub fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some_and(|value| !value.is_null())
    }

    /// Text; empty when absent.
    pub fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or("")
    }

    /// A whole number.
    pub fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// A whole number; 0 when absent.
    pub fn number(&self) -> i64 {
        self.int().unwrap_or(0)
    }

    /// True only when it is `true`.
    pub fn is_true(&self) -> bool {
        self.value.as_bool().unwrap_or(false)
    }

    /// The raw items; empty when absent.
    pub fn items(&self) -> &'v [Value] {
        self.value.as_array().map_or(&[], Vec::as_slice)
    }
}

/// Making faults of this value.
impl At<'_, '_> {
    /// There is no value and there must be one.
    pub fn required(&self, detail: impl Into<String>) -> FieldError {
        FieldError::required(self.path, detail)
    }

    /// The value is malformed.
    pub fn invalid(&self, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path, self.value.clone(), detail)
    }

    /// The value is malformed; another value is shown.
    pub fn invalid_as(&self, shown: impl Into<Value>, detail: impl Into<String>) -> FieldError {
        FieldError::invalid(self.path, shown, detail)
    }

    /// A value may not stand here.
    pub fn forbidden(&self, detail: impl Into<String>) -> FieldError {
        FieldError::forbidden(self.path, detail)
    }

    /// The value is not among those supported.
    pub fn unsupported(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(self.path, self.value.clone(), supported)
    }

    /// The value occurs twice.
    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self.path, self.value.clone())
    }

    /// What the value names does not exist.
    pub fn not_found(&self) -> FieldError {
        FieldError::not_found(self.path, self.value.clone())
    }
}

/// The text follows a rule of names.
pub(crate) fn named(at: &At, rule: impl Fn(&str) -> Vec<String>, faults: &mut Faults) {
    faults.extend(rule(at.text()).into_iter().map(|fault| at.invalid_as(at.text(), fault)));
}

/// The text is there and follows a rule of names.
pub(crate) fn required_name(at: &At, rule: impl Fn(&str) -> Vec<String>, faults: &mut Faults) {
    if at.text().is_empty() { faults.push(at.required("")) } else { named(at, rule, faults) }
}

/// The text, if there is one, follows a rule of names.
pub(crate) fn optional_name(at: &At, rule: impl Fn(&str) -> Vec<String>, faults: &mut Faults) {
    if !at.text().is_empty() {
        named(at, rule, faults);
    }
}

/// The text is not empty.
pub(crate) fn required(at: &At, faults: &mut Faults) {
    if at.text().is_empty() {
        faults.push(at.required(""));
    }
}

/// The text is one of those supported; an empty one is missing.
pub(crate) fn one_of(at: &At, supported: &[&str], faults: &mut Faults) {
    if at.text().is_empty() {
        faults.push(at.required(""));
    } else {
        supported_text(at, supported, faults);
    }
}

/// The text, if there is a value, is one of those supported.
pub(crate) fn optional_one_of(at: &At, supported: &[&str], faults: &mut Faults) {
    if at.is_set() {
        supported_text(at, supported, faults);
    }
}

/// The text is one of those supported, empty or not.
pub(crate) fn supported_text(at: &At, supported: &[&str], faults: &mut Faults) {
    if !supported.contains(&at.text()) {
        faults.push(FieldError::not_supported(at.path, at.text(), supported));
    }
}

/// The number, if there is one, is not negative.
pub(crate) fn non_negative(at: &At, faults: &mut Faults) {
    if at.number() < 0 {
        faults.push(at.invalid("must be greater than or equal to 0"));
    }
}

/// None of these numbers is negative.
pub(crate) fn non_negative_fields(at: &At, names: &[&str], faults: &mut Faults) {
    for name in names {
        non_negative(&at.field(name), faults);
    }
}

/// The number, absent or not, is above zero.
pub(crate) fn positive(at: &At, faults: &mut Faults) {
    if at.number() <= 0 {
        faults.push(at.invalid_as(at.number(), "must be greater than zero"));
    }
}

/// The number, if there is one, lies between `low` and `high`, both allowed.
pub(crate) fn in_range(at: &At, low: i64, high: i64, faults: &mut Faults) {
    if let Some(number) = at.int() {
        faults.extend(meta::name::in_range(number, low, high).into_iter().map(|fault| at.invalid(fault)));
    }
}

/// The value is what it was. An empty object is not the same as none.
pub(crate) fn immutable(new: &At, old: &At, faults: &mut Faults) {
    if new.value.is_object() != old.value.is_object() || !same(new.value, old.value) {
        faults.push(new.invalid("field is immutable"));
    }
}

/// Whether two values mean the same: a field that is absent equals one with its type's zero (the wire leaves zeros
/// out, so nobody can tell them apart), quantities are compared as numbers, and free maps entry by entry.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    same_in(a, b, Within::Fields)
}

#[derive(Clone, Copy, PartialEq)]
enum Within {
    Fields,
    Quantities,
    FreeMap,
}

fn same_in(a: &Value, b: &Value, within: Within) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys = a.keys().chain(b.keys().filter(|key| !a.contains_key(*key)));
            keys.all(|key| same_in(entry(a, key), entry(b, key), inside(key, within)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_in(a, b, within)),
        (Value::String(a), Value::String(b)) if within == Within::Quantities && a != b => same_quantity(a, b),
        _ => a == b || (is_zero(a) && is_zero(b) && !(within == Within::FreeMap && (a.is_string() || b.is_string()))),
    }
}

fn entry<'m>(map: &'m Map<String, Value>, key: &str) -> &'m Value {
    map.get(key).unwrap_or(&ABSENT)
}

fn inside(key: &str, within: Within) -> Within {
    match key {
        _ if within != Within::Fields => within,
        "limits" | "requests" | "overhead" | "sizeLimit" | "divisor" | "capacity" => Within::Quantities,
        "labels" | "annotations" | "matchLabels" | "nodeSelector" => Within::FreeMap,
        _ => within,
    }
}

fn same_quantity(a: &str, b: &str) -> bool {
    matches!((meta::Quantity::parse(a), meta::Quantity::parse(b)), (Ok(a), Ok(b)) if a == b)
}

/// What the wire leaves out: null, `false`, 0 and everything empty.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.values().all(is_zero),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_equals_zero_and_quantities_are_numbers() {
        let check = |a: Value, b: Value, expected: bool| assert_eq!(same(&a, &b), expected, "{a} {b}");
        check(json!({"a": 1}), json!({"a": 1, "hostNetwork": false, "list": []}), true);
        check(json!({"limits": {"cpu": "1000m"}}), json!({"limits": {"cpu": "1"}}), true);
        check(json!({"args": ["1000m"]}), json!({"args": ["1"]}), false);
        check(json!([1, 2]), json!([2, 1]), false);
        check(json!({"a": {"b": "x"}}), json!({}), false);
        check(json!({"labels": {"a": ""}}), json!({"labels": {}}), false);
        check(json!({"labels": {}}), json!({}), true);
    }

    #[test]
    fn faults_carry_the_path() {
        let value = json!({"spec": {"ports": [{"name": "UP"}]}});
        let root = At::root(&value);
        let spec = root.field("spec");
        let mut faults = Faults::new();
        for port in spec.field("ports").each() {
            named(&port.field("name"), meta::name::dns1123_label, &mut faults);
            required(&port.field("absent"), &mut faults);
        }
        assert_eq!(faults[0].field, "spec.ports[0].name");
        assert_eq!(faults[1].to_string(), "spec.ports[0].absent: Required value");
    }
}
