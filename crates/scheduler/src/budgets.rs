//! Disruption budgets: which victims would break one.

use std::collections::BTreeMap;
use std::sync::Arc;

use brain::Object;
use brain::facts::{Fact, LabelSelector, Seen};
use serde::Deserialize;

use crate::ask::Ask;

/// The store's collection of budgets.
pub const BUDGETS_COLLECTION: &str = "policy/poddisruptionbudgets";

/// A budget.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Budget {
    spec: BudgetSpec,
    status: BudgetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BudgetSpec {
    selector: LabelSelector,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BudgetStatus {
    disruptions_allowed: i64,
    /// Pods whose disruption was allowed and is under way.
    disrupted_pods: BTreeMap<Box<str>, serde::de::IgnoredAny>,
}

impl Fact for Budget {}

/// All budgets, by `namespace/name`.
#[derive(Default)]
pub struct Budgets(BTreeMap<Arc<str>, Seen<Budget>>);

impl Budgets {
    /// One budget is now this; `None` when it is gone.
    pub fn put(&mut self, item: Arc<str>, budget: Option<Object>) {
        match budget {
            Some(budget) => self.0.insert(item, Seen::from(budget)),
            None => self.0.remove(&item),
        };
    }

    /// Of pods that would leave in this order, whether each one breaks a budget that those before have left.
    pub fn broken_by<'a>(&self, pods: impl Iterator<Item = &'a Ask>) -> Vec<bool> {
        let mut left: BTreeMap<&str, i64> = BTreeMap::new();
        pods.map(|pod| {
            let mut breaks = false;
            for (item, budget) in self.about(pod) {
                let allowed = left.entry(item).or_insert(budget.status.disruptions_allowed);
                *allowed -= 1;
                breaks |= *allowed < 0;
            }
            breaks
        })
        .collect()
    }

    /// The budgets that a pod's leaving is charged to. Pods whose leaving was charged already are not.
    fn about<'b>(&'b self, pod: &'b Ask) -> impl Iterator<Item = (&'b str, &'b Budget)> {
        let prefix = format!("{}/", pod.namespace());
        let start: Arc<str> = prefix.as_str().into();
        let in_namespace = self.0.range(start..).take_while(move |(item, _)| item.starts_with(&prefix));
        let is_about = |budget: &Budget| {
            // Upstream: a pod without labels is never covered, and an empty selector covers nothing here.
            !pod.labels().is_empty()
                && !budget.spec.selector.0.is_everything()
                && budget.spec.selector.0.matches(pod.labels())
                && !budget.status.disrupted_pods.contains_key(pod.pod.name())
        };
        in_namespace.map(|(item, budget)| (&**item, &*budget.facts)).filter(move |(_, budget)| is_about(budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ask, object};
    use serde_json::json;

    #[test]
    fn each_victim_is_charged() {
        let mut budgets = Budgets::default();
        let budget = json!({"metadata": {"namespace": "default", "name": "b"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": 1, "disruptedPods": {"gone": "2026-11-30T00:00:00Z"}}});
        budgets.put("default/b".into(), Some(object(BUDGETS_COLLECTION, &budget)));
        let pods = [ask("gone", json!({})), ask("a", json!({})), ask("b", json!({}))];
        assert_eq!(budgets.broken_by(pods.iter()), [false, false, true]);
        budgets.put("default/b".into(), None);
        assert_eq!(budgets.broken_by(pods.iter()), [false, false, false]);
    }
}
