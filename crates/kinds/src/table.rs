//! The table: one line a kind, sorted by group, kind and version.

use std::sync::Arc;

use crate::KindDef;
use crate::{admissionregistration, apiextensions, apps, coordination, core, discovery, events, rbac};

/// Declares a kind.
type Declare = fn() -> KindDef;

/// One line a kind; the table's test keeps it sorted and complete.
#[rustfmt::skip]
const TABLE: &[Declare] = &[
    core::binding::def,
    core::component_status::def,
    core::config_map::def,
    core::endpoints::def,
    core::event::def,
    core::namespace::def,
    core::node::def,
    core::pod::def,
    core::pod_template::def,
    core::replication_controller::def,
    core::secret::def,
    core::service::def,
    core::service_account::def,
    apps::controller_revision::def,
    apps::daemon_set::def,
    apps::deployment::def,
    apps::replica_set::def,
    apps::stateful_set::def,
    admissionregistration::mutating_admission_policy::def,
    admissionregistration::mutating_admission_policy_binding::def,
    admissionregistration::mutating_webhook_configuration::def,
    admissionregistration::validating_admission_policy::def,
    admissionregistration::validating_admission_policy_binding::def,
    admissionregistration::validating_webhook_configuration::def,
    apiextensions::custom_resource_definition::def,
    coordination::lease::def,
    discovery::endpoint_slice::def,
    events::event::def,
    rbac::cluster_role::def,
    rbac::cluster_role_binding::def,
    rbac::role::def,
    rbac::role_binding::def,
];

/// Every built-in kind.
pub fn built_in() -> Vec<Arc<KindDef>> {
    TABLE.iter().map(|declare| Arc::new(declare())).collect()
}
