//! What this machine is.

use std::fs;
use std::path::Path;

/// What a Node says of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub cpus: usize,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub architecture: &'static str,
    pub kernel: String,
    pub os_image: String,
    pub machine_id: String,
    pub system_uuid: String,
    pub boot_id: String,
}

impl Machine {
    /// Reads it from the system. What cannot be read is left empty.
    pub fn read(root: &Path) -> Machine {
        let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let disk = rustix::fs::statvfs(root).map(|fs| fs.f_blocks.saturating_mul(fs.f_frsize)).unwrap_or(0);
        let machine_id = line("/etc/machine-id");
        let system_uuid = line("/sys/class/dmi/id/product_uuid");
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory(&line("/proc/meminfo")),
            disk_bytes: disk,
            architecture: architecture(std::env::consts::ARCH),
            kernel: line("/proc/sys/kernel/osrelease"),
            os_image: pretty_name(&line("/etc/os-release")),
            system_uuid: if system_uuid.is_empty() { machine_id.clone() } else { system_uuid },
            machine_id,
            boot_id: line("/proc/sys/kernel/random/boot_id"),
        }
    }
}

/// As the API names it.
fn architecture(rust: &'static str) -> &'static str {
    match rust {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn memory(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

fn pretty_name(os_release: &str) -> String {
    let line = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or("Linux").trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(memory("MemTotal:       16 kB\nMemFree: 1 kB"), 16 << 10);
        assert_eq!(memory(""), 0);
        assert_eq!(pretty_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n"), "Debian GNU/Linux 13");
        assert!(Machine::read(Path::new("/")).cpus > 0);
    }
}
