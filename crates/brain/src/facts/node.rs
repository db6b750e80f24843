//! Nodes.

use std::sync::Arc;

use serde::Deserialize;
use view::Object;

use super::{Condition, Fact, Quantities, Taint};

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// What users and controllers want of it.
    pub spec: NodeSpec,
    /// What it says of itself.
    pub status: NodeStatus,
}

/// `spec`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Box<[Taint]>,
    /// The range of its pods' addresses.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Box<str>,
    /// The ranges of its pods' addresses, one per family.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Box<[Box<str>]>,
    /// Its name at the provider.
    #[serde(rename = "providerID")]
    pub provider_id: Box<str>,
}

/// `status`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// All there is.
    pub capacity: Quantities,
    /// What pods may have of it.
    pub allocatable: Quantities,
    /// Its conditions.
    pub conditions: Box<[Condition]>,
    /// Its addresses.
    pub addresses: Box<[Address]>,
    /// The images it has.
    pub images: Box<[ContainerImage]>,
}

/// One image on a node.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerImage {
    /// The names it is known by.
    pub names: Box<[Box<str>]>,
    /// Its size in bytes.
    pub size_bytes: i64,
}

/// One address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Address {
    /// `InternalIP`, `Hostname`, ...
    #[serde(rename = "type")]
    pub type_: Box<str>,
    /// The address.
    pub address: Box<str>,
}

impl Fact for Node {}

impl Node {
    /// The projection of a node.
    pub fn of(object: &Object) -> Arc<Node> {
        <Node as Fact>::of(object)
    }

    /// The condition of this type.
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        Condition::find(&self.status.conditions, type_)
    }

    /// Whether the node says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(Condition::is_true)
    }

    /// The first address of this type.
    pub fn address(&self, type_: &str) -> Option<&str> {
        self.status.addresses.iter().find(|address| &*address.type_ == type_).map(|address| &*address.address)
    }
}
