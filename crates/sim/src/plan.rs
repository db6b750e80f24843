//! The plan of a run: what users do and what goes wrong, and when. The plan, not the seed it came from, is what is
//! kept: it stays meaningful when the generator changes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A run, explicitly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What delays and losses are drawn from.
    pub seed: u64,
    /// How many simulated nodes there are.
    pub nodes: usize,
    /// What the store stands on.
    pub medium: Medium,
    /// Whether the controllers are processes of their own: they outlive the server, and requests outlive them.
    pub apart: bool,
    /// When the quiet phase begins: every fault ends, nobody changes a spec any more.
    pub quiet_at_ms: u64,
    /// What becomes of the last node when the quiet phase begins.
    #[serde(default, skip_serializing_if = "Fate::is_none")]
    pub last_node: Fate,
    /// What happens, in order of time.
    pub entries: Vec<Entry>,
}

/// What becomes of a node for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Nothing.
    #[default]
    Stays,
    /// It has a taint that few tolerate.
    Tainted,
    /// It is taken away.
    Goes,
}

impl Fate {
    fn is_none(&self) -> bool {
        *self == Fate::Stays
    }
}

/// What the store stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Medium {
    /// The engine in memory.
    Memory,
    /// The durable engine on a simulated medium.
    Disk,
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, from the beginning.
    pub at_ms: u64,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum What {
    /// A user sends a request.
    Request {
        /// Field manager.
        by: String,
        /// HTTP method.
        method: String,
        /// Path with query.
        path: String,
        /// Media type; JSON if absent.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        content_type: String,
        /// Body.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        body: Value,
    },
    /// A user does something to an object that is there by then.
    Pick {
        /// What is done to it.
        how: How,
        /// E.g. `core/pods`.
        collection: String,
        /// In this namespace; empty for cluster scope.
        namespace: String,
        /// The how manieth, round and round.
        which: u64,
    },
    /// Requests and answers are lost, doubled and late.
    Network {
        /// For how long.
        for_ms: u64,
        /// Whose; everybody's if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room: Option<String>,
        /// Requests that never arrive, of a hundred.
        lost: u64,
        /// Answers that never arrive though the request was carried out, of a hundred.
        unanswered: u64,
        /// Requests that arrive twice, of a hundred.
        doubled: u64,
        /// Longest additional delay each way.
        delay_ms: u64,
    },
    /// A controller's view falls behind.
    Lag {
        /// Whose.
        room: String,
        /// For how long.
        for_ms: u64,
        /// By how much.
        lag_ms: u64,
    },
    /// A controller is killed.
    Crash {
        /// Whose.
        room: String,
        /// After so many messages sent or received from now on.
        after_messages: u64,
        /// How long until it starts again.
        down_ms: u64,
    },
    /// A controller stands still, and goes on with what it knew.
    Pause {
        /// Which.
        room: String,
        /// For how long.
        for_ms: u64,
    },
    /// A second instance of a controller works beside the first.
    Twin {
        /// Of which.
        room: String,
        /// For how long.
        for_ms: u64,
    },
    /// The server is killed.
    ServerCrash {
        /// The machine loses power too: what was not synced may be lost.
        power: bool,
        /// How long until it starts again.
        down_ms: u64,
    },
    /// A node vanishes, and comes back with its old state.
    NodeDown {
        /// Which.
        node: usize,
        /// For how long.
        for_ms: u64,
    },
    /// The wall clock jumps by so much, and back when the quiet phase begins.
    ClockJump {
        /// By how much.
        by_ms: i64,
    },
    /// All history is forgotten.
    Compact,
    /// The medium refuses a write or a sync; the server stops, as it must, and is started again.
    DiskFault {
        /// The how manieth sync fails from now on; 0 for none.
        #[serde(default)]
        syncs: u64,
        /// The how manieth append fails after half of it; 0 for none.
        #[serde(default)]
        appends: u64,
        /// How long until the server starts again.
        down_ms: u64,
    },
    /// The medium is slow.
    SlowDisk {
        /// For how long.
        for_ms: u64,
        /// How long a sync takes.
        sync_ms: u64,
    },
}

/// What is done to an object that is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Deleted.
    Delete,
    /// Deleted, dependents first.
    DeleteForeground,
    /// Deleted, dependents let go of.
    DeleteOrphan,
    /// Its labels are taken away, so that nobody selects it.
    Unlabel,
    /// The label that marks nothing is set: a harmless write.
    Touch,
    /// A finalizer is put on it.
    Hold,
    /// It is a pod, and is evicted if a budget allows.
    Evict,
}

impl Plan {
    /// As it is kept.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a kept plan.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Plan, String> {
        serde_json::from_str(text).map_err(|error| format!("no plan: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_written() {
        let crash = What::Crash { room: "replica-set".into(), after_messages: 3, down_ms: 500 };
        let pick = What::Pick { how: How::Unlabel, collection: "core/pods".into(), namespace: "a".into(), which: 7 };
        let entries = vec![Entry { at_ms: 10, what: crash }, Entry { at_ms: 20, what: pick }];
        let plan = Plan {
            seed: 1,
            nodes: 3,
            medium: Medium::Disk,
            apart: true,
            quiet_at_ms: 60_000,
            last_node: Fate::Goes,
            entries,
        };
        assert_eq!(Plan::parse(&plan.to_json()), Ok(plan));
    }
}
