//! What may be done, and what becomes of it on the way in: authorisation, admission, tokens. Pure decisions over a
//! snapshot; nothing here reads a clock, sends a request or writes.

pub mod admission;
pub mod attributes;
pub mod authorizer;
pub mod bootstrap;
pub mod bootstrap_token;
pub mod cel;
pub mod chain;
pub mod crd_rules;
pub mod csr;
pub mod csr_approval;
pub mod matching;
pub mod node_authorizer;
pub mod plugins;
pub mod pod_refs;
pub mod pod_security;
pub mod policy;
pub mod quota;
pub mod rbac;
pub mod request_facts;
pub mod resources;
pub mod tokens;
pub mod user;
pub mod webhook;

pub use admission::{Case, Effects, Operation, Request, SideWrite, World};
pub use attributes::Attributes;
pub use authorizer::{Authorizer, Decision};
pub use user::UserInfo;

#[cfg(test)]
mod testing;
