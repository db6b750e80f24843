//! `x-kubernetes-validations`: the rules that a CustomResourceDefinition writes into its schema.

use meta::{FieldError, FieldPath};
use schema::{ListKind, Rule, Schema, Shape};
use serde_json::{Map, Value};

use crate::cel::{Budget, CelValue, EvalError, OBJECT_COST_MAX, Program, evaluate, optional, program, to_cel};

/// Longest message that an expression may make.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// What the rules say of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuleOutcome {
    /// Refused.
    pub errors: Vec<FieldError>,
    /// What would be refused if it were new: the value has not changed, so it stays.
    pub warnings: Vec<String>,
}

/// Runs every rule of the schema on a custom resource; `old` is the stored object on updates.
pub fn validate(schema: &Schema, new: &Value, old: Option<&Value>) -> RuleOutcome {
    let mut run = Run { budget: Budget::new(OBJECT_COST_MAX), stopped: false, out: RuleOutcome::default() };
    if has_rules(schema) {
        run.visit(schema, new, old, Ratchet { same: false, correlated: old.is_some() }, &FieldPath::ROOT);
    }
    run.out
}

/// Whether any rule stands in the schema.
pub fn has_rules(schema: &Schema) -> bool {
    let own = schema.facets.as_deref().is_some_and(|f| !f.rules.is_empty() || f.all_of.iter().any(has_rules));
    own || match &schema.shape {
        Shape::List { items, .. } => has_rules(items.get()),
        Shape::Map { values, .. } => has_rules(values.get()),
        Shape::Struct(body) => {
            body.fields.values().any(|field| has_rules(field.schema.get()))
                || body.additional.as_ref().is_some_and(|link| has_rules(link.get()))
        }
        _ => false,
    }
}

/// Checks that a rule compiles, for the author of the definition.
pub fn check_rule(rule: &Rule, path: &FieldPath<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut check = |source: &str, field: &str| {
        let at = path.field(field);
        if source.trim().is_empty() && field == "rule" {
            errors.push(FieldError::required(at, "rule is not specified"));
            return;
        }
        match program(source) {
            Err(why) => errors.push(FieldError::invalid(at, source, format!("compilation failed: {why}"))),
            Ok(program) => {
                if let Some(name) = program.unknown_variable(&["self", "oldSelf"]) {
                    let why = format!("compilation failed: undeclared reference to '{name}' (in container '')");
                    errors.push(FieldError::invalid(at, source, why));
                }
            }
        }
    };
    check(&rule.rule, "rule");
    if let Some(message) = &rule.message_expression {
        check(message, "messageExpression");
    }
    errors
}

/// How a value relates to the stored one.
#[derive(Clone, Copy)]
struct Ratchet {
    /// The nearest value around that has a counterpart is equal to it.
    same: bool,
    /// The value itself has a counterpart.
    correlated: bool,
}

struct Run {
    budget: Budget,
    stopped: bool,
    out: RuleOutcome,
}

impl Run {
    fn visit(&mut self, schema: &Schema, new: &Value, old: Option<&Value>, around: Ratchet, path: &FieldPath<'_>) {
        if self.stopped || new.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        let ratchet = match old {
            Some(old) => Ratchet { same: old == new, correlated: true },
            None => Ratchet { same: around.same && !around.correlated, correlated: false },
        };
        if let Some(facets) = schema.facets.as_deref() {
            self.rules(schema, &facets.rules, new, old, ratchet, path);
            for also in &facets.all_of {
                self.visit(also, new, old, ratchet, path);
            }
        }
        match new {
            Value::Array(items) => self.visit_list(schema, items, old, ratchet, path),
            Value::Object(map) => self.visit_map(schema, map, old, ratchet, path),
            _ => {}
        }
    }

    fn visit_list(
        &mut self,
        schema: &Schema,
        items: &[Value],
        old: Option<&Value>,
        ratchet: Ratchet,
        path: &FieldPath<'_>,
    ) {
        let Some(item_schema) = schema.items().filter(|items| has_rules(items)) else { return };
        let old_items = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate() {
            let counterpart = match schema.list_kind() {
                Some(ListKind::Map(keys)) => old_items.iter().find(|old| same_keys(keys, old, item)),
                _ => None,
            };
            let around = Ratchet { correlated: false, ..ratchet };
            self.visit(item_schema, item, counterpart, around, &path.index(index));
        }
    }

    fn visit_map(
        &mut self,
        schema: &Schema,
        map: &Map<String, Value>,
        old: Option<&Value>,
        ratchet: Ratchet,
        path: &FieldPath<'_>,
    ) {
        for (key, value) in map {
            let (member, at) = match schema.field(key) {
                Some(field) => (field.schema.get(), path.field(key)),
                None => match schema.values() {
                    Some(values) => (values, path.key(key)),
                    None => continue,
                },
            };
            if has_rules(member) {
                let around = Ratchet { correlated: false, ..ratchet };
                self.visit(member, value, old.and_then(|old| old.get(key)), around, &at);
            }
        }
    }

    fn rules(
        &mut self,
        schema: &Schema,
        rules: &[Rule],
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet,
        path: &FieldPath<'_>,
    ) {
        if rules.is_empty() || self.stopped {
            return;
        }
        let now = to_cel(new, schema);
        let before = old.map(|old| to_cel(old, schema));
        for rule in rules {
            let of = RuleCase { rule, schema, new, now: &now, before: before.as_ref(), path };
            self.rule(&of, ratchet);
            if self.stopped {
                return;
            }
        }
    }

    fn rule(&mut self, case: &RuleCase<'_>, ratchet: Ratchet) {
        let program = match program(&case.rule.rule) {
            Ok(program) => program,
            Err(why) => return self.out.errors.push(case.trouble(format!("rule compile error: {why}"))),
        };
        let uses_old = program.uses("oldSelf");
        let is_optional = case.rule.optional_old_self == Some(true);
        if uses_old && case.before.is_none() && !is_optional {
            return;
        }
        let variables = case.variables(is_optional);
        let outcome = evaluate(&program, &variables, &mut self.budget);
        if outcome == Ok(CelValue::Bool(true)) {
            return;
        }
        match outcome {
            Ok(_) => {
                let error = self.refusal(case);
                if !uses_old && ratchet.same {
                    self.out.warnings.push(error.to_string());
                } else {
                    self.out.errors.push(error);
                }
            }
            Err(error) => {
                self.stopped = matches!(error, EvalError::CallCost | EvalError::Budget);
                self.out.errors.push(case.trouble(case.told(&error)));
            }
        }
    }

    fn refusal(&mut self, case: &RuleCase<'_>) -> FieldError {
        let expression = case.rule.message_expression.as_deref().and_then(|source| program(source).ok());
        let made = expression.and_then(|program| self.message(case, &program));
        case.error(made.unwrap_or_else(|| case.default_message()))
    }

    /// An expression that makes no usable text gives way to the plain message.
    fn message(&mut self, case: &RuleCase<'_>, program: &Program) -> Option<String> {
        let variables = case.variables(case.rule.optional_old_self == Some(true));
        match evaluate(program, &variables, &mut self.budget) {
            Ok(CelValue::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && !text.contains('\n') && text.len() <= MESSAGE_BYTES_MAX;
                usable.then(|| text.to_owned())
            }
            _ => None,
        }
    }
}

fn same_keys(keys: &[Box<str>], a: &Value, b: &Value) -> bool {
    keys.iter().all(|key| a.get(&**key) == b.get(&**key))
}

struct RuleCase<'c> {
    rule: &'c Rule,
    schema: &'c Schema,
    new: &'c Value,
    now: &'c CelValue,
    before: Option<&'c CelValue>,
    path: &'c FieldPath<'c>,
}

impl RuleCase<'_> {
    fn variables(&self, is_optional: bool) -> Vec<(&'static str, CelValue)> {
        let mut variables = vec![("self", self.now.clone())];
        if is_optional {
            variables.push(("oldSelf", optional(self.before.cloned())));
        } else if let Some(before) = self.before {
            variables.push(("oldSelf", before.clone()));
        }
        variables
    }

    /// The rule as messages name it.
    fn named(&self) -> &str {
        match self.rule.message.as_deref().map(str::trim) {
            Some(message) if !message.is_empty() => message,
            _ => self.rule.rule.trim(),
        }
    }

    fn default_message(&self) -> String {
        match self.rule.message.as_deref() {
            Some(message) if !message.is_empty() => message.trim().to_owned(),
            _ => format!("failed rule: {}", self.rule.rule.trim()),
        }
    }

    fn told(&self, error: &EvalError) -> String {
        let rule = self.named();
        match error {
            EvalError::Overload(_) => format!(
                "'{error}': call arguments did not match a supported operator, function or macro signature for \
                 rule: {rule}"
            ),
            EvalError::CallCost => {
                format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {rule}"
                )
            }
            EvalError::Budget => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned()
            }
            EvalError::Failed(_) => format!("{error} evaluating rule: {rule}"),
        }
    }

    /// An error about the rule itself names the type instead of the value.
    fn trouble(&self, why: String) -> FieldError {
        FieldError::invalid(self.path, type_name(self.schema), why)
    }

    fn error(&self, detail: String) -> FieldError {
        let relative = self.rule.field_path.as_deref().unwrap_or("");
        let path = joined(&self.path.to_string(), relative);
        let is_whole = matches!(self.new, Value::Object(_) | Value::Array(_));
        match self.rule.reason.as_deref().unwrap_or("FieldValueInvalid") {
            "FieldValueForbidden" => FieldError::forbidden(path, detail),
            "FieldValueRequired" => FieldError::required(path, detail),
            "FieldValueDuplicate" => FieldError { detail, ..FieldError::duplicate(path, self.new.clone()) },
            _ if is_whole => FieldError::invalid_whole(path, detail),
            _ => FieldError::invalid(path, self.new.clone(), detail),
        }
    }
}

/// `.a.b` or `['a']` behind a path.
fn joined(path: &str, relative: &str) -> String {
    match (path, relative) {
        (path, "") => path.to_owned(),
        ("", relative) => relative.trim_start_matches('.').to_owned(),
        (path, relative) => format!("{path}{}", relative.replace("['", "[").replace("']", "]")),
    }
}

fn type_name(schema: &Schema) -> &'static str {
    match schema.shape {
        Shape::Boolean => "boolean",
        Shape::Integer(_) => "integer",
        Shape::Number => "number",
        Shape::String(_) => "string",
        Shape::List { .. } => "array",
        Shape::Any | Shape::IntOrString | Shape::Quantity => "",
        Shape::Map { .. } | Shape::Struct(_) => "object",
    }
}

/// The value under a path of a selectable field (`.spec.color`), as field selectors compare it.
pub fn selectable(object: &Value, json_path: &str) -> String {
    let mut steps = json_path.split('.').filter(|step| !step.is_empty());
    let value = steps.try_fold(object, |value, step| value.get(step));
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
#[path = "crd_rules_tests.rs"]
mod tests;
