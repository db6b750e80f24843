//! Recreation: all old pods go, then the new ones come.

use brain::Outcome;

use super::progress;
use super::rollout::Rollout;
use super::{Step, Why};

impl Rollout<'_> {
    /// One step of the recreation.
    pub fn recreate(mut self) -> Outcome<Step, Why> {
        self.sync_new_set();
        let mut shrunk = false;
        for index in self.olds() {
            if self.drafts[index].set.replicas > 0 {
                shrunk |= self.resize(index, 0);
            }
        }
        if shrunk {
            return self.finish_rollout();
        }
        if self.old_pods_run() {
            return self.note(Why::OldPodsRunning).finish_rollout();
        }
        if let Some(end) = self.ensure_new_set() {
            return end;
        }
        if let Some(index) = self.new {
            let wanted = self.desired.replicas;
            if self.drafts[index].set.replicas != wanted {
                self.resize(index, wanted);
            }
        }
        if progress::is_complete(&self) {
            self.clean_history();
        }
        self.finish_rollout()
    }

    fn old_pods_run(&self) -> bool {
        let new = self.new_set().map(|set| &set.target.uid);
        self.observed.running.iter().any(|uid| Some(uid) != new)
    }
}
