//! Every controller, struck at every one of its writes in every scenario, ends where it ends undisturbed.
//!
//! A scenario is a world and what users and nodes do to it, stage by stage. It is played once undisturbed, which says how
//! many writes there are and what the end is; then once for every write and every fault.

use brain::Propagation;
use meta::ObjectExt;
use serde_json::{Value, json};

use crate::rig::{Fault, World};

/// What happens to the world before the controllers run again.
type Stage = fn(&mut World);

struct Scenario {
    name: &'static str,
    /// The controllers in the world; the first is the one it is about.
    controllers: &'static [&'static str],
    stages: &'static [Stage],
}

const FAULTS: [Fault; 3] = [Fault::CrashBefore, Fault::Crash, Fault::LostAnswer];
/// Times that a stage lets pass until nothing is waited for any more, at most.
const WAITS_MAX: usize = 4;

const fn scenario(name: &'static str, controllers: &'static [&'static str], stages: &'static [Stage]) -> Scenario {
    Scenario { name, controllers, stages }
}

const SCENARIOS: &[Scenario] = &[
    scenario(
        "rolled out and scaled",
        &["deployment", "replicaset"],
        &[deployment, ready, new_image, ready, ready, smaller],
    ),
    scenario("recreated", &["deployment", "replicaset"], &[recreating, ready, new_image, ready, ready]),
    scenario("made and scaled", &["replicaset"], &[replica_set, ready, shrink]),
    scenario("made, one lost", &["replicaset"], &[replica_set, lose_a_pod]),
    scenario("adopts and releases", &["replicaset"], &[replica_set_and_stray, unlabel_a_pod]),
    scenario("made and scaled", &["replication"], &[replication_controller, ready]),
    scenario("in order, with claims", &["statefulset"], &[stateful_set, ready, ready, new_set_image, ready, ready]),
    scenario("on every node", &["daemon-set"], &[daemon_set, ready, another_node]),
    scenario("runs to its end", &["job"], &[job, succeed, succeed, succeed]),
    scenario("a pod fails", &["job"], &[job, fail_one, succeed, succeed, succeed]),
    scenario("runs by the clock", &["cronjob"], &[cron_job, quarter, quarter]),
    scenario("replaces what still runs", &["cronjob"], &[replacing, quarter, quarter]),
    scenario("goes when its time is over", &["ttl-after-finished"], &[ended_job, minute]),
    scenario("follows the pods", &["endpoint"], &[service_and_pods, lose_a_pod]),
    scenario("follows the pods", &["endpointslice"], &[service_and_pods, lose_a_pod]),
    scenario("follows the endpoints", &["endpointslicemirroring"], &[service_and_endpoints, no_endpoints]),
    scenario("counts the pods", &["disruption"], &[budget_and_pods, lose_a_pod]),
    scenario("sums up", &["clusterrole-aggregation"], &[roles, another_role]),
    scenario("removes what is nowhere", &["pod-garbage-collector"], &[pod_on_no_node, minute]),
    scenario("gives ranges", &["node-ipam"], &[nodes_and_home, another_node]),
    scenario("tells where pods are", &["node-routes"], &[nodes_and_home, addresses, another_node]),
    scenario("loses sight of a node", &["node"], &[nodes, minute, cordon]),
    scenario("drives pods away", &["taint-eviction"], &[nodes, taint]),
    scenario("counts what is used", &["resourcequota"], &[quota_and_pods, lose_a_pod]),
    scenario("binds", &["persistent-volume-binder", "persistent-volume"], &[claim_and_volumes]),
    scenario("releases", &["persistent-volume", "persistent-volume-binder"], &[claim_and_volumes, drop_claim]),
    scenario("holds while used", &["pvc-protection"], &[claim_and_user, delete_claim, lose_a_pod]),
    scenario("holds while bound", &["pv-protection"], &[bound_volume, delete_volume, release_volume]),
    scenario("holds while named", &["volumeattributesclass-protection"], &[attributes_class, delete_class]),
    scenario("background", &["generic-garbage-collector"], &[family, delete_owner]),
    scenario("foreground", &["generic-garbage-collector"], &[family, delete_owner_last]),
    scenario("orphans", &["generic-garbage-collector"], &[family, delete_owner_alone]),
    scenario("empties", &["namespace"], &[namespace_with_content, delete_namespace, remove_pods]),
    scenario("publishes", &["root-ca-cert-publisher"], &[namespaces_and_authority, new_authority]),
    scenario("gives an account", &["service-account"], &[namespaces_and_authority]),
    scenario("accepts names", &["crd-naming"], &[definition]),
    scenario("objects first", &["crd-finalizer"], &[definition_with_objects, delete_definition]),
];

#[test]
fn every_controller_has_a_scenario() {
    let missing: Vec<&str> = crate::all()
        .iter()
        .map(|controller| controller.def.name)
        .filter(|name| !SCENARIOS.iter().any(|scenario| scenario.controllers[0] == *name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn every_write_may_be_the_last() {
    let mut points = 0;
    let mut differences = Vec::new();
    for scenario in SCENARIOS {
        let about = format!("{} {}", scenario.controllers[0], scenario.name);
        let (end, writes) = play(scenario, None);
        assert!(writes > 0, "{about}: nothing is written");
        for index in 0..writes {
            for fault in FAULTS {
                points += 1;
                let struck = play(scenario, Some((index, fault))).0;
                if struck != end {
                    differences.push(format!("{about}: {fault:?} at write {index}: {}", difference(&struck, &end)));
                }
            }
        }
    }
    assert_eq!(differences, Vec::<String>::new());
    assert!(points >= 300, "{points} points only");
}

/// The first thing that is in one of two ends only.
fn difference(struck: &[String], end: &[String]) -> String {
    let only = |these: &[String], those: &[String]| these.iter().find(|one| !those.contains(one)).cloned();
    format!("{:?} instead of {:?}", only(struck, end), only(end, struck))
}

fn play(scenario: &Scenario, fault: Option<(usize, Fault)>) -> (Vec<String>, usize) {
    let all = crate::all();
    let named = |name: &&str| all.iter().find(|controller| controller.def.name == *name).cloned();
    let mut world = World::new(scenario.controllers.iter().filter_map(named));
    world.fault = fault;
    for stage in scenario.stages {
        stage(&mut world);
        world.settle();
        for _ in 0..WAITS_MAX {
            // Only short waits are the controllers' own: longer ones are for the scenario to pass.
            let soon = world.now.after(std::time::Duration::from_secs(5));
            let Some(at) = world.next_wake().filter(|at| *at <= soon) else { break };
            world.now = world.now.max(at);
            world.settle();
        }
    }
    (end(&world), world.writes)
}

/// The world as it means something: without identities, revisions and times; made names by whose they are.
fn end(world: &World) -> Vec<String> {
    let view = world.view();
    let mut all: Vec<String> = Vec::new();
    for collection in view.snapshot().collections() {
        for object in view.list(collection, "") {
            let mut tree = object.tree();
            let is_made = tree.controller_ref().is_some() || made_up(tree.name());
            strip(&mut tree);
            if is_made {
                tree.remove(&["metadata", "name"]);
            }
            all.push(format!("{collection} {tree}"));
        }
    }
    all.sort();
    all
}

/// Whether a name ends in five letters that follow from a decision.
fn made_up(name: &str) -> bool {
    let suffix = name.rsplit_once('-').map_or("", |(_, suffix)| suffix);
    suffix.len() == 5 && suffix.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
}

fn strip(value: &mut Value) {
    const PASSING: [&str; 8] = [
        "uid",
        "resourceVersion",
        "generation",
        "observedGeneration",
        "timeAdded",
        "currentRevision",
        "updateRevision",
        "pod-template-hash",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|field, _| {
                !PASSING.contains(&field.as_str()) && !field.ends_with("Time") && !field.ends_with("Timestamp")
            });
            if map.get("name").and_then(Value::as_str).is_some_and(made_up) {
                map.remove("name");
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}})
}

fn put(world: &mut World, collection: &str, kind: &str, name: &str, more: Value) {
    let mut object = json!({"kind": kind, "metadata": {"name": name, "namespace": "a", "generation": 1}});
    for (field, value) in more.as_object().into_iter().flatten() {
        match field.as_str() {
            "metadata" => value.as_object().into_iter().flatten().for_each(|(field, value)| {
                object.put(&["metadata", field], value.clone());
            }),
            field => object.put(&[field], value.clone()),
        }
    }
    if object.namespace() == "-" {
        object.remove(&["metadata", "namespace"]);
    }
    world.put(collection, object);
}

/// Something without a namespace.
fn put_wide(world: &mut World, collection: &str, kind: &str, name: &str, mut more: Value) {
    more.put(&["metadata", "namespace"], "-");
    put(world, collection, kind, name, more);
}

fn pod(world: &mut World, name: &str, more: Value) {
    let mut pod = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        pod.put(&[field], value.clone());
    }
    put(world, "core/pods", "Pod", name, pod);
}

/// Nodes do their part: what is to go goes, what is new runs.
fn ready(world: &mut World) {
    for pod in world.list("core/pods") {
        if pod.is_deleting() {
            world.remove("core/pods", pod.namespace(), pod.name());
        } else {
            world.edit("core/pods", pod.namespace(), pod.name(), |pod| {
                let conditions =
                    json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2023-11-14T00:00:00Z"}]);
                pod.put(&["status"], json!({"phase": "Running", "conditions": conditions}));
                if pod.text(&["spec", "nodeName"]).is_empty() {
                    let node = place(pod);
                    pod.put(&["spec", "nodeName"], node);
                }
            });
        }
    }
    // Those which began to go when the others were ready.
    world.settle();
    remove_pods(world);
}

/// The node that a pod of a DaemonSet is meant for, or any.
fn place(pod: &Value) -> String {
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let meant = pod.pointer(&format!("{required}/nodeSelectorTerms/0/matchFields/0/values/0"));
    meant.and_then(Value::as_str).unwrap_or("n1").to_owned()
}

fn remove_pods(world: &mut World) {
    for pod in world.list("core/pods").iter().filter(|pod| pod.is_deleting() && pod.finalizers().next().is_none()) {
        world.remove("core/pods", pod.namespace(), pod.name());
    }
}

fn end_pods(world: &mut World, phase: &str, most: usize) {
    let pods = world.list("core/pods");
    let running = pods.iter().filter(|pod| !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed"));
    for pod in running.take(most) {
        world.edit("core/pods", "a", pod.name(), |pod| pod.put(&["status", "phase"], phase));
    }
}

fn succeed(world: &mut World) {
    end_pods(world, "Succeeded", usize::MAX);
    world.advance(30);
}

fn fail_one(world: &mut World) {
    end_pods(world, "Failed", 1);
    world.settle();
    world.advance(30);
}

fn lose_a_pod(world: &mut World) {
    if let Some(pod) = world.list("core/pods").first() {
        world.remove("core/pods", "a", pod.name());
    }
}

fn unlabel_a_pod(world: &mut World) {
    if let Some(pod) = world.list("core/pods").first() {
        world.edit("core/pods", "a", pod.name(), |pod| drop(pod.remove(&["metadata", "labels"])));
    }
}

fn minute(world: &mut World) {
    world.advance(61);
}

fn quarter(world: &mut World) {
    world.advance(900);
}

fn deployment_with(world: &mut World, strategy: Value) {
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template(),
        "strategy": strategy, "revisionHistoryLimit": 1});
    put(world, "apps/deployments", "Deployment", "web", json!({"spec": spec}));
}

fn deployment(world: &mut World) {
    deployment_with(world, json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}));
}

fn recreating(world: &mut World) {
    deployment_with(world, json!({"type": "Recreate"}));
}

fn new_image(world: &mut World) {
    world.edit("apps/deployments", "a", "web", |it| {
        it["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    });
}

fn smaller(world: &mut World) {
    world.edit("apps/deployments", "a", "web", |it| it.put(&["spec", "replicas"], 1));
}

fn replica_set(world: &mut World) {
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template()});
    put(world, "apps/replicasets", "ReplicaSet", "rs", json!({"spec": spec}));
}

fn replica_set_and_stray(world: &mut World) {
    pod(world, "stray", json!({}));
    replica_set(world);
}

fn shrink(world: &mut World) {
    world.edit("apps/replicasets", "a", "rs", |it| it.put(&["spec", "replicas"], 1));
}

fn replication_controller(world: &mut World) {
    let spec = json!({"replicas": 2, "selector": {"app": "web"}, "template": template()});
    put(world, "core/replicationcontrollers", "ReplicationController", "rc", json!({"spec": spec}));
}

fn stateful_set(world: &mut World) {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let spec = json!({"replicas": 2, "serviceName": "db", "podManagementPolicy": "OrderedReady",
        "selector": {"matchLabels": {"app": "web"}}, "template": template(), "volumeClaimTemplates": [claim],
        "updateStrategy": {"type": "RollingUpdate"}, "revisionHistoryLimit": 1});
    put(world, "apps/statefulsets", "StatefulSet", "db", json!({"spec": spec}));
}

fn new_set_image(world: &mut World) {
    world.edit("apps/statefulsets", "a", "db", |it| {
        it["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    });
}

fn node(world: &mut World, name: &str) {
    let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": world.now.to_rfc3339()});
    put_wide(world, "core/nodes", "Node", name, json!({"status": {"conditions": [ready]}}));
}

fn nodes(world: &mut World) {
    node(world, "n1");
    node(world, "n2");
    pod(world, "p", json!({}));
}

fn nodes_and_home(world: &mut World) {
    put(world, "core/namespaces", "Namespace", "kube-system", json!({"metadata": {"namespace": "-"}}));
    nodes(world);
}

fn addresses(world: &mut World) {
    for (name, number) in [("n1", 1), ("n2", 2)] {
        world.edit("core/nodes", "", name, |node| {
            node.put(&["spec", "podCIDR"], format!("10.244.{number}.0/24"));
            node.put(&["status", "addresses"], json!([{"type": "InternalIP", "address": format!("192.0.2.{number}")}]));
        });
    }
}

fn another_node(world: &mut World) {
    node(world, "n3");
}

fn cordon(world: &mut World) {
    world.edit("core/nodes", "", "n2", |node| node.put(&["spec", "unschedulable"], true));
}

fn taint(world: &mut World) {
    world.edit("core/nodes", "", "n1", |node| {
        node.put(&["spec", "taints"], json!([{"key": "away", "effect": "NoExecute"}]));
    });
}

fn daemon_set(world: &mut World) {
    node(world, "n1");
    node(world, "n2");
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template(),
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "revisionHistoryLimit": 1});
    put(world, "apps/daemonsets", "DaemonSet", "agent", json!({"spec": spec}));
}

fn job(world: &mut World) {
    let spec = json!({"completions": 3, "parallelism": 2, "backoffLimit": 3, "template": template(),
        "selector": {"matchLabels": {"app": "web"}}});
    put(world, "batch/jobs", "Job", "task", json!({"spec": spec}));
}

fn cron_with(world: &mut World, policy: &str) {
    let spec = json!({"schedule": "*/15 * * * *", "concurrencyPolicy": policy,
        "jobTemplate": {"spec": {"template": template()}}});
    put(world, "batch/cronjobs", "CronJob", "tick", json!({"spec": spec}));
}

fn cron_job(world: &mut World) {
    cron_with(world, "Allow");
}

fn replacing(world: &mut World) {
    cron_with(world, "Replace");
}

fn ended_job(world: &mut World) {
    let ended = json!({"type": "Complete", "status": "True", "lastTransitionTime": world.now.to_rfc3339()});
    let status = json!({"conditions": [ended], "completionTime": world.now.to_rfc3339()});
    put(world, "batch/jobs", "Job", "task", json!({"spec": {"ttlSecondsAfterFinished": 60}, "status": status}));
}

fn service_and_pods(world: &mut World) {
    pod(world, "p1", json!({}));
    pod(world, "p2", json!({}));
    let spec = json!({"selector": {"app": "web"}, "clusterIP": "None", "ipFamilies": ["IPv4"],
        "ports": [{"port": 80, "targetPort": 80}]});
    put(world, "core/services", "Service", "web", json!({"spec": spec}));
}

fn service_and_endpoints(world: &mut World) {
    put(world, "core/services", "Service", "web", json!({"spec": {"ports": [{"port": 80}]}}));
    let subset = json!({"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]});
    put(world, "core/endpoints", "Endpoints", "web", json!({"subsets": [subset]}));
}

fn no_endpoints(world: &mut World) {
    world.remove("core/endpoints", "a", "web");
}

fn budget_and_pods(world: &mut World) {
    replica_set(world);
    for name in ["p1", "p2"] {
        pod(world, name, json!({}));
    }
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    put(world, "policy/poddisruptionbudgets", "PodDisruptionBudget", "web", json!({"spec": spec}));
}

fn quota_and_pods(world: &mut World) {
    pod(world, "p1", json!({}));
    pod(world, "p2", json!({}));
    put(world, "core/resourcequotas", "ResourceQuota", "few", json!({"spec": {"hard": {"pods": "5"}}}));
}

fn role(world: &mut World, name: &str, verb: &str) {
    let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
    let more = json!({"metadata": {"labels": {"part": "yes"}}, "rules": [rule]});
    put_wide(world, "rbac.authorization.k8s.io/clusterroles", "ClusterRole", name, more);
}

fn roles(world: &mut World) {
    role(world, "one", "get");
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]});
    let more = json!({"aggregationRule": selector, "rules": []});
    put_wide(world, "rbac.authorization.k8s.io/clusterroles", "ClusterRole", "sum", more);
}

fn another_role(world: &mut World) {
    role(world, "two", "list");
}

fn pod_on_no_node(world: &mut World) {
    node(world, "n2");
    pod(world, "p", json!({}));
}

fn volume(world: &mut World, name: &str, size: &str) {
    let spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"}});
    put_wide(world, "core/persistentvolumes", "PersistentVolume", name, json!({"spec": spec}));
}

fn claim_and_volumes(world: &mut World) {
    volume(world, "large", "5Gi");
    volume(world, "small", "1Gi");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    put(world, "core/persistentvolumeclaims", "PersistentVolumeClaim", "data", json!({"spec": spec}));
}

fn drop_claim(world: &mut World) {
    world.remove("core/persistentvolumeclaims", "a", "data");
}

fn claim_and_user(world: &mut World) {
    put(world, "core/persistentvolumeclaims", "PersistentVolumeClaim", "data", json!({"spec": {}}));
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    pod(world, "user", json!({"spec": {"nodeName": "n1", "containers": [{"name": "c"}], "volumes": volumes}}));
}

fn delete_claim(world: &mut World) {
    world.delete("core/persistentvolumeclaims", "a", "data", None);
}

fn bound_volume(world: &mut World) {
    put_wide(
        world,
        "core/persistentvolumes",
        "PersistentVolume",
        "pv",
        json!({"spec": {}, "status": {"phase": "Bound"}}),
    );
}

fn delete_volume(world: &mut World) {
    world.delete("core/persistentvolumes", "", "pv", None);
}

fn release_volume(world: &mut World) {
    world.edit("core/persistentvolumes", "", "pv", |pv| pv.put(&["status", "phase"], "Released"));
}

fn attributes_class(world: &mut World) {
    let more = json!({"driverName": "d"});
    put_wide(world, "storage.k8s.io/volumeattributesclasses", "VolumeAttributesClass", "fast", more);
}

fn delete_class(world: &mut World) {
    world.delete("storage.k8s.io/volumeattributesclasses", "", "fast", None);
}

fn family(world: &mut World) {
    put(world, "core/configmaps", "ConfigMap", "owner", json!({"apiVersion": "v1", "metadata": {"uid": "owner-uid"}}));
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "owner-uid",
        "blockOwnerDeletion": true}]);
    for name in ["child-1", "child-2"] {
        put(world, "core/secrets", "Secret", name, json!({"apiVersion": "v1", "metadata": {"ownerReferences": owner}}));
    }
    world.settle_once();
}

fn delete_owner(world: &mut World) {
    world.delete("core/configmaps", "a", "owner", Some(Propagation::Background));
}

fn delete_owner_last(world: &mut World) {
    world.delete("core/configmaps", "a", "owner", Some(Propagation::Foreground));
}

fn delete_owner_alone(world: &mut World) {
    world.delete("core/configmaps", "a", "owner", Some(Propagation::Orphan));
}

fn namespace(world: &mut World, name: &str) {
    let more = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    put_wide(world, "core/namespaces", "Namespace", name, more);
}

fn namespace_with_content(world: &mut World) {
    namespace(world, "a");
    pod(world, "p", json!({}));
    put(world, "core/configmaps", "ConfigMap", "c", json!({}));
    put(world, "core/secrets", "Secret", "s", json!({}));
}

fn delete_namespace(world: &mut World) {
    world.delete("core/namespaces", "", "a", None);
}

fn authority(world: &mut World, text: &str) {
    let more = json!({"metadata": {"namespace": "kube-system"}, "data": {"client-ca-file": text}});
    put(world, "core/configmaps", "ConfigMap", "extension-apiserver-authentication", more);
}

fn namespaces_and_authority(world: &mut World) {
    namespace(world, "a");
    namespace(world, "b");
    authority(world, "PEM 1");
}

fn new_authority(world: &mut World) {
    authority(world, "PEM 2");
}

const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

fn definition_with(world: &mut World, status: Value) {
    let version = json!({"name": "v1", "served": true, "storage": true});
    let names = json!({"plural": "boats", "kind": "Boat", "singular": "boat", "listKind": "BoatList"});
    let spec = json!({"group": "sea.io", "scope": "Namespaced", "names": names, "versions": [version]});
    put_wide(world, DEFINITIONS, "CustomResourceDefinition", "boats.sea.io", json!({"spec": spec, "status": status}));
}

fn definition(world: &mut World) {
    definition_with(world, json!({}));
}

fn definition_with_objects(world: &mut World) {
    definition_with(world, json!({"conditions": [{"type": "Established", "status": "True"}]}));
    for name in ["one", "two"] {
        put(world, "sea.io/boats", "Boat", name, json!({}));
    }
}

fn delete_definition(world: &mut World) {
    world.delete(DEFINITIONS, "", "boats.sea.io", None);
}
