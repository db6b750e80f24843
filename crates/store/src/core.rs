//! The pure heart that every engine drives. (To be written: see the crate's contract.)

use crate::Revision;

/// Placeholder until the heart stands.
pub struct Core;

/// What became visible.
pub struct Published {
    /// The newest visible revision.
    pub revision: Revision,
}
