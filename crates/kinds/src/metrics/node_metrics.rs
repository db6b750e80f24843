//! NodeMetrics: what a node uses.

use meta::ObjectExt;

use super::{columns, measured, usage};
use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "metadata": {"name": "a"},
    "timestamp": "2026-01-01T00:00:00Z", "window": "15s", "usage": {"cpu": "12n", "memory": "3Ki"}}"#;

/// The kind.
pub fn def() -> KindDef {
    measured("NodeMetrics", "nodes", "usage", usage())
        .cluster_scoped()
        .columns(columns(
            |node, _| node.text(&["usage", "cpu"]).into(),
            |node, _| node.text(&["usage", "memory"]).into(),
        ))
        .example(EXAMPLE)
}
