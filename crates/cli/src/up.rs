//! `setpoint up`: everything on this machine in one process, files applied, and how it comes to be.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use http::Method;
use kinds::Catalog;
use meta::ObjectExt;
use planner::Reference;
use serde_json::Value;
use server::Started;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::api::{Api, Refused};
use crate::args::{OnExit, UpArgs};
use crate::manifest;
use crate::report::CommandError;
use crate::reports;
use crate::run::{config_of, node_role, start_logging};

/// How often the objects are looked at while they are not as they should be.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long an object may be refused for want of another (its kind, its namespace) that is just being made.
const WANT_MAX: Duration = Duration::from_secs(15);
/// How long stopping waits for what was deleted to be gone.
const GONE_MAX: Duration = Duration::from_secs(60);

/// Runs until it is interrupted.
pub(crate) fn up(args: &UpArgs) -> Result<(), CommandError> {
    let objects = manifest::read_all(&args.files)?;
    start_logging(args.server.log_format, "warn");
    let mut config = config_of(&args.server)?;
    if config.node.is_none() && config.simulated_nodes == 0 {
        config.node = Some(node_role(&args.server, "")?);
    }
    let kubeconfig = config.kubeconfig.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let on_exit = args.on_exit;
    runtime.block_on(async move {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (tell, told) = oneshot::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let started = move |started: Started| {
            // The receiver is gone only when the command is.
            let _ = tell.send(started);
        };
        let stopping = async move {
            let _ = stopped.await;
        };
        let mut serving = tokio::spawn(server::run(config, started, stopping));
        let applied = Mutex::new(Vec::new());
        let admin = OnceLock::new();
        let work = async {
            // Without a start there is nothing to do but to wait for the reason.
            let Ok(started) = told.await else { return std::future::pending().await };
            println!("the API is served at https://{}", started.address);
            let api = admin.get_or_init(|| Api::new(started.admin));
            show(api, &objects, &applied, kubeconfig).await?;
            std::future::pending().await
        };
        let mut result: Result<(), CommandError> = tokio::select! {
            ended = &mut serving => return ended?.map_err(CommandError::from),
            done = work => done,
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        println!();
        if let (OnExit::Stop, Some(api)) = (on_exit, admin.get()) {
            println!("taking down what was applied; once more Ctrl-C leaves it");
            let applied = applied.lock().map(|applied| applied.clone()).unwrap_or_default();
            tokio::select! { () = take_down(api, &applied) => {}, _ = interrupt.recv() => {} }
        }
        drop(stop);
        if let Err(error) = (&mut serving).await?
            && result.is_ok()
        {
            result = Err(error.into());
        }
        result
    })
}

/// What has been applied so far: it may be interrupted at any time.
type Applied = Mutex<Vec<Value>>;

/// Applies and shows how it comes to be.
async fn show(api: &Api, objects: &[Value], applied: &Applied, config: Option<PathBuf>) -> Result<(), CommandError> {
    let all = apply_all(api, objects, applied).await?;
    let about: Vec<Reference> = all.iter().map(Reference::of).collect();
    reports::follow(api, &about).await?;
    let config = config.map_or_else(String::new, |path| format!("--kubeconfig {} ", path.display()));
    println!("\nnext:\n  kubectl {config}get pods -A\n  kubectl {config}get events -A");
    if let Some(target) = all.iter().find_map(speaker) {
        println!("  kubectl {config}logs -f {target}");
    }
    println!("  Ctrl-C stops");
    Ok(())
}

/// What `kubectl logs` is told to find a log of this object, if it has pods.
fn speaker(object: &Value) -> Option<String> {
    let kind = object.text(&["kind"]);
    let has_pods = ["DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "ReplicationController", "StatefulSet"];
    let target = format!("{}/{}", kind.to_lowercase(), object.name());
    has_pods.contains(&kind).then(|| match object.namespace() {
        "" | "default" => target,
        namespace => format!("-n {namespace} {target}"),
    })
}

fn title(object: &Value) -> String {
    let kind = object.text(&["kind"]).to_lowercase();
    match object.namespace() {
        "" | "default" => format!("{kind}/{}", object.name()),
        namespace => format!("{kind}/{} ({namespace})", object.name()),
    }
}

/// Applies in the order in which objects need one another.
async fn apply_all(api: &Api, objects: &[Value], done: &Applied) -> Result<Vec<Value>, Refused> {
    let catalog = Catalog::built_in();
    let order = |object: &Value| {
        let kind = object.gvk().and_then(|gvk| catalog.kind(&gvk).cloned());
        kind.map_or(kinds::apply_order::WORKLOAD, |kind| kind.apply_order)
    };
    let mut sorted: Vec<&Value> = objects.iter().collect();
    sorted.sort_by_key(|object| order(object));
    let mut applied = Vec::new();
    for object in sorted {
        applied.push(apply(api, object).await?);
        if let Ok(mut done) = done.lock() {
            done.clone_from(&applied);
        }
        println!("applied  {}", title(object));
    }
    Ok(applied)
}

async fn apply(api: &Api, object: &Value) -> Result<Value, Refused> {
    let begun = tokio::time::Instant::now();
    loop {
        match api.apply(object).await {
            Err(refused) if refused.reason == "NotFound" && begun.elapsed() < WANT_MAX => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Err(refused) => {
                return Err(Refused { message: format!("{}: {}", title(object), refused.message), ..refused });
            }
            done => return done,
        }
    }
}

/// Deletes what was applied, the last first, and waits for its pods to be gone.
async fn take_down(api: &Api, applied: &[Value]) {
    for object in applied.iter().rev() {
        match api.delete(object).await {
            Ok(()) => println!("deleted  {}", title(object)),
            Err(refused) => println!("kept     {}: {}", title(object), refused.message),
        }
    }
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < GONE_MAX {
        let mut is_gone = true;
        for object in applied {
            let Ok(address) = api.address(object).await else { continue };
            let found = api.call(Method::GET, &address, "application/json", &Value::Null).await;
            is_gone &= found.is_err_and(|refused| refused.reason == "NotFound");
        }
        if is_gone {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
