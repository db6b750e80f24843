//! What would happen: a change applied to a fork of the world, and the real controllers, the real scheduler and played
//! pods run there on virtual time until all is quiet.
//!
//! The spine: [`Wish`] (what is declared) and a [`World`] (the state now) -> [`Plan`]. In between: the [`Fork`] takes the
//! requests that `apply` would send, in the order in which they need one another; `settle` runs everybody to rest;
//! `change` tells what each request did, `consequence` what followed. Nothing here reaches the state that was forked.
//!
//! What a plan assumes, and says: nodes stay as they are, images exist, and containers start and become ready unless
//! annotations of `simulated.setpoint.dev/` say otherwise. It cannot look into images.

mod blame;
mod cast;
mod change;
mod consequence;
mod declared;
mod diagnose;
mod drift;
mod fights;
mod fork;
pub mod path;
mod plan;
mod redact;
mod settle;
#[cfg(test)]
mod tests;
pub mod text;

pub use blame::{Blame, BlameRow, Owner, Past, blame};
pub use change::{Action, Change, Field, Kept, Ownership, Reference};
pub use consequence::{Consequence, Dip, Outlook, Unplaced};
pub use declared::{GUARD, Wish};
pub use diagnose::{Cause, Diagnosis, diagnose};
pub use drift::{ACKNOWLEDGED, Class, DriftReport, Drifted, DriftedField, drift};
pub use fights::{Fight, FightReport, Risk, Side, fights};
pub use fork::{Fork, World};
pub use plan::{API_VERSION, Plan, RestReport, Summary, Warning, plan};
pub use settle::Limits;
