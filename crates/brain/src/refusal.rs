//! What a brain learns of an action that was refused.
//!
//! A refusal that the world explains (the object has changed, exists or is gone) is no news: the next view shows it.
//! Any other one (quota, forbidden, invalid, a failing webhook) shows nowhere, so the loop's hands remember the
//! last one of each key until a turn of that key is performed whole, and hand it into the next turn. It is a hint
//! for conditions and events only: after a restart there is none, and the first refused action brings it back.

use std::collections::BTreeMap;

use stdx::Time;
use store::Key;

use crate::{Action, Resource};

/// How many keys' refusals are remembered. One is a few hundred bytes; a cluster with more failing keys than this
/// has a common cause, which any thousand of them show.
const REFUSALS_MAX: usize = 10_000;

/// An action that was refused for a reason that the world does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// [`Action::verb`].
    pub verb: &'static str,
    /// What it was about.
    pub resource: Resource,
    /// The name of the object it was about.
    pub name: String,
    /// The answer's `reason`, e.g. `Forbidden`; empty when there was none.
    pub reason: String,
    /// The answer's `message`.
    pub message: String,
    /// When.
    pub at: Time,
}

impl Refusal {
    /// The refusal of `action`.
    pub fn of(action: &Action, reason: impl Into<String>, message: impl Into<String>, at: Time) -> Refusal {
        let (verb, resource, name) = (action.verb(), action.resource(), action.name().to_owned());
        Refusal { verb, resource, name, reason: reason.into(), message: message.into(), at }
    }

    /// Whether it was a `verb` of `resource`.
    pub fn is(&self, verb: &str, resource: &Resource) -> bool {
        self.verb == verb && self.resource == *resource
    }
}

/// The last refusal of each key.
#[derive(Default)]
pub struct Refusals(BTreeMap<Key, Refusal>);

impl Refusals {
    /// Remembers one. When full, new keys are not taken in.
    pub fn remember(&mut self, key: Key, refusal: Refusal) {
        if self.0.len() < REFUSALS_MAX || self.0.contains_key(&key) {
            self.0.insert(key, refusal);
        }
    }

    /// A turn of `key` was performed whole, or the key is gone.
    pub fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// What was refused to `key` last.
    pub fn get(&self, key: &Key) -> Option<&Refusal> {
        self.0.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_one_is_kept_until_it_is_forgotten() {
        let pods = Resource::new("", "v1", "pods");
        let object = json!({"metadata": {"name": "web-x"}});
        let create = Action::Create { resource: pods.clone(), namespace: "default".into(), object };
        let key = Key::new("apps/replicasets", "default/web");
        let mut refusals = Refusals::default();
        refusals.remember(key.clone(), Refusal::of(&create, "Forbidden", "exceeded quota", Time::EPOCH));
        let refusal = refusals.get(&key).expect("remembered");
        assert!(refusal.is("create", &pods) && !refusal.is("delete", &pods));
        assert_eq!((&*refusal.name, &*refusal.message), ("web-x", "exceeded quota"));
        refusals.forget(&key);
        assert_eq!(refusals.get(&key), None);
    }
}
