//! The group `policy`.

pub mod eviction;
pub mod pod_disruption_budget;
