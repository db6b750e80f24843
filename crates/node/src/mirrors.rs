//! Keeps mirror pods: one effect a name at a time, again after a while where it failed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agent::mirror::{self, Act};
use driver::Refused;
use meta::{ObjectExt, Time};
use serde_json::Value;
use store::Key;

use crate::api::{Api, PODS};

/// The first wait after a failure and the longest.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// How long the same report is not repeated: an API that keeps something else is not asked without end.
const REPORT_AGAIN: Duration = Duration::from_secs(10);

/// What is known of the mirrors by name.
#[derive(Default)]
pub(crate) struct Mirrors {
    due: BTreeSet<Key>,
    states: BTreeMap<Key, State>,
}

#[derive(Default)]
struct State {
    is_underway: bool,
    failures: u32,
    retry: Option<Time>,
    reported: Option<(Value, Time)>,
}

impl Mirrors {
    /// Something has changed about a name.
    pub fn wake(&mut self, key: Key) {
        self.due.insert(key);
    }

    /// The names to look at now.
    pub fn take_due(&mut self, now: Time) -> Vec<Key> {
        let late = self.states.iter().filter(|(_, state)| state.retry.is_some_and(|at| at <= now));
        self.due.extend(late.map(|(key, _)| key.clone()).collect::<Vec<_>>());
        std::mem::take(&mut self.due).into_iter().collect()
    }

    /// When a name has to be looked at though nothing has changed.
    pub fn wake_at(&self) -> Option<Time> {
        self.states.values().filter_map(|state| state.retry).min()
    }

    /// What is to be done for a name now; it counts as begun.
    pub fn begin(
        &mut self,
        key: &Key,
        pod: Option<&Value>,
        shown: Option<&Value>,
        node: Option<&Value>,
        now: Time,
    ) -> Option<Act> {
        let state = self.states.entry(key.clone()).or_default();
        if state.is_underway || state.retry.is_some_and(|at| at > now) {
            return None;
        }
        state.retry = None;
        let Some(node) = node else {
            // The Node is about to be made.
            state.retry = Some(now.after(RETRY_FIRST));
            return None;
        };
        let Some(act) = mirror::next(pod, shown, node) else {
            if pod.is_none() {
                self.states.remove(key);
            }
            return None;
        };
        if let Act::Report { patch, .. } = &act {
            let again = state.reported.as_ref().filter(|(last, _)| last == patch).map(|(_, at)| at.after(REPORT_AGAIN));
            if let Some(again) = again.filter(|again| *again > now) {
                state.retry = Some(again);
                return None;
            }
            state.reported = Some((patch.clone(), now));
        }
        state.is_underway = true;
        Some(act)
    }

    /// There is nothing of this name any more.
    pub fn forget(&mut self, key: &Key) {
        if self.states.get(key).is_some_and(|state| !state.is_underway) {
            self.states.remove(key);
        }
    }

    /// What was begun has ended. When it succeeded, the API tells what has changed.
    pub fn end(&mut self, key: &Key, failure: Option<&Refused>, now: Time) {
        let Some(state) = self.states.get_mut(key) else { return };
        state.is_underway = false;
        match failure {
            None => (state.failures, state.retry) = (0, None),
            Some(refused) => {
                let wait = RETRY_FIRST.saturating_mul(1 << state.failures.min(16)).min(RETRY_MAX);
                state.failures = state.failures.saturating_add(1);
                state.retry = Some(now.after(wait));
                tracing::debug!(pod = %key.item, reason = &*refused.reason, "a mirror pod: {}", refused.message);
            }
        }
        // The event may have come while it was under way.
        self.due.insert(key.clone());
    }
}

/// Does it.
pub(crate) async fn perform(api: &Api, key: &Key, act: &Act) -> Result<(), Refused> {
    let (namespace, name) = key.item.split_once('/').unwrap_or(("", &key.item));
    let shown = |uid: &str| serde_json::json!({"metadata": {"namespace": namespace, "name": name, "uid": uid}});
    let done = match act {
        Act::Create(pod) => {
            api.call("POST", format!("/api/v1/namespaces/{}/pods", pod.namespace()), pod).await.map(|_| ())
        }
        Act::Remove { uid } => api.remove_pod(&shown(uid)).await.map(|_| ()),
        Act::Report { uid, patch } => api.patch_status(PODS, &shown(uid), patch.clone()).await.map(|_| ()),
    };
    match done {
        // What is to go may be gone.
        Err(refused) if refused.reason == "NotFound" && matches!(act, Act::Remove { .. }) => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_at_a_time_and_again_after_a_failure() {
        let key = brain::key("core/pods", "d", "p-n");
        let pod = json!({"metadata": {"name": "p-n", "annotations": {"kubernetes.io/config.hash": "h"}}});
        let node = json!({"metadata": {"name": "n", "uid": "u"}});
        let at = Time::from_secs;
        let mut mirrors = Mirrors::default();
        mirrors.wake(key.clone());
        assert_eq!(mirrors.take_due(at(0)), std::slice::from_ref(&key));
        assert_eq!(mirrors.begin(&key, Some(&pod), None, None, at(0)), None);
        assert_eq!(mirrors.wake_at(), Some(at(1)), "without a Node it waits");
        assert_eq!(mirrors.take_due(at(1)), std::slice::from_ref(&key));
        let begun = mirrors.begin(&key, Some(&pod), None, Some(&node), at(1));
        assert!(matches!(begun, Some(Act::Create(_))));
        assert_eq!(mirrors.begin(&key, Some(&pod), None, Some(&node), at(1)), None, "under way");
        let refused = Refused { code: 500, reason: "InternalError".into(), message: "no".into() };
        mirrors.end(&key, Some(&refused), at(2));
        assert_eq!(mirrors.begin(&key, Some(&pod), None, Some(&node), at(2)), None, "it waits");
        assert_eq!(mirrors.wake_at(), Some(at(3)));
        assert!(mirrors.begin(&key, Some(&pod), None, Some(&node), at(3)).is_some());
        mirrors.end(&key, None, at(3));
        assert_eq!((mirrors.wake_at(), mirrors.take_due(at(3))), (None, vec![key.clone()]));
        assert_eq!(mirrors.begin(&key, None, None, Some(&node), at(4)), None);
        assert!(mirrors.states.is_empty());
    }
}
