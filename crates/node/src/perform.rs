//! Performs one step for one pod.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::env;
use agent::pod::{Answer, Container, Failure, Marks, Pod, ProbeAnswer, Pulled, Shown, Step, VolumeImage};
use contract::{ContainerRuntime, Error};
use meta::ObjectExt;
use serde_json::Value;
use tokio::sync::Semaphore;
use view::View;

use crate::api::{Api, PODS};
use crate::container_spec::{Parts, Source, container_spec};
use crate::dirs::Dirs;
use crate::image::{Course, ImageStore, LocalImage, PULL_TIMEOUT, course};
use crate::probing::{self, Target};
use crate::sandbox_spec::sandbox_spec;
use crate::signal::signal;
use crate::{material, volume};

/// Images fetched at a time: each fetches several layers at a time itself.
const PULLS_MAX: usize = 4;
/// Sandboxes and containers made at a time: each is a process start and some tens of system calls.
const STARTS_MAX: usize = 16;
/// Probes performed at a time over the network, and as many as commands, which may have to wait for a runtime.
const PROBES_MAX: usize = 64;
/// How long a postStart hook may take. Upstream sets no limit; an answer that never comes would hold the pod for ever.
const POST_START_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// What performs.
pub(crate) struct Hands {
    pub api: Api,
    pub runtime: Arc<dyn ContainerRuntime>,
    pub images: Arc<dyn ImageStore>,
    pub dirs: Dirs,
    pub cluster_dns: Option<IpAddr>,
    pub host_ips: Vec<String>,
    pub node_memory: i64,
    pulls: Semaphore,
    starts: Semaphore,
    probes: Semaphore,
    commands: Semaphore,
}

/// The pod that a step is for, as it was when the step was decided.
pub(crate) struct Task {
    pub object: Arc<Value>,
    pub shown: Shown,
    pub view: View,
    pub step: Step,
}

/// How a step ended, and the pod's object if the step has changed it.
pub(crate) struct Ended {
    pub answer: Answer,
    pub object: Option<Value>,
}

impl From<Answer> for Ended {
    fn from(answer: Answer) -> Ended {
        Ended { answer, object: None }
    }
}

impl Hands {
    pub fn new(
        api: Api,
        runtime: Arc<dyn ContainerRuntime>,
        images: Arc<dyn ImageStore>,
        dirs: Dirs,
        cluster_dns: Option<IpAddr>,
        host_ips: Vec<String>,
        node_memory: i64,
    ) -> Hands {
        Hands {
            api,
            runtime,
            images,
            dirs,
            cluster_dns,
            host_ips,
            node_memory,
            pulls: Semaphore::new(PULLS_MAX),
            starts: Semaphore::new(STARTS_MAX),
            probes: Semaphore::new(PROBES_MAX),
            commands: Semaphore::new(PROBES_MAX),
        }
    }

    /// Performs a step.
    pub async fn perform(&self, task: &Task) -> Ended {
        let pod = &*task.object;
        match &task.step {
            Step::Report { patch } => self.report(pod, patch).await,
            Step::Delete => {
                done(self.api.remove_pod(pod).await.map(|_| ()).or_else(|refused| match &*refused.reason {
                    "NotFound" | "Conflict" => Ok(()),
                    _ => Err(refused.message),
                }))
            }
            Step::Mount => done(volume::set_up(&self.api, &task.view, &self.dirs, pod).await),
            Step::Unmount => self.unmount(pod).await,
            Step::Pull { image, policy, volumes, .. } => self.pull_all(pod, image, policy, volumes).await.into(),
            Step::CreateSandbox { attempt } => self.create_sandbox(pod, *attempt).await,
            Step::CreateContainer { sandbox, container, attempt, image_id, marks } => {
                let made = self.create(task, sandbox, container, (*attempt, image_id, marks)).await;
                made.map_or_else(Answer::Failed, |()| Answer::Done).into()
            }
            Step::StartContainer { id, .. } => self.start(id).await,
            Step::Stop { container, id, grace } => done(self.stop(pod, container, id, *grace).await),
            Step::PostStart { container, id } => self.hook(task, container, id, "postStart", POST_START_TIMEOUT).await,
            Step::PreStop { container, id, grace } => self.hook(task, container, id, "preStop", *grace).await,
            Step::Probe { container, id, kind } => self.probe(task, container, id, *kind).await,
            Step::Resize { sandbox, from, to, containers } => {
                done(self.resize(pod, sandbox, (from, to), containers).await)
            }
            Step::RemoveContainer { id } => self.remove(pod, id).await,
            Step::StopSandbox { id } => gone(self.runtime.stop_sandbox(id).await),
            Step::RemoveSandbox { id } => gone(self.runtime.remove_sandbox(id).await),
        }
    }

    async fn report(&self, pod: &Value, patch: &Value) -> Ended {
        match self.api.patch_status(PODS, pod, patch.clone()).await {
            Ok(object) => Ended { answer: Answer::Done, object: Some(object) },
            Err(refused) => Answer::failed(refused.reason, refused.message).into(),
        }
    }

    async fn unmount(&self, pod: &Value) -> Ended {
        let (directory, volumes) = (self.dirs.pod(pod.uid()), self.dirs.volumes(pod.uid()));
        let torn = tokio::task::spawn_blocking(move || volume::tear_down(&directory, &volumes)).await;
        done(torn.unwrap_or_else(|error| Err(error.to_string())))
    }

    /// A container's image and those that it mounts; the answer is about its own.
    async fn pull_all(&self, pod: &Value, image: &str, policy: &str, volumes: &[VolumeImage]) -> Answer {
        for volume in volumes {
            if let Answer::Failed(failure) = self.pull(pod, &volume.image, &volume.policy).await {
                let message = format!("image of volume \"{}\": {}", volume.volume, failure.message);
                return Answer::Failed(Failure { message, ..failure });
            }
        }
        self.pull(pod, image, policy).await
    }

    async fn pull(&self, pod: &Value, name: &str, policy: &str) -> Answer {
        let found = match self.images.find(name).await {
            Ok(found) => found,
            Err(failure) => return Answer::Failed(failure),
        };
        match (course(policy, found.is_some()), found) {
            (Course::Use, Some(image)) => Answer::Pulled(Pulled { image_id: image.id, fetched: None }),
            (Course::Refuse, _) => {
                let why = format!("Container image \"{name}\" is not present with pull policy of Never");
                Answer::failed("ErrImageNeverPull", why)
            }
            _ => self.fetch(pod, name).await,
        }
    }

    async fn fetch(&self, pod: &Value, name: &str) -> Answer {
        let Ok(_permit) = self.pulls.acquire().await else { return Answer::failed("ErrImagePull", "stopping") };
        let secrets = material::pull_secrets(&self.api, pod).await;
        let begun = tokio::time::Instant::now();
        match tokio::time::timeout(PULL_TIMEOUT, self.images.pull(name, &secrets)).await {
            Ok(Ok(image)) => {
                Answer::Pulled(Pulled { image_id: image.id, fetched: Some((begun.elapsed(), image.size)) })
            }
            Ok(Err(failure)) => Answer::Failed(failure),
            Err(_) => Answer::failed("ErrImagePull", "the image did not come in time"),
        }
    }

    async fn create_sandbox(&self, pod: &Value, attempt: u32) -> Ended {
        let Ok(_permit) = self.starts.acquire().await else { return Answer::failed("", "stopping").into() };
        let spec = sandbox_spec(pod, attempt, self.cluster_dns);
        done(self.runtime.run_sandbox(&spec).await.map(|_| ()).map_err(|error| error.to_string()))
    }

    async fn create(
        &self,
        task: &Task,
        sandbox: &str,
        name: &str,
        (attempt, image_id, marks): (u32, &str, &Marks),
    ) -> Result<(), Failure> {
        let failed = |reason: &str, message: String| Failure { reason: reason.to_owned(), message };
        let Ok(_permit) = self.starts.acquire().await else {
            return Err(failed("CreateContainerError", "stopping".to_owned()));
        };
        let pod = self.with_addresses(task, sandbox);
        let facts = Pod::new(&pod);
        let container = facts.container(name).ok_or_else(|| failed("CreateContainerError", format!("no {name}")))?;
        let config = |message: String| failed("CreateContainerConfigError", message);
        let material = material::for_environment(&self.api, &task.view, &pod).await.map_err(config)?;
        let environment = env::environment(&pod, container.spec, &material).map_err(config)?;
        let image = self.image(container.image(), image_id).await?;
        volume::restore(&self.api, &task.view, &self.dirs, &pod).await.map_err(config)?;
        let volumes = self.volumes(&pod, &container).await?;
        let message = self.message_file(pod.uid(), name, attempt).map_err(config)?;
        let spec = container_spec(&Parts {
            pod: &pod,
            container: container.spec,
            attempt,
            image: &image,
            environment: &environment,
            marks,
            volume: &|name| volumes.get(name).cloned(),
            message,
            node_memory: self.node_memory,
        })
        .map_err(config)?;
        let made = self.runtime.create_container(sandbox, &spec).await;
        made.map(|_| ()).map_err(|error| failed("CreateContainerError", error.to_string()))
    }

    /// The image that was resolved, or what its name means now if that is gone.
    async fn image(&self, name: &str, id: &str) -> Result<LocalImage, Failure> {
        let found = match self.images.find(id).await {
            Ok(Some(image)) => Some(image),
            _ => self.images.find(name).await?,
        };
        found.ok_or_else(|| Failure {
            reason: "CreateContainerError".to_owned(),
            message: format!("image \"{name}\" is gone"),
        })
    }

    async fn volumes(&self, pod: &Value, container: &Container<'_>) -> Result<BTreeMap<String, Source>, Failure> {
        let mut sources = BTreeMap::new();
        for VolumeImage { volume, image, .. } in Pod::new(pod).image_volumes(container) {
            sources.insert(volume, Source::Image(Box::new(self.image(&image, &image).await?)));
        }
        for mount in container.spec.items(&["volumeMounts"]) {
            let name = mount.text(&["name"]);
            if !sources.contains_key(name)
                && let Some(path) = volume::place(&self.api, &self.dirs, pod, name).await
            {
                sources.insert(name.to_owned(), Source::Path(path));
            }
        }
        Ok(sources)
    }

    fn message_file(&self, uid: &str, container: &str, attempt: u32) -> Result<PathBuf, String> {
        let path = self.dirs.message(uid, container, attempt);
        let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let made = parent.and_then(|()| std::fs::OpenOptions::new().create(true).append(true).open(&path));
        let open = made.and_then(|file| file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)));
        open.map(|()| path).map_err(|error| error.to_string())
    }

    /// The pod with the addresses it has, which its status may not say yet.
    fn with_addresses(&self, task: &Task, sandbox: &str) -> Value {
        let mut pod = (*task.object).clone();
        let found = task.shown.sandboxes.iter().find(|shown| shown.id == sandbox);
        let own = found.map(|sandbox| sandbox.ips.clone()).filter(|ips| !ips.is_empty());
        let own = own.unwrap_or_else(|| self.host_ips.clone());
        for (one, all, ips) in [("podIP", "podIPs", &own), ("hostIP", "hostIPs", &self.host_ips)] {
            pod.put(&["status", one], ips.first().cloned().unwrap_or_default());
            let list: Vec<Value> = ips.iter().map(|ip| serde_json::json!({ "ip": ip })).collect();
            pod.put(&["status", all], list);
        }
        pod
    }

    async fn start(&self, id: &str) -> Ended {
        let Ok(_permit) = self.starts.acquire().await else { return Answer::failed("", "stopping").into() };
        match self.runtime.start_container(id).await {
            Ok(()) => Answer::Done.into(),
            Err(error) => Answer::failed("RunContainerError", error.to_string()).into(),
        }
    }

    async fn stop(&self, pod: &Value, container: &str, id: &str, grace: Duration) -> Result<(), String> {
        let signal = self.stop_signal(pod, container).await;
        match self.runtime.stop_container(id, signal, grace).await {
            Err(error) if !error.is_not_found() => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    /// The pod's, else the image's, else SIGTERM.
    async fn stop_signal(&self, pod: &Value, name: &str) -> Option<i32> {
        let facts = Pod::new(pod);
        let container = facts.container(name)?;
        let own = container.spec.text(&["lifecycle", "stopSignal"]);
        if !own.is_empty() {
            return signal(own);
        }
        let image = self.images.find(container.image()).await.ok().flatten()?;
        signal(&image.stop_signal)
    }

    async fn hook(&self, task: &Task, name: &str, id: &str, which: &str, limit: Duration) -> Ended {
        let pod = Pod::new(&task.object);
        let Some(container) = pod.container(name) else { return Answer::Done.into() };
        let Some(spec) = container.spec.at(&["lifecycle", which]) else { return Answer::Done.into() };
        let ip = self.address(task);
        let target = Target { runtime: &*self.runtime, id, container, ip: &ip };
        done(probing::hook(&target, spec, limit).await)
    }

    async fn probe(&self, task: &Task, name: &str, id: &str, kind: agent::pod::Kind) -> Ended {
        let pod = Pod::new(&task.object);
        let Some(container) = pod.container(name) else { return Answer::Done.into() };
        let Some(probe) = container.probe(kind) else { return Answer::Done.into() };
        let permits = if probe.is_command() { &self.commands } else { &self.probes };
        let Ok(_permit) = permits.acquire().await else {
            return Answer::Probed(ProbeAnswer::Unknown("stopping".to_owned())).into();
        };
        let ip = self.address(task);
        let target = Target { runtime: &*self.runtime, id, container, ip: &ip };
        Answer::Probed(probing::probe(&target, probe.spec, probe.timeout).await).into()
    }

    /// A container and what it alone needed. Logs of a pod that goes altogether go with the pod: somebody may read them
    /// until then.
    async fn remove(&self, pod: &Value, id: &str) -> Ended {
        let status = self.runtime.container_status(id).await.ok();
        let ended = gone(self.runtime.remove_container(id).await);
        if let (Answer::Done, Some(status)) = (&ended.answer, status) {
            let (message, resized) = (
                self.dirs.message(pod.uid(), &status.spec.name, status.spec.attempt),
                self.dirs.resized(pod.uid(), id),
            );
            let log = (!pod.is_deleting()).then_some(status.log_path);
            // What cannot be removed now goes with the pod.
            let _ = tokio::task::spawn_blocking(move || {
                let put_aside = log.iter().flat_map(|log| contract::rotated(log).unwrap_or_default());
                let all: Vec<PathBuf> = put_aside.chain(log.clone()).chain([message, resized]).collect();
                all.iter().for_each(|file| drop(std::fs::remove_file(file)));
            })
            .await;
        }
        ended
    }

    fn address(&self, task: &Task) -> String {
        let own = task.shown.newest_sandbox().and_then(|sandbox| sandbox.ips.first());
        own.or(self.host_ips.first()).cloned().unwrap_or_else(|| "127.0.0.1".to_owned())
    }
}

fn done(result: Result<(), String>) -> Ended {
    result.map_or_else(|message| Answer::failed("", message), |()| Answer::Done).into()
}

/// What is not there need not be removed.
fn gone(result: contract::Result<()>) -> Ended {
    match result {
        Err(error) if !matches!(error, Error::NotFound { .. }) => Answer::failed("", error.to_string()).into(),
        _ => Answer::Done.into(),
    }
}
