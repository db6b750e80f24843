//! Performs the operations of one patch and keeps account of what they cost.

use std::io;

use serde_json::Value;

use super::{Limits, Operation, pointer};
use crate::PatchError;

const MISSING: &str = "missing value";

pub(super) struct Session<'d, 'l> {
    doc: &'d mut Value,
    limits: &'l Limits,
    copied: usize,
    work: usize,
}

impl<'d, 'l> Session<'d, 'l> {
    pub(super) fn new(doc: &'d mut Value, limits: &'l Limits) -> Self {
        Self { doc, limits, copied: 0, work: 0 }
    }

    pub(super) fn perform(&mut self, operation: Operation<'_>) -> Result<(), PatchError> {
        match operation.op.unwrap_or("unknown") {
            "add" => self.add(&operation),
            "remove" => self.remove(&operation),
            "replace" => self.replace(&operation),
            "move" => self.relocate(&operation),
            "test" => self.test(&operation),
            "copy" => self.copy(&operation),
            other => Err(refused(format!("Unexpected kind: {other}"))),
        }
    }

    fn add(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let path = named("add", "path", operation.path)?;
        let value = operation.value.cloned().unwrap_or(Value::Null);
        let steps = self.reach("add", "path: \"", path, "\"")?;
        self.insert(&steps, value, &format!("error in add for path: '{path}'"))
    }

    fn remove(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let path = named("remove", "path", operation.path)?;
        let steps = self.reach("remove", "path: \"", path, "\"")?;
        self.take(&steps, &format!("error in remove for path: '{path}'")).map(drop)
    }

    fn replace(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let path = named("replace", "path", operation.path)?;
        let value = operation.value.cloned().unwrap_or(Value::Null);
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err(refused("replace operation value must be object or array".to_owned()));
            }
            self.account(0, &value)?;
            *self.doc = value;
            return Ok(());
        }
        let steps = self.reach("replace", "path: ", path, "")?;
        self.account(steps.len(), &value)?;
        match (pointer::container(self.doc, &steps), steps.last()) {
            (Some(Value::Object(map)), Some(key)) => {
                map.insert(key.clone(), value);
                Ok(())
            }
            (Some(Value::Array(items)), Some(key)) => {
                let missing =
                    || refused(format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"));
                let at = pointer::position(key, items.len()).map_err(|_| missing())?;
                items[at] = value;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn relocate(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let from = named("move", "from", operation.from)?;
        let steps = self.reach("move", "from path: ", from, "")?;
        let key = steps.last().map(String::as_str).unwrap_or_default();
        let value = self.take(&steps, &format!("error in move for path: '{key}'"))?;
        let path = named("move", "path", operation.path)?;
        let steps = self.reach("move", "destination path: ", path, "")?;
        self.insert(&steps, value, &format!("error in move for path: '{path}'"))
    }

    fn test(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let path = named("test", "path", operation.path)?;
        let failed = || refused(format!("testing value {path} failed: test failed"));
        let expected = operation.value.unwrap_or(&Value::Null);
        if path.is_empty() {
            return if *self.doc == *expected { Ok(()) } else { Err(failed()) };
        }
        let missing = || refused(format!("test operation does not apply: is missing path: {path}: {MISSING}"));
        let steps = pointer::steps(path).ok_or_else(missing)?;
        let holder = pointer::container(self.doc, &steps).ok_or_else(missing)?;
        let actual = look(holder, &steps).map_err(|e| refused(format!("error in test for path: '{path}': {e}")))?;
        if actual.unwrap_or(&Value::Null) == expected { Ok(()) } else { Err(failed()) }
    }

    fn copy(&mut self, operation: &Operation<'_>) -> Result<(), PatchError> {
        let from = named("copy", "from", operation.from)?;
        let steps = self.reach("copy", "from path: ", from, "")?;
        let holder = pointer::container(self.doc, &steps);
        let found = holder.as_deref().map(|holder| look(holder, &steps)).transpose();
        let found = found.map_err(|e| refused(format!("error in copy for from: '{from}': {e}")))?.flatten();
        let path = named("copy", "path", operation.path)?;
        self.copied = self.copied.saturating_add(found.map_or(0, encoded_len));
        if self.copied > self.limits.copied_bytes {
            return Err(refused(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, exceeding the limit {}",
                self.copied, self.limits.copied_bytes
            )));
        }
        let value = found.cloned().unwrap_or(Value::Null);
        let steps = self.reach("copy", "destination path: ", path, "")?;
        self.insert(&steps, value, "error while adding value during copy")
    }

    /// The steps of `path`, whose container exists.
    fn reach(&mut self, verb: &str, before: &str, path: &str, after: &str) -> Result<Vec<String>, PatchError> {
        let missing =
            || refused(format!("{verb} operation does not apply: doc is missing {before}{path}{after}: {MISSING}"));
        let steps = pointer::steps(path).ok_or_else(missing)?;
        pointer::container(self.doc, &steps).ok_or_else(missing)?;
        Ok(steps)
    }

    fn insert(&mut self, steps: &[String], value: Value, context: &str) -> Result<(), PatchError> {
        self.account(steps.len(), &value)?;
        let shifted = match (pointer::container(self.doc, steps), steps.last()) {
            (Some(Value::Object(map)), Some(key)) => {
                map.insert(key.clone(), value);
                0
            }
            (Some(Value::Array(items)), Some(key)) => {
                let at = pointer::insertion(key, items.len()).map_err(|e| refused(format!("{context}: {e}")))?;
                items.insert(at, value);
                items.len() - at
            }
            _ => 0,
        };
        self.spend(shifted)
    }

    fn take(&mut self, steps: &[String], context: &str) -> Result<Value, PatchError> {
        let (taken, shifted) = match (pointer::container(self.doc, steps), steps.last()) {
            (Some(Value::Object(map)), Some(key)) => {
                let absent = || refused(format!("{context}: Unable to remove nonexistent key: {key}: {MISSING}"));
                (map.remove(key.as_str()).ok_or_else(absent)?, 0)
            }
            (Some(Value::Array(items)), Some(key)) => {
                let at = pointer::position(key, items.len()).map_err(|e| refused(format!("{context}: {e}")))?;
                (items.remove(at), items.len() - at)
            }
            _ => return Err(refused(format!("{context}: {MISSING}"))),
        };
        self.spend(shifted).map(|()| taken)
    }

    /// Refuses what would nest too deep. Every placed value is measured, which the work limit pays for.
    fn account(&mut self, steps: usize, value: &Value) -> Result<(), PatchError> {
        let (depth, nodes) = measure(value);
        self.spend(nodes)?;
        if steps + depth > self.limits.depth {
            return Err(refused(format!("the result is nested deeper than {} levels", self.limits.depth)));
        }
        Ok(())
    }

    fn spend(&mut self, work: usize) -> Result<(), PatchError> {
        self.work = self.work.saturating_add(work);
        if self.work <= self.limits.work {
            return Ok(());
        }
        Err(PatchError::too_large(format!("the patch takes more than {} steps on lists", self.limits.work)))
    }
}

fn look<'v>(holder: &'v Value, steps: &[String]) -> Result<Option<&'v Value>, String> {
    match (holder, steps.last()) {
        (Value::Object(map), Some(key)) => Ok(map.get(key.as_str())),
        (Value::Array(items), Some(key)) => Ok(items.get(pointer::position(key, items.len())?)),
        _ => Ok(None),
    }
}

fn named<'p>(verb: &str, member: &str, text: Option<&'p str>) -> Result<&'p str, PatchError> {
    let field = match (verb, member) {
        ("add" | "remove" | "copy", "path") => "",
        (_, "path") => "operation missing path field: ",
        _ => "operation, missing from field: ",
    };
    text.ok_or_else(|| refused(format!("{verb} operation failed to decode {member}: {field}{MISSING}")))
}

fn refused(detail: String) -> PatchError {
    PatchError::unprocessable(detail)
}

/// Levels of nesting (a scalar has one) and number of nodes, without recursion.
fn measure(value: &Value) -> (usize, usize) {
    let (mut deepest, mut nodes) = (0, 0);
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        nodes += 1;
        deepest = deepest.max(depth);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => open.extend(map.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    (deepest, nodes)
}

/// Bytes of the compact JSON form.
fn encoded_len(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}
