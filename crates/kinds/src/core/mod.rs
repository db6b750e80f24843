//! The legacy group: `v1`.

pub(crate) mod address;
pub mod binding;
pub mod component_status;
pub mod config_map;
pub mod endpoints;
pub mod event;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod pod_template;
pub mod replication_controller;
pub mod secret;
pub mod service;
pub mod service_account;
