//! Where a pod wants to be.

use meta::labels::{LabelMap, Selector};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// `spec.affinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// Towards nodes.
    pub node_affinity: NodeAffinity,
    /// Towards pods.
    pub pod_affinity: PodAffinity,
    /// Away from pods.
    pub pod_anti_affinity: PodAffinity,
}

/// `nodeAffinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// Must hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// Should hold.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Box<[PreferredNodeTerm]>,
}

/// A disjunction of terms.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// One of them must match.
    pub node_selector_terms: Box<[NodeSelectorTerm]>,
}

/// A weighted term.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PreferredNodeTerm {
    /// 1 to 100.
    pub weight: i32,
    /// The term.
    pub preference: NodeSelectorTerm,
}

/// A conjunction of requirements; one without any matches nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// On labels.
    pub match_expressions: Box<[NodeSelectorRequirement]>,
    /// On fields (`metadata.name`).
    pub match_fields: Box<[NodeSelectorRequirement]>,
}

/// A requirement on one label or field.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSelectorRequirement {
    /// The label or field.
    pub key: Box<str>,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: Box<str>,
    /// What is compared with.
    pub values: Box<[Box<str>]>,
}

impl NodeSelector {
    /// Whether a node with these labels and this name is selected.
    pub fn matches(&self, labels: &LabelMap, name: &str) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(labels, name))
    }
}

impl NodeSelectorTerm {
    /// Whether a node with these labels and this name matches.
    pub fn matches(&self, labels: &LabelMap, name: &str) -> bool {
        let label = |key: &str| labels.get(key).map(|value| &**value);
        let field = |key: &str| (key == "metadata.name").then_some(name);
        !(self.match_expressions.is_empty() && self.match_fields.is_empty())
            && self.match_expressions.iter().all(|requirement| requirement.holds(label(&requirement.key)))
            && self.match_fields.iter().all(|requirement| requirement.holds(field(&requirement.key)))
    }
}

impl NodeSelectorRequirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let listed = value.is_some_and(|value| self.values.iter().any(|own| &**own == value));
        match &*self.operator {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => self.numbers(value).is_some_and(|(value, bound)| value > bound),
            "Lt" => self.numbers(value).is_some_and(|(value, bound)| value < bound),
            _ => false,
        }
    }

    fn numbers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

/// `podAffinity` and `podAntiAffinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// Must hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Box<[PodAffinityTerm]>,
    /// Should hold.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Box<[PreferredPodTerm]>,
}

/// A weighted term.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreferredPodTerm {
    /// 1 to 100.
    pub weight: i32,
    /// The term.
    pub pod_affinity_term: PodAffinityTerm,
}

/// Pods, and how near.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodAffinityTerm {
    /// Which pods.
    pub label_selector: LabelSelector,
    /// In which namespaces; with no selector either, the pod's own.
    pub namespaces: Box<[Box<str>]>,
    /// In which namespaces, by their labels; `None` selects none.
    pub namespace_selector: Option<LabelSelector>,
    /// The node label whose value says what is near.
    pub topology_key: Box<str>,
    /// Labels of the pod itself that are added with `In`.
    pub match_label_keys: Box<[Box<str>]>,
    /// Labels of the pod itself that are added with `NotIn`.
    pub mismatch_label_keys: Box<[Box<str>]>,
}

/// A `metav1.LabelSelector`, ready to match. Absent or malformed matches nothing.
#[derive(Clone, Debug)]
pub struct LabelSelector(pub Selector);

impl Default for LabelSelector {
    fn default() -> Self {
        LabelSelector(Selector::nothing())
    }
}

impl<'de> Deserialize<'de> for LabelSelector {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(from)?;
        Ok(LabelSelector(Selector::from_label_selector(Some(&written)).unwrap_or_else(|_| Selector::nothing())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_are_selected_by_label_and_name() {
        let check = |term: Value, expected: bool| {
            let labels = LabelMap::from_iter([("zone", "a".into()), ("cores", "8".into())]);
            let read: NodeSelectorTerm = serde_json::from_value(term.clone()).expect("reads");
            assert_eq!(read.matches(&labels, "n1"), expected, "{term}");
        };
        let label = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        check(json!({}), false);
        check(label("zone", "In", json!(["a", "b"])), true);
        check(label("zone", "NotIn", json!(["a"])), false);
        check(label("disk", "NotIn", json!(["a"])), true);
        check(label("disk", "DoesNotExist", json!([])), true);
        check(label("cores", "Gt", json!(["7"])), true);
        check(label("cores", "Lt", json!(["7"])), false);
        check(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}), true);
        check(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}), false);
    }
}
