//! A controller as its pure decision, and the form in which all of them stand in one table.

use std::time::Duration;

use stdx::Time;
use store::{Event, Key};
use view::View;

use crate::{Action, Effect, Note, Outcome, Refusal, Resource, Turn};

/// A controller's declaration.
#[derive(Clone)]
pub struct Def {
    /// `replica-set`: the workload name; its user is `system:serviceaccount:kube-system:<name>-controller`.
    pub name: &'static str,
    /// The kind whose objects are its keys, where events about them go.
    pub root: Resource,
    /// CamelCase kind of the root.
    pub root_kind: &'static str,
    /// What it looks at, and which keys a change there concerns.
    pub watches: &'static [Watch],
    /// How often every key is looked at even if nothing changes; `None` trusts its wake-ups.
    pub resync: Option<Duration>,
}

impl Def {
    /// The root keys that a change concerns, in order and each once.
    pub fn keys(&self, view: &View, event: &Event) -> Vec<Key> {
        let watches = self.watches.iter().filter(|watch| watch.covers(&event.key.collection));
        let mut keys: Vec<Key> = watches.flat_map(|watch| (watch.roots)(view, event)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The keys of every root there is, in order.
    fn root_keys(&self, view: &View) -> Vec<Key> {
        let root = self.root.collection();
        let is_root = |collection: &&store::Collection| self.root == Resource::ANY || ***collection == *root;
        let collections = view.snapshot().collections().filter(is_root);
        collections.flat_map(|c| view.snapshot().items(c).map(|(item, _)| Key::new(c.clone(), item.clone()))).collect()
    }
}

/// One kind that a controller looks at.
#[derive(Clone, Copy)]
pub struct Watch {
    /// The store's collection, e.g. `core/pods`, or [`Watch::EVERY`].
    pub collection: &'static str,
    /// The root keys that a change concerns. Both sides of the change are in the event: an object that moved away
    /// concerns the one it left. May return keys that do not exist.
    pub roots: fn(&View, &Event) -> Vec<Key>,
}

impl Watch {
    /// Stands for every collection, those of custom kinds too.
    pub const EVERY: &'static str = "*";

    /// Every collection.
    pub const fn every(roots: fn(&View, &Event) -> Vec<Key>) -> Watch {
        Watch { collection: Watch::EVERY, roots }
    }

    /// Whether changes in `collection` are looked at.
    pub fn covers(&self, collection: &str) -> bool {
        self.collection == Watch::EVERY || self.collection == collection
    }
}

/// A pure controller. Laws: the same input gives the same output; performing the steps and asking again gives none.
pub trait Brain: 'static {
    /// Its declaration.
    const DEF: Def;
    /// What should be.
    type Desired;
    /// What is.
    type Observed;
    /// Every effect it can ever have.
    type Step;
    /// Every reason it can ever give.
    type Why;

    /// Takes the facts of one key from the world; `None` when there is nothing to look after.
    fn observe(view: &View, key: &Key, now: Time) -> Option<(Self::Desired, Self::Observed)>;
    /// Decides.
    fn reconcile(desired: &Self::Desired, observed: &Self::Observed, now: Time) -> Outcome<Self::Step, Self::Why>;
    /// Invariants of any outcome; the error says which is broken.
    fn check(
        desired: &Self::Desired,
        observed: &Self::Observed,
        outcome: &Outcome<Self::Step, Self::Why>,
    ) -> Result<(), String>;
    /// Keys of roots that are no more but left something to be done. Events tell of them too; a controller that
    /// starts afterwards asks here.
    fn absent_roots(_view: &View) -> Vec<Key> {
        Vec::new()
    }
    /// Adds to the facts that the key's last turn was refused: what the world itself does not show. By default
    /// nobody minds, and the loop's backoff is all that comes of it.
    fn refused(_observed: &mut Self::Observed, _refusal: &Refusal) {}
    /// A step as an API request.
    fn perform(step: Self::Step, desired: &Self::Desired, observed: &Self::Observed) -> Action;
    /// What there is to say once `step` is done, e.g. `SuccessfulCreate`.
    fn announce(_step: &Self::Step, _desired: &Self::Desired) -> Option<Note> {
        None
    }
    /// A reason in common words.
    fn explain(why: Self::Why) -> Note;
}

/// A controller in the table: its declaration and its decision, without its types.
#[derive(Clone)]
pub struct Controller {
    /// Its declaration.
    pub def: Def,
    /// Observe, reconcile, check and translate for one key, given what was refused to it last (see [`crate::Refusals`]).
    pub turn: fn(&View, &Key, Time, Option<&Refusal>) -> Turn,
    /// See [`Brain::absent_roots`].
    pub absent_roots: fn(&View) -> Vec<Key>,
}

impl Controller {
    /// The table entry of a brain.
    pub const fn of<B: Brain>() -> Controller {
        Controller { def: B::DEF, turn: turn::<B>, absent_roots: B::absent_roots }
    }

    /// Every key there is to look at when the controller starts.
    pub fn all_keys(&self, view: &View) -> Vec<Key> {
        let mut keys = self.def.root_keys(view);
        keys.extend((self.absent_roots)(view));
        keys
    }
}

fn turn<B: Brain>(view: &View, key: &Key, now: Time, refusal: Option<&Refusal>) -> Turn {
    let Some((desired, mut observed)) = B::observe(view, key, now) else { return Turn::rest() };
    if let Some(refusal) = refusal {
        B::refused(&mut observed, refusal);
    }
    let outcome = B::reconcile(&desired, &observed, now);
    let violation = B::check(&desired, &observed, &outcome).err();
    let effect = |step| {
        let note = B::announce(&step, &desired);
        Effect { action: B::perform(step, &desired, &observed), note }
    };
    Turn {
        effects: outcome.steps.into_iter().map(effect).collect(),
        notes: outcome.notes.into_iter().map(B::explain).collect(),
        wake: outcome.wake,
        violation,
    }
}
