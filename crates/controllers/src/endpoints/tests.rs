use super::*;
use crate::rig::World;
use brain::Controller;

fn world() -> World {
    let mut world = World::new([Controller::of::<EndpointsController>()]);
    world.put(
        SERVICES,
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "a", "labels": {"team": "x"}},
            "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [
                {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},
                {"name": "metrics", "port": 9090, "targetPort": 9090, "protocol": "TCP"}]}}),
    );
    world
}

fn pod(world: &mut World, name: &str, ip: &str, ready: bool) {
    let ready = if ready { "True" } else { "False" };
    world.put(
        "core/pods",
        json!({"metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": [
                {"name": "web", "containerPort": 8080, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": ready}]}}),
    );
}

fn subsets_of(world: &World) -> Value {
    world.get(COLLECTION, "a", "web").unwrap().at(&["subsets"]).cloned().unwrap_or_default()
}

#[test]
fn ready_and_unready_pods_stand_in_one_subset() {
    for mut world in [world(), world().crashing()] {
        assert_eq!(world.settle(), ["create endpoints a/web"]);
        pod(&mut world, "p2", "10.1.0.2", true);
        pod(&mut world, "p1", "10.1.0.1", false);
        assert_eq!(world.follow(), ["update endpoints a/web"]);
        let address = |name: &str, ip: &str| {
            json!({"ip": ip, "nodeName": "n1",
                "targetRef": {"kind": "Pod", "namespace": "a", "name": name, "uid": format!("uid-{name}")}})
        };
        assert_eq!(
            subsets_of(&world),
            json!([{"addresses": [address("p2", "10.1.0.2")], "notReadyAddresses": [address("p1", "10.1.0.1")],
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"},
                    {"name": "metrics", "port": 9090, "protocol": "TCP"}]}])
        );
        let object = world.get(COLLECTION, "a", "web").unwrap();
        assert_eq!((object.label("team"), object.label(MANAGED_BY)), (Some("x"), Some(MANAGER)));
        world.remove("core/pods", "a", "p1");
        world.edit("core/pods", "a", "p2", |pod| pod.put(&["metadata", "labels"], json!({"app": "other"})));
        assert_eq!(world.follow(), ["update endpoints a/web"]);
        assert_eq!(subsets_of(&world), Value::Null);
    }
}

#[test]
fn ended_going_and_addressless_pods_are_left_out() {
    let mut world = world();
    for (name, change) in [("done", 0), ("bare", 1), ("going", 2)] {
        pod(&mut world, name, "10.1.0.9", true);
        world.edit("core/pods", "a", name, |pod| match change {
            0 => pod.put(&["status", "phase"], "Succeeded"),
            1 => pod.put(&["status"], json!({"phase": "Pending"})),
            _ => {
                pod.put(&["metadata", "finalizers"], json!(["x.io/wait"]));
                pod.put(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
            }
        });
    }
    world.settle();
    assert_eq!(subsets_of(&world), Value::Null);
}

#[test]
fn a_headless_service_without_ports_lists_addresses_and_names() {
    let mut world = world();
    world.edit(SERVICES, "a", "web", |service| {
        service.put(&["spec", "clusterIP"], "None");
        service.put(&["spec", "ports"], json!([]));
        service.put(&["spec", "publishNotReadyAddresses"], true);
    });
    pod(&mut world, "p1", "10.1.0.1", false);
    world.edit("core/pods", "a", "p1", |pod| {
        pod.put(&["spec", "hostname"], "db-0");
        pod.put(&["spec", "subdomain"], "web");
    });
    world.settle();
    let subsets = subsets_of(&world);
    assert_eq!(subsets[0]["addresses"][0]["hostname"], "db-0");
    assert_eq!(subsets[0].get("ports"), None);
    assert_eq!(world.get(COLLECTION, "a", "web").unwrap().label(HEADLESS), Some(""));
}

#[test]
fn pods_without_the_named_port_stand_in_their_own_subset() {
    let mut world = world();
    pod(&mut world, "p1", "10.1.0.1", true);
    pod(&mut world, "p2", "10.1.0.2", true);
    world.edit("core/pods", "a", "p2", |pod| pod.put(&["spec", "containers"], json!([{"name": "c"}])));
    world.settle();
    let ports: Vec<usize> = subsets_of(&world).items(&[]).iter().map(|s| s.items(&["addresses"]).len()).collect();
    assert_eq!(ports, [1, 2]);
}

#[test]
fn endpoints_go_with_their_service_and_those_of_users_stay() {
    let mut world = world();
    world.put(COLLECTION, json!({"metadata": {"name": "mine", "namespace": "a"}}));
    world.put(SERVICES, json!({"metadata": {"name": "mine", "namespace": "a"}, "spec": {}}));
    world.settle();
    world.remove(SERVICES, "a", "web");
    world.remove(SERVICES, "a", "mine");
    assert_eq!(world.follow(), ["delete endpoints a/web"]);
    assert_eq!(world.names(COLLECTION), ["a/mine"]);
}

#[test]
fn a_thousand_addresses_are_enough_and_ready_ones_go_first() {
    let service = Service { families: vec!["IPv4"], is_headless: true, ..Service::default() };
    let backends: Vec<Backend> = (0..1_100)
        .map(|n| Backend {
            namespace: "a".to_owned(),
            name: format!("p{n}"),
            uid: format!("u{n}"),
            addresses: vec![format!("10.0.{}.{}", n / 200, n % 200)],
            node: String::new(),
            zone: None,
            hostname: None,
            is_ready: n >= 500,
            is_terminating: false,
            ports: Vec::new(),
        })
        .collect();
    let object = wanted(&service, &backends);
    assert_eq!(object.annotation(OVER_CAPACITY), Some("truncated"));
    assert_eq!(object["subsets"][0].items(&["addresses"]).len(), 600);
    assert_eq!(object["subsets"][0].items(&["notReadyAddresses"]).len(), 400);
}

#[test]
fn those_of_a_service_that_went_unseen_go() {
    let mut world = world();
    world.settle();
    world.remove(SERVICES, "a", "web");
    assert_eq!(world.settle(), ["delete endpoints a/web"]);
}
