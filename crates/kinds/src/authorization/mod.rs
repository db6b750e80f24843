//! The group `authorization.k8s.io`: who may do what. Nothing of it is stored.

pub mod local_subject_access_review;
pub mod self_subject_access_review;
pub mod self_subject_rules_review;
mod spec;
pub mod subject_access_review;

pub(crate) const GROUP: &str = "authorization.k8s.io";
