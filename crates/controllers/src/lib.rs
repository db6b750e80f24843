//! The built-in controllers: one file each, one line in [`all`].

mod claim;
mod condition_list;
mod crd_finalizer;
mod crd_status;
mod daemon_set;
mod deployment;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod endpoints;
mod garbage_collector;
mod job;
mod namespace;
mod namespace_roots;
mod pod_rank;
mod pods;
mod replica_set;
mod replication_controller;
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
mod target;
mod template_hash;
#[cfg(test)]
mod testing;
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
        Controller::of::<garbage_collector::GarbageCollector>(),
        Controller::of::<namespace::NamespaceController>(),
        Controller::of::<root_ca::RootCaController>(),
        Controller::of::<service_account::ServiceAccountController>(),
    ]
}
