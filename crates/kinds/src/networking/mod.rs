//! The group `networking.k8s.io`.

pub mod ingress;
pub mod ingress_class;
pub mod ip_address;
pub mod network_policy;
pub mod service_cidr;

pub(crate) const GROUP: &str = "networking.k8s.io";
