//! `allOf`, `anyOf`, `oneOf`, `not`.

use meta::{FieldError, FieldPath};
use serde_json::Value;

use super::{Checker, Outcome};
use crate::{Facets, Schema, text};

/// Of alternatives that all fail, the one that got furthest.
#[derive(Default)]
struct Best(Option<Outcome>);

impl Best {
    fn offer(&mut self, outcome: Outcome) {
        if self.0.as_ref().is_none_or(|best| outcome.matches > best.matches) {
            self.0 = Some(outcome);
        }
    }
}

impl Checker {
    pub(super) fn junctors(&self, facets: &Facets, value: &Value, path: &FieldPath<'_>) -> Outcome {
        let mut out = Outcome { matches: 1, ..Outcome::default() };
        let alternatives = |schemas: &[Schema]| -> Vec<Outcome> {
            schemas.iter().map(|schema| self.node(schema, value, path, false)).collect()
        };
        if !facets.any_of.is_empty() {
            self.any_of(alternatives(&facets.any_of), path, &mut out);
        }
        if !facets.one_of.is_empty() {
            self.one_of(alternatives(&facets.one_of), path, &mut out);
        }
        if !facets.all_of.is_empty() {
            self.all_of(alternatives(&facets.all_of), path, &mut out);
        }
        if let Some(not) = &facets.not
            && self.node(not, value, path, false).is_valid()
        {
            out.push(self.verdict(path, "must not validate the schema (not)"));
        }
        out
    }

    fn verdict(&self, path: &FieldPath<'_>, says: &str) -> Option<FieldError> {
        Some(FieldError::invalid(&self.base, "", format!("{} {says}", text::quoted(&path.to_string()))))
    }

    fn any_of(&self, outcomes: Vec<Outcome>, path: &FieldPath<'_>, out: &mut Outcome) {
        let mut best = Best::default();
        for outcome in outcomes {
            if outcome.is_valid() {
                return out.merge(outcome);
            }
            best.offer(outcome);
        }
        out.push(self.verdict(path, "must validate at least one schema (anyOf)"));
        out.merge(best.0.unwrap_or_default());
    }

    fn one_of(&self, outcomes: Vec<Outcome>, path: &FieldPath<'_>, out: &mut Outcome) {
        let (valid, invalid): (Vec<Outcome>, Vec<Outcome>) = outcomes.into_iter().partition(Outcome::is_valid);
        let count = valid.len();
        if let ([_], Some(only)) = (&valid[..], valid.iter().map(|o| o.matches).next()) {
            out.matches += only;
            return;
        }
        let found =
            if count == 0 { "Found none valid".to_owned() } else { format!("Found {count} valid alternatives") };
        out.push(self.verdict(path, &format!("must validate one and only one schema (oneOf). {found}")));
        if count == 0 {
            let mut best = Best::default();
            invalid.into_iter().for_each(|outcome| best.offer(outcome));
            out.merge(best.0.unwrap_or_default());
        }
    }

    fn all_of(&self, outcomes: Vec<Outcome>, path: &FieldPath<'_>, out: &mut Outcome) {
        let (all, valid) = (outcomes.len(), outcomes.iter().filter(|o| o.is_valid()).count());
        outcomes.into_iter().for_each(|outcome| out.merge(outcome));
        if valid != all {
            let none = if valid == 0 { ". None validated" } else { "" };
            out.push(self.verdict(path, &format!("must validate all the schemas (allOf){none}")));
        }
    }
}
