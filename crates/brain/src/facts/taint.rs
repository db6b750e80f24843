//! Taints and what tolerates them.

use serde::Deserialize;

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// The key.
    pub key: Box<str>,
    /// The value.
    pub value: Box<str>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Box<str>,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The key; empty (with `Exists`) tolerates every key.
    pub key: Box<str>,
    /// `Equal` (also when empty), `Exists`, `Lt` or `Gt`.
    pub operator: Box<str>,
    /// The value compared with.
    pub value: Box<str>,
    /// The effect; empty tolerates every effect.
    pub effect: Box<str>,
    /// How long a `NoExecute` taint is tolerated; `None` for ever.
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// One that tolerates the key's presence, whatever its value.
    pub fn exists(key: &str, effect: &str) -> Toleration {
        Toleration { key: key.into(), operator: "Exists".into(), effect: effect.into(), ..Toleration::default() }
    }

    /// Whether it tolerates the taint (for a while at least).
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match &*self.operator {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                "Lt" => self.numbers(taint).is_some_and(|(own, tainted)| tainted < own),
                "Gt" => self.numbers(taint).is_some_and(|(own, tainted)| tainted > own),
                _ => false,
            }
    }

    fn numbers(&self, taint: &Taint) -> Option<(i64, i64)> {
        Some((self.value.parse().ok()?, taint.value.parse().ok()?))
    }
}

/// The first taint with one of `effects` that no toleration tolerates.
pub fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration], effects: &[&str]) -> Option<&'t Taint> {
    taints.iter().find(|taint| effects.contains(&&*taint.effect) && !tolerations.iter().any(|t| t.tolerates(taint)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn tolerations_tolerate_as_upstream() {
        let check = |toleration: Value, expected: bool| {
            let taint = Taint { key: "gpu".into(), value: "7".into(), effect: "NoSchedule".into() };
            let read: Toleration = serde_json::from_value(toleration.clone()).expect("reads");
            assert_eq!(read.tolerates(&taint), expected, "{toleration}");
        };
        check(json!({"operator": "Exists"}), true);
        check(json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false);
        check(json!({"key": "gpu", "value": "7"}), true);
        check(json!({"key": "gpu", "operator": "Equal", "value": "8"}), false);
        check(json!({"key": "gpu", "operator": "Gt", "value": "6"}), true);
        check(json!({"key": "gpu", "operator": "Lt", "value": "6"}), false);
        check(json!({"key": "gpu", "operator": "Lt", "value": "x"}), false);
        check(json!({"key": "other", "operator": "Exists"}), false);
    }
}
