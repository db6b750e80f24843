//! One policy with one set of parameters.

use std::collections::{BTreeMap, BTreeSet};

use meta::ObjectExt;
use serde_json::Value;

use crate::Attributes;
use crate::cel::{Budget, CelValue, EvalError, OBJECT_COST_MAX, Program, evaluate_asking, map_of, program};
use crate::request_facts::conditions_hold;

/// Longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// What came out.
#[derive(Default)]
pub(super) struct Evaluation {
    /// Validations that do not hold, or could not be evaluated where that counts as a refusal.
    pub(super) refused: Vec<Decision>,
    /// Annotations for the audit event.
    pub(super) notes: Vec<Note>,
}

/// One refusal.
pub(super) struct Decision {
    /// Index of the validation.
    pub(super) index: usize,
    /// For people.
    pub(super) message: String,
    /// Status reason; may be empty.
    pub(super) reason: String,
}

/// One audit annotation.
pub(super) enum Note {
    /// Key and value.
    Publish(String, String),
    /// The expression failed, and the policy may not.
    Broken(String),
}

impl Evaluation {
    /// Evaluates with the given variables.
    pub(super) fn of(policy: &Value, known: Vec<(&'static str, CelValue)>, may: &dyn Fn(&Attributes) -> bool) -> Self {
        let fails_open = policy.text(&["spec", "failurePolicy"]) == "Ignore";
        let failure = |message: String| Self {
            refused: vec![Decision { index: 0, message, reason: String::new() }],
            notes: Vec::new(),
        };
        match conditions_hold(policy.items(&["spec", "matchConditions"]), &known, may) {
            Ok(true) => {}
            Ok(false) => return Self::default(),
            Err(_) if fails_open => return Self::default(),
            Err(why) => return failure(why),
        }
        let budget = Budget::new(OBJECT_COST_MAX);
        let mut run = Run { policy, may, known, made: BTreeMap::new(), broken: BTreeMap::new(), budget };
        let mut out = Self::default();
        for (index, validation) in policy.items(&["spec", "validations"]).iter().enumerate() {
            out.refused.extend(run.validation(index, validation, fails_open));
        }
        for annotation in policy.items(&["spec", "auditAnnotations"]) {
            out.notes.extend(run.annotation(annotation, fails_open));
        }
        out
    }
}

/// What the mutations of a policy make, one after another; each sees what those before it did.
pub(super) struct Mutations<'p>(Run<'p>);

impl<'p> Mutations<'p> {
    /// With the given variables; `None` when the policy's conditions say that it is not about this request.
    pub(super) fn of(
        policy: &'p Value,
        known: Vec<(&'static str, CelValue)>,
        may: &'p dyn Fn(&Attributes) -> bool,
    ) -> Result<Option<Self>, String> {
        let holds = conditions_hold(policy.items(&["spec", "matchConditions"]), &known, may)?;
        let budget = Budget::new(OBJECT_COST_MAX);
        let run = Run { policy, may, known, made: BTreeMap::new(), broken: BTreeMap::new(), budget };
        Ok(holds.then_some(Self(run)))
    }

    /// The object has changed: composite variables are made anew when they are next read.
    pub(super) fn see(&mut self, known: Vec<(&'static str, CelValue)>) {
        self.0.known = known;
        self.0.made.clear();
        self.0.broken.clear();
    }

    /// The value of a mutation's expression.
    pub(super) fn value(&mut self, source: &str) -> Result<CelValue, String> {
        self.0.value(source)
    }
}

struct Run<'p> {
    policy: &'p Value,
    may: &'p dyn Fn(&Attributes) -> bool,
    known: Vec<(&'static str, CelValue)>,
    /// Composite variables that were evaluated.
    made: BTreeMap<String, CelValue>,
    /// Those that could not be, with the reason.
    broken: BTreeMap<String, String>,
    budget: Budget,
}

impl Run<'_> {
    fn validation(&mut self, index: usize, validation: &Value, fails_open: bool) -> Option<Decision> {
        let source = validation.text(&["expression"]);
        let reason = validation.text(&["reason"]).to_owned();
        match self.value(source) {
            Ok(CelValue::Bool(true)) => None,
            Ok(_) => Some(Decision { index, message: self.message(validation), reason }),
            Err(_) if fails_open => None,
            Err(message) => Some(Decision { index, message, reason: String::new() }),
        }
    }

    fn message(&mut self, validation: &Value) -> String {
        let expression = validation.text(&["messageExpression"]);
        let made = if expression.is_empty() { None } else { self.value(expression).ok() };
        if let Some(CelValue::String(text)) = made {
            let text = text.trim();
            if !text.is_empty() && !text.contains('\n') && text.len() <= MESSAGE_BYTES_MAX {
                return text.to_owned();
            }
        }
        match validation.text(&["message"]).trim() {
            "" => format!("failed expression: {}", validation.text(&["expression"]).trim()),
            message => message.to_owned(),
        }
    }

    fn annotation(&mut self, annotation: &Value, fails_open: bool) -> Option<Note> {
        let (key, source) = (annotation.text(&["key"]), annotation.text(&["valueExpression"]));
        match self.value(source) {
            Ok(CelValue::String(text)) if text.trim().is_empty() => None,
            Ok(CelValue::String(text)) => Some(Note::Publish(key.to_owned(), text.trim().to_owned())),
            Ok(CelValue::Null) => None,
            Ok(other) => Some(Note::Broken(format!(
                "valueExpression '{source}' resulted in unsupported return type: {}. Return type must be either string \
                 or null.",
                other.type_of()
            ))),
            Err(_) if fails_open => None,
            Err(why) => Some(Note::Broken(why)),
        }
    }

    fn value(&mut self, source: &str) -> Result<CelValue, String> {
        let program = program(source).map_err(|why| format!("compilation error: compilation failed: {why}"))?;
        self.prepare(&program, &mut BTreeSet::new());
        let outcome = self.run(&program);
        outcome.map_err(|error| match &error {
            EvalError::Budget | EvalError::CallCost => {
                format!("{error}, no further validation rules will be run")
            }
            _ => format!("expression '{source}' resulted in error: {}", self.told(&error)),
        })
    }

    fn run(&mut self, program: &Program) -> Result<CelValue, EvalError> {
        let mut variables = self.known.clone();
        variables.push(("variables", map_of(&self.made)));
        evaluate_asking(program, &variables, &mut self.budget, self.may)
    }

    /// Evaluates the composite variables that the program reads, and those that they read. What fails is left out, so
    /// that only an expression that comes to it fails as well.
    fn prepare(&mut self, reader: &Program, around: &mut BTreeSet<String>) {
        let wanted: Vec<String> = reader.composites().filter(|name| !self.made.contains_key(*name)).cloned().collect();
        for name in wanted {
            if self.broken.contains_key(&name) || !around.insert(name.clone()) {
                continue;
            }
            let variables = self.policy.items(&["spec", "variables"]);
            let declared = variables.iter().find(|variable| variable.text(&["name"]) == name);
            let Some(source) = declared.map(|variable| variable.text(&["expression"])) else { continue };
            match program(source) {
                Ok(program) => {
                    self.prepare(&program, around);
                    match self.run(&program) {
                        Ok(value) => drop(self.made.insert(name, value)),
                        Err(error) => drop(self.broken.insert(name, error.to_string())),
                    }
                }
                Err(why) => drop(self.broken.insert(name, why)),
            }
        }
    }

    fn told(&self, error: &EvalError) -> String {
        let text = error.to_string();
        let missing = text.strip_prefix("no such key: ").and_then(|name| Some((name, self.broken.get(name)?)));
        match missing {
            Some((name, why)) => format!("composited variable {name:?} fails to evaluate: {why}"),
            None => text,
        }
    }
}
