//! The legacy group: `v1`.

pub(crate) mod address;
pub mod binding;
pub mod component_status;
pub mod config_map;
pub mod endpoints;
pub mod namespace;
pub mod secret;
pub mod service;
pub mod service_account;
