//! How a component talks to an API server, wherever that is: over one narrow transport, in process or HTTPS.

mod connect;
mod gate;
mod https;
mod kubeconfig;
mod retry;
mod tls;
mod transport;

pub use gate::{Acting, Gated};
pub use https::{Https, HttpsError};
pub use kubeconfig::{Access, Credential, Identity, KubeconfigError, read_kubeconfig};
pub use transport::{Body, BoxError, BoxFuture, CallError, Transport, read_all};
