//! Scaling in the middle of a rollout: every ReplicaSet gets its share, so that the rollout neither gains nor loses.

use super::facts::{Set, Strategy};
use super::rollout::{DESIRED, Rollout};

impl Rollout<'_> {
    /// Whether the Deployment's size has changed since its ReplicaSets were last scaled.
    pub fn is_scaling_event(&self) -> bool {
        let desired = |index: &usize| self.drafts[*index].set.number(DESIRED);
        self.active().iter().filter_map(desired).any(|desired| desired != self.desired.replicas)
    }

    /// Brings the ReplicaSets to the Deployment's size; whether any changes, be it only in its annotations.
    pub fn scale(&mut self) -> bool {
        match (self.only_one_to_scale(), self.desired.strategy) {
            (Some(index), _) => _ = self.resize(index, self.desired.replicas),
            (None, _) if self.is_saturated() => {
                for index in self.olds() {
                    if self.drafts[index].set.replicas > 0 {
                        self.resize(index, 0);
                    }
                }
            }
            (None, Strategy::Rolling { .. }) => self.scale_in_proportion(),
            (None, Strategy::Recreate) => {}
        }
        self.drafts.iter().any(|draft| draft.was.as_ref() != Some(&draft.set))
    }

    /// The one active ReplicaSet, or without any the new one, or without that the newest.
    fn only_one_to_scale(&self) -> Option<usize> {
        match self.active()[..] {
            [] => self.new.or(self.drafts.len().checked_sub(1)),
            [one] => Some(one),
            _ => None,
        }
    }

    fn is_saturated(&self) -> bool {
        let wanted = self.desired.replicas;
        self.new_set()
            .is_some_and(|set| set.replicas == wanted && set.number(DESIRED) == Some(wanted) && set.available == wanted)
    }

    fn scale_in_proportion(&mut self) {
        let wanted = self.desired.replicas;
        let allowed = if wanted > 0 { wanted.saturating_add(self.desired.strategy.max_surge()) } else { 0 };
        let to_add = allowed - self.total();
        let mut order = self.active();
        let by = |set: &Set| (-set.replicas, set.created, set.target.name.clone());
        // The larger first. Of the same size, growing favours the newer and shrinking takes from the older.
        order.sort_by(|a, b| {
            let (a, b) = (by(&self.drafts[*a].set), by(&self.drafts[*b].set));
            let age = (&a.1, &a.2).cmp(&(&b.1, &b.2));
            a.0.cmp(&b.0).then(if to_add > 0 { age.reverse() } else { age })
        });
        let mut added = 0;
        let mut sizes = Vec::new();
        for index in &order {
            let share = self.share(*index, to_add, added);
            added += share;
            sizes.push(self.drafts[*index].set.replicas + share);
        }
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (index, size) in order.into_iter().zip(sizes) {
            self.resize(index, size);
        }
    }

    /// How many of the replicas to add (or, negative, to take) fall to this ReplicaSet.
    fn share(&self, index: usize, to_add: i64, added: i64) -> i64 {
        let rest = to_add - added;
        if rest == 0 {
            return 0;
        }
        let share = self.fraction(index);
        if to_add > 0 { share.min(rest) } else { share.max(rest) }
    }

    fn fraction(&self, index: usize) -> i64 {
        let replicas = self.drafts[index].set.replicas;
        if self.desired.replicas == 0 {
            return -replicas;
        }
        let most = self.desired.replicas.saturating_add(self.desired.strategy.max_surge());
        let stored = || meta::ObjectExt::int(&self.observed.status, &["replicas"]).filter(|n| *n > 0);
        let Some(before) = self.max_before(index).filter(|before| *before > 0).or_else(stored) else { return 0 };
        (replicas as f64 * most as f64 / before as f64).round() as i64 - replicas
    }
}
