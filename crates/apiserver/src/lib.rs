//! The Kubernetes API over HTTP: routes, negotiation, streams, discovery and OpenAPI, all derived from the catalog of
//! kinds. What a request means stands in the crate `api`; here it is carried out.

mod app;
mod authn;
mod catalog;
mod channels;
mod discovery;
mod handler;
mod health;
mod hub;
mod idle;
mod in_process;
mod insight;
pub mod link;
mod metrics;
mod negotiate;
mod node_proxy;
mod nodes;
mod openapi;
mod pods;
mod proxy;
mod respond;
mod serve;
mod shell;
mod stream;
mod token;
mod upgrade;
mod websocket;

pub use api::pod_streams::{LogOptions, LogStream};
pub use app::{App, AppConfig, Identity};
pub use authn::Peer;
pub use in_process::InProcess;
pub use nodes::{LogText, NodeAnswer, NodeError, NodeHand, NodeUsage, PAGE_BYTES_MAX, Page, PodId, Used};
pub use serve::{CONNECTIONS_MAX, ServeConfig, serve, serve_connection};
