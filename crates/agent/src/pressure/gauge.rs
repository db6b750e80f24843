//! What is short now, what the node says of it, and for how long.

use std::collections::BTreeMap;

use stdx::Time;

use super::{Observations, Policy, Pressure, Pressures, Threshold};

/// What is remembered between looks. It may be lost: then conditions begin anew.
#[derive(Clone, Debug, Default)]
pub struct Gauge {
    /// Since when a threshold is crossed, by its place in the policy.
    crossed: BTreeMap<usize, Time>,
    /// Thresholds that were acted upon and are not over.
    met: Vec<usize>,
    /// When a condition was last true.
    seen: BTreeMap<Pressure, Time>,
}

/// What follows from one look.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// What the node shows: what is so, and what was so until lately.
    pub pressures: Pressures,
    /// Thresholds to act upon, the most urgent first.
    pub act: Vec<Threshold>,
    /// When to look again at the latest, for what holds now to be acted upon or to be over.
    pub wake: Option<Time>,
}

impl Gauge {
    /// Takes a look.
    pub fn judge(&mut self, policy: &Policy, found: &Observations, now: Time) -> Judgement {
        let is_crossed = |at: usize, threshold: &Threshold| {
            found.get(&threshold.signal).is_some_and(|amount| threshold.is_crossed(amount, self.met.contains(&at)))
        };
        let all = policy.thresholds.iter().enumerate();
        let crossed: Vec<(usize, &Threshold)> = all.filter(|(at, threshold)| is_crossed(*at, threshold)).collect();
        self.crossed = crossed.iter().map(|(at, _)| (*at, self.crossed.get(at).copied().unwrap_or(now))).collect();
        self.seen.extend(crossed.iter().map(|(_, threshold)| (threshold.signal.condition(), now)));
        let due = |at: &usize, threshold: &Threshold| self.crossed.get(at).map(|since| since.after(threshold.grace));
        let acting: Vec<(usize, &Threshold)> = crossed
            .iter()
            .filter(|(at, threshold)| due(at, threshold).is_some_and(|due| due <= now))
            .copied()
            .collect();
        let waiting = crossed.iter().filter_map(|(at, threshold)| due(at, threshold)).filter(|due| *due > now).min();
        self.met = acting.iter().map(|(at, _)| *at).collect();
        let ends: Vec<Time> =
            self.seen.values().map(|at| at.after(policy.transition)).filter(|end| *end > now).collect();
        self.seen.retain(|_, at| at.after(policy.transition) > now || *at == now);
        let mut act: Vec<Threshold> = acting.into_iter().map(|(_, threshold)| *threshold).collect();
        // The signals are in the order of their urgency; those of one signal stay as they stand.
        act.sort_by_key(|threshold| threshold.signal);
        let wake = waiting.into_iter().chain(ends).min();
        Judgement { pressures: self.seen.keys().copied().collect(), act, wake }
    }

    /// Whether nothing of what was acted upon is left, as `found` after something was reclaimed.
    pub fn is_relieved(policy: &Policy, found: &Observations) -> bool {
        let crossed = |threshold: &&Threshold| {
            found.get(&threshold.signal).is_some_and(|amount| threshold.is_crossed(amount, true))
        };
        !policy.thresholds.iter().any(|threshold| crossed(&threshold))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Amount, Signal};
    use super::*;

    fn found(signal: Signal, available: i64) -> Observations {
        Observations::from([(signal, Amount { available, capacity: 100 })])
    }

    fn policy(hard: &str) -> Policy {
        let mut policy = Policy::default();
        policy.set_hard(hard).expect("thresholds");
        policy
    }

    /// Looks at `(second, available)` of memory; what is shown and acted upon each time.
    fn check(policy: &Policy, looks: &[(i64, i64, bool, bool)]) {
        let mut gauge = Gauge::default();
        for (second, available, shown, acts) in looks {
            let now = Time::from_secs(*second);
            let judged = gauge.judge(policy, &found(Signal::MemoryAvailable, *available), now);
            let seen = (judged.pressures.contains(&Pressure::Memory), !judged.act.is_empty());
            assert_eq!(seen, (*shown, *acts), "second {second}");
        }
    }

    #[test]
    fn a_condition_outlives_its_cause() {
        let policy = policy("memory.available<10");
        check(&policy, &[(0, 10, false, false), (10, 9, true, true), (20, 10, true, false), (309, 50, true, false)]);
        check(&policy, &[(10, 9, true, true), (310, 50, false, false), (320, 3, true, true)]);
    }

    #[test]
    fn without_a_transition_it_is_over_at_once() {
        let policy = Policy { transition: std::time::Duration::ZERO, ..policy("memory.available<10") };
        check(&policy, &[(0, 9, true, true), (0, 9, true, true), (1, 10, false, false)]);
    }

    #[test]
    fn what_has_to_be_reclaimed_counts_once_it_was_short() {
        let mut policy = policy("memory.available<10");
        policy.set_reclaim("memory.available=5").expect("read");
        check(&policy, &[(0, 12, false, false), (1, 9, true, true), (2, 14, true, true), (3, 15, true, false)]);
    }

    #[test]
    fn a_soft_threshold_waits() {
        let mut policy = policy("");
        policy.set_soft("memory.available<10", "memory.available=30s").expect("read");
        check(&policy, &[(0, 9, true, false), (29, 9, true, false), (30, 9, true, true)]);
        check(&policy, &[(0, 9, true, false), (20, 10, true, false), (30, 9, true, false), (60, 9, true, true)]);
        let judged = Gauge::default().judge(&policy, &found(Signal::MemoryAvailable, 1), Time::from_secs(0));
        assert_eq!(judged.wake, Some(Time::from_secs(30)));
    }

    #[test]
    fn memory_comes_first_and_what_is_unknown_means_nothing() {
        let policy = policy("nodefs.available<10,pid.available<10,memory.available<10");
        let mut all = found(Signal::NodeFsAvailable, 1);
        all.extend(found(Signal::MemoryAvailable, 1));
        let judged = Gauge::default().judge(&policy, &all, Time::from_secs(0));
        let order: Vec<Signal> = judged.act.iter().map(|threshold| threshold.signal).collect();
        assert_eq!(order, [Signal::MemoryAvailable, Signal::NodeFsAvailable]);
        assert!(!Gauge::is_relieved(&policy, &all));
        assert!(Gauge::is_relieved(&policy, &Observations::new()));
    }
}
