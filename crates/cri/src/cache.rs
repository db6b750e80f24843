//! What a runtime was asked once and does not change: a list tells states only, the rest is asked for one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By identity: the state in which something was asked for, and the answer. Never more than was listed last.
pub struct Cache<T>(Mutex<BTreeMap<String, (i32, T)>>);

impl<T: Clone> Cache<T> {
    /// Of nothing.
    pub fn new() -> Cache<T> {
        Cache(Mutex::default())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (i32, T)>> {
        // Entries are replaced whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was answered in this state.
    pub fn get(&self, id: &str, state: i32) -> Option<T> {
        self.lock().get(id).filter(|(known, _)| *known == state).map(|(_, answer)| answer.clone())
    }

    /// Keeps an answer.
    pub fn put(&self, id: &str, state: i32, answer: T) {
        self.lock().insert(id.to_owned(), (state, answer));
    }

    /// Forgets what is not there any more.
    pub fn keep(&self, ids: &BTreeSet<&str>) {
        self.lock().retain(|id, _| ids.contains(id.as_str()));
    }

    /// Forgets one: it was changed.
    pub fn forget(&self, id: &str) {
        self.lock().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_its_state() {
        let cache = Cache::new();
        cache.put("a", 1, "running");
        assert_eq!((cache.get("a", 1), cache.get("a", 2), cache.get("b", 1)), (Some("running"), None, None));
        cache.keep(&BTreeSet::from(["b"]));
        assert_eq!(cache.get("a", 1), None);
    }
}
