//! The budget of the evaluation that is running.

use std::cell::Cell;

use kube_cel::cel::{Context, ExecutionError, Value};

/// Called at each step of a loop with the loop's condition and the cost of one step.
pub(super) const TICK: &str = "@tick";
/// Passed by each value that may have grown.
pub(super) const SIZED: &str = "@sized";

/// Bytes or items that cost one unit: a value is copied about as fast as ten steps are interpreted.
const SIZE_PER_UNIT: usize = 10;

thread_local! {
    /// What is left. An evaluation runs on one thread from beginning to end.
    static LEFT: Cell<i64> = const { Cell::new(0) };
}

/// Runs with an allowance; returns what is left of it (at or below zero when it was spent).
pub(super) fn metered<T>(allowance: i64, work: impl FnOnce() -> T) -> (T, i64) {
    let before = LEFT.replace(allowance);
    let outcome = work();
    (outcome, LEFT.replace(before))
}

/// Takes `cost` from the allowance; fails when it is spent.
pub(super) fn charge(cost: i64) -> Result<(), ExecutionError> {
    let left = LEFT.get().saturating_sub(cost);
    LEFT.set(left);
    if left > 0 { Ok(()) } else { Err(ExecutionError::function_error(TICK, "actual cost limit exceeded")) }
}

pub(super) fn register(context: &mut Context<'static>) {
    context.add_function(TICK, |condition: Value, cost: i64| -> Result<Value, ExecutionError> {
        charge(cost)?;
        Ok(condition)
    });
    context.add_function(SIZED, |value: Value| -> Result<Value, ExecutionError> {
        charge(i64::try_from(size(&value) / SIZE_PER_UNIT + 1).unwrap_or(i64::MAX))?;
        Ok(value)
    });
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        _ => 0,
    }
}
