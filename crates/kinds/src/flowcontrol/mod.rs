//! The group `flowcontrol.apiserver.k8s.io`: whose requests wait when there are too many.

pub mod flow_schema;
pub mod priority_level_configuration;

pub(crate) const GROUP: &str = "flowcontrol.apiserver.k8s.io";
