//! A request by its words, as components in the same process say it: what the HTTP server makes of a real one, without
//! the parts that only strangers need (percent-encoding, content negotiation, limits on sizes).

use std::sync::Arc;

use admit::{Authorizer, UserInfo};
use bytes::Bytes;
use kinds::Catalog;
use meta::{ApiError, Reason};
use store::Snapshot;

use crate::route;
use crate::{MediaType, Options, Payload, Request};

/// What is asked, by whom.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Who asks.
    pub user: &'a Arc<UserInfo>,
    /// User agent.
    pub agent: &'a str,
    /// HTTP method.
    pub method: &'a str,
    /// Path, and behind a question mark the query; nothing in the query is encoded.
    pub path: &'a str,
    /// Media type of the body.
    pub content_type: &'a str,
    /// Body.
    pub body: Bytes,
}

impl Asked<'_> {
    /// The request for the [`crate::Machine`], once it is known that its user may.
    pub fn request(
        &self,
        snapshot: &Snapshot,
        catalog: &Catalog,
        authorizer: &Authorizer,
    ) -> Result<Request, ApiError> {
        let not_found = || ApiError::new(404, Reason::NotFound, "the server could not find the requested resource");
        let (path, query) = self.path.split_once('?').unwrap_or((self.path, ""));
        let address = route::parse(path).ok_or_else(not_found)?;
        let verb = address.verb(self.method, false).ok_or_else(not_found)?;
        let asked = address.attributes(self.user, verb.as_str());
        let decision = authorizer.authorize(snapshot, &asked);
        if !decision.is_allowed() {
            return Err(asked.forbidden(decision.reason()));
        }
        let target = address.target(catalog).ok_or_else(not_found)?;
        let pair = |pair: &str| pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let pairs: Vec<(String, String)> = query.split('&').filter_map(pair).collect();
        let media_type = MediaType::parse(self.content_type).unwrap_or_default();
        let body = Payload { media_type, bytes: if verb.is_write() { self.body.clone() } else { Bytes::new() } };
        let (user, agent) = (Arc::clone(self.user), self.agent.to_owned());
        Ok(Request { user, verb, target, options: Options::from_query(&pairs)?, body, agent })
    }
}
