//! The group `authentication.k8s.io`: who is asking. Nothing of it is stored.

pub mod self_subject_review;
pub mod token_request;
pub mod token_review;

pub(crate) const GROUP: &str = "authentication.k8s.io";
