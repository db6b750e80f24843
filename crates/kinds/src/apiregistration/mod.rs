//! The group `apiregistration.k8s.io`.

pub mod api_service;
