//! What may be done, and what becomes of it on the way in: authorisation, admission, tokens. Pure decisions over a
//! snapshot; nothing here reads a clock, sends a request or writes.

pub mod attributes;
pub mod authorizer;
pub mod bootstrap;
pub mod csr;
pub mod node_authorizer;
pub mod pod_refs;
pub mod rbac;
pub mod tokens;
pub mod user;

pub use attributes::Attributes;
pub use authorizer::{Authorizer, Decision};
pub use user::UserInfo;

#[cfg(test)]
mod testing;
