//! Things with a number, and which of them concern a namespace.

use std::collections::{BTreeMap, BTreeSet};

use crate::ask::Scope;

/// Things that are found by a number, which is used again when the thing is gone.
pub struct Slab<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { all: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    /// Takes one in.
    pub fn insert(&mut self, thing: T) -> usize {
        self.len += 1;
        match self.free.pop() {
            Some(at) => {
                self.all[at] = Some(thing);
                at
            }
            None => {
                self.all.push(Some(thing));
                self.all.len() - 1
            }
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let thing = self.all.get_mut(at)?.take()?;
        self.free.push(at);
        self.len -= 1;
        Some(thing)
    }

    /// One of them.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.all.get(at)?.as_ref()
    }

    /// One of them, to change.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.all.get_mut(at)?.as_mut()
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.all.iter().enumerate().filter_map(|(at, thing)| Some((at, thing.as_ref()?)))
    }

    /// All of them, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.all.iter_mut().enumerate().filter_map(|(at, thing)| Some((at, thing.as_mut()?)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// One more than the largest number ever in use.
    pub fn bound(&self) -> usize {
        self.all.len()
    }
}

/// Numbers by the namespaces that they concern.
#[derive(Default)]
pub struct ByNamespace {
    named: BTreeMap<Box<str>, BTreeSet<usize>>,
    /// Those whose namespaces are found by label: any may be concerned.
    open: BTreeSet<usize>,
}

impl ByNamespace {
    /// Files one.
    pub fn insert(&mut self, scope: &Scope, at: usize) {
        if scope.selector.is_some() {
            self.open.insert(at);
            return;
        }
        for name in &scope.names {
            self.named.entry(name.clone()).or_default().insert(at);
        }
    }

    /// Forgets one.
    pub fn remove(&mut self, scope: &Scope, at: usize) {
        self.open.remove(&at);
        for name in &scope.names {
            if let Some(set) = self.named.get_mut(name) {
                set.remove(&at);
                if set.is_empty() {
                    self.named.remove(name);
                }
            }
        }
    }

    /// Those that may concern a namespace.
    pub fn concerned(&self, namespace: &str) -> impl Iterator<Item = usize> + '_ {
        self.named.get(namespace).into_iter().flatten().chain(&self.open).copied()
    }
}
