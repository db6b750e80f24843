//! Common Expression Language, as Kubernetes uses it: compiled once, evaluated under a budget.
//!
//! The interpreter is the crate `cel` with Kubernetes' functions from `kube-cel`. It has no limits of its own, so the
//! compiled tree is rewritten: every step of a loop and every value that may have grown passes a function that
//! charges the budget and stops the evaluation when it is spent.

mod authorizer;
mod compile;
mod meter;
mod value;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kube_cel::cel::{Context, ExecutionError};
use kube_cel::{KubeCelExt, cel};

pub use authorizer::{authorizer_variables, evaluate_asking};
pub use cel::Value as CelValue;
pub use compile::Program;
pub use value::{escaped, from_json, map_of, optional, text_of, to_cel, to_json};

/// What one evaluation may cost, in units of about one step of the interpreter.
pub const CALL_COST_MAX: i64 = 1_000_000;
/// What all expressions about one object may cost together.
pub const OBJECT_COST_MAX: i64 = 10_000_000;
/// What all match conditions of one webhook or policy may cost together.
pub const MATCH_COST_MAX: i64 = 2_500_000;

/// How many compiled expressions are kept; a cluster with hundreds of policies stays below, and one that does not
/// pays for compiling again.
const PROGRAMS_MAX: usize = 4096;

/// What is left to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(i64);

impl Budget {
    /// A full one.
    pub fn new(cost_max: i64) -> Self {
        Self(cost_max)
    }

    /// Whether nothing is left.
    pub fn is_spent(self) -> bool {
        self.0 <= 0
    }
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvalError {
    /// One evaluation cost too much.
    CallCost,
    /// The budget of the object is spent.
    Budget,
    /// No function fits the arguments.
    Overload(String),
    /// Anything else, in `cel-go`'s words where known (`no such key: x`).
    Failed(String),
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CallCost => f.write_str("operation cancelled: actual cost limit exceeded"),
            Self::Budget => f.write_str("validation failed due to running out of cost budget"),
            Self::Overload(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

/// The expression compiled, from the cache when it was compiled before. The error is for the author.
pub fn program(source: &str) -> Result<Arc<Program>, String> {
    type Cache = BTreeMap<String, Result<Arc<Program>, String>>;
    static PROGRAMS: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
    let known = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner).get(source).cloned();
    if let Some(known) = known {
        return known;
    }
    let made =
        guarded(|| Program::compile(source)).unwrap_or_else(|| Err("the parser failed".to_owned())).map(Arc::new);
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if programs.len() >= PROGRAMS_MAX {
        programs.clear();
    }
    programs.insert(source.to_owned(), made.clone());
    made
}

/// Evaluates with these variables and takes the cost from the budget.
pub fn evaluate(program: &Program, variables: &[(&str, CelValue)], budget: &mut Budget) -> Result<CelValue, EvalError> {
    if budget.is_spent() {
        return Err(EvalError::Budget);
    }
    let allowance = budget.0.min(CALL_COST_MAX);
    let (outcome, left) = meter::metered(allowance, || {
        guarded(|| {
            let mut scope = ROOT.new_inner_scope();
            for (name, value) in variables {
                scope.add_variable_from_value(*name, value.clone());
            }
            meter::charge(program.size())?;
            CelValue::resolve(program.expression(), &scope)
        })
    });
    budget.0 -= allowance - left.max(0);
    if left <= 0 {
        let of_call = allowance == CALL_COST_MAX;
        budget.0 = budget.0.min(if of_call { i64::MAX } else { 0 });
        return Err(if of_call { EvalError::CallCost } else { EvalError::Budget });
    }
    match outcome {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(worded(error)),
        None => Err(EvalError::Failed("the interpreter failed".to_owned())),
    }
}

/// All functions, registered once: an evaluation only adds its variables in a scope of its own.
static ROOT: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    meter::register(&mut context);
    authorizer::register(&mut context);
    context
});

/// The interpreter is not ours; a panic in it must end the expression, not the server.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The words of `cel-go`, which messages in the field are compared with.
fn worded(error: ExecutionError) -> EvalError {
    match error {
        ExecutionError::NoSuchKey(key) => EvalError::Failed(format!("no such key: {key}")),
        ExecutionError::NoSuchOverload | ExecutionError::ValuesNotComparable(..) => {
            EvalError::Overload("no such overload".to_owned())
        }
        ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::NotSupportedAsMethod { .. }
        | ExecutionError::UnexpectedType { .. } => EvalError::Overload("no such overload".to_owned()),
        ExecutionError::UndeclaredReference(name) => {
            EvalError::Failed(format!("undeclared reference to '{name}' (in container '')"))
        }
        ExecutionError::DivisionByZero(_) => EvalError::Failed("division by zero".to_owned()),
        ExecutionError::RemainderByZero(_) => EvalError::Failed("modulus by zero".to_owned()),
        ExecutionError::Overflow(..) => EvalError::Failed("integer overflow".to_owned()),
        ExecutionError::IndexOutOfBounds(index) => {
            EvalError::Failed(format!("index out of bounds: {}", text_of(&index)))
        }
        ExecutionError::FunctionError { message, .. } => EvalError::Failed(message),
        other => EvalError::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
