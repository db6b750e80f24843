//! Plans of small worlds, made by the planner's own fork.

use std::sync::Arc;

use admit::UserInfo;
use admit::user::MASTERS;
use kinds::Catalog;
use meta::Time;
use serde_json::{Value, json};
use store::{Mem, Store};
use view::View;

use crate::{Action, Limits, Plan, Wish, World, plan, text};

const NOW: Time = Time::from_secs(1_900_000_000);

fn admin() -> Arc<UserInfo> {
    Arc::new(UserInfo::new("ada", [MASTERS]).authenticated())
}

fn wish(objects: Vec<Value>) -> Wish {
    let manager = "setpoint".to_owned();
    Wish { objects, updates: Vec::new(), deletions: Vec::new(), user: admin(), manager, force: false, replace: false }
}

fn empty() -> World {
    World { view: View::of(Mem::new().snapshot()), catalog: Arc::new(Catalog::built_in()), now: NOW }
}

/// The world after a wish came true.
fn after(world: &World, objects: Vec<Value>) -> World {
    let mut troupe = crate::settle::Troupe::new(crate::Fork::of(world), world.view.clone(), Limits::default());
    let told = crate::declared::perform(&mut troupe, &wish(objects));
    for (_, change) in &told {
        assert_ne!(change.action, Action::Refuse, "{}: {}", change.object.name, change.reason);
    }
    let direct = told.into_iter().filter_map(|(key, _)| key).collect();
    let (base, catalog) = (world.view.snapshot().clone(), troupe.fork.catalog());
    troupe.run_to_rest(&|view| crate::consequence::is_settled(view, &catalog, &base, &direct));
    let view = View::of(troupe.fork.snapshot());
    World { view, catalog: troupe.fork.catalog(), now: troupe.fork.now() }
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
}

/// Two ready nodes, the usual namespaces and roles. Made once.
fn cluster() -> World {
    static CLUSTER: std::sync::LazyLock<World> = std::sync::LazyLock::new(make_cluster);
    World { view: CLUSTER.view.clone(), catalog: Arc::clone(&CLUSTER.catalog), now: CLUSTER.now }
}

fn make_cluster() -> World {
    let namespaces = |mark: &str| {
        let one = |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"mark": mark}}});
        ["default", "kube-system", "kube-public", "kube-node-lease"].map(one).to_vec()
    };
    let world = after(&empty(), namespaces("one"));
    let world = after(&world, admit::bootstrap::roles().to_vec());
    // Looked at again, now that controllers may do something about it.
    let world = after(&world, namespaces("two"));
    let world = after(&world, vec![node("one"), node("two")]);
    let store = Mem::fork(world.view.snapshot());
    for name in ["one", "two"] {
        let key = store::Key::new("core/nodes", name);
        let entry = store.snapshot().get_key(&key).cloned().expect("the node");
        let mut tree: Value = serde_json::from_slice(&entry.value).expect("JSON");
        tree["status"] = json!({
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        });
        if let Some(spec) = tree.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("taints");
        }
        let value = serde_json::to_vec(&tree).expect("JSON").into();
        let op = store::Op::Put {
            key,
            value,
            annex: Default::default(),
            stamp_at: None,
            keyspace: store::Keyspace::Durable,
        };
        store
            .submit(store::Txn { preconditions: vec![], ops: vec![op] }, Box::new(|done| drop(done.expect("written"))));
    }
    World { view: View::of(store.snapshot()), catalog: world.catalog, now: world.now }
}

fn web(replicas: i64, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image,
                    "resources": {"requests": {"cpu": "1"}}}]}}}})
}

fn of(world: &World, objects: Vec<Value>) -> Plan {
    plan(world, &wish(objects), Limits::default())
}

#[test]
fn a_deployment_brings_its_pods() {
    let world = cluster();
    let plan = of(&world, vec![web(3, "web:1")]);
    let text = text::render(&plan);
    assert_eq!(plan.changes[0].action, Action::Create, "{text}");
    let made = |kind: &str| plan.consequences.iter().find(|c| c.kind == kind).map(|c| (c.action, c.count));
    assert_eq!(made("ReplicaSet"), Some((Action::Create, 1)), "{text}");
    assert_eq!(made("Pod"), Some((Action::Create, 3)), "{text}");
    assert!(plan.rest.reached, "{text}");
    assert!(plan.outlook.iter().all(|outlook| outlook.state == "converged"), "{text}");
    assert!(text.contains("Plan: 1 to add, 0 to change, 0 to destroy."), "{text}");
    assert!(text.contains("3 pods of deployment/web, by replicaset-controller"), "{text}");
}

#[test]
fn planning_changes_nothing_and_twice_is_the_same() {
    let world = cluster();
    let revision = world.view.revision();
    let (one, two) = (of(&world, vec![web(3, "web:1")]), of(&world, vec![web(3, "web:1")]));
    assert_eq!(one, two);
    assert_eq!(world.view.revision(), revision);
}

#[test]
fn what_is_declared_and_there_is_no_change() {
    let world = after(&cluster(), vec![web(3, "web:1")]);
    let plan = of(&world, vec![web(3, "web:1")]);
    assert!(plan.is_empty() && plan.consequences.is_empty(), "{}", text::render(&plan));
}

#[test]
fn a_new_image_recreates_pods_and_availability_dips() {
    let world = after(&cluster(), vec![web(4, "web:1")]);
    let plan = of(&world, vec![web(4, "web:2")]);
    let text = text::render(&plan);
    let change = &plan.changes[0];
    assert_eq!(change.action, Action::Update, "{text}");
    assert_eq!(change.fields.len(), 1, "{text}");
    assert_eq!(change.fields[0].path, "spec.template.spec.containers[name=web].image");
    let pods = |action| plan.consequences.iter().find(|c| c.kind == "Pod" && c.action == action).map(|c| c.count);
    assert_eq!((pods(Action::Create), pods(Action::Delete)), (Some(4), Some(4)), "{text}");
    assert_eq!(plan.dips.len(), 1, "{text}");
    assert_eq!((plan.dips[0].before, plan.dips[0].lowest), (4, 3), "{text}");
}

#[test]
fn pods_that_fit_nowhere_are_told_with_the_verdict() {
    let world = cluster();
    let plan = of(&world, vec![web(9, "web:1")]);
    let text = text::render(&plan);
    assert_eq!(plan.unplaced.iter().map(|u| u.count).sum::<usize>(), 1, "{text}");
    assert!(plan.unplaced[0].message.contains("Insufficient cpu"), "{text}");
    assert!(text.contains("does not get ready"), "{text}");
}

#[test]
fn secrets_never_appear() {
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": value}});
    let world = after(&cluster(), vec![secret("hunter22")]);
    for plan in [of(&cluster(), vec![secret("hunter22")]), of(&world, vec![secret("correct-horse")])] {
        let json = serde_json::to_string(&plan).expect("JSON");
        for hidden in ["hunter22", "aHVudGVyMjI", "correct-horse", "Y29ycmVjdC1ob3JzZQ"] {
            assert!(!json.contains(hidden), "{json}");
        }
        assert!(text::render(&plan).contains("(sensitive value)"));
    }
}

#[test]
fn custom_resources_are_checked_against_definitions_of_the_same_plan() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wells.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "wells", "singular": "well", "kind": "Well", "listKind": "WellList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "depth": {"type": "integer", "minimum": 1}}}}}}}]},
    });
    let well = |depth: i64| json!({"apiVersion": "example.com/v1", "kind": "Well", "metadata": {"name": "w"}, "spec": {"depth": depth}});
    let world = cluster();
    let good = of(&world, vec![well(3), definition.clone()]);
    assert_eq!(
        good.changes.iter().map(|c| c.action).collect::<Vec<_>>(),
        [Action::Create; 2],
        "{}",
        text::render(&good)
    );
    assert_eq!(good.changes[0].object.kind, "CustomResourceDefinition", "what others need comes first");
    let bad = of(&world, vec![definition, well(0)]);
    assert_eq!(bad.changes[1].action, Action::Refuse);
    assert!(bad.changes[1].reason.contains("spec.depth"), "{}", bad.changes[1].reason);
}

#[test]
fn what_cannot_change_in_place_is_replaced_only_when_asked() {
    let world = after(&cluster(), vec![web(1, "web:1")]);
    let mut other = web(1, "web:1");
    other["spec"]["selector"]["matchLabels"] = json!({"app": "web", "tier": "front"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "web", "tier": "front"});
    let refused = of(&world, vec![other.clone()]);
    assert_eq!(refused.changes[0].action, Action::Refuse);
    assert!(refused.changes[0].reason.contains("replaced"), "{}", refused.changes[0].reason);
    let wish = Wish { replace: true, ..wish(vec![other]) };
    let replaced = plan(&world, &wish, Limits::default());
    let text = text::render(&replaced);
    assert_eq!(replaced.changes[0].action, Action::Replace, "{text}");
    assert!(text.contains("# forces replacement"), "{text}");
    assert!(text.contains("Plan: 1 to add, 0 to change, 1 to destroy."), "{text}");
}

#[test]
fn a_guard_outlives_the_manifest() {
    let mut guarded = web(1, "web:1");
    guarded["metadata"]["annotations"] = json!({crate::GUARD: "true"});
    let world = after(&cluster(), vec![guarded]);
    let gone = crate::Reference {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: "default".into(),
        name: "web".into(),
    };
    let wish = Wish { deletions: vec![gone], ..wish(vec![]) };
    let plan = plan(&world, &wish, Limits::default());
    assert_eq!(plan.changes[0].action, Action::Refuse);
    assert!(plan.changes[0].reason.contains(crate::GUARD));
}

#[test]
fn nobody_learns_what_they_may_not_read() {
    let world = after(&cluster(), vec![web(1, "web:1")]);
    let nobody = Arc::new(UserInfo::new("eve", [""; 0]).authenticated());
    let plan = plan(&world, &Wish { user: nobody, ..wish(vec![web(3, "web:2")]) }, Limits::default());
    assert_eq!(plan.changes[0].action, Action::Refuse);
    assert!(plan.changes[0].fields.is_empty());
    assert!(plan.changes[0].reason.contains("forbidden"), "{}", plan.changes[0].reason);
}

/// A world on which managers write by turns, at these seconds: manager, path of the field, value.
fn written(writes: &[(u64, &str, &str, Value)]) -> World {
    let world = after(&cluster(), vec![web(2, "web:1")]);
    let mut fork = crate::Fork::of(&world);
    let (user, begun) = (admin(), world.now);
    for (second, manager, path, value) in writes {
        fork.set_now(begun.after(std::time::Duration::from_secs(*second)));
        let body = path.split('.').rev().fold(value.clone(), |below, step| json!({step: below}));
        let path = format!("/apis/apps/v1/namespaces/default/deployments/web?fieldManager={manager}");
        let asked = api::Asked {
            user: &user,
            agent: manager,
            method: "PATCH",
            path: &path,
            content_type: "application/merge-patch+json",
            body: serde_json::to_vec(&body).expect("JSON").into(),
        };
        fork.ask(&asked).map(|_| ()).expect("written");
    }
    World { view: View::of(fork.snapshot()), catalog: fork.catalog(), now: fork.now() }
}

fn fought(world: &World) -> Vec<(String, usize, Vec<String>)> {
    let report = crate::fights(world, "", &|_, _| true);
    let told = |fight: crate::Fight| {
        let sides = fight.sides.into_iter().map(|side| side.manager).collect();
        (fight.path, fight.rounds, sides)
    };
    report.fights.into_iter().map(told).collect()
}

#[test]
fn slow_and_fast_fights_are_named_within_three_rounds() {
    let fight = |period: fn(u64) -> u64, rounds: u64| -> Vec<(u64, &str, &str, Value)> {
        let side = |n: u64| if n.is_multiple_of(2) { ("gitops", json!(3)) } else { ("scaler", json!(7)) };
        (0..rounds).map(|n| (period(n), side(n).0, "spec.replicas", side(n).1)).collect()
    };
    for period in [|n| n * 1_800, |n| n / 5] {
        assert_eq!(fought(&written(&fight(period, 3))), [], "two rounds may be anything");
        let named = fought(&written(&fight(period, 4)));
        assert_eq!(named, [("spec.replicas".to_owned(), 4, vec!["scaler".to_owned(), "gitops".to_owned()])]);
    }
}

#[test]
fn rollouts_ramps_and_changes_of_leader_are_no_fights() {
    let image = |version: i64| json!([{"name": "web", "image": format!("web:{version}")}]);
    let rollouts = [2, 3, 2, 3].iter().enumerate();
    let rollouts: Vec<_> = rollouts
        .map(|(n, version)| (n as u64 * 60, "setpoint", "spec.template.spec.containers", image(*version)))
        .collect();
    assert_eq!(fought(&written(&rollouts)), []);
    let ramp = [1, 2, 4, 2, 4, 2].iter().enumerate();
    let ramp: Vec<_> = ramp.map(|(n, size)| (n as u64 * 15, "scaler", "spec.replicas", json!(size))).collect();
    assert_eq!(fought(&written(&ramp)), []);
    let leader = |n: u64| if n < 4 { "one" } else { "other" };
    let renewals: Vec<_> = (0..8)
        .map(|n| (n * 15, leader(n), "metadata.annotations.leader", json!(format!("{} {n}", leader(n)))))
        .collect();
    assert_eq!(fought(&written(&renewals)), []);
}

#[test]
fn an_autoscaler_and_a_manifest_are_named_before_they_fight() {
    let scaler = |name: &str| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {"minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
    };
    let world = after(&cluster(), vec![web(2, "web:1"), scaler("one"), scaler("two")]);
    let risks = crate::fights(&world, "default", &|_, _| true).risks;
    let told: Vec<&str> = risks.iter().map(|risk| &*risk.message).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("2 autoscalers have the same target"), "{told:?}");
    assert!(risks[1].parties.contains(&"setpoint".to_owned()), "{risks:?}");
}

#[test]
fn nothing_to_stop_a_plan_is_bounded() {
    let world = cluster();
    let limits = Limits { turns_max: 3, ..Limits::default() };
    let plan = plan(&world, &wish(vec![web(3, "web:1")]), limits);
    assert!(!plan.rest.reached);
    assert!(plan.rest.message.contains("no end"), "{}", plan.rest.message);
}

#[test]
fn what_follows_and_why_tell_only_what_may_be_read() {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "deployer"},
        "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deployer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]});
    let world = after(&cluster(), vec![role, binding]);
    let eve = Arc::new(UserInfo::new("eve", [""; 0]).authenticated());
    let plan = plan(&world, &Wish { user: eve, ..wish(vec![web(9, "web:1")]) }, Limits::default());
    let text = text::render(&plan);
    assert_eq!(plan.changes[0].action, Action::Create, "{text}");
    assert!(plan.consequences.is_empty() && plan.unplaced.is_empty() && plan.warnings.is_empty(), "{text}");
    assert!(plan.hidden > 0, "{text}");

    let world = after(&world, vec![web(9, "web:1")]);
    let key = store::Key::new("apps/deployments", "default/web");
    let kind = world.catalog.collection(&key.collection).expect("served").clone();
    let object = world.view.get_key(&key).expect("the deployment");
    let seen_by = |may: &dyn Fn(&kinds::KindDef, &str) -> bool| crate::diagnose(&world, &kind, &object, may).cause;
    let all = seen_by(&|_, _| true).expect("a cause");
    assert_eq!((all.object.kind.as_str(), all.reason.as_str()), ("Pod", "Unschedulable"));
    let own = seen_by(&|kind, _| kind.kind == "Deployment").expect("its own");
    assert_eq!(own.object.kind, "Deployment");
}

#[test]
fn a_secret_that_moved_is_another_plan() {
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": value}});
    let before = after(&cluster(), vec![secret("one")]);
    let planned = of(&before, vec![secret("three")]);
    assert_eq!(of(&after(&before, vec![web(1, "web:1")]), vec![secret("three")]).essence(), planned.essence());
    let moved = of(&after(&before, vec![secret("two")]), vec![secret("three")]);
    assert_ne!(moved.essence(), planned.essence(), "its values are not shown, but they are not the same");
}
