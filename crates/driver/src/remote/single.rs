//! Watches one object, for whoever wants to know only that it may have changed.

use std::sync::Arc;

use client::Transport;
use clock::Ids;
use serde_json::Value;

use super::ask::{self, Form};
use super::reflector::{Answer, Ask, Effect, Reflector, escaped, revision_of};

/// Watches the object `name` of the collection at `path` (`/api/v1/namespaces/a/secrets`), for ever. `told` is called
/// whenever it may have changed; not for how it is at first.
pub async fn watch_one(
    transport: Arc<dyn Transport>,
    ids: Arc<dyn Ids>,
    path: String,
    name: String,
    told: impl Fn() + Send,
) {
    let mut reflector = Reflector::insisting();
    let mut fills = 0u64;
    let selector = format!("fieldSelector=metadata.name%3D{}", escaped(&name));
    loop {
        tokio::time::sleep(reflector.wait(ids.number())).await;
        let mut hear = |reflector: &mut Reflector, answer: Answer| match reflector.hear(answer) {
            Some(Effect::Replace(..)) => {
                fills += 1;
                // What was missed meanwhile is not known.
                if fills > 1 {
                    told();
                }
            }
            Some(Effect::Put(..) | Effect::Delete(..)) => told(),
            Some(Effect::Through(_) | Effect::Absent) | None => {}
        };
        match reflector.ask(ids.number()) {
            Ask::List { query } => hear(&mut reflector, list(&transport, &format!("{path}?{query}&{selector}")).await),
            Ask::Watch { query } => {
                match ask::watch(&transport, &format!("{path}?{query}&{selector}"), Form::Metadata).await {
                    Err(code) => hear(&mut reflector, Answer::Refused { code }),
                    Ok(mut lines) => {
                        while let Some(line) = lines.next().await {
                            let Ok(mut event) = serde_json::from_slice::<Value>(&line) else { break };
                            let object = event.get_mut("object").map(Value::take).unwrap_or_default();
                            let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
                            let failed = kind == "ERROR";
                            hear(&mut reflector, Answer::Event { kind, object });
                            if failed || !reflector.is_streaming() {
                                break;
                            }
                        }
                        if reflector.is_streaming() {
                            hear(&mut reflector, Answer::Ended);
                        }
                    }
                }
            }
        }
    }
}

async fn list(transport: &Arc<dyn Transport>, path: &str) -> Answer {
    match ask::list(transport, path, Form::Metadata).await {
        Ok((200, mut list)) => match (revision_of(&list), list.get_mut("items").map(Value::take)) {
            (Some(revision), Some(Value::Array(items))) => Answer::Page { items, revision, more: None },
            _ => Answer::Refused { code: 500 },
        },
        Ok((code, _)) => Answer::Refused { code },
        Err(_) => Answer::Refused { code: 0 },
    }
}
