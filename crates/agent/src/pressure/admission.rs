//! Whether a node that is short of something takes a new pod.

use brain::facts::{self, Taint};
use kinds::pod::resources::qos_class;
use serde_json::Value;

use super::{EVICTED, Pressure, Pressures, is_critical};
use crate::pod::Verdict;

/// Why the pod is not taken; `facts` are those of `pod`.
pub fn refusal(pressures: &Pressures, pod: &Value, facts: &facts::Pod) -> Option<Verdict> {
    if pressures.is_empty() || is_critical(pod) {
        return None;
    }
    if pressures.iter().eq([&Pressure::Memory]) {
        let taint =
            Taint { key: "node.kubernetes.io/memory-pressure".into(), effect: "NoSchedule".into(), ..Taint::default() };
        let tolerates = facts.spec.tolerations.iter().any(|toleration| toleration.tolerates(&taint));
        if tolerates || qos_class(&pod["spec"]) != "BestEffort" {
            return None;
        }
    }
    let all: Vec<&str> = pressures.iter().map(|pressure| pressure.type_()).collect();
    let message = format!("Pod was rejected: The node had condition: [{}]. ", all.join(" "));
    Some(Verdict { reason: EVICTED.to_owned(), message, ..Verdict::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use brain::facts::Fact;
    use serde_json::json;

    #[test]
    fn who_is_taken() {
        let check = |pressures: &[Pressure], spec: Value, expected: &str| {
            let pod = json!({ "spec": spec });
            let facts = facts::Pod::read(pod.to_string().as_bytes());
            let found = refusal(&pressures.iter().copied().collect(), &pod, &facts);
            assert_eq!(found.map(|verdict| verdict.message).unwrap_or_default(), expected, "{pressures:?} {pod}");
        };
        let asks = json!({"containers": [{"resources": {"requests": {"memory": "1Mi"}}}]});
        let nothing = json!({"containers": [{}]});
        let tolerates = |key: &str| json!({"containers": [{}], "tolerations": [{"key": key, "operator": "Exists"}]});
        let memory = "Pod was rejected: The node had condition: [MemoryPressure]. ";
        check(&[], nothing.clone(), "");
        check(&[Pressure::Memory], nothing.clone(), memory);
        check(&[Pressure::Memory], asks.clone(), "");
        check(&[Pressure::Memory], tolerates("node.kubernetes.io/memory-pressure"), "");
        check(&[Pressure::Memory], tolerates("node.kubernetes.io/disk-pressure"), memory);
        check(&[Pressure::Disk], asks.clone(), "Pod was rejected: The node had condition: [DiskPressure]. ");
        check(&[Pressure::Pid], asks.clone(), "Pod was rejected: The node had condition: [PIDPressure]. ");
        let both = "Pod was rejected: The node had condition: [MemoryPressure DiskPressure]. ";
        check(&[Pressure::Disk, Pressure::Memory], asks, both);
        check(&[Pressure::Disk], json!({"priority": 2_000_000_000, "containers": [{}]}), "");
    }
}
