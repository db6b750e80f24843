//! ResourceQuota: what a namespace may use in all. The new usage is committed together with the object that brings
//! it about, so two requests cannot spend the same rest.

use std::collections::BTreeSet;

use meta::{ApiError, ObjectExt};
use serde_json::Value;
use store::Key;

use crate::admission::{Case, Effects, Operation, SideWrite};
use crate::quota::{Counted, Evaluator, matches_scopes};
use crate::resources::{self, ResourceList, shown};

const QUOTAS: &str = "core/resourcequotas";

/// Checks the request against every quota of its namespace and charges them.
pub fn charge(case: &Case<'_>, new: &Value, effects: &mut Effects) -> Result<(), ApiError> {
    let attributes = case.request.attributes;
    if attributes.namespace.is_empty() {
        return Ok(());
    }
    let Some(evaluator) = Evaluator::of(&attributes.group, &attributes.resource) else { return Ok(()) };
    if !evaluator.handles(&attributes.subresource, case.request.operation, case.old, new) {
        return Ok(());
    }
    let quotas = case.world.list_with_revision(QUOTAS, &attributes.namespace);
    if quotas.is_empty() {
        return Ok(());
    }
    let counted = Counted { evaluator: &evaluator, now: case.world.now };
    // Every quota is looked at before any is charged: the first answer that a user sees is about their object.
    let interesting = quotas
        .into_iter()
        .filter(|(_, quota)| counted.is_interesting(quota, new))
        .map(|(revision, quota)| check_known(case, &evaluator, &quota, new).map(|()| (revision, quota)))
        .collect::<Result<Vec<_>, _>>()?;
    for (read_at, quota) in interesting {
        let delta = delta(case, &counted, &quota, new);
        if let Some(object) = charged(case, quota, delta, new)? {
            let key = Key::new(QUOTAS, format!("{}/{}", attributes.namespace, object.name()));
            effects.writes.push(SideWrite { key, object, read_at });
        }
    }
    Ok(())
}

fn hard(quota: &Value) -> ResourceList {
    resources::read(quota.at(&["status", "hard"]))
}

fn used(quota: &Value) -> ResourceList {
    resources::read(quota.at(&["status", "used"]))
}

fn check_known(case: &Case<'_>, evaluator: &Evaluator, quota: &Value, new: &Value) -> Result<(), ApiError> {
    let (name, hard, used) = (quota.name(), hard(quota), used(quota));
    let restricted: BTreeSet<&str> =
        hard.keys().map(String::as_str).filter(|resource| evaluator.counts(resource)).collect();
    if let Err(why) = evaluator.constraints(&restricted, new) {
        return Err(case.forbids(Some(new), format!("failed quota: {name}: {why}")));
    }
    if restricted.iter().all(|resource| used.contains_key(*resource)) {
        return Ok(());
    }
    let resources = restricted.into_iter().collect::<Vec<_>>().join(",");
    Err(case.forbids(Some(new), format!("status unknown for quota: {name}, resources: {resources}")))
}

/// What the request adds. Less than before costs nothing: the quota controller gives it back.
fn delta(case: &Case<'_>, counted: &Counted<'_>, quota: &Value, new: &Value) -> ResourceList {
    let mut usage = counted.usage(new);
    let before =
        case.old.filter(|old| case.request.operation == Operation::Update && counted.is_interesting(quota, old));
    if let Some(old) = before {
        for (name, amount) in counted.usage(old) {
            if let Some(now) = usage.get_mut(&name) {
                let more = now.minus(&amount);
                *now = if more.is_negative() { amount.minus(&amount) } else { more };
            }
        }
    }
    usage.retain(|_, amount| !amount.is_zero());
    usage
}

/// The quota with its new usage; none when nothing of it is touched.
fn charged(case: &Case<'_>, mut quota: Value, delta: ResourceList, new: &Value) -> Result<Option<Value>, ApiError> {
    let (hard, old_used) = (hard(&quota), used(&quota));
    if let Some((name, _)) = delta.iter().find(|(_, amount)| amount.is_negative()) {
        return Err(case.forbids(Some(new), format!("quota usage is negative for resource(s): {name}")));
    }
    let requested: ResourceList = delta.into_iter().filter(|(name, _)| hard.contains_key(name)).collect();
    if requested.is_empty() {
        return Ok(None);
    }
    let mut new_used = old_used.clone();
    resources::add(&mut new_used, &requested);
    let over = |name: &String| match (new_used.get(name), hard.get(name)) {
        (Some(used), Some(hard)) => used > hard,
        _ => false,
    };
    let exceeded: BTreeSet<&String> = requested.keys().filter(|name| over(name)).collect();
    // A status update reports what has already happened.
    if !exceeded.is_empty() && case.request.attributes.subresource != "status" {
        let only = |list: &ResourceList| {
            shown(&list.iter().filter(|(n, _)| exceeded.contains(n)).map(|(n, a)| (n.clone(), *a)).collect())
        };
        let (name, requested, used, limited) = (quota.name(), only(&requested), only(&old_used), only(&hard));
        let why = format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}");
        return Err(case.forbids(Some(new), why));
    }
    quota.put(&["status", "used"], resources::to_value(&new_used));
    Ok(Some(quota))
}

impl Counted<'_> {
    /// Whether the quota limits something this object uses, and its scopes fit.
    fn is_interesting(&self, quota: &Value, object: &Value) -> bool {
        let limits = hard(quota).keys().any(|name| self.evaluator.counts(name));
        limits && matches_scopes(self.evaluator, quota, object)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create, update};
    use super::*;
    use serde_json::json;

    fn quota(spec: Value, hard: Value, used: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "d"},
               "spec": spec, "status": {"hard": hard, "used": used}})
    }

    fn pod(cpu: &str) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu}}},
        ]}})
    }

    fn charged_with(quota: Value, new: &Value) -> Result<Option<Value>, String> {
        let (scene, asked) = (Scene::new(&[quota]), create("", "pods", "d", "p"));
        let mut effects = Effects::default();
        charge(&scene.case(&asked, None), new, &mut effects).map_err(|error| error.message)?;
        Ok(effects.writes.pop().map(|mut write| write.object["status"]["used"].take()))
    }

    #[test]
    fn usage_is_charged_and_bounded() {
        let one = || quota(json!({}), json!({"pods": "1", "cpu": "1"}), json!({"pods": "0", "cpu": "0"}));
        assert_eq!(charged_with(one(), &pod("500m")), Ok(Some(json!({"pods": "1", "cpu": "500m"}))));
        let full = quota(json!({}), json!({"pods": "1"}), json!({"pods": "1"}));
        let why = "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
        assert_eq!(charged_with(full, &pod("1")), Err(why.to_owned()));
    }

    #[test]
    fn a_limited_resource_must_be_stated() {
        let cpu = quota(json!({}), json!({"requests.cpu": "1"}), json!({"requests.cpu": "0"}));
        let silent = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
        let why = "pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c";
        assert_eq!(charged_with(cpu, &silent), Err(why.to_owned()));
        let fresh = quota(json!({}), json!({"pods": "1"}), json!({}));
        let why = "pods \"p\" is forbidden: status unknown for quota: q, resources: pods";
        assert_eq!(charged_with(fresh, &pod("1")), Err(why.to_owned()));
    }

    #[test]
    fn scopes_choose_objects() {
        let scoped = |scope: &str| quota(json!({"scopes": [scope]}), json!({"pods": "0"}), json!({"pods": "0"}));
        let best_effort = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
        assert!(charged_with(scoped("BestEffort"), &best_effort).is_err());
        assert_eq!(charged_with(scoped("BestEffort"), &pod("1")), Ok(None));
        assert!(charged_with(scoped("NotBestEffort"), &pod("1")).is_err());
        assert!(charged_with(scoped("NotTerminating"), &pod("1")).is_err());
        assert_eq!(charged_with(scoped("Terminating"), &pod("1")), Ok(None));
    }

    #[test]
    fn updates_pay_the_difference() {
        let service = |kind: &str| json!({"metadata": {"name": "s"}, "spec": {"type": kind, "ports": [{}, {}]}});
        let quota = quota(
            json!({}),
            json!({"services": "1", "services.nodeports": "2"}),
            json!({"services": "1", "services.nodeports": "0"}),
        );
        let (scene, asked) = (Scene::new(&[quota]), update("", "services", "d", "s"));
        let (old, mut effects) = (service("ClusterIP"), Effects::default());
        charge(&scene.case(&asked, Some(&old)), &service("NodePort"), &mut effects).expect("fits");
        assert_eq!(effects.writes[0].object["status"]["used"], json!({"services": "1", "services.nodeports": "2"}));
    }

    #[test]
    fn objects_are_counted_by_resource() {
        let quota = quota(json!({}), json!({"count/jobs.batch": "0"}), json!({"count/jobs.batch": "0"}));
        let (scene, asked) = (Scene::new(&[quota]), create("batch", "jobs", "d", "j"));
        let new = json!({"metadata": {"name": "j"}});
        let refused = charge(&scene.case(&asked, None), &new, &mut Effects::default()).unwrap_err().message;
        let why = "jobs.batch \"j\" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: \
                   count/jobs.batch=0, limited: count/jobs.batch=0";
        assert_eq!(refused, why);
    }
}
