//! Keeps the copy of one collection: performs what its protocol asks, writes what comes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use meta::ObjectExt;
use serde_json::Value;
use store::{Collection, Copied, Copy, Revision};
use tokio::sync::{Notify, watch};

use super::ask;
use super::discovery::Served;
use super::reflector::{Answer, Ask, Effect, GONE, Reflector, revision_of};
use super::{Reached, Remote};

/// No stream lives longer, whatever the server says: twice the longest that is asked for.
const STREAM_TIMEOUT: Duration = Duration::from_secs(2 * 3_600);

/// One collection that is followed.
pub(super) struct Follower {
    pub remote: Arc<Remote>,
    pub collection: Collection,
    pub served: Served,
    pub reached: watch::Sender<Reached>,
    pub again: Arc<Notify>,
    /// The collection is there: a server that does not show it is asked until it does.
    pub insists: bool,
}

impl Follower {
    /// Follows for ever.
    pub async fn run(self) {
        let mut reflector = if self.insists { Reflector::insisting() } else { Reflector::default() };
        loop {
            let wait = reflector.wait(self.remote.dice());
            if !wait.is_zero() {
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = self.again.notified() => {}
                }
            }
            match reflector.ask(self.remote.dice()) {
                Ask::List { query } => self.list(&mut reflector, &query).await,
                Ask::Watch { query } => {
                    let streamed = tokio::time::timeout(STREAM_TIMEOUT, self.watch(&mut reflector, &query)).await;
                    if streamed.is_err() {
                        self.hear(&mut reflector, Answer::Ended);
                    }
                }
            }
        }
    }

    async fn list(&self, reflector: &mut Reflector, query: &str) {
        let path = self.served.asked(query);
        let answer = match ask::list(&self.remote.transport, &path, self.served.form).await {
            Ok((200, mut list)) => match revision_of(&list) {
                Some(revision) => Answer::Page {
                    more: Some(list.text(&["metadata", "continue"]).to_owned()).filter(|more| !more.is_empty()),
                    items: match list.get_mut("items").map(Value::take) {
                        Some(Value::Array(items)) => items,
                        _ => Vec::new(),
                    },
                    revision,
                },
                None => Answer::Refused { code: 500 },
            },
            Ok((code, _)) => Answer::Refused { code },
            Err(error) => {
                tracing::debug!(path, %error, "no answer");
                Answer::Refused { code: 0 }
            }
        };
        self.hear(reflector, answer);
    }

    async fn watch(&self, reflector: &mut Reflector, query: &str) {
        let path = self.served.asked(query);
        let mut lines = match ask::watch(&self.remote.transport, &path, self.served.form).await {
            Ok(lines) => {
                self.remote.found_server();
                lines
            }
            Err(code) => return self.hear(reflector, Answer::Refused { code }),
        };
        let mut failed = false;
        while let Some(line) = lines.next().await {
            let Ok(mut event) = serde_json::from_slice::<Value>(&line) else { break };
            let object = event.get_mut("object").map(Value::take).unwrap_or_default();
            let kind = event.text(&["type"]).to_owned();
            failed = kind == "ERROR";
            self.hear(reflector, Answer::Event { kind, object });
            if failed || !reflector.is_streaming() {
                return;
            }
        }
        if !failed {
            self.hear(reflector, Answer::Ended);
        }
    }

    fn hear(&self, reflector: &mut Reflector, answer: Answer) {
        if let Answer::Refused { code } = &answer {
            match code {
                0 => self.remote.lost_server(),
                _ => self.remote.found_server(),
            }
            tracing::debug!(collection = %self.collection, code, "refused");
        }
        let Some(effect) = reflector.hear(answer) else { return };
        let store = &self.remote.store;
        let through = match effect {
            Effect::Replace(objects, revision) => {
                store.replace(&self.collection, self.whole(objects));
                tracing::debug!(collection = %self.collection, %revision, "copied");
                self.reached.send_modify(|reached| {
                    // After a restore revisions may have gone back: what is there now is what there is.
                    reached.through = revision;
                    reached.fills += 1;
                    reached.absent = false;
                });
                return;
            }
            Effect::Put(object, revision) => {
                store.apply(&self.collection, self.copied(object).map(Copy::Put));
                revision
            }
            Effect::Delete(object, revision) => {
                store.apply(&self.collection, self.copied(object).map(Copy::Delete));
                revision
            }
            Effect::Through(revision) => revision,
            Effect::Absent => {
                tracing::info!(collection = %self.collection, "the server does not show this collection");
                store.replace(&self.collection, Vec::new());
                self.reached.send_modify(|reached| {
                    reached.fills += 1;
                    reached.absent = true;
                });
                return;
            }
        };
        self.reached.send_modify(|reached| reached.through = reached.through.max(through));
    }

    /// What initial events amount to: the last one of each object.
    fn whole(&self, objects: Vec<Value>) -> Vec<Copied> {
        let mut items = BTreeMap::new();
        for object in objects {
            let is_gone = object.get(GONE).is_some();
            let Some(copied) = self.copied(object) else { continue };
            match is_gone {
                true => items.remove(&copied.item),
                false => items.insert(Arc::clone(&copied.item), copied),
            };
        }
        items.into_values().collect()
    }

    /// An object as the store holds it: with its type, which lists leave out, and without who manages which field,
    /// which no brain reads and the server keeps anyway.
    fn copied(&self, mut object: Value) -> Option<Copied> {
        let modified = revision_of(&object)?;
        let fields = object.as_object_mut()?;
        fields.insert("apiVersion".to_owned(), self.served.api_version.clone().into());
        fields.insert("kind".to_owned(), self.served.kind.clone().into());
        object.remove(&["metadata", "managedFields"]);
        let item = match object.namespace() {
            "" => object.name().to_owned(),
            namespace => format!("{namespace}/{}", object.name()),
        };
        Some(Copied { item: item.into(), value: serde_json::to_vec(&object).ok()?.into(), modified })
    }
}

impl Reached {
    /// Whether a write at `revision` must be visible, given how often the copy had been filled when it was made.
    pub(super) fn shows(&self, revision: Revision, fills_before: u64) -> bool {
        // A fill that began after the write shows it, or the server has gone back.
        self.absent || self.through >= revision || self.fills >= fills_before + 2
    }
}
