//! How small things stand in JSON.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use stdx::Time;

/// RFC 3339 text; `None` when absent or malformed.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    Ok(Option::<Cow<'_, str>>::deserialize(from)?.and_then(|text| Time::parse(&text)))
}

/// One condition.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Which aspect.
    #[serde(rename = "type")]
    pub type_: Box<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// Why, in one word.
    pub reason: Box<str>,
    /// When the status last changed.
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Option<Time>,
    /// When the status was last confirmed (nodes).
    #[serde(deserialize_with = "time")]
    pub last_heartbeat_time: Option<Time>,
}

impl Condition {
    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        &*self.status == "True"
    }

    /// The condition of this type.
    pub fn find<'c>(conditions: &'c [Condition], type_: &str) -> Option<&'c Condition> {
        conditions.iter().find(|condition| &*condition.type_ == type_)
    }
}
