//! The group `resource.k8s.io`: devices, and who gets them.

mod device;
pub mod device_class;
pub mod device_taint_rule;
pub mod resource_claim;
pub mod resource_claim_template;
pub mod resource_slice;

pub(crate) const GROUP: &str = "resource.k8s.io";
