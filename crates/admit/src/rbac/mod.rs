//! Role-based access control over a snapshot: compact rules, an index by subject, decisions, escalation checks.

mod escalation;
mod rule;
mod view;

pub(crate) use escalation::quoted;
pub use escalation::{check_binding, check_role, covers};
pub use rule::PolicyRule;
pub(crate) use view::joined;
pub use view::{RbacView, RuleSource, SubjectRules};

/// Where ClusterRoles are stored.
pub const CLUSTER_ROLES: &str = "rbac.authorization.k8s.io/clusterroles";
/// Where ClusterRoleBindings are stored.
pub const CLUSTER_ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/clusterrolebindings";
/// Where Roles are stored.
pub const ROLES: &str = "rbac.authorization.k8s.io/roles";
/// Where RoleBindings are stored.
pub const ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/rolebindings";
/// All four: what a decision depends on.
pub const COLLECTIONS: [&str; 4] = [CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS];
/// The API group.
pub const GROUP: &str = "rbac.authorization.k8s.io";
