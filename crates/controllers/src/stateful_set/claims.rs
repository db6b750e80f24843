//! The claims of a pod: which it needs, and who they go with.

use brain::facts::{Pod, Seen};
use meta::ObjectExt;
use serde_json::{Value, json};

use super::facts::{ClaimSeen, Desired, Observed};
use super::{Step, Why};
use crate::claim::Transfer;

/// The name of the claim of a template for an ordinal.
fn name(desired: &Desired, template: &Value, ordinal: i64) -> String {
    format!("{}-{}", template.name(), desired.pod_name(ordinal))
}

/// Mounts the ordinal's claims in a pod's spec, in place of volumes of the same names.
pub(super) fn mount(desired: &Desired, pod: &mut Value, ordinal: i64) {
    if desired.claim_templates.is_empty() {
        return;
    }
    let is_claim = |volume: &Value| desired.claim_templates.iter().any(|t| t.name() == volume.text(&["name"]));
    let others = pod.items(&["spec", "volumes"]).iter().filter(|volume| !is_claim(volume)).cloned();
    let claims = desired.claim_templates.iter().map(|template| {
        json!({"name": template.name(), "persistentVolumeClaim": {"claimName": name(desired, template, ordinal)}})
    });
    let volumes: Vec<Value> = claims.chain(others).collect();
    pod.put(&["spec", "volumes"], volumes);
}

/// Creates the ordinal's claims that are missing.
pub(super) fn missing<'d>(
    desired: &'d Desired,
    observed: &'d Observed,
    ordinal: i64,
) -> impl Iterator<Item = Step> + use<'d> {
    let absent = move |template: &&Value| !observed.claims.contains_key(&name(desired, template, ordinal));
    desired.claim_templates.iter().filter(absent).map(move |template| Step::CreateClaim {
        object: new_claim(desired, template, ordinal),
        pod: desired.pod_name(ordinal),
    })
}

fn new_claim(desired: &Desired, template: &Value, ordinal: i64) -> Value {
    let mut claim = template.clone();
    claim.remove(&["status"]);
    claim.put(&["apiVersion"], "v1");
    claim.put(&["kind"], "PersistentVolumeClaim");
    claim.put(&["metadata", "name"], name(desired, template, ordinal));
    claim.put(&["metadata", "namespace"], &*desired.owner.target.namespace);
    for (key, value) in desired.match_labels.as_object().into_iter().flatten() {
        claim.put(&["metadata", "labels", key], value.clone());
    }
    if let Some(owners) = owners(desired, &[], None, false) {
        claim.put(&["metadata", "ownerReferences"], owners);
    }
    claim
}

/// A claim that a new pod with this ordinal must not use: it is being deleted, or goes with an earlier pod.
pub(super) fn stale(desired: &Desired, observed: &Observed, ordinal: i64) -> Option<Why> {
    let pod = desired.pod_name(ordinal);
    let names = desired.claim_templates.iter().map(|template| name(desired, template, ordinal));
    let goes = |claim: &&ClaimSeen| {
        let earlier = |r: &Value| r.text(&["kind"]) == "Pod" && r.text(&["name"]) == pod;
        claim.deleting || claim.owners.iter().any(earlier)
    };
    let claims = names.filter_map(|name| observed.claims.get(&name));
    claims.into_iter().find(goes).map(|claim| Why::StaleClaim(claim.target.name.clone()))
}

/// Changes who the claims of a pod go with, where the retention policy says otherwise.
pub(super) fn retention<'d>(
    desired: &'d Desired,
    observed: &'d Observed,
    pod: &'d Seen<Pod>,
    ordinal: i64,
) -> impl Iterator<Item = Step> + use<'d> {
    let condemned = !desired.wants(ordinal);
    let claims = desired.claim_templates.iter().map(move |template| name(desired, template, ordinal));
    claims.filter_map(|name| observed.claims.get(&name)).filter(|claim| !claim.deleting).filter_map(move |claim| {
        let owners = owners(desired, &claim.owners, Some(pod), condemned)?;
        Some(Step::OwnClaim(Transfer { target: claim.target.clone(), owners, finalizers: None }))
    })
}

/// The owner references that a claim is to have; `None` where they are so already. A claim that somebody else
/// controls goes with neither set nor pod.
fn owners(desired: &Desired, current: &[Value], pod: Option<&Seen<Pod>>, condemned: bool) -> Option<Value> {
    let set = &desired.owner.target.uid;
    let is_ours = |r: &&Value| r.text(&["uid"]) == set || pod.is_some_and(|pod| r.text(&["uid"]) == pod.uid());
    let mut wanted: Vec<Value> = current.iter().filter(|r| !is_ours(r)).cloned().collect();
    let controlled = wanted.iter().any(|r| r.flag(&["controller"]));
    let policy = desired.retention;
    if !controlled {
        match pod.filter(|_| condemned && policy.delete_with_pod) {
            Some(pod) => wanted.push(json!({
                "apiVersion": "v1", "kind": "Pod", "name": pod.name(), "uid": pod.uid(),
                "controller": true, "blockOwnerDeletion": true,
            })),
            None if policy.delete_with_set && !(condemned && policy.delete_with_pod) => {
                wanted.push(desired.owner.reference());
            }
            None => {}
        }
    }
    if same_owners(current, &wanted) {
        return None;
    }
    Some(if wanted.is_empty() { Value::Null } else { wanted.into() })
}

fn same_owners(a: &[Value], b: &[Value]) -> bool {
    let key = |r: &Value| (r.text(&["uid"]).to_owned(), r.flag(&["controller"]));
    let sorted = |list: &[Value]| {
        let mut keys: Vec<_> = list.iter().map(key).collect();
        keys.sort();
        keys
    };
    sorted(a) == sorted(b)
}
