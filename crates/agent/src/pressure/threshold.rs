//! Thresholds as options write them: `memory.available<100Mi,nodefs.available<10%`.

use std::collections::BTreeMap;
use std::time::Duration;

use meta::{Quantity, duration};

use super::{Amount, Signal};

/// How long a condition stays after its cause has gone (upstream's default): pods are not sent to and fro.
const TRANSITION: Duration = Duration::from_secs(5 * 60);
/// What a node keeps free when nobody has said otherwise: upstream's defaults, within `DISK_BYTES_MAX`.
const HARD: &str =
    "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%";
/// The most that the defaults keep free of a disk. Between two looks, ten seconds apart, 2 GiB are written at 200 MB/s;
/// and unused images have to go before pods, so their limit lies above, as upstream's does. The percentages are the
/// smaller ones on disks below 20 GiB. See docs/decisions/2026-11-30-eviction-defaults.md.
const DISK_BYTES_MAX: [(Signal, i64); 2] = [(Signal::NodeFsAvailable, 2 << 30), (Signal::ImageFsAvailable, 3 << 30)];

/// An amount: as such, or a share of all there is.
#[derive(Clone, Copy, Debug)]
pub enum Written {
    /// As such.
    Quantity(Quantity),
    /// Of all there is, between 0 and 1. Single precision, as upstream keeps it: the products are shown.
    Share(f32),
    /// Of all there is, but at most so many. Only defaults say so: options have no word for it.
    ShareWithin(f32, i64),
}

/// When there is too little of something.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// Of what.
    pub signal: Signal,
    /// Less than this.
    pub below: Written,
    /// For how long it has to be so; none means that pods go at once.
    pub grace: Duration,
    /// How much more has to be free before it is over.
    pub reclaim: Option<Written>,
}

/// When a node acts, and how.
#[derive(Clone, Debug)]
pub struct Policy {
    /// In the order given.
    pub thresholds: Vec<Threshold>,
    /// How long a condition stays after its cause has gone.
    pub transition: Duration,
    /// The most that a pod which does not have to go at once is given to end.
    pub soft_grace_max: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        let hard = statements(HARD, '<').and_then(|hard| thresholds(&hard, &BTreeMap::new()));
        let mut thresholds = hard.unwrap_or_default();
        for threshold in &mut thresholds {
            let most = DISK_BYTES_MAX.iter().find(|(signal, _)| *signal == threshold.signal);
            if let (Written::Share(share), Some((_, most))) = (threshold.below, most) {
                threshold.below = Written::ShareWithin(share, *most);
            }
        }
        Policy { thresholds, transition: TRANSITION, soft_grace_max: Duration::ZERO }
    }
}

impl Policy {
    /// Replaces the thresholds that act at once.
    pub fn set_hard(&mut self, text: &str) -> Result<(), String> {
        let hard = thresholds(&statements(text, '<')?, &BTreeMap::new())?;
        self.thresholds.retain(|threshold| !threshold.grace.is_zero());
        self.thresholds.splice(0..0, hard);
        Ok(())
    }

    /// Replaces the thresholds that act after a while: `graces` says `signal=1m30s`.
    pub fn set_soft(&mut self, text: &str, graces: &str) -> Result<(), String> {
        let mut spans = BTreeMap::new();
        for (signal, text) in statements(graces, '=')? {
            let nanos = duration::parse(&text)?;
            let nanos = u64::try_from(nanos)
                .map_err(|_| format!("invalid eviction grace period specified: {text}, must be a positive value"))?;
            spans.insert(signal, Duration::from_nanos(nanos));
        }
        let soft = statements(text, '<')?;
        if let Some((signal, _)) = soft.iter().find(|(signal, _)| spans.get(signal).is_none_or(Duration::is_zero)) {
            return Err(format!("grace period must be specified for the soft eviction threshold {}", signal.name()));
        }
        let soft = thresholds(&soft, &spans)?;
        self.thresholds.retain(|threshold| threshold.grace.is_zero());
        self.thresholds.extend(soft);
        Ok(())
    }

    /// Says how much more than the threshold has to be free: `signal=500Mi`. After the thresholds.
    pub fn set_reclaim(&mut self, text: &str) -> Result<(), String> {
        for (signal, text) in statements(text, '=')? {
            let amount = written(signal, &text)?;
            let own = self.thresholds.iter_mut().filter(|threshold| threshold.signal == signal);
            own.for_each(|threshold| threshold.reclaim = amount);
        }
        Ok(())
    }

    /// What of `capacity` is kept from pods, so that they do not run into the threshold by keeping their word.
    pub fn kept(&self, signal: Signal, capacity: i64) -> i64 {
        let hard = self.thresholds.iter().find(|threshold| threshold.signal == signal && threshold.grace.is_zero());
        hard.map_or(0, |threshold| threshold.below.of(capacity)).clamp(0, capacity.max(0))
    }
}

impl Written {
    /// The amount, where `capacity` is all there is.
    pub fn of(&self, capacity: i64) -> i64 {
        match self {
            Written::Quantity(quantity) => quantity.units(),
            Written::Share(share) => (capacity as f64 * f64::from(*share)) as i64,
            Written::ShareWithin(share, most) => Written::Share(*share).of(capacity).min(*most),
        }
    }

    /// The amount as messages show it.
    pub fn shown(&self, capacity: i64) -> String {
        match self {
            Written::Quantity(quantity) => quantity.to_string(),
            Written::Share(_) | Written::ShareWithin(..) => Quantity::from_bytes(self.of(capacity)).to_string(),
        }
    }
}

impl Threshold {
    /// Whether there is too little; `is_met` before: then what has to be reclaimed counts too.
    pub(super) fn is_crossed(&self, found: &Amount, is_met: bool) -> bool {
        let more = self.reclaim.filter(|_| is_met).map_or(0, |reclaim| reclaim.of(found.capacity));
        self.below.of(found.capacity).saturating_add(more) > found.available
    }
}

/// `signal<value,signal<value`, each signal once.
fn statements(text: &str, mark: char) -> Result<BTreeMap<Signal, String>, String> {
    let mut found = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) =
            part.split_once(mark).ok_or_else(|| format!("malformed pair, expect string{mark}string: {part:?}"))?;
        let signal =
            Signal::parse(name.trim()).ok_or_else(|| format!("unsupported eviction signal {}", name.trim()))?;
        if found.insert(signal, value.trim().to_owned()).is_some() {
            return Err(format!("{} is given twice", signal.name()));
        }
    }
    Ok(found)
}

fn thresholds(
    statements: &BTreeMap<Signal, String>,
    graces: &BTreeMap<Signal, Duration>,
) -> Result<Vec<Threshold>, String> {
    let mut found = Vec::new();
    for (signal, text) in statements {
        let Some(below) = written(*signal, text)? else { continue };
        let grace = graces.get(signal).copied().unwrap_or_default();
        found.push(Threshold { signal: *signal, below, grace, reclaim: None });
    }
    Ok(found)
}

/// Nothing for 0 % and 100 %: these switch a threshold off.
fn written(signal: Signal, text: &str) -> Result<Option<Written>, String> {
    let Some(percent) = text.strip_suffix('%') else {
        let quantity = Quantity::parse(text)?;
        if quantity.is_zero() || quantity.is_negative() {
            return Err(format!("eviction threshold {} must be positive: {text}", signal.name()));
        }
        return Ok(Some(Written::Quantity(quantity)));
    };
    if matches!(percent, "0" | "100") {
        return Ok(None);
    }
    let share: f32 = percent.parse().map_err(|_| format!("{text:?} is not a percentage"))?;
    match share {
        share if share < 0.0 => Err(format!("eviction percentage threshold {} must be >= 0%: {text}", signal.name())),
        share if share <= 100.0 => Ok(Some(Written::Share(share / 100.0))),
        _ => Err(format!("eviction percentage threshold {} must be <= 100%: {text}", signal.name())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(policy: &Policy) -> Vec<String> {
        let one = |threshold: &Threshold| {
            let grace = if threshold.grace.is_zero() { String::new() } else { format!(" {:?}", threshold.grace) };
            let reclaim = threshold.reclaim.map_or_else(String::new, |reclaim| format!(" +{}", reclaim.shown(1000)));
            format!("{}<{}{grace}{reclaim}", threshold.signal.name(), threshold.below.shown(1000))
        };
        policy.thresholds.iter().map(one).collect()
    }

    #[test]
    fn the_defaults_of_a_small_disk_are_upstreams() {
        let expected = [
            "memory.available<100Mi",
            "nodefs.available<100",
            "nodefs.inodesFree<50",
            "imagefs.available<150",
            "imagefs.inodesFree<50",
        ];
        assert_eq!(shown(&Policy::default()), expected);
    }

    #[test]
    fn a_large_disk_that_is_mostly_full_has_room() {
        let gib = |count: i64| count << 30;
        let check = |policy: &Policy, available: i64, capacity: i64, expected: &[&str]| {
            let found = Amount { available, capacity };
            let is_disk = |threshold: &&Threshold| threshold.signal.resource() == "ephemeral-storage";
            let crossed = policy.thresholds.iter().filter(is_disk).filter(|one| one.is_crossed(&found, false));
            let names: Vec<&str> = crossed.map(|threshold| threshold.signal.name()).collect();
            assert_eq!(names, expected, "{available} of {capacity}");
        };
        let policy = Policy::default();
        check(&policy, gib(24), gib(252), &[]);
        check(&policy, gib(3), gib(252), &[]);
        check(&policy, gib(3) - 1, gib(252), &["imagefs.available"]);
        check(&policy, gib(2) - 1, gib(252), &["nodefs.available", "imagefs.available"]);
        // On a small one the percentages are what counts.
        check(&policy, gib(4), gib(20) - 1, &[]);
        check(&policy, gib(2), gib(15), &["imagefs.available"]);
        check(&policy, gib(1), gib(15), &["nodefs.available", "imagefs.available"]);
        // Whoever writes a percentage means it.
        let mut told = Policy::default();
        told.set_hard("nodefs.available<10%").expect("read");
        check(&told, gib(24), gib(252), &["nodefs.available"]);
    }

    #[test]
    fn hard_thresholds_are_read() {
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let mut policy = Policy::default();
            let read = policy.set_hard(text).map(|()| shown(&policy));
            let expected = expected.map(|all| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        };
        check("", Ok(&[]));
        check("memory.available<1Gi", Ok(&["memory.available<1Gi"]));
        check(" nodefs.available<20% , pid.available<100", Ok(&["nodefs.available<200", "pid.available<100"]));
        check("nodefs.available<0%,imagefs.available<100%", Ok(&[]));
        check("memory.available", Err("malformed pair, expect string<string: \"memory.available\""));
        check("cpu.available<1", Err("unsupported eviction signal cpu.available"));
        check("memory.available<-1", Err("eviction threshold memory.available must be positive: -1"));
        check("memory.available<101%", Err("eviction percentage threshold memory.available must be <= 100%: 101%"));
        check("memory.available<-1%", Err("eviction percentage threshold memory.available must be >= 0%: -1%"));
        check("memory.available<x%", Err("\"x%\" is not a percentage"));
        check("memory.available<NaN%", Err("eviction percentage threshold memory.available must be <= 100%: NaN%"));
        check("pid.available<1,pid.available<2", Err("pid.available is given twice"));
    }

    #[test]
    fn soft_thresholds_need_a_grace() {
        let mut policy = Policy::default();
        policy.set_hard("memory.available<1").expect("read");
        let refused = policy.set_soft("memory.available<5", "").expect_err("no grace");
        assert_eq!(refused, "grace period must be specified for the soft eviction threshold memory.available");
        policy.set_soft("memory.available<5", "memory.available=1m30s").expect("read");
        policy.set_reclaim("memory.available=7").expect("read");
        assert_eq!(shown(&policy), ["memory.available<1 +7", "memory.available<5 90s +7"]);
    }

    #[test]
    fn what_is_kept_from_pods() {
        let policy = Policy::default();
        assert_eq!(policy.kept(Signal::MemoryAvailable, 1 << 30), 100 << 20);
        assert_eq!(policy.kept(Signal::MemoryAvailable, 1 << 20), 1 << 20);
        assert_eq!(policy.kept(Signal::PidAvailable, 100), 0);
        assert_eq!(policy.kept(Signal::NodeFsAvailable, 1000), 100);
        assert_eq!(policy.kept(Signal::NodeFsAvailable, 252 << 30), 2 << 30);
    }
}
