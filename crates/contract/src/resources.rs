//! Limits and measurements of processor, memory and processes.

use serde::{Deserialize, Serialize};

/// Limits of a pod or container. Absent is "not limited" on creation and "leave as it is" on update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Relative weight as cgroup v1 counts it (2 to 262144; 1024 a core). Converted on cgroup v2.
    pub cpu_shares: Option<u64>,
    /// Microseconds of processor time a period; -1 lifts the limit.
    pub cpu_quota_us: Option<i64>,
    /// Length of the period in microseconds; 100,000 when absent.
    pub cpu_period_us: Option<u64>,
    /// Processors allowed, as the kernel writes lists (`0-2,7`).
    pub cpuset_cpus: Option<String>,
    /// Memory nodes allowed.
    pub cpuset_mems: Option<String>,
    /// Bytes of memory; -1 lifts the limit. Swap is limited to the same, that is: none.
    pub memory_limit_bytes: Option<i64>,
    /// Processes and threads; -1 lifts the limit.
    pub pids_limit: Option<i64>,
    /// Bytes of huge pages, by page size as the kernel names it (`2MB`). Ignored where the controller is missing.
    pub hugepage_limits: Vec<(String, u64)>,
}

/// The pod's quality of service: chooses the parent cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum QosClass {
    Guaranteed,
    Burstable,
    #[default]
    BestEffort,
}

/// What a container or pod uses now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub cpu: CpuStats,
    pub memory: MemoryStats,
    /// Processes and threads; 0 where the controller is missing.
    pub pids: u64,
}

/// Processor time used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Since the cgroup was made, in nanoseconds.
    pub usage_ns: u64,
    /// Periods in which the limit held processes back, and the time lost by it.
    pub throttled_periods: u64,
    pub throttled_ns: u64,
}

/// Memory used, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    pub usage_bytes: u64,
    /// Usage less the inactive page cache: what eviction looks at.
    pub working_set_bytes: u64,
    pub rss_bytes: u64,
    /// Zero when not limited.
    pub limit_bytes: u64,
    pub page_faults: u64,
    pub major_page_faults: u64,
}
