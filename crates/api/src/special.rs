//! Subresources that are verbs in disguise: scale, eviction, binding.

use meta::labels::Selector;
use meta::status::{Cause, Details};
use meta::{ApiError, ObjectExt, condition};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Key, Keyspace, Op, Precondition};

use crate::machine::{Attempt, Body};
use crate::write::Old;
use crate::{Answer, DeleteOptions, Request, Target, Verb, World, body, delete, encode, scale, update};

/// Handles the request if its subresource is special.
pub(crate) fn attempt(world: World<'_>, request: &Request) -> Result<Option<Attempt>, ApiError> {
    let target = &request.target;
    let is_core = target.kind.group.is_empty();
    match (&*target.kind.plural, target.subresource.as_str(), request.verb) {
        (_, "scale", _) => scale::attempt(world, request).map(Some),
        ("pods", "eviction", Verb::Create) if is_core => evict(world, request).map(Some),
        ("pods", "binding", Verb::Create) if is_core => bind(world, request, &target.name.clone()).map(Some),
        ("bindings", "", Verb::Create) if is_core => {
            let named = decode(request, "io.k8s.api.core.v1.Binding")?.name().to_owned();
            bind(world, request, &named).map(Some)
        }
        _ => Ok(None),
    }
}

fn decode(request: &Request, schema: &str) -> Result<Value, ApiError> {
    let schema_of = schema::builtin(schema).ok_or_else(|| ApiError::internal(format!("{schema} has no schema")))?;
    let gvk = match request.target.subresource.as_str() {
        "eviction" => meta::Gvk::new("policy", "v1", "Eviction"),
        _ => meta::Gvk::new("", "v1", "Binding"),
    };
    Ok(body::decode(&request.body, &gvk, schema_of, request.options.field_validation)?.object)
}

/// The pods resource, whatever address the request came by.
fn pod_request(world: World<'_>, request: &Request, name: &str) -> Result<Request, ApiError> {
    let pods = meta::Gvr::new("", "v1", "pods");
    let kind = world.catalog.resource(&pods).ok_or_else(|| ApiError::internal("pods are not served"))?;
    let mut request = request.clone();
    request.target = Target { kind: Arc::clone(kind), name: name.to_owned(), ..request.target };
    Ok(request)
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
}

/// POST binding: the scheduler's one write. Refused when the pod is bound, going, or gated.
fn bind(world: World<'_>, request: &Request, name: &str) -> Result<Attempt, ApiError> {
    let binding = decode(request, "io.k8s.api.core.v1.Binding")?;
    let node = binding.text(&["target", "name"]).to_owned();
    if node.is_empty() {
        let error = meta::FieldError::required("target.name", "");
        return Err(ApiError::invalid(&meta::Gvk::new("", "v1", "Binding").group_kind(), name, &[error]));
    }
    let request = &pod_request(world, request, name)?;
    let kind = &request.target.kind;
    let old = Old::of(kind, &update::stored(world, request)?)?;
    let refuse = |why: String| ApiError::conflict(&meta::GroupResource::new("", "pods/binding"), name, why);
    if !binding.uid().is_empty() && binding.uid() != old.tree.uid() {
        return Err(refuse(format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            binding.uid(),
            old.tree.uid()
        )));
    }
    if old.tree.is_deleting() {
        return Err(refuse(format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    if !old.tree.text(&["spec", "nodeName"]).is_empty() {
        return Err(refuse(format!(
            "pod {name} is already assigned to node {:?}",
            old.tree.text(&["spec", "nodeName"])
        )));
    }
    if !old.tree.items(&["spec", "schedulingGates"]).is_empty() {
        return Err(refuse(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    let mut new = old.tree.clone();
    new.put(&["spec", "nodeName"], node);
    for (key, value) in binding.map(&["metadata", "annotations"]).into_iter().flatten() {
        new.map_mut(&["metadata", "annotations"]).insert(key.clone(), value.clone());
    }
    let scheduled = condition::Condition::new("PodScheduled", "True", "", "");
    condition::set(&mut new, scheduled, world.now);
    let mut write = crate::Write::new(request, Some(old), new);
    write.attributes.subresource = "binding".to_owned();
    write.code = 201;
    write.answer_as = Some(|_, _| success());
    crate::create::own_fields(&mut write, world);
    // The object itself is valid; what `update` forbids (a change of the node's name) is the point here.
    write.complete_unchecked(world)
}

/// POST eviction: a delete that disruption budgets may refuse.
fn evict(world: World<'_>, request: &Request) -> Result<Attempt, ApiError> {
    let eviction = decode(request, "io.k8s.api.policy.v1.Eviction")?;
    let name = request.target.name.clone();
    if !eviction.name().is_empty() && eviction.name() != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut request = pod_request(world, request, &name)?;
    let options = eviction.at(&["deleteOptions"]).cloned().unwrap_or_default();
    request.target.subresource.clear();
    request.options.delete = DeleteOptions::default();
    request.options = request.options.with_delete_body(&options)?;
    request.body = crate::Payload::default();
    let pod = Old::of(&request.target.kind, &update::stored(world, &request)?)?.tree;
    let budgets = if needs_budget(&pod) { budgets_of(world, &pod)? } else { Vec::new() };
    let spent = match budgets.as_slice() {
        [] => None,
        [budget] => Some(spend(world, budget, &pod)?),
        _ => {
            let why =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::internal(why));
        }
    };
    let attempt = delete::one(world, &request)?;
    Ok(match attempt {
        Attempt::Commit(mut commit) => {
            if let Some((precondition, op)) = spent {
                commit.txn.preconditions.push(precondition);
                commit.txn.ops.push(op);
            }
            commit.retry = true;
            commit.then = Box::new(|_| Answer { code: 201, body: Body::Tree(success()), warnings: Vec::new() });
            Attempt::Commit(commit)
        }
        Attempt::Answer(_) => Attempt::Answer(Answer { code: 201, body: Body::Tree(success()), warnings: Vec::new() }),
    })
}

/// Pods that are over, not begun or already going disrupt nothing.
fn needs_budget(pod: &Value) -> bool {
    !pod.is_deleting() && !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed" | "Pending")
}

fn budgets_of(world: World<'_>, pod: &Value) -> Result<Vec<(Key, Old)>, ApiError> {
    let gvr = meta::Gvr::new("policy", "v1", "poddisruptionbudgets");
    let Some(kind) = world.catalog.resource(&gvr) else { return Ok(Vec::new()) };
    let labels = pod.map(&["metadata", "labels"]);
    let prefix = format!("{}/", pod.namespace());
    let mut budgets = Vec::new();
    for (item, entry) in world.snapshot.range(&kind.collection(), &prefix, "") {
        let old = Old::of(kind, entry)?;
        let selector = Selector::from_label_selector(old.tree.at(&["spec", "selector"])).unwrap_or(Selector::nothing());
        if selector.matches(&labels) {
            budgets.push((Key { collection: kind.collection(), item: Arc::clone(item) }, old));
        }
    }
    Ok(budgets)
}

/// Takes one disruption from the budget, in the transaction that deletes the pod.
fn spend(world: World<'_>, budget: &(Key, Old), pod: &Value) -> Result<(Precondition, Op), ApiError> {
    let (key, old) = budget;
    let refuse = |message: String, cause: String, retry_after_seconds: u32| {
        let cause = Cause { reason: "DisruptionBudget".to_owned(), message: cause, field: String::new() };
        let mut error = ApiError::too_many_requests(message, retry_after_seconds);
        error.details = Some(Box::new(Details { causes: vec![cause], retry_after_seconds, ..Details::default() }));
        Err(error)
    };
    let name = old.tree.name();
    let message = "Cannot evict pod as it would violate the pod's disruption budget.".to_owned();
    if old.tree.int(&["status", "observedGeneration"]).unwrap_or(0) < old.tree.generation() {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return refuse(message, cause, 10);
    }
    // A pod that is not ready is no loss to a budget that has enough healthy ones, or that always lets it go.
    let healthy = old.tree.int(&["status", "currentHealthy"]).unwrap_or(0);
    let desired = old.tree.int(&["status", "desiredHealthy"]).unwrap_or(0);
    let always = old.tree.text(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
    let is_ready = condition::find(pod, "Ready").is_some_and(|c| c.text(&["status"]) == "True");
    let precondition = Precondition::ModifiedAt(key.clone(), old.entry.modified);
    let mut new = old.tree.clone();
    if is_ready || !(always || (healthy >= desired && desired > 0)) {
        let allowed = old.tree.int(&["status", "disruptionsAllowed"]).unwrap_or(0);
        if allowed <= 0 {
            let cause =
                format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
            return refuse(message, cause, 0);
        }
        new.put(&["status", "disruptionsAllowed"], allowed - 1);
        new.put(&["status", "disruptedPods", pod.name()], world.now.to_rfc3339());
    }
    let (value, stamp_at) = encode(&new);
    let op = Op::Put {
        key: key.clone(),
        value,
        annex: old.entry.annex.clone(),
        stamp_at: Some(stamp_at),
        keyspace: Keyspace::Durable,
    };
    Ok((precondition, op))
}
