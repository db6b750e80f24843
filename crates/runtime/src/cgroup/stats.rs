//! Reading what a group uses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use contract::{CpuStats, MemoryStats, Stats};

/// A limit at or above this is none: version 1 shows the largest page-aligned number.
const UNLIMITED_FROM: u64 = 1 << 62;

/// The number after `name` in a file of lines `name number`.
pub(super) fn field(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

fn number(path: &Path) -> u64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

pub(super) fn v1(mounts: &BTreeMap<String, PathBuf>, path: &str) -> Stats {
    let file = |controller: &str, name: &str| {
        mounts.get(controller).map(|root| root.join(path).join(name)).unwrap_or_default()
    };
    let memory = file("memory", "memory.stat");
    let usage = number(&file("memory", "memory.usage_in_bytes"));
    let limit = number(&file("memory", "memory.limit_in_bytes"));
    let cpu = file("cpu", "cpu.stat");
    Stats {
        cpu: CpuStats {
            usage_ns: number(&file("cpuacct", "cpuacct.usage")),
            throttled_periods: field(&cpu, "nr_throttled").unwrap_or(0),
            throttled_ns: field(&cpu, "throttled_time").unwrap_or(0),
        },
        memory: MemoryStats {
            usage_bytes: usage,
            working_set_bytes: usage.saturating_sub(field(&memory, "total_inactive_file").unwrap_or(0)),
            rss_bytes: field(&memory, "total_rss").unwrap_or(0),
            limit_bytes: if limit >= UNLIMITED_FROM { 0 } else { limit },
            page_faults: field(&memory, "total_pgfault").unwrap_or(0),
            major_page_faults: field(&memory, "total_pgmajfault").unwrap_or(0),
        },
        pids: number(&file("pids", "pids.current")),
    }
}

pub(super) fn v2(dir: &Path) -> Stats {
    let (cpu, memory) = (dir.join("cpu.stat"), dir.join("memory.stat"));
    let usage = number(&dir.join("memory.current"));
    let micros = |name: &str| field(&cpu, name).unwrap_or(0).saturating_mul(1000);
    Stats {
        cpu: CpuStats {
            usage_ns: micros("usage_usec"),
            throttled_periods: field(&cpu, "nr_throttled").unwrap_or(0),
            throttled_ns: micros("throttled_usec"),
        },
        memory: MemoryStats {
            usage_bytes: usage,
            working_set_bytes: usage.saturating_sub(field(&memory, "inactive_file").unwrap_or(0)),
            rss_bytes: field(&memory, "anon").unwrap_or(0),
            // `max`, which is no number, is no limit.
            limit_bytes: number(&dir.join("memory.max")),
            page_faults: field(&memory, "pgfault").unwrap_or(0),
            major_page_faults: field(&memory, "pgmajfault").unwrap_or(0),
        },
        pids: number(&dir.join("pids.current")),
    }
}
