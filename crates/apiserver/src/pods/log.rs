//! `GET pods/NAME/log`.

use api::pod_streams::{self, LogOptions};
use bytes::Bytes;
use client::Body;
use http::Response;
use http_body_util::BodyExt;
use meta::{ApiError, ObjectExt};

use super::Asked;
use crate::idle::Keeping;
use crate::respond::{full, typed_response};
use crate::stream;

/// Answers with the text of a log, in pieces as they come. A client that takes none holds the reading up.
pub async fn answer(asked: &Asked<'_>) -> Result<Response<Body>, ApiError> {
    let (name, options) = LogOptions::from_query(asked.query, &asked.target.name, asked.app.clock.now())?;
    let pod = asked.pod().await?;
    let container = pod_streams::container_of(&pod, &name)?;
    let node = pod.text(&["spec", "nodeName"]);
    if node.is_empty() {
        return Ok(typed_response(204, "text/plain", full(Bytes::new())));
    }
    let hand = asked.app.hand(node)?;
    let id = pod_streams::log_container(&pod, &container, options.previous)?;
    let place = asked.place()?;
    let text = hand.log(&id, &options).await?;
    let body = Keeping::new(stream::of_chunks(text), place).boxed_unsync();
    Ok(typed_response(200, "text/plain", body))
}
