//! How a component talks to an API server, wherever that is: over one narrow transport, in process or HTTP.

mod transport;

pub use transport::{Body, BoxError, BoxFuture, CallError, Transport, read_all};
