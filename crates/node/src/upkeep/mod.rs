//! Looks after the machine: what it runs short of is told, made room for, and, if nothing else helps, taken from the
//! pod that deserves it least, one at a time. What is decided is decided in [`agent::pressure`]; here are the looks
//! and the deeds.
//!
//! Nobody being short costs a few system calls every ten seconds. When memory runs short faster than that, the
//! kernel says so ([`alarm`]).

mod alarm;
mod disk;
pub(crate) mod sample;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agent::pod::Pod;
use agent::pressure::{
    self, Amount, Disks, Eviction, Gauge, Observations, PodUsage, Pressure, Pressures, Threshold, is_critical, limits,
    ranked,
};
use brain::Note;
use meta::{ObjectExt, Time};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use self::alarm::Alarm;
use self::sample::Places;
pub(crate) use self::usage::{Wanted, of_pods};
use crate::NodeConfig;
use crate::image::{Collected, ImageLimits, Needed};
use crate::perform::Hands;
use crate::room::News;

/// How often everything is looked at (upstream's number).
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often images are seen to (upstream's number).
const COLLECT_EVERY: Duration = Duration::from_secs(5 * 60);
/// How long a pod that has to go is waited for (upstream's number).
const GONE_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked at meanwhile.
const GONE_LOOK: Duration = Duration::from_millis(250);
/// After what pods write was measured, it is left alone for so many times as long as that took, but not for ever.
const MEASURE_REST: u32 = 10;
const MEASURE_REST_MAX: Duration = Duration::from_secs(60);

/// What the room is asked for.
pub(crate) enum Errand {
    /// Who is here.
    Roster(oneshot::Sender<Vec<Occupant>>),
    /// Whether what has ended has to make room.
    MakeRoom(bool),
    /// A pod has to go.
    Evict { uid: String, eviction: Eviction },
    /// An event of the node.
    Tell(Note),
}

/// A pod that is here.
#[derive(Clone)]
pub(crate) struct Occupant {
    pub uid: String,
    pub pod: Arc<Value>,
    /// Whether it is to go on.
    pub is_active: bool,
    /// Whether something of it runs, or is being removed, or is to be ended.
    pub is_going: bool,
}

/// Who looks after the machine.
pub(crate) struct Guard {
    config: NodeConfig,
    hands: Arc<Hands>,
    places: Places,
    news: mpsc::UnboundedSender<News>,
    shown: watch::Sender<Pressures>,
    is_limited: Arc<AtomicBool>,
    gauge: Gauge,
    /// When images were seen to, or when this began.
    collected: Time,
    is_making_room: bool,
    measured: Option<(Time, Duration)>,
}

impl Guard {
    pub fn new(
        config: NodeConfig,
        hands: Arc<Hands>,
        news: mpsc::UnboundedSender<News>,
        shown: watch::Sender<Pressures>,
        is_limited: Arc<AtomicBool>,
    ) -> Guard {
        let places = Places::of(&config);
        let (gauge, measured, is_making_room) = Default::default();
        let collected = config.clock.now();
        Guard { config, hands, places, news, shown, is_limited, gauge, collected, is_making_room, measured }
    }

    /// Until it is stopped.
    pub async fn run(mut self) {
        let mut alarm = Alarm::open();
        loop {
            let wake = self.round().await;
            let now = self.config.clock.now();
            let pause = wake.map_or(LOOK_EVERY, |at| at.since(now).min(LOOK_EVERY));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = alarm.rung() => tracing::debug!("the kernel says that memory is short"),
            }
        }
    }

    /// One look and what follows from it. When to look again at the latest.
    async fn round(&mut self) -> Option<Time> {
        let found = self.observe().await;
        let now = self.config.clock.now();
        let judged = self.gauge.judge(&self.config.upkeep.eviction, &found, now);
        self.show(&judged.pressures);
        if self.punish(now).await {
            return Some(now);
        }
        if let Some(threshold) = judged.act.first()
            && self.relieve(threshold, &found).await
        {
            return Some(now);
        }
        if self.collected.after(COLLECT_EVERY) <= now {
            self.tidy(now).await;
        }
        judged.wake
    }

    async fn observe(&self) -> Observations {
        let places = self.places.clone();
        tokio::task::spawn_blocking(move || sample::observe(&places)).await.unwrap_or_default()
    }

    fn show(&mut self, pressures: &Pressures) {
        let changed = self.shown.send_if_modified(|shown| {
            let changed = shown != pressures;
            shown.clone_from(pressures);
            changed
        });
        if changed {
            tracing::info!(?pressures, "what the node is short of has changed");
        }
        if !pressures.contains(&Pressure::Disk) && std::mem::take(&mut self.is_making_room) {
            self.send(Errand::MakeRoom(false));
        }
    }

    /// The room is gone only when the node is.
    fn send(&self, errand: Errand) {
        let _ = self.news.send(News::Errand(errand));
    }

    async fn roster(&self) -> Vec<Occupant> {
        let (ask, answer) = oneshot::channel();
        self.send(Errand::Roster(ask));
        answer.await.unwrap_or_default()
    }

    /// Pods that have written more than they may go. Whether there were any.
    async fn punish(&mut self, now: Time) -> bool {
        let is_rested =
            |(at, took): &(Time, Duration)| at.after(took.saturating_mul(MEASURE_REST).min(MEASURE_REST_MAX)) <= now;
        if !self.is_limited.load(Ordering::Relaxed) || !self.measured.as_ref().is_none_or(is_rested) {
            return false;
        }
        let begun = Instant::from(tokio::time::Instant::now());
        let mut limited = self.roster().await;
        limited.retain(|occupant| limits::has_limits(&occupant.pod));
        self.is_limited.store(!limited.is_empty(), Ordering::Relaxed);
        limited.retain(|occupant| occupant.is_active && !is_critical(&occupant.pod));
        let used = self.measure(&limited, Wanted { memory: false, disk: true }).await;
        self.measured = Some((now, begun.elapsed()));
        let mut gone = BTreeSet::new();
        for occupant in limited {
            let breach = used.get(&occupant.uid).and_then(|usage| limits::violation(&occupant.pod, usage));
            if let Some(eviction) = breach {
                gone.insert(occupant.uid.clone());
                self.send(Errand::Evict { uid: occupant.uid, eviction });
            }
        }
        let is_any = !gone.is_empty();
        self.await_end(&gone).await;
        is_any
    }

    async fn measure(&self, occupants: &[Occupant], wanted: Wanted) -> BTreeMap<String, PodUsage> {
        let pods: Vec<Arc<Value>> = occupants.iter().map(|occupant| Arc::clone(&occupant.pod)).collect();
        match of_pods(&*self.hands.runtime, &self.hands.dirs, &pods, wanted).await {
            Ok(used) => used,
            Err(error) => {
                tracing::warn!(%error, "what pods use cannot be found out");
                BTreeMap::new()
            }
        }
    }

    /// Makes room, or lets a pod go. Whether one went.
    async fn relieve(&mut self, threshold: &Threshold, found: &Observations) -> bool {
        let (signal, disks) = (threshold.signal, self.places.disks());
        self.send(Errand::Tell(pressure::attempt(threshold)));
        let mut found = found.clone();
        if disks.containers_help(signal) || disks.images_help(signal) {
            self.make_room(disks.containers_help(signal), disks.images_help(signal)).await;
            found = self.observe().await;
            if Gauge::is_relieved(&self.config.upkeep.eviction, &found) {
                tracing::info!(signal = signal.name(), "there is room again without an eviction");
                return false;
            }
        }
        self.evict_one(threshold, &found, disks).await
    }

    async fn make_room(&mut self, containers: bool, images: bool) {
        if containers {
            self.is_making_room = true;
            self.send(Errand::MakeRoom(true));
            self.await_removals().await;
        }
        if images {
            self.collect(self.config.upkeep.images.everything()).await;
        }
    }

    async fn evict_one(&mut self, threshold: &Threshold, found: &Observations, disks: Disks) -> bool {
        let mut active = self.roster().await;
        active.retain(|occupant| occupant.is_active);
        let is_disk = threshold.signal.condition() == Pressure::Disk;
        let used = self.measure(&active, Wanted { memory: !is_disk, disk: is_disk }).await;
        let pods: Vec<(&Value, Option<&PodUsage>)> =
            active.iter().map(|occupant| (&*occupant.pod, used.get(&occupant.uid))).collect();
        let mut order = ranked(&pods, threshold.signal, disks).into_iter();
        let Some(first) = order.find(|at| pods.get(*at).is_some_and(|(pod, _)| !is_critical(pod))) else {
            tracing::warn!(signal = threshold.signal.name(), "the node is short, and there is no pod to evict");
            return false;
        };
        let (pod, usage) = pods[first];
        let eviction = pressure::eviction(&self.config.upkeep.eviction, threshold, found, pod, usage);
        let uid = active[first].uid.clone();
        self.send(Errand::Evict { uid: uid.clone(), eviction });
        self.await_end(&BTreeSet::from([uid])).await;
        true
    }

    /// Until nothing of these pods runs any more, or for as long as that may take.
    async fn await_end(&self, uids: &BTreeSet<String>) {
        self.await_that(|roster| !roster.iter().any(|occupant| uids.contains(&occupant.uid) && occupant.is_going))
            .await;
    }

    /// Until nothing of pods that have ended is being removed.
    async fn await_removals(&self) {
        let is_over = |occupant: &Occupant| Pod::new(&occupant.pod).is_finished();
        self.await_that(|roster| !roster.iter().any(|occupant| is_over(occupant) && occupant.is_going)).await;
    }

    async fn await_that(&self, is_so: impl Fn(&[Occupant]) -> bool) {
        let wait = async {
            while !is_so(&self.roster().await) {
                tokio::time::sleep(GONE_LOOK).await;
            }
        };
        if tokio::time::timeout(GONE_WITHIN, wait).await.is_err() {
            tracing::warn!("pods that have to go take long");
        }
    }

    /// Images by the use of the disk.
    async fn tidy(&mut self, now: Time) {
        self.collected = now;
        let disk = self.disk_of_images().await.unwrap_or_default();
        let Some(limits) = self.config.upkeep.images.on(&disk) else { return };
        if let Some(collected) = self.collect(limits).await.filter(|collected| collected.missing_bytes > 0) {
            let disk = self.disk_of_images().await.unwrap_or_default();
            self.send(Errand::Tell(no_room(disk, collected.freed_bytes)));
        }
    }

    async fn disk_of_images(&self) -> Option<Amount> {
        let place = self.places.images.clone();
        tokio::task::spawn_blocking(move || sample::disk(&place)).await.ok().flatten()
    }

    async fn collect(&self, limits: ImageLimits) -> Option<Collected> {
        let mut needed = Needed::default();
        for occupant in self.roster().await.iter().filter(|occupant| occupant.is_active) {
            let pod = Pod::new(&occupant.pod);
            needed.names.extend(pod.containers().map(|container| container.image().to_owned()));
            needed.names.extend(image_volumes(&occupant.pod));
        }
        let containers = match self.hands.runtime.list_containers(&Default::default()).await {
            Ok(containers) => containers,
            Err(error) => {
                tracing::warn!(%error, "no image is removed: what runs cannot be found out");
                return None;
            }
        };
        needed.layers = containers.into_iter().flat_map(|container| container.spec.root.lower_dirs).collect();
        match self.config.images.collect(needed, limits).await {
            Ok(collected) => {
                if !collected.removed.is_empty() {
                    let (removed, bytes) = (&collected.removed, collected.freed_bytes);
                    tracing::info!(?removed, bytes, "images were removed");
                }
                Some(collected)
            }
            Err(failure) => {
                // Mostly because something is being pulled: the next time will do.
                tracing::debug!(why = failure.message, "images cannot be removed now");
                None
            }
        }
    }
}

fn image_volumes(pod: &Value) -> impl Iterator<Item = String> {
    let volumes = pod.items(&["spec", "volumes"]).iter();
    volumes.map(|volume| volume.text(&["image", "reference"]).to_owned()).filter(|name| !name.is_empty())
}

/// What is said when removing images was not enough.
fn no_room(disk: Amount, freed_bytes: u64) -> Note {
    let percent = 100 - disk.available.min(disk.capacity).saturating_mul(100) / disk.capacity.max(1);
    let gib = disk.capacity as f64 / f64::from(1 << 30);
    Note::warning(
        "FreeDiskSpaceFailed",
        format!(
            "Insufficient free disk space on the node's image filesystem ({percent}% of {gib:.1} GiB used). Failed to free \
             sufficient space by deleting unused images (freed {freed_bytes} bytes). Investigate disk usage, as it could be \
             used by active images, logs, volumes, or other data."
        ),
    )
}
