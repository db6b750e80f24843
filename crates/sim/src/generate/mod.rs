//! Plans from seeds: which workloads there are, what users do to them, and what goes wrong. Every class of fault is on
//! in half of the seeds and its rate drawn anew, so that each is met alone, in pairs and in company.

mod cluster;
mod storage;

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::plan::{Entry, Fate, How, Medium, Plan, What};

/// The longest chaos phase.
const CHAOS_MS_MAX: u64 = 240_000;
const NAMESPACES: [&str; 2] = ["a", "b"];
const MERGE: &str = "application/merge-patch+json";

/// One kind of workload: its name, the controllers that it needs, and what makes it.
type Workload = (&'static str, &'static [&'static str], fn(&Draft, &str));

const WORKLOADS: &[Workload] = &[
    ("deployment", &["deployment", "replicaset"], Draft::deployments),
    ("replicaset", &["replicaset"], Draft::replica_sets),
    ("replication", &["replication"], Draft::replication_controllers),
    ("statefulset", &["statefulset"], Draft::stateful_sets),
    ("daemon-set", &["daemon-set"], Draft::daemon_sets),
    ("job", &["job"], Draft::jobs),
    ("cronjob", &["cronjob", "job"], Draft::cron_jobs),
    ("service", &["endpoint", "endpointslice"], Draft::services),
    ("configmap", &["generic-garbage-collector"], Draft::config_maps),
    ("namespace", &["namespace"], Draft::namespaces),
    ("custom", &["crd-naming", "crd-finalizer"], Draft::custom),
    ("quota", &["replicaset"], Draft::quotas),
    ("budget", &["disruption"], Draft::budgets),
    ("roles", &["clusterrole-aggregation"], Draft::roles),
    ("mirrored", &["endpointslicemirroring"], Draft::mirrored),
    ("claims", &["persistent-volume-binder"], Draft::claims),
];

struct Draft {
    dice: Dice,
    end_ms: u64,
    entries: std::cell::RefCell<Vec<Entry>>,
}

/// The plan of a seed; `rooms` are the controllers that take part.
pub fn generate(seed: u64, rooms: &[String]) -> Plan {
    let dice = Dice::about(seed, "plan", 0);
    let end_ms = dice.between(30_000, CHAOS_MS_MAX);
    let nodes = dice.between(1, 4) as usize;
    let medium = if dice.percent(35) { Medium::Disk } else { Medium::Memory };
    let apart = dice.percent(50);
    let draft = Draft { dice, end_ms, entries: std::cell::RefCell::default() };
    draft.workloads(rooms);
    if draft.dice.percent(20) {
        draft.nodes(nodes);
    }
    draft.faults(rooms, nodes, medium);
    let fates = [Fate::Stays, Fate::Stays, Fate::Tainted, Fate::Goes];
    let last_node = draft.dice.pick(&fates).copied().filter(|_| nodes > 1).unwrap_or_default();
    let mut entries = draft.entries.into_inner();
    entries.sort_by_key(|entry| entry.at_ms);
    Plan { seed, nodes, medium, apart, quiet_at_ms: end_ms, last_node, entries }
}

impl Draft {
    fn at(&self, at_ms: u64, what: What) {
        self.entries.borrow_mut().push(Entry { at_ms, what });
    }

    /// Some time in the chaos phase, after `from`.
    fn time(&self, from: u64) -> u64 {
        self.dice.between(from.min(self.end_ms - 1), self.end_ms - 1)
    }

    fn request(&self, at: u64, method: &str, path: String, body: Value) {
        let content_type = if method == "PATCH" { MERGE.to_owned() } else { String::new() };
        let by = if self.dice.percent(70) { "kubectl" } else { "rival" }.to_owned();
        self.at(at, What::Request { by, method: method.to_owned(), path, content_type, body });
    }

    /// Creates an object, and again later in case the first try was lost.
    fn create(&self, at: u64, path: &str, body: &Value) {
        self.request(at, "POST", path.to_owned(), body.clone());
        self.request(at + 1_500, "POST", path.to_owned(), body.clone());
    }

    fn pick(&self, at: u64, how: How, collection: &str, namespace: &str) {
        let (collection, namespace) = (collection.to_owned(), namespace.to_owned());
        self.at(at, What::Pick { how, collection, namespace, which: self.dice.below(1_000) });
    }

    fn workloads(&self, rooms: &[String]) {
        let has = |needs: &&[&str]| needs.iter().all(|need| rooms.iter().any(|room| room == need));
        for namespace in NAMESPACES {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.create(0, "/api/v1/namespaces", &body);
        }
        let mut any = false;
        for (_, needs, make) in WORKLOADS.iter().filter(|(_, needs, _)| has(needs)) {
            if self.dice.percent(30) || (needs.len() == 2 && needs[0] == "deployment" && self.dice.percent(40)) {
                any = true;
                make(self, NAMESPACES[self.dice.below(2) as usize]);
            }
        }
        if !any {
            self.replica_sets("a");
        }
        for _ in 0..self.dice.below(5) {
            let how = [How::Delete, How::Delete, How::Unlabel, How::Touch, How::Hold];
            let how = self.dice.pick(&how).copied().unwrap_or(How::Delete);
            self.pick(self.time(5_000), how, "core/pods", NAMESPACES[self.dice.below(2) as usize]);
        }
    }

    fn template(&self, app: &str, restarts: bool) -> Value {
        let mut annotations = json!({});
        let spans = ["0s", "1s", "3s", "10s"];
        for rule in ["start-delay", "ready-delay", "stop-delay"] {
            if self.dice.percent(40) {
                annotations[format!("simulated.setpoint.dev/{rule}")] = json!(self.dice.pick(&spans));
            }
        }
        if !restarts && self.dice.percent(30) {
            annotations["simulated.setpoint.dev/exit-code"] = json!("1");
        }
        let policy = if restarts { "Always" } else { "Never" };
        json!({
            "metadata": {"labels": {"app": app}, "annotations": annotations},
            "spec": {
                "restartPolicy": policy, "terminationGracePeriodSeconds": self.dice.between(1, 30),
                "containers": [{"name": "c", "image": self.image()}],
            },
        })
    }

    fn image(&self) -> String {
        if self.dice.percent(12) { "web:404".to_owned() } else { format!("web:{}", self.dice.below(4)) }
    }

    fn changes(&self, path: &str, from: u64, most: u64, change: impl Fn(&Draft) -> Value) {
        for _ in 0..self.dice.between(0, most) {
            self.request(self.time(from), "PATCH", path.to_owned(), change(self));
        }
    }

    /// Deletes an object, and now and then makes it again under the same name soon after.
    fn deletion(&self, path: &str, from: u64, percent: u64, body: &Value) {
        if self.dice.percent(percent) {
            let at = self.time(from + 2_000);
            if let Some((all, _)) = path.rsplit_once('/').filter(|_| self.dice.percent(50)) {
                for after in [100, 2_000, 15_000] {
                    self.request((at + after).min(self.end_ms - 1), "POST", all.to_owned(), body.clone());
                }
            }
            let policy = self.dice.pick(&["Background", "Foreground", "Orphan"]).copied();
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
            self.request(at, "DELETE", path.to_owned(), options);
        }
    }

    fn image_change(&self) -> Value {
        json!({"spec": {"template": {"metadata": {"annotations": {"turn": self.dice.below(9).to_string()}},
            "spec": {"containers": [{"name": "c", "image": self.image()}]}}}})
    }

    fn deployments(&self, namespace: &str) {
        for index in 0..self.dice.between(1, 2) {
            let (name, at) = (format!("web-{index}"), self.time(1_000) / 2);
            let strategy = match self.dice.below(4) {
                0 => json!({"type": "Recreate"}),
                1 => json!({"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}),
                2 => json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
                _ => json!({}),
            };
            let body = json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
                "spec": {
                    "replicas": self.dice.between(0, 6), "progressDeadlineSeconds": 60,
                    "revisionHistoryLimit": self.dice.between(0, 3), "strategy": strategy,
                    "selector": {"matchLabels": {"app": name}}, "template": self.template(&name, true),
                },
            });
            let all = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
            let path = format!("{all}/{name}");
            self.create(at, &all, &body);
            self.changes(&path, at, 4, |draft| json!({"spec": {"replicas": draft.dice.between(0, 8)}}));
            self.changes(&path, at, 4, Draft::image_change);
            if self.dice.percent(25) {
                self.changes(&path, at, 2, |draft| json!({"spec": {"paused": draft.dice.percent(50)}}));
            }
            self.fight(&path, at);
            self.deletion(&path, at, 25, &body);
            if self.dice.percent(20) {
                self.pick(self.time(at), How::DeleteOrphan, "apps/replicasets", namespace);
            }
        }
    }

    /// Two managers that want different sizes.
    fn fight(&self, path: &str, from: u64) {
        if !self.dice.percent(15) {
            return;
        }
        let start = self.time(from);
        for round in 0..self.dice.between(4, 20) {
            let body = json!({"spec": {"replicas": 2 + 3 * (round % 2)}});
            let at = (start + round * 700).min(self.end_ms - 1);
            self.request(at, "PATCH", path.to_owned(), body);
        }
    }

    fn replica_sets(&self, namespace: &str) {
        let at = self.time(1_000) / 2;
        let body = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"},
            "spec": {
                "replicas": self.dice.between(1, 8), "selector": {"matchLabels": {"app": "rs"}},
                "template": self.template("rs", true),
            },
        });
        let all = format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
        self.create(at, &all, &body);
        self.changes(&format!("{all}/rs"), at, 5, |draft| json!({"spec": {"replicas": draft.dice.between(0, 10)}}));
        self.deletion(&format!("{all}/rs"), at, 30, &body);
    }

    fn replication_controllers(&self, namespace: &str) {
        let at = self.time(1_000) / 2;
        let body = json!({
            "apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "rc"},
            "spec": {
                "replicas": self.dice.between(1, 5), "selector": {"app": "rc"}, "template": self.template("rc", true),
            },
        });
        let all = format!("/api/v1/namespaces/{namespace}/replicationcontrollers");
        self.create(at, &all, &body);
        self.changes(&format!("{all}/rc"), at, 4, |draft| json!({"spec": {"replicas": draft.dice.between(0, 6)}}));
        self.deletion(&format!("{all}/rc"), at, 30, &body);
    }

    fn stateful_sets(&self, namespace: &str) {
        let at = self.time(1_000) / 2;
        let policy = if self.dice.percent(50) { "OrderedReady" } else { "Parallel" };
        let mut body = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {
                "replicas": self.dice.between(1, 4), "serviceName": "db", "podManagementPolicy": policy,
                "selector": {"matchLabels": {"app": "db"}}, "template": self.template("db", true),
            },
        });
        if self.dice.percent(35) {
            self.volumes(self.dice.between(2, 6));
            body["spec"]["volumeClaimTemplates"] = json!([{
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }]);
            let fate = || self.dice.pick(&["Retain", "Delete"]).copied();
            body["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": fate(), "whenScaled": fate()});
        }
        if self.dice.percent(20) {
            body["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        }
        let all = format!("/apis/apps/v1/namespaces/{namespace}/statefulsets");
        let path = format!("{all}/db");
        self.create(at, &all, &body);
        self.changes(&path, at, 3, |draft| json!({"spec": {"replicas": draft.dice.between(0, 5)}}));
        self.changes(&path, at, 2, Draft::image_change);
        self.deletion(&path, at, 25, &body);
    }

    fn daemon_sets(&self, namespace: &str) {
        let at = self.time(1_000) / 2;
        let body = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": self.template("agent", true)},
        });
        let all = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets");
        self.create(at, &all, &body);
        self.changes(&format!("{all}/agent"), at, 3, Draft::image_change);
        self.deletion(&format!("{all}/agent"), at, 25, &body);
    }

    fn job_spec(&self) -> Value {
        let mut spec = json!({
            "completions": self.dice.between(1, 5), "parallelism": self.dice.between(1, 3),
            "backoffLimit": self.dice.between(0, 2), "template": self.template("job", false),
        });
        if self.dice.percent(30) {
            spec["completionMode"] = json!("Indexed");
            if self.dice.percent(40) {
                spec["backoffLimitPerIndex"] = json!(self.dice.below(2));
            }
        }
        if self.dice.percent(25) {
            spec["ttlSecondsAfterFinished"] = json!(self.dice.between(0, 60));
        }
        if self.dice.percent(20) {
            spec["activeDeadlineSeconds"] = json!(self.dice.between(1, 60));
        }
        if self.dice.percent(20) {
            spec["podReplacementPolicy"] = json!("Failed");
        }
        if self.dice.percent(20) {
            let action = self.dice.pick(&["FailJob", "Ignore", "Count"]).copied();
            spec["podFailurePolicy"] = json!({"rules": [{
                "action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
            }]});
            spec["podReplacementPolicy"] = json!("Failed");
        }
        spec
    }

    fn jobs(&self, namespace: &str) {
        let at = self.time(1_000) / 2;
        let mut spec = self.job_spec();
        if self.dice.percent(25) {
            // No node takes its pods: they end unbound.
            spec["template"]["spec"]["nodeSelector"] = json!({"sim.setpoint.dev/nowhere": "yes"});
            spec["podReplacementPolicy"] = json!("Failed");
            spec["activeDeadlineSeconds"] = json!(self.dice.between(20, 90));
        }
        let body = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "task"}, "spec": spec,
        });
        let all = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
        self.create(at, &all, &body);
        self.changes(&format!("{all}/task"), at, 2, |draft| json!({"spec": {"suspend": draft.dice.percent(40)}}));
        self.deletion(&format!("{all}/task"), at, 25, &body);
    }

    fn cron_jobs(&self, namespace: &str) {
        let at = self.time(1_000) / 2;
        let body = json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
            "spec": {
                "schedule": "* * * * *", "concurrencyPolicy": self.dice.pick(&["Allow", "Forbid", "Replace"]),
                "suspend": self.dice.percent(40),
                "jobTemplate": {"spec": self.job_spec()},
            },
        });
        let all = format!("/apis/batch/v1/namespaces/{namespace}/cronjobs");
        self.create(at, &all, &body);
        self.deletion(&format!("{all}/tick"), at, 25, &body);
    }

    fn services(&self, namespace: &str) {
        for app in ["web-0", "rs", "db"] {
            let at = self.time(500) / 2;
            let body = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("to-{app}")},
                "spec": {"selector": {"app": app}, "clusterIP": "None", "ports": [{"port": 80, "targetPort": 8080}]},
            });
            let all = format!("/api/v1/namespaces/{namespace}/services");
            let path = format!("{all}/to-{app}");
            self.create(at, &all, &body);
            self.changes(
                &path,
                at,
                1,
                |draft| json!({"spec": {"selector": {"app": draft.dice.pick(&["web-0", "web-1", "rs", "rc"])}}}),
            );
            self.deletion(&path, at, 20, &body);
        }
        if self.dice.percent(30) {
            self.pick(self.time(2_000), How::Delete, "core/endpoints", namespace);
            self.pick(self.time(2_000), How::Delete, "discovery.k8s.io/endpointslices", namespace);
        }
    }

    fn config_maps(&self, namespace: &str) {
        let all = format!("/api/v1/namespaces/{namespace}/configmaps");
        let at = self.time(500) / 2;
        for index in 0..self.dice.between(1, 3) {
            let body = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("cm-{index}")},
                "data": {"k": "v"},
            });
            self.create(at, &all, &body);
        }
        for _ in 0..self.dice.between(1, 3) {
            let hows = [How::Hold, How::Delete, How::DeleteForeground, How::DeleteOrphan];
            let how = self.dice.pick(&hows).copied().unwrap_or(How::Hold);
            self.pick(self.time(at), how, "core/configmaps", namespace);
        }
    }

    fn namespaces(&self, namespace: &str) {
        let at = self.time(10_000);
        self.request(at, "DELETE", format!("/api/v1/namespaces/{namespace}"), Value::Null);
        if self.dice.percent(50) {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.create(self.time(at), "/api/v1/namespaces", &body);
        }
    }

    fn custom(&self, namespace: &str) {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let body = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.sim.setpoint.dev"},
            "spec": {
                "group": "sim.setpoint.dev", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        let at = self.time(500) / 2;
        self.create(at, definitions, &body);
        for index in 0..self.dice.between(1, 4) {
            let widget = json!({
                "apiVersion": "sim.setpoint.dev/v1", "kind": "Widget", "metadata": {"name": format!("w-{index}")},
                "spec": {"size": index},
            });
            let path = format!("/apis/sim.setpoint.dev/v1/namespaces/{namespace}/widgets");
            self.create((at + 3_000 + index * 500).min(self.end_ms - 1), &path, &widget);
        }
        if self.dice.percent(30) {
            self.pick(self.time(at + 4_000), How::Hold, "sim.setpoint.dev/widgets", namespace);
        }
        self.deletion(&format!("{definitions}/widgets.sim.setpoint.dev"), at + 3_000, 50, &body);
    }

    /// Every part restarts, one after the other, as in an upgrade.
    fn upgrade(&self, rooms: &[String]) {
        let (start, step) = (self.time(3_000), self.dice.between(200, 2_000));
        for (index, room) in rooms.iter().enumerate() {
            let at = (start + index as u64 * step).min(self.end_ms - 1);
            let down_ms = self.dice.between(1, step * 2);
            self.at(at, What::Crash { room: room.clone(), after_messages: 0, down_ms });
        }
        self.at((start + step).min(self.end_ms - 1), What::ServerCrash { power: false, down_ms: step });
    }

    fn quotas(&self, namespace: &str) {
        let body = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
            "spec": {"hard": {"pods": self.dice.between(2, 12).to_string()}},
        });
        self.create(self.time(200) / 3, &format!("/api/v1/namespaces/{namespace}/resourcequotas"), &body);
    }

    fn faults(&self, rooms: &[String], nodes: usize, medium: Medium) {
        let room = || self.dice.pick(rooms).cloned().unwrap_or_default();
        let on = || self.dice.percent(50);
        if on() {
            for _ in 0..self.dice.logarithmic(1, 5) {
                let what = What::Network {
                    for_ms: self.dice.logarithmic(1_000, 60_000),
                    room: self.dice.percent(60).then(room),
                    lost: self.dice.logarithmic(1, 30),
                    unanswered: self.dice.logarithmic(1, 30),
                    doubled: self.dice.below(10),
                    delay_ms: self.dice.logarithmic(1, 5_000),
                };
                self.at(self.time(0), what);
            }
        }
        if on() {
            for _ in 0..self.dice.logarithmic(1, 8) {
                let (for_ms, lag_ms) = (self.dice.logarithmic(1_000, 90_000), self.dice.logarithmic(50, 60_000));
                let at = self.time(0);
                self.at(at, What::Lag { room: room(), for_ms, lag_ms });
                // History goes away under a view that is behind.
                if self.dice.percent(30) {
                    self.at((at + for_ms / 2).min(self.end_ms - 1), What::Compact);
                }
            }
        }
        if on() {
            for _ in 0..self.dice.logarithmic(1, 20) {
                let (after_messages, down_ms) = (self.dice.below(8), self.dice.logarithmic(1, 20_000));
                self.at(self.time(0), What::Crash { room: room(), after_messages, down_ms });
            }
        }
        if self.dice.percent(30) {
            self.at(self.time(0), What::Pause { room: room(), for_ms: self.dice.logarithmic(100, 60_000) });
        }
        if self.dice.percent(20) {
            self.at(self.time(0), What::Twin { room: room(), for_ms: self.dice.logarithmic(1_000, 60_000) });
        }
        if on() {
            for _ in 0..self.dice.logarithmic(1, 4) {
                let power = medium == Medium::Disk && self.dice.percent(60);
                self.at(self.time(1_000), What::ServerCrash { power, down_ms: self.dice.logarithmic(10, 20_000) });
            }
        }
        if self.dice.percent(30) {
            let node = self.dice.below(nodes as u64) as usize;
            self.at(self.time(1_000), What::NodeDown { node, for_ms: self.dice.logarithmic(1_000, 120_000) });
        }
        if self.dice.percent(20) {
            let by_ms = self.dice.between(0, 120_000) as i64 - 60_000;
            self.at(self.time(1_000), What::ClockJump { by_ms });
        }
        if self.dice.percent(10) {
            self.upgrade(rooms);
        }
        if self.dice.percent(30) {
            self.at(self.time(1_000), What::Compact);
        }
        if medium == Medium::Disk && self.dice.percent(30) {
            let (syncs, appends) =
                if self.dice.percent(50) { (self.dice.between(1, 30), 0) } else { (0, self.dice.between(1, 60)) };
            let down_ms = self.dice.logarithmic(10, 10_000);
            self.at(self.time(1_000), What::DiskFault { syncs, appends, down_ms });
        }
        if medium == Medium::Disk && on() {
            let (for_ms, sync_ms) = (self.dice.logarithmic(1_000, 60_000), self.dice.logarithmic(1, 1_000));
            self.at(self.time(0), What::SlowDisk { for_ms, sync_ms });
        }
    }
}
