//! The built-in controllers: one file each, one line in [`all`].

mod claim;
mod condition_list;
mod crd_finalizer;
mod crd_status;
mod deployment;
mod garbage_collector;
mod namespace;
mod namespace_roots;
mod pod_rank;
mod pods;
mod replica_set;
#[cfg(test)]
mod rig;
mod root_ca;
mod served;
mod service_account;
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
        Controller::of::<deployment::DeploymentController>(),
        Controller::of::<replica_set::ReplicaSetController>(),
        Controller::of::<crd_status::CrdStatusController>(),
        Controller::of::<crd_finalizer::CrdFinalizer>(),
        Controller::of::<garbage_collector::GarbageCollector>(),
        Controller::of::<namespace::NamespaceController>(),
        Controller::of::<root_ca::RootCaController>(),
        Controller::of::<service_account::ServiceAccountController>(),
    ]
}
