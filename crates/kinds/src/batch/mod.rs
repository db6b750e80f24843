//! The group `batch`: work that ends.

pub mod cron_job;
pub mod job;
pub mod schedule;
