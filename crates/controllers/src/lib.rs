//! The built-in controllers: one file each, one line in [`all`].

mod garbage_collector;
mod namespace;
mod namespace_roots;
#[cfg(test)]
mod rig;
mod root_ca;
mod served;
mod service_account;
mod target;

use brain::Controller;

/// Every built-in controller.
pub fn all() -> Vec<Controller> {
    vec![
        Controller::of::<garbage_collector::GarbageCollector>(),
        Controller::of::<namespace::NamespaceController>(),
        Controller::of::<root_ca::RootCaController>(),
        Controller::of::<service_account::ServiceAccountController>(),
    ]
}
