//! What is about nodes, roles, budgets and the paths to pods.

use serde_json::{Value, json};

use super::Draft;
use crate::plan::How;
use crate::world::AWAY;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

impl Draft {
    /// Budgets over the pods of other workloads, and evictions that they may refuse.
    pub(super) fn budgets(&self, namespace: &str) {
        let all = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
        for app in ["web-0", "rs", "db"] {
            let bound = if self.dice.percent(50) {
                json!({"minAvailable": self.dice.between(0, 3)})
            } else {
                json!({"maxUnavailable": self.dice.between(0, 2)})
            };
            let mut body = json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": format!("keep-{app}")},
                "spec": {"selector": {"matchLabels": {"app": app}}},
            });
            for (field, value) in bound.as_object().into_iter().flatten() {
                body["spec"][field] = value.clone();
            }
            let at = self.time(500) / 2;
            self.create(at, &all, &body);
            self.deletion(&format!("{all}/keep-{app}"), at, 15, &body);
        }
        for _ in 0..self.dice.between(2, 12) {
            self.pick(self.time(5_000), How::Evict, "core/pods", namespace);
        }
    }

    /// Nodes that users taint, and nodes that are taken away and given back.
    pub(super) fn nodes(&self, nodes: usize) {
        for _ in 0..self.dice.between(1, 3) {
            let node = self.dice.below(nodes as u64);
            let path = format!("/api/v1/nodes/simulated-{node}");
            let at = self.time(8_000);
            if self.dice.percent(60) {
                let effect = self.dice.pick(&["NoExecute", "NoSchedule"]).copied();
                let taint = json!({"key": AWAY, "value": "yes", "effect": effect});
                self.request(at, "PATCH", path.clone(), json!({"spec": {"taints": [taint]}}));
                if self.dice.percent(50) {
                    self.request(self.time(at), "PATCH", path, json!({"spec": {"taints": []}}));
                }
            } else {
                self.request(at, "DELETE", path, Value::Null);
                let body = agent::node_object(node as usize);
                let back = self.time(at) + 50_000 * self.dice.below(2);
                self.create(back.min(self.end_ms - 2_000), "/api/v1/nodes", &body);
            }
        }
    }

    /// A role that aggregates others, which come, change and go.
    pub(super) fn roles(&self, _: &str) {
        let role = |name: &str, labels: Value, verb: &str| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name, "labels": labels},
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}],
            })
        };
        let mut sum = role("sum", json!({}), "get");
        sum["rules"] = json!([]);
        sum["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"sim.setpoint.dev/part": "yes"}}]});
        self.create(self.time(500) / 2, ROLES, &sum);
        for index in 0..self.dice.between(1, 3) {
            let name = format!("part-{index}");
            let verb = self.dice.pick(&["get", "list", "watch"]).copied().unwrap_or("get");
            let body = role(&name, json!({"sim.setpoint.dev/part": "yes"}), verb);
            let (at, path) = (self.time(500) / 2, format!("{ROLES}/{name}"));
            self.create(at, ROLES, &body);
            self.changes(&path, at, 2, |draft| {
                let label = draft.dice.pick(&["yes", "no"]).copied();
                json!({"metadata": {"labels": {"sim.setpoint.dev/part": label}}})
            });
            self.deletion(&path, at, 30, &body);
        }
    }

    /// A Service without selector whose Endpoints a user writes.
    pub(super) fn mirrored(&self, namespace: &str) {
        let (services, all) =
            (format!("/api/v1/namespaces/{namespace}/services"), format!("/api/v1/namespaces/{namespace}/endpoints"));
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "outside"},
            "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
        });
        let addresses = |draft: &Draft| {
            let ips =
                (0..draft.dice.between(0, 3)).map(|_| json!({"ip": format!("192.0.2.{}", draft.dice.between(1, 9))}));
            let ips: std::collections::BTreeMap<String, Value> = ips.map(|ip| (ip.to_string(), ip)).collect();
            match ips.is_empty() {
                true => json!([]),
                false => json!([{"addresses": ips.into_values().collect::<Vec<_>>(), "ports": [{"port": 8080}]}]),
            }
        };
        let body = json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "outside"}, "subsets": addresses(self),
        });
        let at = self.time(500) / 2;
        self.create(self.time(500) / 2, &services, &service);
        self.create(at, &all, &body);
        self.changes(&format!("{all}/outside"), at, 4, |draft| json!({"subsets": addresses(draft)}));
        self.deletion(&format!("{all}/outside"), at, 25, &body);
        self.deletion(&format!("{services}/outside"), at, 25, &service);
    }
}
