//! The scheduler against brute force: small random clusters that change all the time, and a reference that counts
//! everything anew from the objects and keeps nothing.

mod generate;
mod reference;

use std::collections::BTreeMap;

use crate::ask::Ask;
use crate::cache::Cache;
use crate::decide::{Verdict, decide};
use generate::{Dice, NODES, PODS};
use reference::World;

/// After so many decisions a new cluster is begun, with other pods.
const DECISIONS_PER_CLUSTER: usize = 64;

/// Makes `decisions` decisions and compares each one. The answer says how many ended how; the error tells the first
/// difference.
pub fn run(seed: u64, decisions: usize) -> Result<BTreeMap<&'static str, usize>, String> {
    let mut seen = BTreeMap::new();
    for cluster in 0..decisions.div_ceil(DECISIONS_PER_CLUSTER) {
        let mut bout = Bout::new(seed.wrapping_add(cluster as u64));
        for step in 0..DECISIONS_PER_CLUSTER {
            let kind = bout.step().map_err(|error| format!("seed {seed}, cluster {cluster}, step {step}: {error}"))?;
            *seen.entry(kind).or_default() += 1;
        }
    }
    Ok(seen)
}

/// One cluster, as the cache has it and as the reference has it.
struct Bout {
    dice: Dice,
    pool: Vec<Ask>,
    cache: Cache,
    world: World,
}

impl Bout {
    fn new(seed: u64) -> Bout {
        let mut dice = Dice::new(seed);
        let pool = (0..PODS).map(|at| generate::pod(&mut dice, at)).collect();
        let mut bout = Bout { dice, pool, cache: Cache::new(), world: World::default() };
        for namespace in generate::namespaces() {
            bout.world.put_namespace(&namespace);
            bout.cache.put(namespace);
        }
        (0..NODES).for_each(|at| bout.change_node(at));
        bout
    }

    /// Something changes, then one pod asks for a place.
    fn step(&mut self) -> Result<&'static str, String> {
        (0..1 + self.dice.below(3)).for_each(|_| self.change());
        let at = self.dice.below(self.pool.len());
        let ask = self.pool[at].clone();
        self.cache.forget(ask.key());
        self.world.pods.remove(ask.key());
        let verdict = decide(&mut self.cache, &ask);
        self.cache.verify()?;
        let told = || format!("{verdict:?} for {}", ask.pod.object.tree());
        self.world.judge(&ask, &verdict).map_err(|error| format!("{error}: {}", told()))?;
        let again = decide(&mut self.rebuilt(), &ask);
        if again != verdict {
            return Err(format!("from scratch {again:?}, but {}", told()));
        }
        Ok(self.follow(ask, verdict))
    }

    fn follow(&mut self, ask: Ask, verdict: Verdict) -> &'static str {
        match verdict {
            Verdict::Bind { node, .. } => {
                self.place(ask, &node);
                "bind"
            }
            Verdict::Preempt { victims, .. } => {
                for victim in &victims {
                    self.cache.forget(victim);
                    self.world.pods.remove(victim);
                }
                "preempt"
            }
            Verdict::Unschedulable(_) => "unschedulable",
            Verdict::Gated => "gated",
        }
    }

    fn place(&mut self, ask: Ask, node: &str) {
        self.cache.assume(ask.clone(), node);
        self.world.pods.insert(ask.key().clone(), (ask, node.into()));
    }

    fn change(&mut self) {
        let node = self.dice.below(NODES);
        match self.dice.below(8) {
            0 => self.change_node(node),
            1 => {
                let object = generate::node(&mut self.dice, node);
                self.cache.remove(&object.key);
                self.world.nodes.remove(&*object.meta().name);
            }
            2 | 3 => {
                let at = self.dice.below(self.pool.len());
                let key = self.pool[at].key().clone();
                self.cache.forget(&key);
                self.world.pods.remove(&key);
            }
            _ => {
                // Anywhere, also where the scheduler would not, and on nodes that are not there.
                let at = self.dice.below(self.pool.len());
                self.place(self.pool[at].clone(), &generate::node_name(node));
            }
        }
    }

    fn change_node(&mut self, at: usize) {
        let object = generate::node(&mut self.dice, at);
        self.world.put_node(&object);
        self.cache.put(object);
    }

    /// A cache that was told everything at once.
    fn rebuilt(&self) -> Cache {
        let mut cache = Cache::new();
        self.world.pods.values().for_each(|(ask, node)| cache.assume(ask.clone(), node));
        self.world.nodes.values().rev().for_each(|node| {
            cache.put(node.object.clone());
        });
        generate::namespaces().into_iter().for_each(|namespace| {
            cache.put(namespace);
        });
        cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions compared in every run of the tests; `cargo xtask schedule --check` makes as many as one likes.
    const DECISIONS: usize = 20_000;

    #[test]
    fn decisions_are_those_of_brute_force() {
        let seen = run(1, DECISIONS).unwrap_or_else(|difference| panic!("{difference}"));
        for kind in ["bind", "preempt", "unschedulable"] {
            assert!(seen.get(kind).is_some_and(|count| *count > DECISIONS / 50), "{seen:?}");
        }
    }

    #[test]
    fn the_same_seed_is_the_same_story() {
        assert_eq!(run(7, 500), run(7, 500));
    }
}
