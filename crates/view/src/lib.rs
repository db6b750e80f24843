//! What brains look at: an immutable snapshot with the metadata of its objects decoded once and indexed by owner.
//!
//! In process the snapshot is the store's own; a remote driver feeds an in-memory store from watches and looks at
//! that. Either way a [`View`] is one consistent state, and taking one is O(1).

mod index;
mod meta_facts;
mod object;
mod reads;

pub use index::{Mirror, View};
pub use meta_facts::{Facts, Meta, OwnerRef};
pub use object::Object;
pub use reads::{Asked, Reads};
