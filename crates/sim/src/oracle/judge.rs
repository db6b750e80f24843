//! What is wrong now, kept up to date: an event makes anew only the judgements that it may change.

use std::collections::{BTreeMap, BTreeSet};

use meta::ObjectExt;
use serde_json::Value;
use store::{Event, Key};

use super::ledger::Ledger;
use super::matches::{Facts, RULES, Reach, Rule, judge};

/// Generations of owners that an event concerns: a pod's ReplicaSet, and its Deployment.
const OWNERS_UP: usize = 2;
const NODES: &str = "core/nodes";
/// Tells nodes where the pods of the others are.
const NODE_ROUTES: &str = "kube-system/node-routes";
/// Collections whose objects nothing depends on.
const LEAVES: &[&str] = &["core/events", "coordination.k8s.io/leases"];

/// The judgements on all objects.
#[derive(Default)]
pub struct Judge {
    /// Rules of controllers that take part, by their place in the table.
    rules: Vec<usize>,
    wrong: BTreeMap<(Key, usize), String>,
    /// When a controller's objects were wrong last (microseconds).
    wrong_at: BTreeMap<&'static str, u64>,
    /// Controllers that had something to do with any object which was not there from the beginning.
    judged: BTreeSet<&'static str>,
}

impl Judge {
    /// A judge that knows nothing of any object yet.
    pub fn new(present: &BTreeSet<&'static str>) -> Judge {
        let rules = (0..RULES.len()).filter(|index| present.contains(RULES[*index].controller)).collect();
        Judge { rules, ..Judge::default() }
    }

    /// Judges everything, whatever was known.
    pub fn all(&mut self, at: u64, facts: &Facts<'_>) {
        let keys: BTreeSet<Key> = facts.ledger.all().map(|(key, _)| key.clone()).collect();
        let gone: Vec<Key> =
            self.wrong.keys().filter(|(key, _)| !keys.contains(key)).map(|(key, _)| key.clone()).collect();
        for key in keys.iter().chain(&gone) {
            self.one(at, facts, key);
        }
    }

    /// The objects on which an event may change the judgement, in the world before or after it.
    pub fn concerned(&self, ledger: &Ledger, event: &Event, objects: &[Option<&Value>], into: &mut BTreeSet<Key>) {
        into.insert(event.key.clone());
        if LEAVES.contains(&&*event.key.collection) {
            return;
        }
        for object in objects.iter().flatten() {
            owners(ledger, object, OWNERS_UP, into);
            into.extend(ledger.owned_keys(object.uid()).cloned());
            let namespace = object.namespace();
            for rule in self.rules.iter().map(|index| &RULES[*index]) {
                match rule.reach {
                    Reach::Namespace | Reach::Time if rule.collection != "*" && !namespace.is_empty() => {
                        into.extend(ledger.keys_in(rule.collection, namespace).cloned());
                    }
                    Reach::Siblings if *event.key.collection == *rule.collection => {
                        into.extend(ledger.keys_in(rule.collection, "").cloned());
                    }
                    _ => {}
                }
            }
        }
        match &*event.key.collection {
            NODES => {
                for collection in [NODES, "core/pods", "apps/daemonsets"] {
                    into.extend(ledger.keys_in(collection, "").cloned());
                }
            }
            "core/namespaces" => into.extend(ledger.keys_of_namespace(&event.key.item).cloned()),
            "core/persistentvolumes" => {
                into.extend(ledger.keys_in("core/persistentvolumeclaims", "").cloned());
                into.extend(ledger.keys_in("storage.k8s.io/volumeattributesclasses", "").cloned());
            }
            "core/persistentvolumeclaims" => {
                into.extend(ledger.keys_in("core/persistentvolumes", "").cloned());
                into.extend(ledger.keys_in("storage.k8s.io/volumeattributesclasses", "").cloned());
            }
            "core/configmaps" if *event.key.item == *NODE_ROUTES => {
                into.extend(ledger.keys_in(NODES, "").cloned());
                into.insert(Key::new("core/namespaces", "kube-system"));
            }
            super::matches::DEFINITIONS => into.extend(ledger.keys_in(super::matches::WIDGETS, "").cloned()),
            _ => {
                // Accounts and certificates are what a namespace is judged by.
                let namespace = event.key.item.split_once('/').map(|(namespace, _)| namespace);
                into.extend(namespace.map(|namespace| Key::new("core/namespaces", namespace)));
            }
        }
    }

    /// Makes the judgement on one object anew.
    pub fn one(&mut self, at: u64, facts: &Facts<'_>, key: &Key) {
        let kept = facts.ledger.get(key);
        for index in &self.rules {
            let rule = &RULES[*index];
            if rule.collection != "*" && *rule.collection != *key.collection {
                continue;
            }
            let wrong = kept.and_then(|kept| judge(rule, facts, kept));
            let place = (key.clone(), *index);
            match wrong {
                Some(text) => {
                    self.wrong.insert(place, text);
                    self.wrong_at.insert(rule.controller, at);
                }
                None => {
                    if self.wrong.remove(&place).is_some() {
                        self.wrong_at.insert(rule.controller, at);
                    }
                }
            }
            if rule.collection != "*" && kept.is_some_and(|kept| !kept.is_original) {
                self.judged.insert(rule.controller);
            }
        }
    }

    /// Looks, before an event, whether time alone has made something wrong: then it was so until now.
    pub fn time(&mut self, at: u64, facts: &Facts<'_>, keys: &BTreeSet<Key>) {
        for key in keys {
            let timed =
                |rule: &&usize| RULES[**rule].reach == Reach::Time && *RULES[**rule].collection == *key.collection;
            let rules: Vec<usize> = self.rules.iter().filter(timed).copied().collect();
            for index in rules {
                if facts.ledger.get(key).and_then(|kept| judge(&RULES[index], facts, kept)).is_some() {
                    self.wrong_at.insert(RULES[index].controller, at);
                }
            }
        }
    }

    /// Whether everything is as it should be.
    pub fn is_content(&self) -> bool {
        self.wrong.is_empty()
    }

    /// What is wrong, by controller.
    pub fn wrong(&self) -> impl Iterator<Item = String> {
        self.wrong.iter().map(|((key, index), text)| format!("{key} {text} ({})", RULES[*index].controller))
    }

    /// By controller that had something to do: when anything of its was wrong last, from the run's beginning.
    pub fn last_wrong(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        let all = self.judged.iter().chain(self.wrong_at.keys()).copied().collect::<BTreeSet<_>>();
        all.into_iter().map(|controller| (controller, self.wrong_at.get(controller).copied()))
    }

    /// Controllers that no rule is about.
    pub fn without_rule(controllers: &[&'static str]) -> Vec<&'static str> {
        let has = |name: &&&str| !RULES.iter().any(|rule: &Rule| rule.controller == **name);
        controllers.iter().filter(has).copied().collect()
    }
}

fn owners(ledger: &Ledger, object: &Value, up: usize, into: &mut BTreeSet<Key>) {
    if up == 0 {
        return;
    }
    for owner in object.owner_references() {
        let Some((key, tree)) = ledger.living_key(owner.text(&["uid"])) else { continue };
        into.insert(key.clone());
        owners(ledger, tree, up - 1, into);
    }
}
