//! The scale subresource: one number of a bigger object, as an object of its own.

use kinds::{KindDef, SelectorAt};
use meta::labels::Selector;
use meta::{ApiError, FieldError, Gvk, ObjectExt};
use serde_json::{Value, json};

use crate::write::Old;
use crate::{Answer, MediaType, Request, Verb, World, Write, body, machine::Attempt, patch, update};

const SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

fn scale_kind() -> Gvk {
    Gvk::new("autoscaling", "v1", "Scale")
}

/// Answers a request for `.../scale`.
pub(crate) fn attempt(world: World<'_>, request: &Request) -> Result<Attempt, ApiError> {
    let kind = &request.target.kind;
    let old = Old::of(kind, &update::stored(world, request)?)?;
    match request.verb {
        Verb::Get => Ok(Attempt::Answer(Answer::tree(scale_of(kind, &old.tree)))),
        Verb::Update | Verb::Patch => begin(world, request, old)?.admit(world)?.complete(world),
        other => Err(ApiError::method_not_allowed(&kind.group_resource(), other.as_str())),
    }
}

fn begin(world: World<'_>, request: &Request, old: Old) -> Result<Write, ApiError> {
    let kind = &request.target.kind;
    let paths = kind.scale.as_ref().ok_or_else(|| ApiError::internal("the kind declares no scale"))?;
    let schema = schema::builtin(SCHEMA).ok_or_else(|| ApiError::internal("Scale has no schema"))?;
    let current = scale_of(kind, &old.tree);
    let scale = match (request.verb, request.body.media_type) {
        (Verb::Update, _) => {
            body::decode(&request.body, &scale_kind(), schema, request.options.field_validation)?.object
        }
        (_, MediaType::ApplyYaml) => return Err(ApiError::unsupported_media_type(&patch::accepted(false)[..2])),
        _ => {
            let patched = patch::patched_with(request, &current, schema)?;
            body::conform(patched, schema, request.options.field_validation, Vec::new())?.object
        }
    };
    let replicas = scale.int(&["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(ApiError::invalid(&scale_kind().group_kind(), old.tree.name(), &[error]));
    }
    let mut new = old.tree.clone();
    let spec: Vec<&str> = paths.spec.split('.').collect();
    new.put(&spec, replicas);
    match scale.at(&["metadata", "resourceVersion"]) {
        Some(version)
            if request.verb == Verb::Update || Some(version) != current.at(&["metadata", "resourceVersion"]) =>
        {
            new.put(&["metadata", "resourceVersion"], version.clone());
        }
        _ => drop(new.remove(&["metadata", "resourceVersion"])),
    }
    let mut write = update::change(world, request, old, new)?;
    write.answer_as = Some(scale_of);
    Ok(write)
}

/// The scale of an object.
fn scale_of(kind: &KindDef, object: &Value) -> Value {
    let Some(paths) = &kind.scale else { return Value::Null };
    let number = |path: &str| object.int(&path.split('.').collect::<Vec<_>>()).unwrap_or(0);
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.at(&["metadata", field]) {
            metadata[field] = value.clone();
        }
    }
    let mut status = json!({"replicas": number(&paths.status)});
    let selector = selector_text(&paths.selector, object);
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    let mut spec = json!({});
    if number(&paths.spec) != 0 {
        spec["replicas"] = json!(number(&paths.spec));
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}

fn selector_text(at: &SelectorAt, object: &Value) -> String {
    let value = |path: &str| object.at(&path.split('.').collect::<Vec<_>>());
    match at {
        SelectorAt::LabelSelector(path) => {
            Selector::from_label_selector(value(path)).map(|selector| selector.to_string()).unwrap_or_default()
        }
        SelectorAt::Map(path) => {
            value(path).and_then(Value::as_object).map(|map| Selector::from_map(map).to_string()).unwrap_or_default()
        }
        SelectorAt::Text(path) => value(path).and_then(Value::as_str).unwrap_or("").to_owned(),
        SelectorAt::Absent => String::new(),
    }
}
