//! What a node is told on the command line, with kubelet's names where it has one.

use std::path::PathBuf;
use std::time::Duration;

use server::{ImageLimits, NodeRole, Policy, Upkeep};

use crate::report::CommandError;

/// Options of a node.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of the node")]
pub struct NodeArgs {
    /// The parent of all control groups of pods, relative to the hierarchies' roots [default: one of the data directory's].
    #[arg(long, value_name = "PATH")]
    pub cgroup_root: Option<String>,
    /// How many pods the node takes.
    #[arg(long, default_value_t = server::PODS_MAX, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub max_pods: u64,
    /// Run the node's containers with the runtime behind this socket, which speaks CRI v1 (containerd, CRI-O), instead
    /// of the embedded one. Images are the runtime's then, and mirrors and logins of registries its own configuration.
    #[arg(long, value_name = "ENDPOINT", value_parser = socket)]
    pub cri: Option<PathBuf>,
    /// File that describes mirrors, logins and certificates of registries, in the form of k3s's registries.yaml [default:
    /// registries.yaml in the data directory, where there is one].
    #[arg(long, value_name = "FILE")]
    pub registries: Option<PathBuf>,
    /// Directory of manifests of pods that the node runs by itself [default: manifests in the data directory].
    #[arg(long, value_name = "DIR")]
    pub pod_manifests: Option<PathBuf>,
    /// When pods have to go at once [default: memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,
    /// imagefs.available<15%,imagefs.inodesFree<5%, but at most 2Gi of nodefs and 3Gi of imagefs].
    #[arg(long, value_name = "SIGNAL<AMOUNT,...>")]
    pub eviction_hard: Option<String>,
    /// When pods have to go after a while.
    #[arg(long, value_name = "SIGNAL<AMOUNT,...>")]
    pub eviction_soft: Option<String>,
    /// After how long a while.
    #[arg(long, value_name = "SIGNAL=TIME,...", default_value = "", hide_default_value = true)]
    pub eviction_soft_grace_period: String,
    /// How much more than the limit has to be free before it is over.
    #[arg(long, value_name = "SIGNAL=AMOUNT,...")]
    pub eviction_minimum_reclaim: Option<String>,
    /// How long the node says that it is short of something after it is over.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub eviction_pressure_transition_period: Duration,
    /// The most seconds that pods which go after a while are given to end.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub eviction_max_pod_grace_period: u64,
    /// From this percentage of the disk taken, unused images are removed [default: 85, once less than 6Gi are free]...
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub image_gc_high_threshold: Option<u8>,
    /// ...until this percentage is taken [default: 80, or 8Gi are free].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub image_gc_low_threshold: Option<u8>,
    /// Younger images are not removed.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time)]
    pub minimum_image_ttl_duration: Duration,
}

/// The socket of `unix:///run/containerd/containerd.sock`, or of a plain path.
fn socket(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix://").unwrap_or(text);
    if !path.starts_with('/') {
        return Err("an endpoint is a Unix socket, such as unix:///run/containerd/containerd.sock".to_owned());
    }
    Ok(PathBuf::from(path))
}

/// A span of time as Go writes it.
fn time(text: &str) -> Result<Duration, String> {
    let nanos = meta::duration::parse(text)?;
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| "must not be negative".to_owned())
}

impl NodeArgs {
    /// The node of this name.
    pub(crate) fn role(&self, name: String) -> Result<NodeRole, CommandError> {
        Ok(NodeRole {
            name,
            cgroup_root: self.cgroup_root.clone(),
            pods_max: self.max_pods,
            cri: self.cri.clone(),
            registries: self.registries.clone(),
            upkeep: self.upkeep().map_err(std::io::Error::other)?,
            manifests: self.pod_manifests.clone(),
        })
    }

    fn upkeep(&self) -> Result<Upkeep, String> {
        Ok(Upkeep { eviction: self.policy()?, images: self.images()? })
    }

    /// Whoever writes a percentage means it, on a disk of any size.
    fn images(&self) -> Result<ImageLimits, String> {
        let (high, low) = (self.image_gc_high_threshold, self.image_gc_low_threshold);
        let default = ImageLimits::default();
        let images = ImageLimits {
            high_percent: high.unwrap_or(default.high_percent),
            low_percent: low.unwrap_or(default.low_percent),
            spare: default.spare.filter(|_| high.is_none() && low.is_none()),
            age_min: self.minimum_image_ttl_duration,
        };
        if images.low_percent >= images.high_percent {
            return Err("--image-gc-low-threshold must be below --image-gc-high-threshold".to_owned());
        }
        Ok(images)
    }

    fn policy(&self) -> Result<Policy, String> {
        let of = |option: &'static str| move |why: String| format!("{option}: {why}");
        let mut policy = Policy::default();
        if let Some(hard) = &self.eviction_hard {
            policy.set_hard(hard).map_err(of("--eviction-hard"))?;
        }
        if let Some(soft) = &self.eviction_soft {
            policy.set_soft(soft, &self.eviction_soft_grace_period).map_err(of("--eviction-soft"))?;
        }
        if let Some(reclaim) = &self.eviction_minimum_reclaim {
            policy.set_reclaim(reclaim).map_err(of("--eviction-minimum-reclaim"))?;
        }
        policy.transition = self.eviction_pressure_transition_period;
        policy.soft_grace_max = Duration::from_secs(self.eviction_max_pod_grace_period);
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        node: NodeArgs,
    }

    #[test]
    fn a_node_is_told() {
        let check = |words: &[&str], expected: Result<usize, &str>| {
            let line = Line::try_parse_from([&["x"], words].concat()).expect("options");
            let found = line.node.upkeep().map(|upkeep| upkeep.eviction.thresholds.len());
            assert_eq!(found, expected.map_err(str::to_owned), "{words:?}");
        };
        check(&[], Ok(5));
        check(&["--eviction-hard", "memory.available<1Gi"], Ok(1));
        check(&["--eviction-hard", ""], Ok(0));
        check(&["--eviction-hard", "x<1"], Err("--eviction-hard: unsupported eviction signal x"));
        check(
            &["--eviction-soft", "memory.available<1Gi", "--eviction-soft-grace-period", "memory.available=30s"],
            Ok(6),
        );
        check(
            &["--image-gc-low-threshold", "90"],
            Err("--image-gc-low-threshold must be below --image-gc-high-threshold"),
        );
        let has_room = |words: &[&str]| {
            let line = Line::try_parse_from([&["x"], words].concat()).expect("options");
            line.node.images().expect("limits").spare.is_some()
        };
        assert!(has_room(&[]));
        assert!(!has_room(&["--image-gc-high-threshold", "85"]));
        assert!(!has_room(&["--image-gc-low-threshold", "80"]));
        assert!(Line::try_parse_from(["x", "--eviction-pressure-transition-period", "soon"]).is_err());
    }
}
