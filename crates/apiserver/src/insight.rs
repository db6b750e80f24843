//! The questions of `setpoint.dev`: answered from the state as it is, by the pure planner, beside the requests that
//! keep the world going.

use std::sync::Arc;

use admit::Attributes;
use api::{Request, Target};
use client::Body;
use http::Response;
use meta::{ApiError, ObjectExt};
use planner::{Limits, Reference, Wish, World};
use serde_json::{Value, json};
use view::View;

use crate::app::App;
use crate::respond::tree_response;

/// The group of these kinds.
pub const GROUP: &str = "setpoint.dev";
/// Questions answered at a time. A plan keeps a core busy for as long as it takes: the other is for the world.
pub(crate) const QUESTIONS_MAX: usize = 1;
/// Declared objects of one question; the limit on bodies is usually met first.
const OBJECTS_MAX: usize = 10_000;
/// The field manager when none is named.
const MANAGER: &str = "setpoint";

/// Answers a question.
pub async fn answer(app: &Arc<App>, request: Request) -> Result<Response<Body>, ApiError> {
    let question = api::decode_own(&request)?;
    let busy = || ApiError::too_many_requests("other plans are being worked out; try again in a moment", 1);
    let patience = std::time::Duration::from_secs(30);
    let place = tokio::time::timeout(patience, app.questions.acquire()).await;
    let _place = place.map_err(|_| busy())?.map_err(|_| busy())?;
    let app = Arc::clone(app);
    let answered = tokio::task::spawn_blocking(move || {
        let world = world(&app);
        let status = status(&app, &request, &question, &world)?;
        let mut answer = question;
        answer.put(&["status"], status);
        answer.put(&["metadata", "creationTimestamp"], world.now.to_rfc3339());
        Ok(tree_response(201, &answer))
    });
    answered.await.unwrap_or_else(|_| Err(ApiError::internal("the question could not be answered")))
}

fn world(app: &App) -> World {
    World { view: View::of(app.snapshot()), catalog: app.catalog(), now: app.clock.now() }
}

fn status(app: &App, request: &Request, question: &Value, world: &World) -> Result<Value, ApiError> {
    match &*request.target.kind.kind {
        "Plan" => {
            let plan = planner::plan(world, &wish(request, question)?, Limits::default());
            as_value(&plan)
        }
        "Blame" => {
            let (entry, kind) = named(app, request, question, world)?;
            as_value(&planner::blame(&kind, &entry))
        }
        "Drift" => as_value(&planner::drift(world, &wish(request, question)?)),
        "Diagnosis" => {
            let (entry, kind) = named(app, request, question, world)?;
            let may_read = |kind: &kinds::KindDef, namespace: &str| may(app, request, kind, "list", namespace, "");
            as_value(&planner::diagnose(world, &kind, &entry, &may_read))
        }
        "FightReport" => {
            let namespace = question.text(&["spec", "namespace"]);
            let may_read = |kind: &kinds::KindDef, namespace: &str| may(app, request, kind, "list", namespace, "");
            as_value(&planner::fights(world, namespace, &may_read))
        }
        _ => Err(ApiError::method_not_allowed(&request.target.kind.group_resource(), "create")),
    }
}

fn as_value(answer: &impl serde::Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(answer).map_err(|error| ApiError::internal(error.to_string()))
}

fn wish(request: &Request, question: &Value) -> Result<Wish, ApiError> {
    let objects = question.items(&["spec", "objects"]).to_vec();
    if objects.len() > OBJECTS_MAX {
        return Err(ApiError::bad_request(format!(
            "{} objects; at most {OBJECTS_MAX} are planned at once",
            objects.len()
        )));
    }
    let manager = match question.text(&["spec", "fieldManager"]) {
        "" => MANAGER,
        named => named,
    };
    Ok(Wish {
        objects,
        updates: question.items(&["spec", "updates"]).to_vec(),
        deletions: question.items(&["spec", "deletions"]).iter().map(reference).collect(),
        user: Arc::clone(&request.user),
        manager: manager.to_owned(),
        force: question.flag(&["spec", "force"]),
        replace: question.flag(&["spec", "replace"]),
    })
}

fn reference(value: &Value) -> Reference {
    let text = |field: &str| value.text(&[field]).to_owned();
    Reference { api_version: text("apiVersion"), kind: text("kind"), namespace: text("namespace"), name: text("name") }
}

/// The object that a question is about, if its asker may read it.
fn named(
    app: &App,
    request: &Request,
    question: &Value,
    world: &World,
) -> Result<(view::Object, Arc<kinds::KindDef>), ApiError> {
    let about = reference(question.at(&["spec", "object"]).unwrap_or(&Value::Null));
    let gvk = json!({"apiVersion": about.api_version, "kind": about.kind}).gvk();
    let kind = gvk.and_then(|gvk| world.catalog.kind(&gvk).cloned());
    let unknown =
        || ApiError::bad_request(format!("no matches for kind {:?} in version {:?}", about.kind, about.api_version));
    let kind = kind.ok_or_else(unknown)?;
    let namespace = match (kind.is_namespaced(), &*about.namespace) {
        (true, "") => "default",
        (true, namespace) => namespace,
        (false, _) => "",
    };
    if !may(app, request, &kind, "get", namespace, &about.name) {
        let asked = attributes(request, &kind, "get", namespace, &about.name);
        return Err(asked.forbidden(""));
    }
    let target = Target {
        kind: Arc::clone(&kind),
        namespace: namespace.to_owned(),
        name: about.name.clone(),
        subresource: String::new(),
    };
    let key = target.key();
    let object = world.view.get_key(&key);
    object
        .map(|object| (object, Arc::clone(&kind)))
        .ok_or_else(|| ApiError::not_found(&kind.group_resource(), &about.name))
}

fn may(app: &App, request: &Request, kind: &kinds::KindDef, verb: &str, namespace: &str, name: &str) -> bool {
    app.authorizer.authorize(&app.snapshot(), &attributes(request, kind, verb, namespace, name)).is_allowed()
}

fn attributes(request: &Request, kind: &kinds::KindDef, verb: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        user: Arc::clone(&request.user),
        verb: verb.to_owned(),
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        resource: kind.plural.to_string(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Attributes::default()
    }
}
