//! TaintNodesByCondition: a new node is not ready until its agent says so.

use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};

use crate::admission::{Case, Effects};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    if !case.is_for("", "nodes", "") {
        return Ok(());
    }
    let mut taints = new.items(&["spec", "taints"]).to_vec();
    let is_marked = |t: &Value| t.text(&["key"]) == NOT_READY && t.text(&["effect"]) == "NoSchedule";
    if !taints.iter().any(is_marked) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        new.put(&["spec", "taints"], taints);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create};
    use super::*;

    #[test]
    fn a_new_node_is_marked_once() {
        let (scene, asked, mut node) = (Scene::new(&[]), create("", "nodes", "", "n"), json!({}));
        for _ in 0..2 {
            mutate(&scene.case(&asked, None), &mut node, &mut Effects::default()).expect("admitted");
            assert_eq!(node["spec"]["taints"], json!([{"key": NOT_READY, "effect": "NoSchedule"}]));
        }
    }
}
