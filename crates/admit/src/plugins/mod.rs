//! The admission steps, one file each.

pub mod certificates;
pub mod default_ingress_class;
pub mod default_storage_class;
pub mod default_tolerations;
pub mod limit_ranger;
pub mod namespace_lifecycle;
pub mod node_restriction;
pub mod pod_security;
pub mod pod_topology_labels;
pub mod priority;
pub mod resource_quota;
pub mod runtime_class;
pub mod service_account;
pub mod storage_in_use;
pub mod taint_nodes;
pub mod volume_resize;

#[cfg(test)]
pub(crate) mod testing;
