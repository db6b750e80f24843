//! Performs actions: one API request each, in order, until one is refused.

use std::sync::Arc;

use brain::{Action, Call, Effect, Performed, Refused, Verdict, View, request_of, verdict};
use client::Transport;
use http::Request;
use meta::ObjectExt;
use serde_json::Value;
use store::Key;

use crate::events::Told;
use crate::source::{Source, Write};

/// Most bytes of an answer read: an object is at most 1.5 MiB.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The hands of one controller.
pub struct Hands {
    transport: Arc<dyn Transport>,
    /// What its writes come back to.
    source: Source,
    /// Field manager and user agent.
    name: String,
    /// What it has told.
    pub(crate) told: Told,
}

/// How performing effects ended.
pub struct Result {
    /// For the queue.
    pub performed: Performed,
    /// How many effects were carried out.
    pub done: usize,
    /// Why the next one was not, when the world does not show it.
    pub refused: Option<Refused>,
}

impl Hands {
    /// Hands that work through `transport` under a field manager's name.
    pub fn new(transport: Arc<dyn Transport>, source: Source, name: impl Into<String>) -> Hands {
        Hands { transport, source, name: name.into(), told: Told::default() }
    }

    /// Performs the effects that were decided on `view` about `root`, in order until one is refused.
    pub async fn perform(&self, effects: &[Effect], view: &View, root: &Key) -> Result {
        let mut writes = Vec::new();
        let mut ended = Verdict::Done(None);
        let mut done = 0;
        for effect in effects {
            ended = self.perform_one(&effect.action, view, root, &mut writes).await;
            if !matches!(ended, Verdict::Done(_)) {
                break;
            }
            done += 1;
        }
        let wrote = self.source.seen(&writes).await;
        match ended {
            Verdict::Done(_) => Result { performed: Performed::Done { wrote }, done, refused: None },
            Verdict::Stale => Result { performed: Performed::Stale { wrote }, done, refused: None },
            Verdict::Refused(refused) => {
                Result { performed: Performed::Failed { wrote }, done, refused: Some(refused) }
            }
        }
    }

    async fn perform_one(&self, action: &Action, view: &View, root: &Key, writes: &mut Vec<Write>) -> Verdict {
        if !self.source.confirms(action, view, root).await {
            return Verdict::Stale;
        }
        let verdict = verdict(action, self.call(request_of(action)).await);
        if let Verdict::Done(Some(revision)) = &verdict {
            writes.push((collection_of(action).into(), *revision));
        }
        verdict
    }

    /// Sends one request and reads its answer.
    pub async fn call(&self, call: Call) -> std::result::Result<Value, Refused> {
        let lost = |message: String| Refused { code: 0, reason: String::new(), message };
        let request = Request::builder()
            .uri(call.path_and_query(&self.name))
            .method(call.method)
            .header("content-type", call.content_type)
            .header("accept", "application/json")
            .header("user-agent", &self.name)
            .body(call.body)
            .map_err(|error| lost(error.to_string()))?;
        let response = self.transport.call(request).await.map_err(|error| lost(error.to_string()))?;
        let status = response.status();
        let bytes = client::read_all(response.into_body(), ANSWER_BYTES_MAX).await.map_err(|e| lost(e.to_string()))?;
        let answer: Value = meta::stored::read(&bytes).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let text = |field: &str| answer.text(&[field]).to_owned();
        Err(Refused { code: status.as_u16(), reason: text("reason"), message: text("message") })
    }
}

/// The collection whose revision the answer to an action tells; empty where it tells one of everything.
fn collection_of(action: &Action) -> String {
    match action {
        Action::DeleteCollection { .. } => String::new(),
        other => other.resource().collection(),
    }
}
