//! The scheduler's loop: one task that decides, many that bind.
//!
//! Its own loop and not the controllers', because the scheduler decides about one pod after the other on what it
//! knows of all of them, and does not wait for a bind before it makes the next decision.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use brain::{Action, Note, Performed, Resource, View, key};
use client::Transport;
use clock::Clock;
use meta::Time;
use scheduler::{Decision, SCHEDULER_NAME, Scheduler};
use store::Key;
use tokio::sync::{mpsc, watch};
use view::Mirror;

use crate::events;
use crate::perform::Hands;
use crate::source::Source;

const PODS: Resource = Resource::new("", "v1", "pods");
/// Decisions under way at a time: enough to keep the log's group commits full.
const FLIGHTS_MAX: usize = 256;
/// Decisions after which the world is looked at again: binds that are done make room for others.
const DECISIONS_AT_ONCE: usize = 32;

/// What the scheduler runs on.
pub struct SchedulerConfig {
    /// What it looks at.
    pub source: Source,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Its way to the API.
    pub transport: Arc<dyn Transport>,
}

struct Room {
    config: SchedulerConfig,
    mirror: Mirror,
    scheduler: Scheduler,
    hands: Arc<Hands>,
    done: mpsc::UnboundedSender<(u64, Performed)>,
    running: usize,
}

/// Runs until `stop` turns true.
pub async fn run_scheduler(config: SchedulerConfig, mut stop: watch::Receiver<bool>) {
    let mut moved = config.source.moved.clone();
    let (done, mut finished) = mpsc::unbounded_channel();
    let mut room = Room::new(config, done);
    loop {
        moved.mark_unchanged();
        room.look();
        let more = room.start();
        while let Ok(next) = finished.try_recv() {
            room.finish(next);
        }
        let timer = if more { Some(Duration::ZERO) } else { room.next_timer() };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            _ = moved.changed() => {}
            Some(first) = finished.recv() => room.finish(first),
            () = sleep(timer) => {}
        }
    }
}

async fn sleep(span: Option<Duration>) {
    match span {
        // Others get their turn, but no tick of the timer is waited for.
        Some(Duration::ZERO) => tokio::task::yield_now().await,
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}

impl Room {
    fn new(config: SchedulerConfig, done: mpsc::UnboundedSender<(u64, Performed)>) -> Room {
        let mirror = Mirror::of(&*config.source.store);
        let hands = Arc::new(Hands::new(Arc::clone(&config.transport), config.source.clone(), SCHEDULER_NAME));
        let mut scheduler = Scheduler::new();
        scheduler.rebuild(mirror.view(), config.clock.now());
        Room { config, mirror, scheduler, hands, done, running: 0 }
    }

    fn look(&mut self) {
        let now = self.config.clock.now();
        let scheduler = &mut self.scheduler;
        if !self.mirror.advance(&*self.config.source.store, |_, event| scheduler.observe(event, now)) {
            self.scheduler.rebuild(self.mirror.view(), now);
        }
    }

    /// Starts what there is to do; whether there may be more.
    fn start(&mut self) -> bool {
        for _ in 0..DECISIONS_AT_ONCE {
            if self.running >= FLIGHTS_MAX {
                return false;
            }
            let Some(decision) = self.decide() else { return false };
            self.running += 1;
            let (hands, view, done) = (Arc::clone(&self.hands), self.mirror.view().clone(), self.done.clone());
            let now = self.config.clock.now();
            tokio::spawn(async move {
                let performed = perform(&hands, &view, &decision, now).await;
                // The receiver is gone only when the scheduler is.
                let _ = done.send((decision.ticket, performed));
            });
        }
        true
    }

    /// A pod that makes the scheduler panic must not take the others with it: it is left alone, and everything
    /// that was worked out is worked out anew.
    fn decide(&mut self) -> Option<Decision> {
        let now = self.config.clock.now();
        let (scheduler, view) = (&mut self.scheduler, self.mirror.view());
        match std::panic::catch_unwind(AssertUnwindSafe(|| scheduler.next(view, now))) {
            Ok(decision) => decision,
            Err(_) => {
                tracing::error!("the scheduler panicked; it starts anew, without the pod that it was looking at");
                self.scheduler.rebuild(self.mirror.view(), now);
                None
            }
        }
    }

    fn finish(&mut self, (ticket, performed): (u64, Performed)) {
        self.running -= 1;
        self.scheduler.done(ticket, performed, self.config.clock.now());
    }

    fn next_timer(&self) -> Option<Duration> {
        if self.running >= FLIGHTS_MAX {
            return None;
        }
        Some(self.scheduler.next_timer()?.since(self.config.clock.now()))
    }
}

/// Performs one decision and tells of it.
async fn perform(hands: &Hands, view: &View, decision: &Decision, now: Time) -> Performed {
    let result = hands.perform(&decision.effects, view, &decision.key).await;
    if let Some(refused) = &result.refused {
        tracing::debug!(pod = %decision.key, code = refused.code, message = %refused.message, "a step was refused");
    }
    for effect in decision.effects.iter().take(result.done) {
        if let Some(note) = &effect.note {
            tell(hands, view, &subject(&effect.action), note, now).await;
        }
    }
    for note in &decision.notes {
        tell(hands, view, &decision.key, note, now).await;
    }
    result.performed
}

/// The pod that an effect is about.
fn subject(action: &Action) -> Key {
    let namespace = match action {
        Action::Bind { namespace, .. }
        | Action::Evict { namespace, .. }
        | Action::Patch { namespace, .. }
        | Action::Delete { namespace, .. } => namespace,
        _ => "",
    };
    key(&PODS.collection(), namespace, action.name())
}

async fn tell(hands: &Hands, view: &View, about: &Key, note: &Note, now: Time) {
    let Some(pod) = view.get_key(about) else { return };
    if let Some(event) = events::event_from(SCHEDULER_NAME, &PODS, "Pod", &pod, note, now) {
        events::tell(hands, &event).await;
    }
}
