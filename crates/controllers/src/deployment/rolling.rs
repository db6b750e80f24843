//! The rolling update: new pods as far as the surge lets, old ones down as far as availability lets.

use brain::Outcome;

use super::facts::Strategy;
use super::progress;
use super::rollout::Rollout;
use super::{Step, Why};

impl Rollout<'_> {
    /// One step of the rolling update.
    pub fn roll(mut self) -> Outcome<Step, Why> {
        if let Some(end) = self.ensure_new_set() {
            return end;
        }
        if !self.grow_new() && !self.shrink_olds() && progress::is_complete(&self) {
            self.clean_history();
        }
        self.finish_rollout()
    }

    /// Whether the size of the new ReplicaSet changes.
    fn grow_new(&mut self) -> bool {
        let Some(index) = self.new else { return false };
        if self.drafts[index].was.is_none() {
            return true;
        }
        let replicas = self.drafts[index].set.replicas;
        if replicas == self.desired.replicas {
            return false;
        }
        let replicas = if replicas > self.desired.replicas { self.desired.replicas } else { self.new_replicas() };
        self.resize(index, replicas)
    }

    /// How many replicas the new ReplicaSet may have.
    pub fn new_replicas(&self) -> i64 {
        let own = self.new_set().map_or(0, |set| set.replicas);
        match self.desired.strategy {
            Strategy::Recreate => self.desired.replicas,
            Strategy::Rolling { max_surge, .. } => {
                let room = self.desired.replicas.saturating_add(max_surge) - self.total();
                own + room.clamp(0, (self.desired.replicas - own).max(0))
            }
        }
    }

    /// Takes old replicas away: first those that do no good, then as many as availability lets. Whether any goes.
    fn shrink_olds(&mut self) -> bool {
        let Some(new) = self.new_set() else { return false };
        let unavailable_new = new.replicas - new.available;
        let least = self.desired.replicas - self.desired.strategy.max_unavailable();
        let most_down = self.total() - least - unavailable_new;
        if most_down <= 0 {
            return false;
        }
        let broken = self.take_from_olds(most_down, |replicas, available| replicas - available);
        let available: i64 = self.drafts.iter().map(|draft| draft.set.available).sum();
        let healthy = self.take_from_olds(available - least, |replicas, _| replicas);
        broken + healthy > 0
    }

    /// Takes up to `most` replicas from the old ReplicaSets, the oldest first, and from each at most what `spare`
    /// says of its replicas and available pods; how many went.
    fn take_from_olds(&mut self, most: i64, spare: fn(i64, i64) -> i64) -> i64 {
        let mut taken = 0;
        for index in self.olds() {
            let set = &self.drafts[index].set;
            let go = spare(set.replicas, set.available).min(set.replicas).min(most - taken);
            if go > 0 {
                let rest = set.replicas - go;
                self.resize(index, rest);
                taken += go;
            }
        }
        taken
    }
}
