//! The questions of `setpoint.dev`: answered from the state as it is, by the pure planner, beside the requests that
//! keep the world going.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admit::Attributes;
use api::{Request, Target};
use client::Body;
use http::Response;
use meta::{ApiError, ObjectExt};
use planner::{Limits, Reference, Wish, World};
use serde_json::{Value, json};
use store::Store;
use tokio::sync::Semaphore;
use view::{Mirror, View};

use crate::app::App;
use crate::respond::tree_response;

/// The group of these kinds.
pub const GROUP: &str = "setpoint.dev";
/// Questions that wait while one is answered. Together they take under a minute; whoever comes then comes again.
const WAITING_MAX: usize = 16;
/// How long the view is kept after the last question: a command that waits asks several times a second.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// Declared objects of one question; the limit on bodies is usually met first.
const OBJECTS_MAX: usize = 10_000;
/// The field manager when none is named.
const MANAGER: &str = "setpoint";

/// What questions share. One is answered at a time: a plan keeps a core busy for as long as it takes, and the other is
/// for the world. They hold no place among the writes, which must not wait for them.
pub(crate) struct Questions {
    running: Arc<Semaphore>,
    waiting: Semaphore,
    kept: Mutex<Kept>,
}

/// A view with its indexes, kept from one question to the next: building it looks at every object, moving it on only at
/// what has changed.
#[derive(Default)]
struct Kept {
    mirror: Option<Mirror>,
    asked: u64,
}

impl Default for Questions {
    fn default() -> Questions {
        let (running, waiting) = (Arc::new(Semaphore::new(1)), Semaphore::new(WAITING_MAX));
        Questions { running, waiting, kept: Mutex::default() }
    }
}

impl Questions {
    /// The newest state, and which question this is.
    fn view(&self, store: &dyn Store) -> (View, u64) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.asked += 1;
        let asked = kept.asked;
        let mirror = kept.mirror.get_or_insert_with(|| Mirror::of(store));
        // Nobody is to be woken, so it does not matter whether history was gone on the way.
        mirror.advance(store, |_, _| {});
        (mirror.view().clone(), asked)
    }

    /// Lets go of the view, which holds the memory of its state, when no other question came.
    async fn forget(&self, asked: u64) {
        tokio::time::sleep(KEPT_FOR).await;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.asked == asked {
            kept.mirror = None;
        }
    }
}

/// Answers a question.
pub async fn answer(app: &Arc<App>, request: Request) -> Result<Response<Body>, ApiError> {
    let question = api::decode_own(&request)?;
    let busy = |_| ApiError::too_many_requests("other plans are being worked out; try again in a moment", 1);
    let waiting = app.questions.waiting.try_acquire().map_err(busy)?;
    let running = Arc::clone(&app.questions.running).acquire_owned().await;
    let running = running.map_err(|_| ApiError::internal("no more questions are answered"))?;
    drop(waiting);
    let shared = Arc::clone(app);
    let answered = tokio::task::spawn_blocking(move || {
        // Held to the end, even when whoever asked has gone.
        let _running = running;
        let (view, asked) = shared.questions.view(&*shared.store);
        let forgetful = Arc::clone(&shared);
        tokio::spawn(async move { forgetful.questions.forget(asked).await });
        let world = World { view, catalog: shared.catalog(), now: shared.clock.now() };
        let status = status(&shared, &request, &question, &world);
        (question, world.now, status)
    });
    let failed = |_| ApiError::internal("the question could not be answered");
    let (mut answer, now, status) = answered.await.map_err(failed)?;
    answer.put(&["status"], status?);
    answer.put(&["metadata", "creationTimestamp"], now.to_rfc3339());
    Ok(tree_response(201, &answer))
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
