//! The group `rbac.authorization.k8s.io`: roles say what may be done, bindings say by whom.

pub mod cluster_role;
pub mod cluster_role_binding;
mod policy_rule;
pub mod role;
pub mod role_binding;
mod subject;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
