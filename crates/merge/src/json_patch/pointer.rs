//! JSON Pointers (RFC 6901) and the containers they lead to.

use serde_json::Value;

/// The steps of a pointer: all but the first `/`-separated part, unescaped. `None` for a pointer without steps.
pub(super) fn steps(pointer: &str) -> Option<Vec<String>> {
    let mut parts = pointer.split('/');
    parts.next()?;
    let steps: Vec<String> = parts.map(unescape).collect();
    if steps.is_empty() { None } else { Some(steps) }
}

fn unescape(step: &str) -> String {
    if !step.contains('~') {
        return step.to_owned();
    }
    let mut out = String::with_capacity(step.len());
    let mut rest = step;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let (text, used) = match rest.as_bytes().get(at + 1) {
            Some(b'1') => ("/", 2),
            Some(b'0') => ("~", 2),
            _ => ("~", 1),
        };
        out.push_str(text);
        rest = &rest[at + used..];
    }
    out.push_str(rest);
    out
}

/// The container that holds the last step; `None` when something on the way is absent, null or a scalar.
pub(super) fn container<'d>(doc: &'d mut Value, steps: &[String]) -> Option<&'d mut Value> {
    let parents = steps.split_last()?.1;
    let found = parents.iter().try_fold(doc, |value, step| match value {
        Value::Object(map) => map.get_mut(step.as_str()),
        Value::Array(items) => {
            let at = position(step, items.len()).ok()?;
            items.get_mut(at)
        }
        _ => None,
    })?;
    if found.is_object() || found.is_array() { Some(found) } else { None }
}

/// The index that `step` names in a list of `len` items; negative steps count from the end.
pub(super) fn position(step: &str, len: usize) -> Result<usize, String> {
    match integer(step)? {
        index if index >= 0 && (index as usize) < len => Ok(index as usize),
        index if index < 0 && index.unsigned_abs() as usize <= len => Ok(len - index.unsigned_abs() as usize),
        index => Err(out_of_range(index)),
    }
}

/// The place where `step` inserts into a list of `len` items; `-` is the end.
pub(super) fn insertion(step: &str, len: usize) -> Result<usize, String> {
    if step == "-" {
        return Ok(len);
    }
    let index = integer(step).map_err(|error| format!("value was not a proper array index: '{step}': {error}"))?;
    match index {
        index if index >= 0 && index as usize <= len => Ok(index as usize),
        index if index < 0 && index.unsigned_abs() as usize <= len + 1 => Ok(len + 1 - index.unsigned_abs() as usize),
        index => Err(out_of_range(index)),
    }
}

fn integer(step: &str) -> Result<i64, String> {
    step.parse().map_err(|_| format!("strconv.Atoi: parsing {step:?}: invalid syntax"))
}

fn out_of_range(index: i64) -> String {
    format!("Unable to access invalid index: {index}: invalid index referenced")
}
