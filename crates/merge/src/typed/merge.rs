//! A partial value merged into a whole one, in place: only what the partial value mentions is visited.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::keys::step_of;
use super::shape::{Atom, ListType, MapType, Type};
use crate::fields::PathElement;

pub(super) fn merge(ty: Type<'_>, live: &mut Value, config: &Value) {
    match (ty.atom(live), ty.atom(config)) {
        (Atom::List(_), Atom::List(list)) if !list.is_atomic() => merge_list(&list, live, config),
        (Atom::Map(_), Atom::Map(map)) if !map.atomic => merge_map(&map, live, config),
        _ => *live = config.clone(),
    }
}

fn merge_map(map: &MapType<'_>, live: &mut Value, config: &Value) {
    match (live, config) {
        (Value::Object(live), Value::Object(config)) if !(live.is_empty() && config.is_empty()) => {
            merge_entries(map, live, config);
        }
        // Null does not remove what a map already holds.
        (Value::Object(live), Value::Null) if !live.is_empty() => {}
        (live, config) => *live = config.clone(),
    }
}

fn merge_entries(map: &MapType<'_>, live: &mut Map<String, Value>, config: &Map<String, Value>) {
    for (name, item) in config {
        match live.get_mut(name) {
            Some(old) => merge(map.member(name).map_or(Type::Deduced, |member| member.ty), old, item),
            None => {
                live.insert(name.clone(), item.clone());
            }
        }
    }
}

fn merge_list(list: &ListType<'_>, live: &mut Value, config: &Value) {
    match (live, config) {
        (Value::Array(live), Value::Array(config)) if !(live.is_empty() && config.is_empty()) => {
            *live = Lists::new(list, std::mem::take(live), config).merge();
        }
        (Value::Array(live), Value::Null) if !live.is_empty() => {}
        (live, config) => *live = config.clone(),
    }
}

/// Two lists on the way to one. Shared items take the order of the config; live items that the config does not
/// mention stay where they are in relation to the items around them.
struct Lists<'a, 's> {
    list: &'a ListType<'s>,
    live: VecDeque<(Option<PathElement>, Value)>,
    /// Live items that the config mentions, taken out of order; `None` for keys that occur more than once.
    taken: BTreeMap<PathElement, Option<Value>>,
    config: VecDeque<(PathElement, &'a Value)>,
    wanted: BTreeSet<PathElement>,
    /// Config items that are live too, in config order: the anchors.
    shared: VecDeque<PathElement>,
    done: BTreeSet<PathElement>,
    out: Vec<Value>,
}

impl<'a, 's> Lists<'a, 's> {
    fn new(list: &'a ListType<'s>, live: Vec<Value>, config: &'a [Value]) -> Self {
        let config: VecDeque<(PathElement, &Value)> =
            config.iter().filter_map(|item| Some((step_of(list, item).ok()?, item))).collect();
        let wanted: BTreeSet<PathElement> = config.iter().map(|(step, _)| step.clone()).collect();
        let mut taken = BTreeMap::new();
        let live: VecDeque<(Option<PathElement>, Value)> = live
            .into_iter()
            .map(|item| match step_of(list, &item).ok() {
                Some(step) if wanted.contains(&step) => {
                    taken.entry(step.clone()).and_modify(|first| *first = None).or_insert(Some(item));
                    (Some(step), Value::Null)
                }
                step => (step, item),
            })
            .collect();
        let shared = config.iter().map(|(step, _)| step).filter(|step| taken.contains_key(step)).cloned().collect();
        let out = Vec::with_capacity(live.len().max(config.len()));
        Self { list, live, taken, config, wanted, shared, done: BTreeSet::new(), out }
    }

    fn merge(mut self) -> Vec<Value> {
        while !self.live.is_empty() || !self.config.is_empty() {
            self.step();
        }
        self.out
    }

    fn step(&mut self) {
        if let Some((step, _)) = self.live.front() {
            let step = step.clone().filter(|step| self.wanted.contains(step));
            let Some(step) = step else { return self.keep() };
            let next = self.config.front().map(|(next, _)| next);
            if next == Some(&step) {
                self.live.pop_front();
                return self.place();
            }
            // It is placed later, before which another anchor comes; or it has been placed already.
            let later = next.is_some() && self.shared.front().is_some_and(|anchor| *anchor != step);
            if later || self.done.contains(&step) || next.is_none() {
                self.live.pop_front();
                if later {
                    return;
                }
            }
        }
        self.place();
    }

    /// A live item that the config does not mention.
    fn keep(&mut self) {
        if let Some((_, item)) = self.live.pop_front() {
            self.out.push(item);
        }
    }

    /// The next item of the config, merged into its live counterpart.
    fn place(&mut self) {
        let Some((step, item)) = self.config.pop_front() else { return };
        let merged = match self.taken.remove(&step).flatten() {
            Some(mut live) => {
                merge(self.list.items, &mut live, item);
                live
            }
            None => item.clone(),
        };
        self.out.push(merged);
        if self.shared.front() == Some(&step) {
            self.shared.pop_front();
        }
        self.done.insert(step);
    }
}
