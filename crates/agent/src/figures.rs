//! What the kernel is told of a container's resources.

use meta::{ObjectExt, Quantity};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Shares of a container that asks for nothing, and the most the kernel takes.
const SHARES_MIN: i64 = 2;
const SHARES_MAX: i64 = 262_144;
const SHARES_PER_CPU: i64 = 1_024;
/// The span that a quota is for, and the least quota, in microseconds.
const PERIOD_MICROS: i64 = 100_000;
const QUOTA_MIN_MICROS: i64 = 1_000;
/// From this priority on, a pod is vital for its node.
const CRITICAL: i64 = 2_000_000_000;

/// Figures of one cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// `cpu.shares`, as the container runtime interface has them.
    pub cpu_shares: i64,
    /// Microseconds of processor per period; `None` without a limit.
    pub cpu_quota: Option<i64>,
    /// The period.
    pub cpu_period: i64,
    /// Bytes; `None` without a limit.
    pub memory_max: Option<i64>,
}

impl Figures {
    /// From the `resources` of a container or pod.
    pub fn of(resources: &Value) -> Figures {
        let read = |list: &str, name: &str| {
            resources.at(&[list, name]).and_then(|value| Quantity::from_value(value).ok()).filter(|q| !q.is_zero())
        };
        let cpu_limit = read("limits", "cpu").map(|limit| limit.milli());
        let cpu_request = read("requests", "cpu").map(|request| request.milli()).or(cpu_limit);
        Figures {
            cpu_shares: shares(cpu_request.unwrap_or(0)),
            cpu_quota: cpu_limit.map(quota),
            cpu_period: PERIOD_MICROS,
            memory_max: read("limits", "memory").map(|limit| limit.units()),
        }
    }

    /// The larger of each: room for both, on the way from one to the other.
    pub fn or_more(self, other: Figures) -> Figures {
        Figures {
            cpu_shares: self.cpu_shares.max(other.cpu_shares),
            cpu_quota: self.cpu_quota.zip(other.cpu_quota).map(|(a, b)| a.max(b)),
            memory_max: self.memory_max.zip(other.memory_max).map(|(a, b)| a.max(b)),
            ..self
        }
    }

    /// Of a whole pod: together, with limits only where every container has one.
    pub fn of_pod(spec: &Value) -> Figures {
        if spec.at(&["resources", "limits"]).or(spec.at(&["resources", "requests"])).is_some() {
            return Figures::of(&spec["resources"]);
        }
        let is_sidecar = |c: &&Value| c.text(&["restartPolicy"]) == "Always";
        let lasting = spec.items(&["initContainers"]).iter().filter(is_sidecar).chain(spec.items(&["containers"]));
        let all: Vec<Figures> = lasting.map(|container| Figures::of(&container["resources"])).collect();
        let passing = spec.items(&["initContainers"]).iter().map(|init| Figures::of(&init["resources"]));
        let mut together = Figures {
            cpu_shares: all.iter().map(|f| if f.cpu_shares > SHARES_MIN { f.cpu_shares } else { 0 }).sum(),
            cpu_quota: all.iter().map(|figures| figures.cpu_quota).sum(),
            cpu_period: PERIOD_MICROS,
            memory_max: all.iter().map(|figures| figures.memory_max).sum(),
        };
        for init in passing {
            together.cpu_shares = together.cpu_shares.max(init.cpu_shares);
            together.cpu_quota = together.cpu_quota.zip(init.cpu_quota).map(|(a, b)| a.max(b));
            together.memory_max = together.memory_max.zip(init.memory_max).map(|(a, b)| a.max(b));
        }
        together.cpu_shares = together.cpu_shares.clamp(SHARES_MIN, SHARES_MAX);
        together
    }
}

fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(SHARES_PER_CPU) / 1_000).clamp(SHARES_MIN, SHARES_MAX)
}

fn quota(milli: i64) -> i64 {
    (milli.saturating_mul(PERIOD_MICROS) / 1_000).max(QUOTA_MIN_MICROS)
}

/// `oom_score_adj` of a container: who asks for much memory is killed late.
pub fn oom_score_adj(pod: &Value, container: &Value, memory_of_node: i64) -> i64 {
    let spec = &pod["spec"];
    if spec.int(&["priority"]).unwrap_or(0) >= CRITICAL {
        return -997;
    }
    match kinds::pod::resources::qos_class(spec) {
        "Guaranteed" => -997,
        "BestEffort" => 1_000,
        _ => {
            let request = container.at(&["resources", "requests", "memory"]);
            let bytes = request.and_then(|value| Quantity::from_value(value).ok()).map_or(0, |q| q.units());
            let score = 1_000 - (i128::from(bytes) * 1_000 / i128::from(memory_of_node.max(1))) as i64;
            // Room is kept below for guaranteed pods and above for those that ask for nothing.
            score.clamp(3, 999)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_a_container() {
        let check = |resources: Value, shares: i64, quota: Option<i64>, memory: Option<i64>| {
            let found = Figures::of(&resources);
            assert_eq!((found.cpu_shares, found.cpu_quota, found.memory_max), (shares, quota, memory), "{resources}");
        };
        check(json!({}), 2, None, None);
        check(json!({"requests": {"cpu": "500m"}}), 512, None, None);
        check(json!({"limits": {"cpu": "2", "memory": "64Mi"}}), 2048, Some(200_000), Some(64 << 20));
        check(json!({"limits": {"cpu": "1m"}}), 2, Some(1_000), None);
    }

    #[test]
    fn of_a_pod() {
        let one = json!({"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Mi"}}});
        let other = json!({"resources": {"limits": {"cpu": "1", "memory": "1Mi"}}});
        let found = Figures::of_pod(&json!({"containers": [one, other]}));
        assert_eq!((found.cpu_shares, found.cpu_quota, found.memory_max), (2048, None, Some(2 << 20)));
    }

    #[test]
    fn who_is_killed_first() {
        let check = |resources: Value, expected: i64| {
            let container = json!({"resources": resources});
            let pod = json!({"spec": {"containers": [container]}});
            assert_eq!(oom_score_adj(&pod, &container, 1 << 30), expected, "{resources}");
        };
        check(json!({}), 1_000);
        check(json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}), -997);
        check(json!({"requests": {"memory": "512Mi"}}), 500);
        check(json!({"requests": {"memory": "1"}}), 999);
        check(json!({"requests": {"memory": "8Gi"}}), 3);
    }
}
