use super::*;
use crate::rig::World;
use brain::Controller;

fn world() -> World {
    let mut world = World::new([Controller::of::<GarbageCollector>()]);
    for name in ["a", "b"] {
        world.put("core/namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    }
    world
}

fn kind(collection: &str) -> (&'static str, &'static str) {
    match collection {
        "core/pods" => ("v1", "Pod"),
        "core/configmaps" => ("v1", "ConfigMap"),
        "core/nodes" => ("v1", "Node"),
        _ => ("v1", "Secret"),
    }
}

/// Puts `collection/name` into namespace `a`, owned by the others; `!` before an owner makes it blocking.
fn put(world: &mut World, name: &str, owners: &[&str]) {
    put_at(world, "a", name, owners);
}

fn put_at(world: &mut World, namespace: &str, path: &str, owners: &[&str]) {
    let (plural, name) = path.split_once('/').unwrap();
    let collection = format!("core/{plural}");
    let references: Vec<Value> = owners
        .iter()
        .map(|owner| {
            let (plural, name) = owner.trim_start_matches('!').split_once('/').unwrap();
            let (api_version, kind) = kind(&format!("core/{plural}"));
            json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-of-{name}"),
                "blockOwnerDeletion": owner.starts_with('!')})
        })
        .collect();
    let (api_version, kind) = kind(&collection);
    let mut object = json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "ownerReferences": references}});
    if !namespace.is_empty() {
        object.put(&["metadata", "namespace"], namespace);
    }
    world.put(&collection, object);
}

fn left(world: &World) -> Vec<String> {
    ["core/configmaps", "core/pods", "core/secrets"].iter().flat_map(|c| world.names(c)).collect()
}

const NOTHING: [&str; 0] = [];

#[test]
fn dependents_follow_their_owner_in_the_background() {
    for mut world in [world(), world().crashing()] {
        put(&mut world, "configmaps/top", &[]);
        put(&mut world, "secrets/middle", &["configmaps/top"]);
        put(&mut world, "pods/leaf", &["!secrets/middle"]);
        put(&mut world, "pods/free", &[]);
        assert_eq!(world.settle(), NOTHING);
        world.delete("core/configmaps", "a", "top", Some(Propagation::Background));
        assert_eq!(world.follow(), ["delete secrets a/middle Background", "delete pods a/leaf Background"]);
        assert_eq!(left(&world), ["a/free"]);
    }
}

#[test]
fn foreground_deletion_waits_for_blocking_dependents_all_the_way_down() {
    for mut world in [world(), world().crashing()] {
        put(&mut world, "configmaps/top", &[]);
        put(&mut world, "secrets/middle", &["!configmaps/top"]);
        put(&mut world, "pods/leaf", &["!secrets/middle"]);
        put(&mut world, "pods/loose", &["secrets/middle"]);
        world.settle();
        world.edit("core/pods", "a", "leaf", |pod| pod.put(&["spec", "nodeName"], "n1"));
        world.delete("core/configmaps", "a", "top", Some(Propagation::Foreground));
        assert_eq!(
            world.follow(),
            ["delete secrets a/middle Foreground", "delete pods a/leaf Background", "delete pods a/loose Background"]
        );
        assert_eq!(left(&world), ["a/top", "a/leaf", "a/middle"], "the pod's node has not stopped it yet");
        world.remove("core/pods", "a", "leaf");
        assert_eq!(world.follow(), ["patch secrets a/middle", "patch configmaps a/top"]);
        assert_eq!(left(&world), NOTHING);
    }
}

#[test]
fn orphans_are_let_go_of() {
    for mut world in [world(), world().crashing()] {
        put(&mut world, "configmaps/top", &[]);
        put(&mut world, "pods/one", &["!configmaps/top"]);
        put(&mut world, "pods/two", &["configmaps/top", "configmaps/other"]);
        put(&mut world, "configmaps/other", &[]);
        world.settle();
        world.delete("core/configmaps", "a", "top", Some(Propagation::Orphan));
        assert_eq!(world.follow(), ["patch pods a/one", "patch pods a/two", "patch configmaps a/top"]);
        assert_eq!(left(&world), ["a/other", "a/one", "a/two"]);
        let two = world.get("core/pods", "a", "two").unwrap();
        assert_eq!(two.owner_references().len(), 1);
    }
}

#[test]
fn one_solid_owner_keeps_the_object_and_the_others_are_dropped() {
    let mut world = world();
    put(&mut world, "configmaps/stays", &[]);
    put(&mut world, "configmaps/goes", &[]);
    put(&mut world, "configmaps/waits", &[]);
    put(&mut world, "pods/leaf", &["configmaps/stays", "configmaps/goes", "!configmaps/waits"]);
    world.settle();
    world.delete("core/configmaps", "a", "goes", None);
    assert_eq!(world.follow(), ["patch pods a/leaf"]);
    world.delete("core/configmaps", "a", "waits", Some(Propagation::Foreground));
    assert_eq!(world.follow(), ["patch pods a/leaf", "patch configmaps a/waits"]);
    let leaf = world.get("core/pods", "a", "leaf").unwrap();
    assert_eq!(leaf.owner_references().iter().map(|r| r.text(&["name"])).collect::<Vec<_>>(), ["stays"]);
}

#[test]
fn an_owner_with_another_uid_is_absent() {
    let mut world = world();
    put(&mut world, "configmaps/top", &[]);
    put(&mut world, "pods/leaf", &["configmaps/top"]);
    world.settle();
    world.remove("core/configmaps", "a", "top");
    world.put(
        "core/configmaps",
        json!({"apiVersion": "v1", "metadata": {"name": "top", "namespace": "a", "uid": "new"}}),
    );
    assert_eq!(world.follow(), ["delete pods a/leaf Background"]);
}

#[test]
fn owners_in_another_namespace_do_not_count() {
    let mut world = world();
    put_at(&mut world, "b", "configmaps/top", &[]);
    put(&mut world, "pods/leaf", &["configmaps/top"]);
    assert_eq!(world.settle(), ["delete pods a/leaf Background"]);
    assert_eq!(
        world.notes,
        [
            "OwnerRefInvalidNamespace: ownerRef [v1/ConfigMap, namespace: a, name: top, uid: uid-of-top] does not exist in \
          namespace \"a\""
        ]
    );
}

#[test]
fn what_cannot_be_concluded_is_left_alone() {
    let mut world = world();
    put_at(&mut world, "", "nodes/n1", &["configmaps/none"]);
    world.put(
        "core/pods",
        json!({"apiVersion": "v1", "metadata": {"name": "odd", "namespace": "a", "ownerReferences": [
            {"apiVersion": "x.io/v1", "kind": "Thing", "name": "t", "uid": "t"}]}}),
    );
    assert_eq!(world.settle(), NOTHING);
    assert!(world.next_wake().is_some());
}

#[test]
fn a_cluster_wide_owner_of_a_namespaced_object_counts() {
    let mut world = world();
    put_at(&mut world, "", "nodes/n1", &[]);
    put(&mut world, "pods/leaf", &["nodes/n1"]);
    assert_eq!(world.settle(), NOTHING);
    world.delete("core/nodes", "", "n1", None);
    assert_eq!(world.follow(), ["delete pods a/leaf Background"]);
}

#[test]
fn cycles_end() {
    for how in [Propagation::Background, Propagation::Foreground] {
        for mut world in [world(), world().crashing()] {
            put(&mut world, "configmaps/one", &["!secrets/two"]);
            put(&mut world, "secrets/two", &["!configmaps/one"]);
            put(&mut world, "pods/self", &["!pods/self"]);
            assert_eq!(world.settle(), NOTHING);
            world.delete("core/configmaps", "a", "one", Some(how));
            world.delete("core/pods", "a", "self", Some(Propagation::Background));
            world.follow();
            assert_eq!(left(&world), NOTHING, "{how:?}");
        }
    }
}

#[test]
fn many_dependents_are_released_in_bites() {
    let mut world = world();
    put(&mut world, "configmaps/top", &[]);
    for n in 0..ORPHANED_MAX + 3 {
        put(&mut world, &format!("secrets/s{n:04}"), &["configmaps/top"]);
    }
    world.delete("core/configmaps", "a", "top", Some(Propagation::Orphan));
    assert_eq!(world.follow().len(), ORPHANED_MAX + 4);
    assert_eq!(left(&world).len(), ORPHANED_MAX + 3);
}

#[test]
fn changes_of_status_wake_nobody() {
    let mut world = world();
    put(&mut world, "configmaps/top", &[]);
    put(&mut world, "pods/leaf", &["configmaps/top"]);
    let view = world.view();
    let entry = |phase: &str| {
        let text = json!({"metadata": {"name": "leaf", "namespace": "a", "ownerReferences": [{"uid": "u"}]},
            "status": {"phase": phase}});
        std::sync::Arc::new(store::Entry::new(
            text.to_string().into(),
            "".into(),
            store::Revision(1),
            store::Revision(1),
        ))
    };
    let event = Event {
        revision: store::Revision(9),
        key: Key::new("core/pods", "a/leaf"),
        change: Change::Modified,
        entry: entry("Running"),
        previous: Some(entry("Pending")),
    };
    assert_eq!(roots(&view, &event), Vec::<Key>::new());
}
