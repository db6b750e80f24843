//! The JSONPath of printer columns: fields, indexes, slices of one, wildcards and equality filters
//! (`.status.conditions[?(@.type=="Ready")].status`).

use serde_json::Value;

/// Longest path and most values followed: columns come from anybody who may write a CustomResourceDefinition.
const PATH_BYTES_MAX: usize = 1_024;
const VALUES_MAX: usize = 1_000;

/// The first value that `path` leads to. A path that cannot be read leads nowhere.
pub fn first(object: &Value, path: &str) -> Option<Value> {
    let steps = parse(path)?;
    let mut found = vec![object];
    for step in &steps {
        found = found.iter().flat_map(|value| step.follow(value)).take(VALUES_MAX).collect();
    }
    found.first().map(|value| (*value).clone())
}

/// Whether `path` can be read.
pub fn is_valid(path: &str) -> bool {
    parse(path).is_some()
}

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Where { path: Vec<Step>, equals: Value },
}

impl Step {
    fn follow<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match self {
            Step::Field(name) => value.get(name).into_iter().collect(),
            Step::Index(at) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let at = if *at < 0 { i64::try_from(items.len()).unwrap_or(0) + at } else { *at };
                usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
            }
            Step::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => Vec::new(),
            },
            Step::Where { path, equals } => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let matches = |item: &&Value| {
                    let mut at = Some(*item);
                    for step in path {
                        at = at.and_then(|value| step.follow(value).first().copied());
                    }
                    at == Some(equals)
                };
                items.iter().filter(matches).collect()
            }
        }
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let path = path.trim();
    let path = path.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or(path);
    let path = path.strip_prefix('$').unwrap_or(path);
    if path.len() > PATH_BYTES_MAX {
        return None;
    }
    steps(path)
}

fn steps(mut rest: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = closing(inside)?;
            steps.push(bracket(&inside[..end])?);
            rest = &inside[end + 1..];
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (name, tail) = field(rest)?;
            if !name.is_empty() {
                steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            } else if !tail.starts_with('[') && !tail.is_empty() {
                return None;
            }
            rest = tail;
        }
    }
    Some(steps)
}

/// A field name up to an unescaped `.` or `[`; `\.` is a dot inside the name.
fn field(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => return Some((name, &text[at..])),
            _ => name.push(c),
        }
    }
    Some((name, ""))
}

/// Where the bracket closes, quotes respected.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ']') => return Some(at),
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(condition) = text.strip_prefix("?(").and_then(|t| t.strip_suffix(')')) {
        let (left, right) = condition.split_once("==")?;
        let path = steps(left.trim().strip_prefix('@')?)?;
        // Filters do not nest: nobody needs it, and recursion would have to be bounded.
        let simple = path.iter().all(|step| !matches!(step, Step::Where { .. }));
        return simple.then(|| Some(Step::Where { path, equals: literal(right.trim())? })).flatten();
    }
    if let Ok(index) = text.parse() {
        return Some(Step::Index(index));
    }
    match literal(text)? {
        Value::String(name) => Some(Step::Field(name)),
        _ => None,
    }
}

fn literal(text: &str) -> Option<Value> {
    let quoted = |q: char| text.strip_prefix(q).and_then(|t| t.strip_suffix(q)).map(|t| Value::String(t.to_owned()));
    quoted('"').or_else(|| quoted('\'')).or_else(|| serde_json::from_str(text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "x"}},
            "spec": {"list": [{"n": 1}, {"n": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        let check = |path: &str, found: Option<Value>| assert_eq!(first(&object, path), found, "{path}");
        check(".spec.list[1].n", Some(json!(2)));
        check(".spec.list[-1].n", Some(json!(2)));
        check(".spec.list[*].n", Some(json!(1)));
        check(".status.conditions[?(@.type==\"Other\")].status", Some(json!("False")));
        check(".status.conditions[?(@.type=='Ready')].status", Some(json!("True")));
        check(".metadata.annotations.a\\.b/c", Some(json!("x")));
        check("{.metadata.annotations['a.b/c']}", Some(json!("x")));
        check(".spec.absent", None);
        check(".spec.list[", None);
        check(".spec.list[?(@.n==2)].n", Some(json!(2)));
    }
}
