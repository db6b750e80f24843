//! The group `admissionregistration.k8s.io`: what stands between a request and the store.

pub(crate) mod client_config;
mod match_resources;
pub mod mutating_admission_policy;
pub mod mutating_admission_policy_binding;
pub mod mutating_webhook_configuration;
mod param;
mod rule;
pub mod validating_admission_policy;
pub mod validating_admission_policy_binding;
pub mod validating_webhook_configuration;
mod webhook;

pub(crate) const GROUP: &str = "admissionregistration.k8s.io";
