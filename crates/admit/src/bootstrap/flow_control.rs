//! Default priority levels and flow schemas of API priority and fairness.

use serde_json::{Value, json};

const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";

/// Name, shares, lendable percent and, when requests queue instead of being refused, queues and hand size.
type Level = (&'static str, u32, u32, Option<(u32, u32)>);

const LEVELS: &[Level] = &[
    ("catch-all", 5, 0, None),
    ("system", 30, 33, Some((64, 6))),
    ("node-high", 40, 25, Some((64, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
    ("global-default", 20, 50, Some((128, 6))),
];

const QUEUE_LENGTH: u32 = 50;

/// A flow schema: name, level, precedence, distinguisher, subjects, resource rules, paths.
struct Flow {
    name: &'static str,
    level: &'static str,
    precedence: u32,
    distinguisher: &'static str,
    subjects: &'static [&'static str],
    resources: &'static [Resources],
    paths: &'static [&'static str],
}

struct Resources {
    verbs: &'static [&'static str],
    groups: &'static [&'static str],
    resources: &'static [&'static str],
    cluster: bool,
}

const ALL: &[&str] = &["*"];
const EVERYTHING: &[Resources] = &[Resources { verbs: ALL, groups: ALL, resources: ALL, cluster: true }];
const EVERYBODY: &[&str] = &["group:system:unauthenticated", "group:system:authenticated"];

const FLOWS: &[Flow] = &[
    flow("exempt", "exempt", 1, "", &["group:system:masters"]),
    flow("catch-all", "catch-all", 10_000, "ByUser", EVERYBODY),
    flow("system-nodes", "system", 500, "ByUser", &["group:system:nodes"]),
    Flow {
        resources: &[
            Resources { verbs: ALL, groups: &[""], resources: &["nodes", "nodes/status"], cluster: true },
            Resources { verbs: ALL, groups: &["coordination.k8s.io"], resources: &["leases"], cluster: false },
        ],
        paths: &[],
        ..flow("system-node-high", "node-high", 400, "ByUser", &["group:system:nodes"])
    },
    Flow { resources: &[], paths: &["/healthz", "/readyz", "/livez"], ..flow("probes", "exempt", 2, "", EVERYBODY) },
    Flow {
        resources: &[Resources {
            verbs: &["get", "create", "update"],
            groups: &["coordination.k8s.io"],
            resources: &["leases"],
            cluster: false,
        }],
        paths: &[],
        ..flow(
            "system-leader-election",
            "leader-election",
            100,
            "ByUser",
            &["user:system:kube-controller-manager", "user:system:kube-scheduler", "sa:*"],
        )
    },
    flow("kube-controller-manager", "workload-high", 800, "ByNamespace", &["user:system:kube-controller-manager"]),
    flow("kube-scheduler", "workload-high", 800, "ByNamespace", &["user:system:kube-scheduler"]),
    flow("kube-system-service-accounts", "workload-high", 900, "ByNamespace", &["sa:*"]),
    flow("service-accounts", "workload-low", 9000, "ByUser", &["group:system:serviceaccounts"]),
    flow("global-default", "global-default", 9900, "ByUser", EVERYBODY),
];

const fn flow(
    name: &'static str,
    level: &'static str,
    precedence: u32,
    distinguisher: &'static str,
    subjects: &'static [&'static str],
) -> Flow {
    Flow { name, level, precedence, distinguisher, subjects, resources: EVERYTHING, paths: ALL }
}

/// All of them.
pub(super) fn objects() -> Vec<Value> {
    let exempt = level(
        "exempt",
        json!({"type": "Exempt", "exempt": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0,
        }}),
    );
    let limited = LEVELS.iter().map(|(name, shares, lendable, queues)| {
        let response = match queues {
            None => json!({"type": "Reject"}),
            Some((queues, hand)) => json!({"type": "Queue", "queuing": {
                "queues": queues, "handSize": hand, "queueLengthLimit": QUEUE_LENGTH,
            }}),
        };
        level(
            name,
            json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response,
            }}),
        )
    });
    std::iter::once(exempt).chain(limited).chain(FLOWS.iter().map(schema)).collect()
}

fn level(name: &str, spec: Value) -> Value {
    object("PriorityLevelConfiguration", name, spec)
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let annotations = json!({"apf.kubernetes.io/autoupdate-spec": "true"});
    json!({
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    })
}

fn schema(flow: &Flow) -> Value {
    let mut rules = json!({"subjects": flow.subjects.iter().map(|text| subject(text)).collect::<Vec<_>>()});
    if !flow.resources.is_empty() {
        rules["resourceRules"] = flow.resources.iter().map(resource_rule).collect();
    }
    if !flow.paths.is_empty() {
        let verbs = if flow.paths == ALL { "*" } else { "get" };
        rules["nonResourceRules"] = json!([{"verbs": [verbs], "nonResourceURLs": flow.paths}]);
    }
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": flow.level},
        "matchingPrecedence": flow.precedence,
        "rules": [rules],
    });
    if !flow.distinguisher.is_empty() {
        spec["distinguisherMethod"] = json!({"type": flow.distinguisher});
    }
    object("FlowSchema", flow.name, spec)
}

fn resource_rule(rule: &Resources) -> Value {
    let mut out = json!({
        "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources, "namespaces": ["*"],
    });
    if rule.cluster {
        out["clusterScope"] = json!(true);
    }
    out
}

fn subject(text: &str) -> Value {
    match text.split_once(':') {
        Some(("user", name)) => json!({"kind": "User", "user": {"name": name}}),
        Some(("sa", name)) => {
            json!({"kind": "ServiceAccount", "serviceAccount": {"name": name, "namespace": "kube-system"}})
        }
        Some((_, name)) => json!({"kind": "Group", "group": {"name": name}}),
        None => Value::Null,
    }
}
