//! PodTopologyLabels: a pod carries the zone and region of its node.

use meta::{ApiError, ObjectExt};
use serde_json::Value;

use crate::admission::{Case, Effects};

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The mutating half. Labels of a binding become labels of the pod it binds.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    let node = if case.is_for_pods() {
        new.text(&["spec", "nodeName"])
    } else if case.is_for("", "pods", "binding") && new.text(&["target", "kind"]) == "Node" {
        new.text(&["target", "name"])
    } else {
        ""
    };
    let Some(node) = case.world.read("core/nodes", node) else { return Ok(()) };
    for key in LABELS {
        if let Some(value) = node.label(key) {
            new.put(&["metadata", "labels", key], value);
        }
    }
    Ok(())
}
