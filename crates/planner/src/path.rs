//! Field paths as the change log writes them, read back: `spec.template.spec.containers[name=web].image`,
//! `metadata.labels[a/b]`, `metadata.finalizers[=x]`, `spec.args[0]`.

use serde_json::{Map, Value};

/// One step.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// `.field` or `[key]`: a member of a map, or a place in a list.
    Member(String),
    /// `[name=web,...]`: the item of a list with these keys.
    Item(Vec<(String, String)>),
    /// `[=x]`: an item of a set.
    Element(String),
}

/// Sets what stands at a path, or removes it. False when the path leads nowhere: nothing is changed then.
pub fn set(object: &mut Value, path: &str, value: Option<Value>) -> bool {
    let mut changed = object.clone();
    let is_set = parse(path).is_some_and(|steps| set_at(&mut changed, &steps, value));
    if is_set {
        *object = changed;
    }
    is_set
}

fn set_at(object: &mut Value, steps: &[Step], value: Option<Value>) -> bool {
    let Some((last, parents)) = steps.split_last() else { return false };
    let mut place = object;
    for step in parents {
        let Some(next) = below(place, step) else { return false };
        place = next;
    }
    match (place, last, value) {
        (Value::Object(map), Step::Member(name), Some(value)) => drop(map.insert(name.clone(), value)),
        (Value::Object(map), Step::Member(name), None) => drop(map.remove(name)),
        (Value::Array(items), Step::Member(at), Some(value)) => {
            match at.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                Some(slot) => *slot = value,
                None => return false,
            }
        }
        (Value::Array(items), step, value) => {
            let at = items.iter().position(|item| is_at(item, step));
            match (at, value) {
                (Some(at), Some(value)) => items[at] = value,
                (Some(at), None) => drop(items.remove(at)),
                (None, Some(value)) => items.push(value),
                (None, None) => {}
            }
        }
        _ => return false,
    }
    true
}

fn below<'v>(value: &'v mut Value, step: &Step) -> Option<&'v mut Value> {
    match (value, step) {
        (Value::Object(map), Step::Member(name)) => Some(map.entry(name.clone()).or_insert_with(|| Map::new().into())),
        (Value::Array(items), Step::Member(at)) => items.get_mut(at.parse::<usize>().ok()?),
        (Value::Array(items), step) => items.iter_mut().find(|item| is_at(item, step)),
        _ => None,
    }
}

fn is_at(item: &Value, step: &Step) -> bool {
    let bare = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match step {
        Step::Item(keys) => keys.iter().all(|(name, value)| item.get(name).is_some_and(|found| bare(found) == *value)),
        Step::Element(value) => bare(item) == *value,
        Step::Member(_) => false,
    }
}

/// `None` for what is no path, and for the order of a list, which is no place.
fn parse(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = inside.find(']')?;
            steps.push(bracket(&inside[..end])?);
            rest = &inside[end + 1..];
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        (end > 0).then_some(())?;
        steps.push(Step::Member(rest[..end].to_owned()));
        rest = &rest[end..];
    }
    (!steps.is_empty()).then_some(steps)
}

fn bracket(text: &str) -> Option<Step> {
    if text == "order" {
        return None;
    }
    if let Some(value) = text.strip_prefix('=') {
        return Some(Step::Element(value.to_owned()));
    }
    if !text.contains('=') {
        return Some(Step::Member(text.to_owned()));
    }
    let pairs = text.split(',').map(|pair| pair.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())));
    pairs.collect::<Option<Vec<_>>>().map(Step::Item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_set_and_removed() {
        let object = || {
            json!({"metadata": {"labels": {"a/b": "1"}, "finalizers": ["x", "y"]},
                "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1", "args": ["p", "q"]}]}})
        };
        let check = |path: &str, value: Option<Value>, place: &str, expected: Value| {
            let mut object = object();
            assert!(set(&mut object, path, value), "{path}");
            assert_eq!(object.pointer(place).cloned().unwrap_or_default(), expected, "{path}");
        };
        check("spec.containers[name=b].image", Some(json!("2")), "/spec/containers/1/image", json!("2"));
        check("spec.containers[name=b].args[1]", Some(json!("r")), "/spec/containers/1/args", json!(["p", "r"]));
        check("spec.containers[name=a]", None, "/spec/containers/0/name", json!("b"));
        check("spec.containers[name=c]", Some(json!({"name": "c"})), "/spec/containers/2/name", json!("c"));
        check("metadata.labels[a/b]", None, "/metadata/labels", json!({}));
        check("metadata.annotations[c]", Some(json!("d")), "/metadata/annotations/c", json!("d"));
        check("metadata.finalizers[=x]", None, "/metadata/finalizers", json!(["y"]));
        check("spec.replicas", Some(json!(3)), "/spec/replicas", json!(3));
    }

    #[test]
    fn what_leads_nowhere_changes_nothing() {
        for path in [
            "",
            "spec.a[order]",
            "spec[",
            "a..b",
            "spec.replicas.deep",
            "spec.list[name=x].image",
            "spec.new[name=x].image",
        ] {
            let mut object = json!({"spec": {"replicas": 1, "list": []}});
            let before = object.clone();
            assert!(!set(&mut object, path, Some(json!(1))), "{path}");
            assert_eq!(object, before, "{path}");
        }
    }
}
