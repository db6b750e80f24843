//! kube-rs against the server of $KUBECONFIG: a derived custom kind, patches, a reflector, finalizers.
//! The last line is `N passed, N failed`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(20);
const FINALIZER: &str = "kube-rs.example.com/hold";

/// A custom kind.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "kube-rs.example.com", version = "v1", kind = "Knob", namespaced, status = "KnobStatus")]
struct KnobSpec {
    level: u32,
    #[serde(default)]
    label: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
struct KnobStatus {
    seen: u32,
}

#[derive(Default)]
struct Checks {
    passed: u32,
    failed: u32,
}

impl Checks {
    fn so(&mut self, name: &str, is_so: bool, detail: impl Display) {
        if is_so {
            self.passed += 1;
            println!("ok     {name}");
        } else {
            self.failed += 1;
            println!("FAILED {name}: {detail}");
        }
    }

    fn ok<T, E: Display>(&mut self, name: &str, outcome: Result<T, E>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.so(name, true, "");
                Some(value)
            }
            Err(error) => {
                self.so(name, false, error);
                None
            }
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut checks = Checks::default();
    if let Err(error) = run(&mut checks).await {
        checks.so("the program goes on", false, error);
    }
    println!("{} passed, {} failed", checks.passed, checks.failed);
    if checks.failed == 0 && checks.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

async fn run(checks: &mut Checks) -> Outcome {
    let client = Client::try_default().await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let wanted = Namespace {
        metadata: ObjectMeta { generate_name: Some("kube-rs-".into()), ..Default::default() },
        ..Default::default()
    };
    let namespace = namespaces.create(&PostParams::default(), &wanted).await?.name_any();
    config_maps(checks, Api::namespaced(client.clone(), &namespace)).await?;
    reflect(checks, Api::namespaced(client.clone(), &namespace)).await?;
    custom(checks, client.clone(), &namespace).await?;
    namespaces.delete(&namespace, &DeleteParams::default()).await?;
    Ok(())
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..Default::default() },
        data: Some(BTreeMap::from([("a".to_owned(), value.to_owned())])),
        ..Default::default()
    }
}

async fn config_maps(checks: &mut Checks, maps: Api<ConfigMap>) -> Outcome {
    let made = maps.create(&PostParams::default(), &config_map("cm", "1")).await?;
    checks.so("create", made.uid().is_some() && made.resource_version().is_some(), "no uid");
    let again = maps.create(&PostParams::default(), &config_map("cm", "1")).await;
    checks.so(
        "create again: AlreadyExists",
        matches!(&again, Err(kube::Error::Api(s)) if s.is_already_exists()),
        format!("{again:?}"),
    );
    let missing = maps.get_opt("none").await?;
    checks.so("get of nothing", missing.is_none(), "found");

    let apply = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "2"}}));
    let applied = maps.patch("cm", &PatchParams::apply("one"), &apply).await?;
    checks.so("apply", applied.data.as_ref().is_some_and(|d| d.len() == 2), format!("{:?}", applied.data));
    let other = Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "3"}}));
    let refused = maps.patch("cm", &PatchParams::apply("two"), &other).await;
    checks.so("apply: conflict", matches!(&refused, Err(kube::Error::Api(s)) if s.code == 409), format!("{refused:?}"));
    let forced = maps.patch("cm", &PatchParams::apply("two").force(), &other).await?;
    checks.so("apply: forced", forced.data.is_some_and(|d| d["b"] == "3"), "not so");
    let merged = maps.patch("cm", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": null}}))).await?;
    checks.so("merge patch", merged.data.is_some_and(|d| d.len() == 1), "not so");
    let dry = PatchParams::apply("one").dry_run();
    checks.ok("dry run", maps.patch("new", &dry, &apply).await);
    checks.so("dry run: nothing there", maps.get_opt("new").await?.is_none(), "there");
    checks.ok("delete", maps.delete("cm", &DeleteParams::default()).await);
    Ok(())
}

/// A reflector with a streaming list sees what was there, each change, and what is gone.
async fn reflect(checks: &mut Checks, maps: Api<ConfigMap>) -> Outcome {
    maps.create(&PostParams::default(), &config_map("before", "1")).await?;
    for (name, config) in
        [("list", watcher::Config::default()), ("streaming list", watcher::Config::default().streaming_lists())]
    {
        let (reader, writer) = reflector::store();
        let stream = reflector(writer, watcher(maps.clone(), config));
        let task = tokio::spawn(stream.default_backoff().touched_objects().for_each(|_| async {}));
        let ready = tokio::time::timeout(PATIENCE, reader.wait_until_ready()).await;
        checks.so(&format!("reflector ({name}): ready"), matches!(ready, Ok(Ok(()))), "not in time");
        let key = |name: &str| reflector::ObjectRef::new(name).within(maps.namespace().unwrap_or_default());
        checks.so(&format!("reflector ({name}): what was there"), reader.get(&key("before")).is_some(), "missing");
        maps.create(&PostParams::default(), &config_map("live", "1")).await?;
        checks.so(&format!("reflector ({name}): added"), soon(|| reader.get(&key("live")).is_some()).await, "missing");
        maps.patch("live", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "2"}}))).await?;
        let changed = || reader.get(&key("live")).is_some_and(|m| m.data.as_ref().is_some_and(|d| d["a"] == "2"));
        checks.so(&format!("reflector ({name}): changed"), soon(changed).await, "not so");
        maps.delete("live", &DeleteParams::default()).await?;
        checks.so(&format!("reflector ({name}): gone"), soon(|| reader.get(&key("live")).is_none()).await, "there");
        task.abort();
    }
    Ok(())
}

async fn soon(is_so: impl Fn() -> bool) -> bool {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.is_ok()
}

async fn custom(checks: &mut Checks, client: Client, namespace: &str) -> Outcome {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = Knob::crd_name();
    checks.ok(
        "define the kind",
        definitions.patch(name, &PatchParams::apply("kube-rs"), &Patch::Apply(Knob::crd())).await,
    );
    let established = await_condition(definitions.clone(), name, conditions::is_crd_established());
    checks.so("it is established", tokio::time::timeout(PATIENCE, established).await.is_ok(), "not in time");

    let knobs: Api<Knob> = Api::namespaced(client, namespace);
    let knob = Knob::new("k", KnobSpec { level: 3, label: None });
    checks.ok("create a knob", knobs.create(&PostParams::default(), &knob).await);
    let below = knobs.patch("k", &PatchParams::default(), &Patch::Merge(json!({"spec": {"level": -1}}))).await;
    checks.so(
        "below the minimum is Invalid",
        matches!(&below, Err(kube::Error::Api(s)) if s.code == 422),
        format!("{below:?}"),
    );
    let status = Patch::Merge(json!({"status": {"seen": 7}, "spec": {"level": 9}}));
    let answer = knobs.patch_status("k", &PatchParams::default(), &status).await?;
    checks.so(
        "status is apart",
        answer.spec.level == 3 && answer.status == Some(KnobStatus { seen: 7 }),
        format!("{answer:?}"),
    );
    let found = knobs.list(&ListParams::default().fields("metadata.name=k")).await?;
    checks.so("list", found.items.len() == 1, found.items.len());
    held(checks, &knobs).await?;

    checks.ok("delete the kind", definitions.delete(name, &DeleteParams::default()).await);
    let gone = async {
        while definitions.get_opt(name).await.is_ok_and(|found| found.is_some()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    checks.so("it is gone", tokio::time::timeout(PATIENCE, gone).await.is_ok(), "not in time");
    Ok(())
}

/// The finalizer helper: holds the object, then sees it going and lets it go.
async fn held(checks: &mut Checks, knobs: &Api<Knob>) -> Outcome {
    let step = async |knob: Arc<Knob>| {
        let mut word = "";
        let outcome = finalizer(knobs, FINALIZER, knob, |event| {
            word = match event {
                Finalizer::Apply(_) => "apply",
                Finalizer::Cleanup(_) => "cleanup",
            };
            async { Ok::<_, std::convert::Infallible>(kube::runtime::controller::Action::await_change()) }
        })
        .await;
        outcome.map(|_| word)
    };
    checks.ok("finalizer: added", step(Arc::new(knobs.get("k").await?)).await);
    let knob = Arc::new(knobs.get("k").await?);
    checks.so("finalizer: is there", knob.finalizers() == [FINALIZER], format!("{:?}", knob.finalizers()));
    checks.so("finalizer: apply", step(knob).await.is_ok_and(|word| word == "apply"), "not so");
    knobs.delete("k", &DeleteParams::default()).await?;
    let going = Arc::new(knobs.get("k").await?);
    checks.so("finalizer: holds", going.metadata.deletion_timestamp.is_some(), "not going");
    checks.so("finalizer: cleanup", step(going).await.is_ok_and(|word| word == "cleanup"), "not so");
    checks.so("finalizer: let go", knobs.get_opt("k").await?.is_none(), "there");
    let events: Vec<_> = watcher(knobs.clone(), watcher::Config::default()).take(2).try_collect().await?;
    checks.so(
        "watcher: an empty list",
        matches!(events[..], [watcher::Event::Init, watcher::Event::InitDone]),
        format!("{events:?}"),
    );
    Ok(())
}
