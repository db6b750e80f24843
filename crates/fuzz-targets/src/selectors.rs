//! Selectors of labels and of fields.

use std::collections::BTreeMap;

use meta::FieldPath;
use meta::fields::{self, FieldSelector};
use meta::labels::{Operator, Requirement, Selector};
use schema::json;
use serde_json::{Value, json};

use crate::{inputs, lines, text_of};

/// A selector is written as the text that is read as it, and selects what its requirements say one by one.
pub fn label_selector(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let Ok(selector) = Selector::parse(text) else { return };
    let written = selector.to_string();
    let again = Selector::parse(&written).unwrap_or_else(|error| panic!("{written:?}: {error}"));
    assert_eq!(again, selector, "{written:?}");
    for labels in some_labels(&selector) {
        let expected = selector.requirements().iter().all(|requirement| holds(requirement, &labels));
        assert_eq!(selector.matches(&labels), expected, "{written:?} on {labels:?}");
    }
}

/// Label sets near what the selector asks for.
fn some_labels(selector: &Selector) -> Vec<BTreeMap<String, String>> {
    let mut sets = vec![BTreeMap::new()];
    let with = |choose: fn(&Requirement) -> Option<String>| {
        selector.requirements().iter().filter_map(|r| Some((r.key.clone(), choose(r)?))).collect()
    };
    sets.push(with(|requirement| requirement.values.first().cloned().or_else(|| Some("1".to_owned()))));
    sets.push(with(|requirement| requirement.values.last().map(|value| format!("{value}0"))));
    sets
}

/// The requirement as its definition reads, without regard to speed.
fn holds(requirement: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let among = || value.is_some_and(|value| requirement.values.contains(value));
    let number = |text: &String| text.parse::<i64>().ok();
    let bound = requirement.values.first().and_then(number);
    let both = value.and_then(number).zip(bound);
    match requirement.operator {
        Operator::In => among(),
        Operator::NotIn => !among(),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::GreaterThan => both.is_some_and(|(value, bound)| value > bound),
        Operator::LessThan => both.is_some_and(|(value, bound)| value < bound),
    }
}

pub fn label_selector_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "a=b",
        "a==b,c!=d",
        "a in (b,c)",
        "a notin (b,)",
        "!a",
        "a",
        "x>1,y<2",
        "a.b/c=d",
        "a in (b,c),!d , e",
        "",
        "a in ()",
        "a==b==c",
        "é=1",
        "in in (in)",
        "notin notin (notin)",
    ])
}

/// The same for fields.
pub fn field_selector(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let Ok(selector) = FieldSelector::parse(text) else { return };
    let written = selector.to_string();
    let again = FieldSelector::parse(&written).unwrap_or_else(|error| panic!("{written:?}: {error}"));
    let sorted = |selector: &FieldSelector| {
        let mut all: Vec<String> = selector.requirements.iter().map(|r| format!("{r:?}")).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&again), sorted(&selector), "{written:?}");
    for requirement in &selector.requirements {
        let term = format!("f={}", fields::escape(&requirement.value));
        let read = FieldSelector::parse(&term).expect("an escaped value is a value");
        assert_eq!(read.exact("f"), Some(requirement.value.as_str()));
    }
    let _ = selector.matches(|_| "a");
}

pub fn field_selector_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "metadata.name=a",
        "a==b,c!=d",
        "a=\\,b\\=c\\\\",
        "spec.nodeName=",
        "=",
        "a",
        ",,a=b,,",
        "status.phase!=Running",
    ])
}

/// A LabelSelector object, and labels on the second line.
pub fn selector_match(data: &[u8]) {
    let mut documents = lines(data).filter_map(|line| json::decode(line).ok()).map(|decoded| decoded.value);
    let Some(object) = documents.next() else { return };
    let Ok(selector) = Selector::from_label_selector(Some(&object)) else { return };
    let errors = Selector::validate(&object, &FieldPath::ROOT);
    let labels = documents.next().unwrap_or_else(|| json!({}));
    let labels: BTreeMap<String, String> = strings(&labels).collect();
    let expected = selector.requirements().iter().all(|requirement| holds(requirement, &labels));
    assert_eq!(selector.matches(&labels), expected && !selector.is_nothing());
    if errors.is_empty() && !selector.is_nothing() {
        let written = selector.to_string();
        let again = Selector::parse(&written).unwrap_or_else(|error| panic!("{written:?}: {error}"));
        assert_eq!(again.matches(&labels), expected, "{written:?}");
    }
}

fn strings(map: &Value) -> impl Iterator<Item = (String, String)> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
}

pub fn selector_match_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "{\"matchLabels\":{\"a\":\"b\"}}\n{\"a\":\"b\"}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"b\",\"c\"]}]}\n{\"a\":\"c\"}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"NotIn\",\"values\":[\"b\"]},{\"key\":\"x\",\"operator\":\"Exists\"}]}\n{\"x\":\"\"}",
        "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"DoesNotExist\"}]}\n{}",
        "{}\n{}",
    ])
}
