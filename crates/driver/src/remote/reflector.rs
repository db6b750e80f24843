//! The protocol of keeping a copy of one collection, as a pure state machine: what to ask next, what an answer means
//! for the copy, how long to wait before asking again.

use std::time::Duration;

use serde_json::Value;
use store::Revision;

/// Objects of one page (client-go: 500).
const PAGE_OBJECTS: usize = 500;
/// First wait after something failed; it doubles (client-go: 800 ms, up to 30 s, which looks dead to a person).
const WAIT_MIN: Duration = Duration::from_millis(400);
/// Longest wait.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a collection that the server does not have, or does not show, is left alone. Whatever may change that
/// (a new definition) starts it again at once.
const ABSENT_WAIT: Duration = Duration::from_secs(600);
/// A watch lives this long and up to twice as long: a stream that silently went deaf is replaced.
const WATCH_SECONDS: u64 = 1_800;

/// What to ask the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A page of the newest state; the first one is a consistent read.
    List {
        /// The query.
        query: String,
    },
    /// A stream of events.
    Watch {
        /// The query.
        query: String,
    },
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A page of a list.
    Page {
        /// The objects.
        items: Vec<Value>,
        /// `metadata.resourceVersion`.
        revision: Revision,
        /// `metadata.continue`.
        more: Option<String>,
    },
    /// One event of a watch: its type and object.
    Event {
        /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
        kind: String,
        /// The object, or the Status of an error.
        object: Value,
    },
    /// The stream ended, in whatever way.
    Ended,
    /// The request was refused.
    Refused {
        /// HTTP status; 0 when no answer came.
        code: u16,
    },
}

/// What it means for the copy.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The collection consists of these objects, and is as new as this revision.
    Replace(Vec<Value>, Revision),
    /// The object is now this.
    Put(Value, Revision),
    /// The object is gone.
    Delete(Value, Revision),
    /// Nothing happened up to this revision.
    Through(Revision),
    /// The server has no such collection, or does not show it.
    Absent,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    /// Nothing is known, or what is known can no longer be continued.
    Start,
    /// Pages are being gathered; `more` continues.
    Listing { gathered: Vec<Value>, more: String },
    /// The initial events of a watch are being gathered.
    Filling { gathered: Vec<Value> },
    /// The copy is whole as of this revision.
    Following { revision: Revision },
}

/// The protocol of one collection.
#[derive(Debug)]
pub struct Reflector {
    state: State,
    /// The server refused to send initial events.
    lists: bool,
    /// The copy has been whole once.
    synced: bool,
    failures: u32,
    absent: bool,
    /// Something came since the last question.
    heard: bool,
}

impl Default for Reflector {
    fn default() -> Self {
        Reflector { state: State::Start, lists: false, synced: false, failures: 0, absent: false, heard: false }
    }
}

impl Reflector {
    /// One that takes no refusal for an answer: what it follows is there, whatever a server says that has just begun, or
    /// that does not know the asker yet.
    pub fn insisting() -> Reflector {
        Reflector { synced: true, ..Reflector::default() }
    }

    /// What to ask now; `dice` spreads the lives of watches.
    pub fn ask(&mut self, dice: u64) -> Ask {
        self.heard = false;
        self.absent = false;
        let seconds = WATCH_SECONDS + dice % WATCH_SECONDS;
        let watch = |rest: String| Ask::Watch {
            query: format!("watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&{rest}"),
        };
        match &self.state {
            State::Following { revision } => watch(format!("resourceVersion={revision}")),
            State::Listing { more, .. } => {
                Ask::List { query: format!("limit={PAGE_OBJECTS}&continue={}", escaped(more)) }
            }
            State::Start | State::Filling { .. } if self.lists => {
                self.state = State::Start;
                Ask::List { query: format!("limit={PAGE_OBJECTS}") }
            }
            State::Start | State::Filling { .. } => {
                self.state = State::Filling { gathered: Vec::new() };
                watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned())
            }
        }
    }

    /// Takes in an answer.
    pub fn hear(&mut self, answer: Answer) -> Option<Effect> {
        match answer {
            Answer::Page { items, revision, more } => self.page(items, revision, more),
            Answer::Event { kind, object } => self.event(&kind, object),
            Answer::Ended => {
                self.ended();
                None
            }
            Answer::Refused { code } => self.refused(code),
        }
    }

    /// Whether the stream under way is still of use.
    pub fn is_streaming(&self) -> bool {
        self.failures == 0 && matches!(self.state, State::Filling { .. } | State::Following { .. })
    }

    /// How long to wait before the next question; `dice` spreads those who wait together.
    pub fn wait(&self, dice: u64) -> Duration {
        if self.absent {
            return jittered(ABSENT_WAIT, dice);
        }
        match self.failures {
            0 => Duration::ZERO,
            failures => {
                let span = WAIT_MIN.saturating_mul(1u32.checked_shl(failures - 1).unwrap_or(u32::MAX)).min(WAIT_MAX);
                jittered(span, dice)
            }
        }
    }

    fn page(&mut self, items: Vec<Value>, revision: Revision, more: Option<String>) -> Option<Effect> {
        self.well();
        let mut gathered = match std::mem::replace(&mut self.state, State::Start) {
            State::Listing { gathered, .. } => gathered,
            _ => Vec::new(),
        };
        gathered.extend(items);
        match more {
            Some(more) => {
                self.state = State::Listing { gathered, more };
                None
            }
            None => Some(self.whole(gathered, revision)),
        }
    }

    fn whole(&mut self, gathered: Vec<Value>, revision: Revision) -> Effect {
        self.synced = true;
        self.state = State::Following { revision };
        Effect::Replace(gathered, revision)
    }

    fn event(&mut self, kind: &str, object: Value) -> Option<Effect> {
        if kind == "ERROR" {
            let code = object.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            return self.refused(code.unwrap_or(500));
        }
        let Some(revision) = revision_of(&object) else {
            // Not an object: the stream cannot be trusted.
            return self.refused(410);
        };
        self.well();
        let is_end = kind == "BOOKMARK" && ends_initial_events(&object);
        match &mut self.state {
            State::Filling { .. } if is_end => {
                let gathered = match std::mem::replace(&mut self.state, State::Start) {
                    State::Filling { gathered } => gathered,
                    _ => Vec::new(),
                };
                Some(self.whole(gathered, revision))
            }
            // A server that does not know the question answers another one, and never says that it has said all.
            State::Filling { .. } if kind == "BOOKMARK" => self.refused(400),
            State::Filling { gathered } => {
                // Changes that come between the initial events of one object: the last one counts.
                gathered.push(if kind == "DELETED" { gone(object) } else { object });
                None
            }
            State::Following { revision: through } => {
                *through = revision.max(*through);
                match kind {
                    "ADDED" | "MODIFIED" => Some(Effect::Put(object, revision)),
                    "DELETED" => Some(Effect::Delete(object, revision)),
                    _ => Some(Effect::Through(revision)),
                }
            }
            State::Start | State::Listing { .. } => None,
        }
    }

    fn ended(&mut self) {
        match self.state {
            State::Following { .. } if self.heard => {}
            // A server that ends streams at once is not asked in a circle.
            _ => self.failures = self.failures.saturating_add(1),
        }
        if matches!(self.state, State::Filling { .. }) {
            self.state = State::Start;
        }
    }

    fn refused(&mut self, code: u16) -> Option<Effect> {
        let was_filling = matches!(self.state, State::Filling { .. });
        match code {
            // What was to be continued is history.
            410 => self.state = State::Start,
            // A server from before initial events, or with them turned off.
            400 | 422 if was_filling && !self.lists => {
                self.lists = true;
                self.state = State::Start;
                return None;
            }
            // Once it was there: a server that starts is not taken at its word.
            403..=405 if !self.synced => {
                self.state = State::Start;
                self.absent = true;
                return Some(Effect::Absent);
            }
            _ if was_filling => self.state = State::Start,
            // Not the question's fault.
            401 | 403 | 404 | 405 | 408 | 429 => {}
            400..=499 => self.state = State::Start,
            _ => {}
        }
        self.failures = self.failures.saturating_add(1);
        None
    }

    fn well(&mut self) {
        self.failures = 0;
        self.heard = true;
    }
}

/// An object's or list's revision.
pub fn revision_of(object: &Value) -> Option<Revision> {
    object.get("metadata")?.get("resourceVersion")?.as_str()?.parse().ok().map(Revision)
}

fn ends_initial_events(object: &Value) -> bool {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.and_then(|all| all.get("k8s.io/initial-events-end")).is_some_and(|value| value == "true")
}

/// Where a deletion among the initial events stands.
pub const GONE: &str = "\u{0}gone";

fn gone(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(GONE.to_owned(), Value::Bool(true));
    }
    object
}

/// Half of the span at least, the whole of it at most.
fn jittered(span: Duration, dice: u64) -> Duration {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(micros / 2 + dice % (micros / 2).max(1))
}

/// For a query; continue tokens are base64.
pub fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
#[path = "reflector_tests.rs"]
mod tests;
