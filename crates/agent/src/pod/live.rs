//! A pod whose containers are to run: its sandbox, then its init containers one after the other, then the rest.

use super::memory::Hook;
use super::probe::{KINDS, Kind};
use super::scene::{KILLED, Past, Scene};
use super::shown::{Container as Life, Sandbox, State};
use super::spec::{Container, Role};
use super::step::Step;
use super::{Turn, backoff, launch, notice, resizing, status, stop};

/// Whether the pod has come to its end by itself: no container runs or is to run again.
pub(super) fn is_finished(scene: &Scene<'_>) -> bool {
    match scene.sandbox() {
        Some(sandbox) => match init_progress(scene, sandbox) {
            Progress::Failed => true,
            Progress::Done => !scene.pod.mains().any(|main| goes_on(scene, &main)),
            Progress::At(_) => false,
        },
        None => !is_worth_a_sandbox(scene),
    }
}

/// Without a sandbox: whether one is worth making.
fn is_worth_a_sandbox(scene: &Scene<'_>) -> bool {
    let was_there = scene.pod.containers().any(|c| !matches!(scene.past(&c), Past::Never));
    if was_there && scene.pod.restart_policy() == "Never" && !any_restarts(scene) {
        return false;
    }
    scene.pod.mains().any(|main| goes_on(scene, &main))
}

/// Whether some container that has ended runs again by its own rules.
fn any_restarts(scene: &Scene<'_>) -> bool {
    scene.pod.mains().any(|main| match scene.past(&main) {
        Past::Over { code, .. } => scene.restarts(&main, code),
        Past::There(_) => scene.restarts(&main, KILLED),
        Past::Never => false,
    })
}

/// Whether a main container runs or is to run.
fn goes_on(scene: &Scene<'_>, main: &Container<'_>) -> bool {
    match scene.past(main) {
        Past::Never | Past::There(_) => true,
        Past::Over { code, .. } => scene.restarts(main, code),
    }
}

/// How far the init containers are.
pub(super) enum Progress<'a> {
    /// The main containers may run.
    Done,
    /// These are at work or are to be started: one ordinary init container at most, and sidecars before it.
    At(Container<'a>),
    /// One has failed for good.
    Failed,
}

/// How far the init containers are in this sandbox.
pub(super) fn init_progress<'a>(scene: &Scene<'a>, sandbox: &Sandbox) -> Progress<'a> {
    let is_in = |name: &str| scene.shown.latest_in(name, &sandbox.id).is_some();
    if scene.pod.mains().any(|main| is_in(main.name())) {
        return Progress::Done;
    }
    let inits: Vec<_> = scene.pod.inits().collect();
    for (at, init) in inits.iter().enumerate() {
        let is_passed = || inits[at + 1..].iter().any(|later| is_in(later.name()));
        let life = scene.shown.latest_in(init.name(), &sandbox.id);
        let is_over = match (init.role, life) {
            (_, None) => is_passed(),
            (Role::Sidecar, Some(life)) => scene.has_started(init, life) || is_passed(),
            (_, Some(life)) => match life.exit() {
                Some(exit) if exit.code == 0 => true,
                Some(exit) if !scene.restarts(init, exit.code) => return Progress::Failed,
                _ => false,
            },
        };
        if !is_over {
            return Progress::At(*init);
        }
    }
    Progress::Done
}

/// Decides.
pub(super) fn decide(scene: &Scene<'_>, turn: &mut Turn) {
    if !scene.memory.is_mounted {
        turn.attempt(scene, Step::Mount, backoff::VOLUMES);
    }
    match scene.sandbox() {
        Some(sandbox) => in_sandbox(scene, sandbox, turn),
        None => without_sandbox(scene, turn),
    }
    sweep(scene, turn);
    if let Some(at) = scene.pod.active_deadline() {
        turn.wake_at(at);
    }
    status::report(scene, None, turn);
}

/// Whatever still lives in a broken sandbox ends; then there is a new one.
fn without_sandbox(scene: &Scene<'_>, turn: &mut Turn) {
    let mut is_clear = true;
    for life in scene.shown.alive() {
        is_clear = false;
        if let Some(container) = scene.pod.container(&life.name) {
            stop::stop(scene, &container, life, &stop::Manner::plain(scene.pod.grace()), turn);
        }
    }
    if !is_clear {
        return;
    }
    for sandbox in scene.shown.sandboxes.iter().filter(|sandbox| sandbox.is_ready) {
        is_clear = false;
        turn.attempt(scene, Step::StopSandbox { id: sandbox.id.clone() }, backoff::LOOK);
    }
    if !is_clear {
        return;
    }
    let attempt = scene.shown.newest_sandbox().map_or(0, |last| last.attempt.saturating_add(1));
    turn.attempt(scene, Step::CreateSandbox { attempt }, backoff::LOOK);
    // Its image can be looked for meanwhile.
    let first = scene.pod.inits().next().or_else(|| scene.pod.mains().next());
    if let Some(first) = first.filter(|_| scene.shown.containers.is_empty()) {
        launch::launch(scene, &first, None, turn);
    }
}

fn in_sandbox(scene: &Scene<'_>, sandbox: &Sandbox, turn: &mut Turn) {
    let progress = init_progress(scene, sandbox);
    for init in scene.pod.inits() {
        let is_turn = match &progress {
            Progress::At(current) => current.name() == init.name(),
            _ => false,
        };
        let was_here = scene.shown.latest_in(init.name(), &sandbox.id).is_some();
        if is_turn || (init.role == Role::Sidecar && (was_here || matches!(progress, Progress::Done))) {
            tend(scene, sandbox, &init, turn);
        }
    }
    if matches!(progress, Progress::Done) {
        scene.pod.mains().for_each(|main| tend(scene, sandbox, &main, turn));
    }
    scene.pod.list("ephemeralContainers").for_each(|extra| tend(scene, sandbox, &extra, turn));
    resizing::resize(scene, sandbox, turn);
}

/// Sees to one container whose turn it is.
fn tend(scene: &Scene<'_>, sandbox: &Sandbox, container: &Container<'_>, turn: &mut Turn) {
    // An ordinary init container runs anew in every sandbox.
    let here = scene.shown.latest_in(container.name(), &sandbox.id);
    if container.role == Role::Init && here.is_none() {
        return launch::launch(scene, container, Some(sandbox), turn);
    }
    match scene.past(container) {
        Past::Never => launch::launch(scene, container, Some(sandbox), turn),
        Past::Over { code, .. } if scene.restarts(container, code) => {
            launch::launch(scene, container, Some(sandbox), turn);
        }
        Past::Over { .. } => {}
        Past::There(life) => match &life.state {
            State::Running { started } => watch_over(scene, container, life, *started, turn),
            State::Created if life.sandbox == sandbox.id => {
                let step = Step::StartContainer { container: container.name().to_owned(), id: life.id.clone() };
                turn.attempt(scene, step, backoff::LOOK);
            }
            State::Created => launch::launch(scene, container, Some(sandbox), turn),
            _ => stop::stop(scene, container, life, &stop::Manner::plain(scene.pod.grace()), turn),
        },
    }
}

/// A running container: its hook, its probes; or its end, when it cannot go on as it is.
fn watch_over(scene: &Scene<'_>, container: &Container<'_>, life: &Life, started: stdx::Time, turn: &mut Turn) {
    if let Some((why, manner)) = grievance(scene, container, life) {
        let restarts = scene.restarts(container, KILLED);
        let manner = stop::Manner { say: Some(notice::killing_because(container, why, restarts)), ..manner };
        return stop::stop(scene, container, life, &manner, turn);
    }
    if scene.memory.hooks.get(&life.id) == Some(&Hook::Due) {
        let step = Step::PostStart { container: container.name().to_owned(), id: life.id.clone() };
        turn.attempt(scene, step, backoff::LOOK);
        return;
    }
    KINDS.iter().for_each(|kind| probe(scene, container, life, started, *kind, turn));
}

/// Why a running container cannot go on.
fn grievance(scene: &Scene<'_>, container: &Container<'_>, life: &Life) -> Option<(&'static str, stop::Manner)> {
    let plain = || stop::Manner::plain(scene.pod.grace());
    let failed = |kind: Kind| scene.prober(container, life, kind).verdict() == Some(false);
    let by_probe = |kind: Kind| {
        let probe = container.probe(kind).filter(|_| failed(kind))?;
        Some(stop::Manner::plain(probe.grace.unwrap_or(scene.pod.grace())))
    };
    // An init container that runs is not replaced: it will end.
    if container.is_lasting() && !life.marks.hash.is_empty() && life.marks.hash != container.hash() {
        return Some(("definition changed", plain()));
    }
    if scene.memory.hooks.get(&life.id) == Some(&Hook::Failed) {
        return Some(("failed postStart hook", plain()));
    }
    if resizing::must_restart(container, life) {
        return Some(("resize requires restart", plain()));
    }
    by_probe(Kind::Startup)
        .map(|manner| ("failed startup probe", manner))
        .or_else(|| by_probe(Kind::Liveness).map(|manner| ("failed liveness probe", manner)))
}

/// A probe that is due, or when it will be.
pub(super) fn probe(
    scene: &Scene<'_>,
    container: &Container<'_>,
    life: &Life,
    started: stdx::Time,
    kind: Kind,
    turn: &mut Turn,
) {
    let Some(probe) = container.probe(kind).filter(|_| container.is_lasting()) else { return };
    let prober = scene.prober(container, life, kind);
    let is_held = match kind {
        Kind::Startup => prober.verdict().is_some(),
        _ => !scene.has_started(container, life),
    };
    let step = Step::Probe { container: container.name().to_owned(), id: life.id.clone(), kind };
    if is_held || scene.memory.is_underway(&step.op()) {
        return;
    }
    match prober.due(&probe, started) {
        due if due <= scene.now => turn.steps.push(step),
        due => turn.wake_at(due),
    }
}

/// Earlier lives but the last (where there is room for it), and sandboxes that nothing is left of, are swept away.
pub(super) fn sweep(scene: &Scene<'_>, turn: &mut Turn) {
    let shown = scene.shown;
    let mut kept_sandboxes: Vec<&str> = shown.newest_sandbox().map(|s| s.id.as_str()).into_iter().collect();
    for life in &shown.containers {
        let newest = shown.latest(&life.name).map_or(0, |latest| latest.attempt);
        let previous = shown.containers.iter().filter(|c| c.name == life.name && c.attempt < newest);
        let last = previous.map(|c| c.attempt).max().filter(|_| !scene.here.is_short_of_disk);
        let is_known = scene.pod.container(&life.name).is_some();
        if life.may_run() || (is_known && (life.attempt == newest || Some(life.attempt) == last)) {
            kept_sandboxes.push(&life.sandbox);
        } else {
            turn.attempt(scene, Step::RemoveContainer { id: life.id.clone() }, backoff::LOOK);
        }
    }
    for sandbox in shown.sandboxes.iter().filter(|sandbox| !kept_sandboxes.contains(&sandbox.id.as_str())) {
        let id = sandbox.id.clone();
        let step = if sandbox.is_ready { Step::StopSandbox { id } } else { Step::RemoveSandbox { id } };
        turn.attempt(scene, step, backoff::LOOK);
    }
}
