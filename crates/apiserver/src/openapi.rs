//! OpenAPI documents, made from the schemas when first asked for.

use std::sync::Arc;

use bytes::Bytes;
use client::Body;
use http::Response;
use kinds::Catalog;

use crate::app::App;

/// The documents of one catalog.
pub struct Documents {
    _catalog: Arc<Catalog>,
}

impl Documents {
    /// None made yet.
    pub fn new(catalog: Arc<Catalog>) -> Documents {
        Documents { _catalog: catalog }
    }
}

/// Answers `/openapi/v2`, `/openapi/v3` and below.
pub fn response(_app: &Arc<App>, _request: &http::Request<Bytes>) -> Option<Response<Body>> {
    None
}
