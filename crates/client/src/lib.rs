//! How a component talks to an API server, wherever that is: over one narrow transport, in process or HTTPS.

mod connect;
mod gate;
mod https;
mod kubeconfig;
mod retry;
mod tls;
mod transport;

pub use gate::{Acting, Gated, Swap};
pub use https::{Https, HttpsError};
pub use kubeconfig::{Access, Credential, Identity, KubeconfigError, Secret, read_kubeconfig};
pub use transport::{Body, BoxError, BoxFuture, CallError, Transport, read_all};
