//! The built-in controllers: one file each, one line in [`all`].

mod claim;
mod cluster_role_aggregation;
mod condition_list;
#[cfg(test)]
mod crash_points;
mod crd_finalizer;
mod crd_status;
mod cron_job;
mod cron_schedule;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod endpoints;
mod garbage_collector;
mod job;
mod namespace;
mod namespace_roots;
mod node_ipam;
mod node_lifecycle;
mod node_routes;
mod pod_garbage_collector;
mod pod_rank;
mod pods;
mod replica_set;
mod replication_controller;
mod resource_quota;
mod revisions;
#[cfg(test)]
mod rig;
mod root_ca;
mod served;
mod service_account;
mod service_backends;
mod slice_plan;
mod stateful_set;
mod status;
mod taint_eviction;
mod target;
mod template_hash;
#[cfg(test)]
mod testing;
mod ttl_after_finished;
mod volume;
mod volume_claim;
mod volume_protection;
mod wakes;

use brain::Controller;

/// Every built-in controller.
pub fn all() -> Vec<Controller> {
    vec![
        Controller::of::<daemon_set::DaemonSetController>(),
        Controller::of::<deployment::DeploymentController>(),
        Controller::of::<replication_controller::ReplicationControllerController>(),
        Controller::of::<stateful_set::StatefulSetController>(),
        Controller::of::<replica_set::ReplicaSetController>(),
        Controller::of::<crd_status::CrdStatusController>(),
        Controller::of::<crd_finalizer::CrdFinalizer>(),
        Controller::of::<endpoints::EndpointsController>(),
        Controller::of::<endpoint_slice::EndpointSliceController>(),
        Controller::of::<endpoint_slice_mirroring::EndpointSliceMirroringController>(),
        Controller::of::<job::JobController>(),
        Controller::of::<cron_job::CronJobController>(),
        Controller::of::<disruption::DisruptionController>(),
        Controller::of::<ttl_after_finished::TtlAfterFinishedController>(),
        Controller::of::<cluster_role_aggregation::ClusterRoleAggregationController>(),
        Controller::of::<pod_garbage_collector::PodGarbageCollector>(),
        Controller::of::<node_ipam::NodeIpamController>(),
        Controller::of::<node_routes::NodeRoutesController>(),
        Controller::of::<node_lifecycle::NodeLifecycleController>(),
        Controller::of::<taint_eviction::TaintEvictionController>(),
        Controller::of::<resource_quota::ResourceQuotaController>(),
        Controller::of::<volume_claim::VolumeClaimController>(),
        Controller::of::<volume::VolumeController>(),
        Controller::of::<volume_protection::ClaimProtectionController>(),
        Controller::of::<volume_protection::VolumeProtectionController>(),
        Controller::of::<volume_protection::ClassProtectionController>(),
        Controller::of::<garbage_collector::GarbageCollector>(),
        Controller::of::<namespace::NamespaceController>(),
        Controller::of::<root_ca::RootCaController>(),
        Controller::of::<service_account::ServiceAccountController>(),
    ]
}
