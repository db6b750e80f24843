//! The verbs of the API, as pure functions from a request and a snapshot to an answer or a transaction.
//!
//! All writes pass here (law 6): the HTTP server, controllers in process, the planner on its fork and the simulator
//! call the same [`Machine`]. It never waits: [`Machine::attempt`] answers at once or returns the transaction to
//! commit and what to answer then; a shell submits it and, when somebody else wrote first, attempts again.

mod admission;
mod asked;
mod body;
mod changes;
mod component_status;
mod create;
mod delete;
mod encode;
mod fights;
pub mod json_path;
mod list;
mod machine;
mod options;
mod patch;
pub mod pod_streams;
mod representation;
mod request;
mod reviews;
pub mod route;
mod scale;
mod served;
mod service;
mod special;
mod update;
mod watch;
mod write;
pub mod yaml;

pub use asked::Asked;
pub use body::{BODY_BYTES_MAX, MediaType, Payload, decode_as, decode_own};
pub use changes::{FieldChange, change_log};
pub use encode::encode;
pub use fights::{FieldFight, POLICY as FIGHTS_POLICY, fights_in};
pub use list::{ContinueToken, ListAnswer, Page, exact_revision, expired};
pub use machine::{Answer, Attempt, Body, Commit, Machine, Settings, World};
pub use options::{DeleteOptions, FieldValidation, ListOptions, Options, Preconditions, Propagation, VersionMatch};
pub use patch::accepted as accepted_patches;
pub use representation::{
    Representation, RowObject, represent_bookmark, represent_entry, represent_event, represent_list_item,
    represent_tree, table_head,
};
pub use request::{Request, Target, Verb};
pub use served::{DEFINITIONS, served};
pub use service::is_choosing;
pub use watch::{WatchAnswer, WatchEvent, WatchStart};
pub use write::Write;
pub use yaml::decode as decode_yaml;
