//! What was asked of a view: on what presence and absence a decision rests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::Object;

/// Reads remembered, of each sort: far more than a turn makes that does something which cannot be taken back.
const READS_MAX: usize = 1_024;

/// An object that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// Its collection.
    pub collection: String,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The reads of one turn.
#[derive(Default)]
pub struct Reads {
    gets: Mutex<BTreeMap<Asked, Option<Box<str>>>>,
    lists: Mutex<BTreeMap<(String, String), ()>>,
}

impl Reads {
    pub(crate) fn got(&self, collection: &str, namespace: &str, name: &str, found: Option<&Object>) {
        let mut gets = self.gets.lock().unwrap_or_else(PoisonError::into_inner);
        if gets.len() < READS_MAX {
            let (collection, namespace, name) = (collection.to_owned(), namespace.to_owned(), name.to_owned());
            gets.insert(Asked { collection, namespace, name }, found.map(|object| object.meta().uid.clone()));
        }
    }

    pub(crate) fn listed(&self, collection: &str, namespace: &str) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.len() < READS_MAX {
            lists.insert((collection.to_owned(), namespace.to_owned()), ());
        }
    }

    /// The objects asked for by name, with the uid of what was found.
    pub fn gets(&self) -> Vec<(Asked, Option<Box<str>>)> {
        let gets = self.gets.lock().unwrap_or_else(PoisonError::into_inner);
        gets.iter().map(|(asked, found)| (asked.clone(), found.clone())).collect()
    }

    /// The collections listed, each with the namespace (empty: all).
    pub fn lists(&self) -> Vec<(String, String)> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}
