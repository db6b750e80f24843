//! The table: one line a kind, sorted by group, kind and version.

use std::sync::Arc;

use crate::KindDef;
use crate::{
    admissionregistration, apiextensions, apiregistration, apps, authentication, authorization, autoscaling, batch,
    certificates, coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac, resource,
    scheduling, setpoint, storage, storagemigration,
};

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
    core::limit_range::def,
    core::namespace::def,
    core::node::def,
    core::persistent_volume::def,
    core::persistent_volume_claim::def,
    core::pod::def,
    core::pod_template::def,
    core::replication_controller::def,
    core::resource_quota::def,
    core::secret::def,
    core::service::def,
    core::service_account::def,
    admissionregistration::mutating_admission_policy::def,
    admissionregistration::mutating_admission_policy_binding::def,
    admissionregistration::mutating_webhook_configuration::def,
    admissionregistration::validating_admission_policy::def,
    admissionregistration::validating_admission_policy_binding::def,
    admissionregistration::validating_webhook_configuration::def,
    apiextensions::custom_resource_definition::def,
    apiregistration::api_service::def,
    apps::controller_revision::def,
    apps::daemon_set::def,
    apps::deployment::def,
    apps::replica_set::def,
    apps::stateful_set::def,
    authentication::self_subject_review::def,
    authentication::token_request::def,
    authentication::token_review::def,
    authorization::local_subject_access_review::def,
    authorization::self_subject_access_review::def,
    authorization::self_subject_rules_review::def,
    authorization::subject_access_review::def,
    autoscaling::horizontal_pod_autoscaler::v1::def,
    autoscaling::horizontal_pod_autoscaler::v2::def,
    autoscaling::scale::def,
    batch::cron_job::def,
    batch::job::def,
    certificates::certificate_signing_request::def,
    certificates::cluster_trust_bundle::def,
    certificates::pod_certificate_request::def,
    coordination::lease::def,
    coordination::lease_candidate::def,
    discovery::endpoint_slice::def,
    events::event::def,
    flowcontrol::flow_schema::def,
    flowcontrol::priority_level_configuration::def,
    networking::ingress::def,
    networking::ingress_class::def,
    networking::ip_address::def,
    networking::network_policy::def,
    networking::service_cidr::def,
    node::runtime_class::def,
    policy::eviction::def,
    policy::pod_disruption_budget::def,
    rbac::cluster_role::def,
    rbac::cluster_role_binding::def,
    rbac::role::def,
    rbac::role_binding::def,
    resource::device_class::def,
    resource::device_taint_rule::def,
    resource::resource_claim::def,
    resource::resource_claim_template::def,
    resource::resource_slice::def,
    scheduling::priority_class::def,
    setpoint::blame::def,
    setpoint::diagnosis::def,
    setpoint::drift::def,
    setpoint::fight_report::def,
    setpoint::plan::def,
    storage::csi_driver::def,
    storage::csi_node::def,
    storage::csi_storage_capacity::def,
    storage::storage_class::def,
    storage::volume_attachment::def,
    storage::volume_attributes_class::def,
    storagemigration::storage_version_migration::def,
];

/// Every built-in kind.
pub fn built_in() -> Vec<Arc<KindDef>> {
    TABLE.iter().map(|declare| Arc::new(declare())).collect()
}
