//! The group `certificates.k8s.io`.

pub mod certificate_signing_request;
pub mod cluster_trust_bundle;
mod pem;
pub mod pod_certificate_request;
mod signer_name;

pub(crate) const GROUP: &str = "certificates.k8s.io";
