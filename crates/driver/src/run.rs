//! The loop: one task that looks, many that perform.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use brain::{Controller, Loop, Performed, Refusal, Refusals, Turn, View, Wake};
use client::Transport;
use clock::Clock;
use meta::Time;
use store::{Event, Key};
use tokio::sync::{mpsc, watch};
use view::Mirror;

use crate::events;
use crate::perform::Hands;
use crate::source::Source;

/// Turns of one controller under way at a time: enough to keep the log's group commits full.
const TURNS_MAX: usize = 64;
/// How often keys at rest are forgotten.
const TIDY_EVERY_TURNS: u64 = 4_096;

/// What a driver runs.
pub struct DriverConfig {
    /// What brains look at.
    pub source: Source,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The controllers.
    pub controllers: Vec<Controller>,
    /// Each controller's way to the API, by its name: acting as its own user.
    pub transport: Box<dyn Fn(&'static str) -> Arc<dyn Transport> + Send>,
}

/// The driver's state, owned by its one task.
pub struct Driver {
    config: DriverConfig,
    mirror: Mirror,
    rooms: Vec<Room>,
    done: mpsc::UnboundedSender<Done>,
    turns: u64,
}

/// One controller with its keys.
struct Room {
    controller: Controller,
    hands: Arc<Hands>,
    keys: Loop,
    refusals: Refusals,
    running: usize,
}

struct Done {
    room: usize,
    key: Key,
    ended: Ended,
}

/// How a turn ended.
struct Ended {
    performed: Performed,
    wake: Wake,
    refusal: Option<Refusal>,
}

/// Runs until `stop` turns true.
pub async fn run(config: DriverConfig, mut stop: watch::Receiver<bool>) {
    let mut moved = config.source.moved.clone();
    let (done, mut finished) = mpsc::unbounded_channel();
    let mut driver = Driver::new(config, done);
    driver.wake_everything();
    loop {
        moved.mark_unchanged();
        driver.look();
        driver.start_turns();
        let timer = driver.next_timer();
        tokio::select! {
            _ = moved.changed() => {}
            Some(first) = finished.recv() => {
                driver.finish(first);
                while let Ok(next) = finished.try_recv() {
                    driver.finish(next);
                }
            }
            () = sleep(timer) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn sleep(span: Option<Duration>) {
    match span {
        Some(span) => tokio::time::sleep(span).await,
        None => std::future::pending().await,
    }
}

impl Driver {
    fn new(config: DriverConfig, done: mpsc::UnboundedSender<Done>) -> Driver {
        let rooms: Vec<Room> = config
            .controllers
            .iter()
            .map(|controller| Room {
                controller: controller.clone(),
                hands: Arc::new(Hands::new(
                    (config.transport)(controller.def.name),
                    config.source.clone(),
                    format!("{}-controller", controller.def.name),
                )),
                keys: Loop::new(),
                refusals: Refusals::default(),
                running: 0,
            })
            .collect();
        let mirror = Mirror::of(&*config.source.store);
        Driver { config, mirror, rooms, done, turns: 0 }
    }

    /// Level, not edge: after a start, or when history was lost, every key that is there is looked at.
    fn wake_everything(&mut self) {
        for room in &mut self.rooms {
            for key in room.controller.all_keys(self.mirror.view()) {
                room.keys.wake(key);
            }
        }
    }

    fn look(&mut self) {
        let rooms = &mut self.rooms;
        let wake = |view: &View, event: &Event| {
            for room in rooms.iter_mut() {
                for key in room.controller.def.keys(view, event) {
                    room.keys.wake(key);
                }
            }
        };
        if !self.mirror.advance(&*self.config.source.store, wake) {
            self.wake_everything();
        }
    }

    fn start_turns(&mut self) {
        let now = self.config.clock.now();
        let view = self.mirror.view();
        for (at, room) in self.rooms.iter_mut().enumerate() {
            while room.running < TURNS_MAX {
                let Some(key) = room.keys.next(view.revision(), now) else { break };
                room.running += 1;
                self.turns += 1;
                let (controller, hands) = (room.controller.clone(), Arc::clone(&room.hands));
                let view = self.config.source.view_for_turn(view);
                let (done, last) = (self.done.clone(), room.refusals.get(&key).cloned());
                tokio::spawn(async move {
                    let ended = turn(&controller, &hands, &view, &key, now, last).await;
                    // The receiver is gone only when the driver is.
                    let _ = done.send(Done { room: at, key, ended });
                });
            }
        }
        if self.turns > TIDY_EVERY_TURNS {
            self.turns = 0;
            for room in &mut self.rooms {
                room.keys.tidy(view.revision());
            }
        }
    }

    fn finish(&mut self, done: Done) {
        let now = self.config.clock.now();
        let room = &mut self.rooms[done.room];
        room.running -= 1;
        match done.ended.refusal {
            Some(refusal) => room.refusals.remember(done.key.clone(), refusal),
            None => room.refusals.forget(&done.key),
        }
        let wake = match (done.ended.wake, room.controller.def.resync) {
            (wake, Some(resync)) => wake.or_at(now.after(resync)),
            (wake, None) => wake,
        };
        room.keys.done(&done.key, done.ended.performed, wake, now);
    }

    fn next_timer(&self) -> Option<Duration> {
        let next = self.rooms.iter().filter_map(|room| room.keys.next_timer()).min()?;
        Some(next.since(self.config.clock.now()))
    }
}

/// One turn: decide, perform, record.
async fn turn(
    controller: &Controller,
    hands: &Hands,
    view: &View,
    key: &Key,
    now: Time,
    last: Option<Refusal>,
) -> Ended {
    // A brain that panics on one key must not take the others with it.
    let decided = std::panic::catch_unwind(AssertUnwindSafe(|| (controller.turn)(view, key, now, last.as_ref())));
    let failed = || Ended { performed: Performed::Failed { wrote: None }, wake: Wake::OnChange, refusal: None };
    let turn = match decided {
        Ok(turn) => turn,
        Err(_) => {
            tracing::error!(controller = controller.def.name, %key, "a controller panicked; the key is tried again later");
            return failed();
        }
    };
    if let Some(violation) = &turn.violation {
        tracing::error!(controller = controller.def.name, %key, %violation, "a controller broke its own invariant; nothing was done");
        return failed();
    }
    let result = hands.perform(&turn.effects, view, key).await;
    let refusal = result.refused.zip(turn.effects.get(result.done)).map(|(refused, effect)| {
        tracing::debug!(controller = controller.def.name, %key, code = refused.code, message = %refused.message, "a step was refused");
        Refusal::of(&effect.action, refused.reason, refused.message, now)
    });
    record(controller, hands, view, key, now, &turn, result.done).await;
    Ended { performed: result.performed, wake: turn.wake, refusal }
}

/// Makes events of what was done and of what there is to say anyway.
async fn record(controller: &Controller, hands: &Hands, view: &View, key: &Key, now: Time, turn: &Turn, done: usize) {
    let Some(root) = view.get_key(key) else { return };
    let told = turn.effects.iter().take(done).filter_map(|effect| effect.note.as_ref()).chain(&turn.notes);
    let events: Vec<_> = told.filter_map(|note| events::event_of(&controller.def, &root, note, now)).collect();
    for event in events {
        events::tell(hands, &event).await;
    }
}
