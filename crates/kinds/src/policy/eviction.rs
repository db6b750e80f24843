//! Eviction: asks that a pod go, if its disruption budget allows. Spoken at `pods/eviction`.

use crate::KindDef;

const EXAMPLE: &str = r#"{"apiVersion": "policy/v1", "kind": "Eviction",
    "metadata": {"name": "web-0", "namespace": "default"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::spoken("policy", "v1", "Eviction").schema("io.k8s.api.policy.v1.Eviction").example(EXAMPLE)
}
