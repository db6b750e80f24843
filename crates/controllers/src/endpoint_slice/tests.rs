use super::*;
use crate::rig::World;
use brain::Controller;

fn world() -> World {
    let mut world = World::new([Controller::of::<EndpointSliceController>()]);
    world.put(
        SERVICES,
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "a", "labels": {"team": "x"}},
            "spec": {"selector": {"app": "web"}, "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [
                {"name": "", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}}),
    );
    world
}

fn pod(world: &mut World, name: &str, n: usize) {
    let ip = format!("10.1.{}.{}", n / 250, n % 250 + 1);
    world.put(
        "core/pods",
        json!({"metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": "True"}]}}),
    );
}

/// How many endpoints each slice has, largest first.
fn sizes(world: &World) -> Vec<usize> {
    let mut sizes: Vec<usize> = world.list(COLLECTION).iter().map(|s| s.items(&["endpoints"]).len()).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse(*size));
    sizes
}

fn identities(world: &World) -> Vec<String> {
    let slices = world.list(COLLECTION);
    let mut all: Vec<String> =
        slices.iter().flat_map(|s| s.items(&["endpoints"]).iter().map(crate::slice_plan::identity)).collect();
    all.sort();
    all
}

#[test]
fn an_empty_slice_holds_the_place_and_is_filled() {
    for mut world in [world(), world().crashing()] {
        assert_eq!(world.settle().len(), 1);
        assert_eq!(sizes(&world), [0]);
        let name = world.names(COLLECTION);
        pod(&mut world, "p1", 0);
        world.follow();
        assert_eq!((sizes(&world), world.names(COLLECTION)), (vec![1], name));
        let slice = &world.list(COLLECTION)[0];
        assert_eq!(
            slice["endpoints"][0],
            json!({"addresses": ["10.1.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": "n1", "targetRef": {"kind": "Pod", "namespace": "a", "name": "p1", "uid": "uid-p1"}})
        );
        assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
        assert_eq!(slice.label(SERVICE_NAME), Some("web"));
        assert_eq!(slice.label("team"), Some("x"));
        world.remove("core/pods", "a", "p1");
        world.follow();
        assert_eq!(sizes(&world), [0]);
    }
}

#[test]
fn a_hundred_to_a_slice_and_changes_touch_one() {
    for mut world in [world(), world().crashing()] {
        for n in 0..250 {
            pod(&mut world, &format!("p{n:03}"), n);
        }
        world.settle();
        assert_eq!(sizes(&world), [100, 100, 50]);
        assert_eq!(identities(&world).len(), 250);
        pod(&mut world, "q", 300);
        assert_eq!(world.follow().len(), 1);
        world.remove("core/pods", "a", "p000");
        pod(&mut world, "r", 301);
        assert_eq!(world.follow().len(), 1, "the slice that changes anyway takes the new one");
        let all = identities(&world);
        assert!(all.len() == 251 && all.windows(2).all(|w| w[0] != w[1]));
    }
}

#[test]
fn a_pod_that_goes_is_listed_as_terminating() {
    let mut world = world();
    pod(&mut world, "p1", 0);
    world.settle();
    world.delete("core/pods", "a", "p1", None);
    world.follow();
    let conditions = world.list(COLLECTION)[0]["endpoints"][0]["conditions"].clone();
    assert_eq!(conditions, json!({"ready": false, "serving": true, "terminating": true}));
}

#[test]
fn pods_with_other_ports_and_families_have_their_own_slices() {
    let mut world = world();
    world.edit(SERVICES, "a", "web", |service| {
        service.put(&["spec", "ipFamilies"], json!(["IPv4", "IPv6"]));
        service.put(&["spec", "ports"], json!([{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]));
    });
    for (name, n, port) in [("p1", 1, 8080), ("p2", 2, 9090), ("p3", 3, 9090)] {
        pod(&mut world, name, n);
        world.edit("core/pods", "a", name, |pod| {
            pod.put(&["spec", "containers"], json!([{"name": "c", "ports": [{"name": "web", "containerPort": port}]}]));
        });
    }
    world.edit("core/pods", "a", "p1", |pod| {
        pod.put(&["status", "podIPs"], json!([{"ip": "10.1.0.2"}, {"ip": "fd00::2"}]));
    });
    world.settle();
    let mut found: Vec<(String, i64, usize)> = world
        .list(COLLECTION)
        .iter()
        .map(|s| {
            let port = s["ports"][0].int(&["port"]).unwrap_or(0);
            (s.text(&["addressType"]).to_owned(), port, s.items(&["endpoints"]).len())
        })
        .collect();
    found.sort();
    assert_eq!(found, [("IPv4".into(), 8080, 1), ("IPv4".into(), 9090, 2), ("IPv6".into(), 8080, 1)]);
}

#[test]
fn slices_of_others_and_services_without_selector_are_left_alone() {
    let mut world = world();
    world.put(SERVICES, json!({"metadata": {"name": "ext", "namespace": "a"}, "spec": {}}));
    world.put(
        COLLECTION,
        json!({"metadata": {"name": "mine", "namespace": "a", "labels": {SERVICE_NAME: "web"}}, "addressType": "IPv4"}),
    );
    world.settle();
    assert_eq!(world.names(COLLECTION).len(), 2);
    let mine = world.get(COLLECTION, "a", "mine").unwrap();
    assert_eq!(mine.items(&["endpoints"]).len(), 0);
}

#[test]
fn a_changed_slice_is_restored() {
    let mut world = world();
    pod(&mut world, "p1", 0);
    world.settle();
    let name = world.list(COLLECTION)[0].name().to_owned();
    world.edit(COLLECTION, "a", &name, |slice| slice.put(&["endpoints"], json!([])));
    assert_eq!(world.follow().len(), 1);
    assert_eq!(sizes(&world), [1]);
    world.remove(COLLECTION, "a", &name);
    assert_eq!(world.follow().len(), 1);
    assert_eq!(sizes(&world), [1]);
}
