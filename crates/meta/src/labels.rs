//! Label selectors: the text form of queries and the object form of specs, one matcher.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::label_text::Parser;
use crate::{FieldError, FieldPath, SmallMap, name};

/// A conjunction of requirements. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
    /// A selector that matches nothing at all (a nil `LabelSelector`).
    nothing: bool,
}

/// One requirement on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How the label's value is compared.
    pub operator: Operator,
    /// The values compared with, sorted.
    pub values: Vec<String>,
    /// Whether it was written `key=value` or `key!=value` rather than with a set; the text form keeps that.
    exact: bool,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key in (a,b)`, `key = a`.
    In,
    /// `key notin (a,b)`, `key != a`: an absent label matches.
    NotIn,
    /// `key`.
    Exists,
    /// `!key`.
    DoesNotExist,
    /// `key > 5` (text form only).
    GreaterThan,
    /// `key < 5` (text form only).
    LessThan,
}

/// The labels of an object, or what a simple selector wants of them.
pub type LabelMap = SmallMap<Box<str>>;

/// What a selector is matched against.
pub trait Labels {
    /// The value of the label `key`, if there is one.
    fn get(&self, key: &str) -> Option<&str>;
}

impl Labels for Map<String, Value> {
    fn get(&self, key: &str) -> Option<&str> {
        Map::get(self, key).and_then(Value::as_str)
    }
}

impl Labels for std::collections::BTreeMap<String, String> {
    fn get(&self, key: &str) -> Option<&str> {
        std::collections::BTreeMap::get(self, key).map(String::as_str)
    }
}

impl<L: Labels> Labels for Option<&L> {
    fn get(&self, key: &str) -> Option<&str> {
        self.and_then(|labels| labels.get(key))
    }
}

impl Selector {
    /// Matches everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches nothing.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// All of `requirements` must hold.
    pub fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Reads the text form (`a=b,c in (d,e),!f`). The error is upstream's sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        Parser::new(text).requirements().map(Self::from_requirements)
    }

    /// Reads `metav1.LabelSelector`: absent (or null) matches nothing, `{}` everything.
    /// The error names the first bad requirement.
    pub fn from_label_selector(selector: Option<&Value>) -> Result<Self, String> {
        let Some(selector) = selector.and_then(Value::as_object) else { return Ok(Self::nothing()) };
        let pairs = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let exact = pairs.map(|(key, value)| Requirement::exact(key, Operator::In, text_of(value)));
        let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
        exact
            .chain(expressions.map(Requirement::from_expression))
            .collect::<Result<_, _>>()
            .map(Self::from_requirements)
    }

    /// Every pair of a plain map must be equal (`spec.selector` of a ReplicationController or Service).
    pub fn from_map(pairs: &Map<String, Value>) -> Self {
        let requirement = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![text_of(value).to_owned()],
            exact: true,
        };
        Self::from_requirements(pairs.iter().map(requirement).collect())
    }

    /// Checks a `metav1.LabelSelector` at `path`.
    pub fn validate(selector: &Value, path: &FieldPath<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
            errors.extend(validate_labels(labels, &path.field("matchLabels")));
        }
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        let at = path.field("matchExpressions");
        for (index, expression) in expressions.into_iter().flatten().enumerate() {
            validate_expression(expression, &at.index(index), &mut errors);
        }
        errors
    }

    /// Whether `labels` satisfy every requirement.
    pub fn matches(&self, labels: &impl Labels) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether the selector has no requirement and so matches everything.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Whether the selector matches nothing because there was none.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// The requirements.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

impl Requirement {
    /// A checked requirement; the error is upstream's sentence. `values` may come in any order.
    pub fn new(key: impl Into<String>, operator: Operator, mut values: Vec<String>) -> Result<Self, String> {
        let key = key.into();
        let errors = faults(&key, operator, &values);
        if !errors.is_empty() {
            return Err(FieldError::aggregate(&errors));
        }
        values.sort();
        Ok(Self { key, operator, values, exact: false })
    }

    /// A checked requirement written with `=` (`Operator::In`) or `!=` (`Operator::NotIn`).
    pub(crate) fn exact(key: &str, operator: Operator, value: &str) -> Result<Self, String> {
        Ok(Self { exact: true, ..Self::new(key, operator, vec![value.to_owned()])? })
    }

    fn from_expression(expression: &Value) -> Result<Self, String> {
        let written = expression.get("operator").map_or("", text_of);
        let operator =
            Operator::named(written).ok_or_else(|| format!("{written:?} is not a valid label selector operator"))?;
        let values = values_of(expression).iter().map(|value| text_of(value).to_owned()).collect();
        Self::new(expression.get("key").map_or("", text_of), operator, values)
    }

    /// Whether `labels` satisfy the requirement.
    pub fn matches(&self, labels: &impl Labels) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.has(value)),
            Operator::NotIn => value.is_none_or(|value| !self.has(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.bound(value).is_some_and(|(value, bound)| value > bound),
            Operator::LessThan => self.bound(value).is_some_and(|(value, bound)| value < bound),
        }
    }

    fn has(&self, value: &str) -> bool {
        self.values.binary_search_by(|own| own.as_str().cmp(value)).is_ok()
    }

    fn bound(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl Operator {
    /// The operator that `metav1.LabelSelectorRequirement` writes so.
    fn named(text: &str) -> Option<Self> {
        match text {
            "In" => Some(Self::In),
            "NotIn" => Some(Self::NotIn),
            "Exists" => Some(Self::Exists),
            "DoesNotExist" => Some(Self::DoesNotExist),
            _ => None,
        }
    }
}

/// Checks the keys and values of a map of labels at `path` (upstream's `ValidateLabels`).
pub fn validate_labels(labels: &Map<String, Value>, path: &FieldPath<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        errors.extend(validate_label_name(key, path));
        let value = text_of(value);
        errors.extend(name::label_value(value).into_iter().map(|fault| FieldError::invalid(path, value, fault)));
    }
    errors
}

/// Checks one label key at `path` (upstream's `ValidateLabelName`).
pub fn validate_label_name(key: &str, path: &FieldPath<'_>) -> Vec<FieldError> {
    name::qualified_name(key).into_iter().map(|fault| FieldError::invalid(path, key, fault)).collect()
}

fn validate_expression(expression: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (written, values, at) =
        (expression.get("operator").map_or("", text_of), values_of(expression), path.field("values"));
    match Operator::named(written) {
        Some(Operator::In | Operator::NotIn) if values.is_empty() => {
            errors.push(FieldError::required(at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        Some(Operator::Exists | Operator::DoesNotExist) if !values.is_empty() => {
            errors
                .push(FieldError::forbidden(at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        Some(_) => {}
        None => errors.push(FieldError::invalid(path.field("operator"), written, "not a valid selector operator")),
    }
    errors.extend(validate_label_name(expression.get("key").map_or("", text_of), &path.field("key")));
    for (index, value) in values.iter().map(text_of).enumerate() {
        let faults = name::label_value(value).into_iter();
        errors.extend(faults.map(|fault| FieldError::invalid(at.index(index), value, fault)));
    }
}

/// Everything wrong with a requirement, at upstream's paths (they start at the requirement itself).
fn faults(key: &str, operator: Operator, values: &[String]) -> Vec<FieldError> {
    let root = FieldPath::ROOT;
    let at = root.field("values");
    let mut errors: Vec<_> = key_fault("key", key).into_iter().collect();
    if let Some(fault) = count_fault(operator, values.len()) {
        let bad = if values.is_empty() { Value::Null } else { Value::from(values) };
        errors.push(FieldError::invalid(at, bad, fault));
    }
    if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
        let fault = "for 'Gt', 'Lt' operators, the value must be an integer";
        let bad = values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err());
        errors.extend(bad.map(|(index, value)| FieldError::invalid(at.index(index), value.as_str(), fault)));
    }
    for (index, value) in values.iter().enumerate() {
        let fault = name::label_value(value);
        if !fault.is_empty() {
            errors.push(FieldError::invalid(at.index(index).key(key), value.as_str(), fault.join("; ")));
        }
    }
    errors
}

/// What is wrong with a key, reported for the field called `field`.
pub(crate) fn key_fault(field: &str, key: &str) -> Option<FieldError> {
    let faults = name::qualified_name(key);
    (!faults.is_empty()).then(|| FieldError::invalid(field, key, faults.join("; ")))
}

fn count_fault(operator: Operator, count: usize) -> Option<&'static str> {
    match operator {
        Operator::In | Operator::NotIn if count == 0 => Some("for 'in', 'notin' operators, values set can't be empty"),
        Operator::Exists | Operator::DoesNotExist if count != 0 => {
            Some("values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan if count != 1 => {
            Some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
        _ => None,
    }
}

/// Null where text belongs decodes to the empty string.
fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn values_of(expression: &Value) -> &[Value] {
    expression.get("values").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

impl fmt::Display for Requirement {
    /// The text form of one requirement.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, joined(&self.values));
        match self.operator {
            Operator::In if self.exact => write!(f, "{key}={values}"),
            Operator::NotIn if self.exact => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

fn joined(values: &[String]) -> Cow<'_, str> {
    match values {
        [only] => Cow::Borrowed(only),
        several => Cow::Owned(several.join(",")),
    }
}

impl fmt::Display for Selector {
    /// The text form, as `scale.status.selector` shows it (`a=b,c in (d,e)`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
