use super::*;
use crate::rig::World;
use crate::volume::VolumeController;
use brain::Controller;

fn world() -> World {
    World::new([Controller::of::<VolumeClaimController>(), Controller::of::<VolumeController>()])
}

fn volume(world: &mut World, name: &str, size: &str, more: Value) {
    let mut spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk"});
    for (field, value) in more.as_object().unwrap() {
        spec.put(&[field], value.clone());
    }
    world.put(VOLUME_COLLECTION, json!({"metadata": {"name": name}, "spec": spec}));
}

fn claim(world: &mut World, name: &str, size: &str, more: Value) {
    let mut spec = json!({"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk"});
    for (field, value) in more.as_object().unwrap() {
        spec.put(&[field], value.clone());
    }
    world.put(CLAIM_COLLECTION, json!({"metadata": {"name": name, "namespace": "a"}, "spec": spec}));
}

fn class(world: &mut World, provisioner: &str, mode: &str) {
    world.put(CLASSES, json!({"metadata": {"name": "disk"}, "provisioner": provisioner, "volumeBindingMode": mode}));
}

fn state(world: &World, name: &str) -> (String, String) {
    let claim = world.get(CLAIM_COLLECTION, "a", name).unwrap();
    (claim.text(&["status", "phase"]).to_owned(), claim.text(&["spec", "volumeName"]).to_owned())
}

fn phase_of(world: &World, name: &str) -> String {
    world.get(VOLUME_COLLECTION, "", name).unwrap().text(&["status", "phase"]).to_owned()
}

fn pair(phase: &str, volume: &str) -> (String, String) {
    (phase.to_owned(), volume.to_owned())
}

#[test]
fn the_smallest_volume_that_fits_is_bound_and_left_when_the_claim_goes() {
    for mut world in [world(), world().crashing()] {
        volume(&mut world, "large", "10Gi", json!({}));
        volume(&mut world, "medium", "5Gi", json!({}));
        volume(&mut world, "small", "1Gi", json!({}));
        volume(&mut world, "other", "5Gi", json!({"storageClassName": "tape"}));
        world.settle();
        assert_eq!(phase_of(&world, "small"), "Available");
        claim(&mut world, "data", "2Gi", json!({}));
        world.follow();
        assert_eq!(state(&world, "data"), pair("Bound", "medium"));
        assert_eq!((phase_of(&world, "medium"), phase_of(&world, "large")), ("Bound".into(), "Available".into()));
        let data = world.get(CLAIM_COLLECTION, "a", "data").unwrap();
        assert_eq!(data.text(&["status", "capacity", "storage"]), "5Gi");
        assert_eq!(data.annotation(BIND_COMPLETED), Some("yes"));
        claim(&mut world, "huge", "50Gi", json!({}));
        world.follow();
        assert_eq!(state(&world, "huge"), pair("Pending", ""));
        world.remove(CLAIM_COLLECTION, "a", "data");
        world.follow();
        assert_eq!(phase_of(&world, "medium"), "Released");
    }
}

#[test]
fn two_claims_never_share_a_volume() {
    for mut world in [world(), world().crashing()] {
        volume(&mut world, "only", "5Gi", json!({}));
        world.settle();
        claim(&mut world, "one", "1Gi", json!({}));
        claim(&mut world, "two", "1Gi", json!({}));
        world.follow();
        assert_eq!((state(&world, "one"), state(&world, "two")), (pair("Bound", "only"), pair("Pending", "")));
        volume(&mut world, "more", "5Gi", json!({}));
        world.follow();
        assert_eq!(state(&world, "two"), pair("Bound", "more"));
    }
}

#[test]
fn volumes_and_claims_may_name_one_another() {
    let mut world = world();
    volume(&mut world, "mine", "1Gi", json!({"claimRef": {"namespace": "a", "name": "data"}}));
    volume(&mut world, "named", "1Gi", json!({}));
    world.settle();
    claim(&mut world, "data", "1Gi", json!({}));
    claim(&mut world, "asks", "1Gi", json!({"volumeName": "named"}));
    claim(&mut world, "late", "1Gi", json!({"volumeName": "mine"}));
    world.follow();
    assert_eq!(state(&world, "data"), pair("Bound", "mine"));
    assert_eq!(state(&world, "asks"), pair("Bound", "named"));
    assert_eq!(state(&world, "late"), pair("Pending", "mine"));
}

#[test]
fn a_class_that_waits_is_bound_when_the_scheduler_chose() {
    let mut world = world();
    class(&mut world, NO_PROVISIONER, "WaitForFirstConsumer");
    volume(&mut world, "local", "1Gi", json!({}));
    claim(&mut world, "data", "1Gi", json!({}));
    world.settle();
    assert_eq!(state(&world, "data"), pair("Pending", ""));
    assert!(world.notes.iter().any(|note| note.starts_with("WaitForFirstConsumer")));
    let uid = world.get(CLAIM_COLLECTION, "a", "data").unwrap().uid().to_owned();
    world.edit(VOLUME_COLLECTION, "", "local", |volume| {
        volume.put(&["spec", "claimRef"], json!({"namespace": "a", "name": "data", "uid": uid}));
    });
    world.follow();
    assert_eq!(state(&world, "data"), pair("Bound", "local"));
}

#[test]
fn an_external_provisioner_is_asked() {
    let mut world = world();
    class(&mut world, "csi.x.io", "Immediate");
    claim(&mut world, "data", "1Gi", json!({}));
    world.settle();
    let data = world.get(CLAIM_COLLECTION, "a", "data").unwrap();
    assert_eq!((data.annotation(PROVISIONER), data.annotation(BETA_PROVISIONER)), (Some("csi.x.io"), Some("csi.x.io")));
    assert!(world.notes.iter().any(|note| note.starts_with("ExternalProvisioning")));
    volume(&mut world, "pvc-1", "1Gi", json!({"claimRef": {"namespace": "a", "name": "data", "uid": data.uid()}}));
    world.follow();
    assert_eq!(state(&world, "data"), pair("Bound", "pvc-1"));
}

#[test]
fn a_claim_whose_volume_is_gone_is_lost() {
    let mut world = world();
    volume(&mut world, "only", "5Gi", json!({}));
    world.settle();
    claim(&mut world, "data", "1Gi", json!({}));
    world.follow();
    world.remove(VOLUME_COLLECTION, "", "only");
    world.follow();
    assert_eq!(state(&world, "data"), pair("Lost", "only"));
}
