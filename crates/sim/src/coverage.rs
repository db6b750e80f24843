//! What a campaign must have met at least once, or it has not tested what it says it does.

/// Every point: what is struck, refused or taken must be listed here, and what is listed must happen.
pub const POINTS: &[&str] = &[
    "a controller ran twice",
    "a controller was killed",
    "a controller was paused",
    "a fault that lasts",
    "a late request was carried out",
    "a node vanished",
    "a node was taken away for good",
    "a node was tainted for good",
    "a request was doubled",
    "a request was lost",
    "a view began anew after compaction",
    "an answer was lost",
    "an attempt was repeated",
    "an eviction was allowed",
    "an eviction was refused",
    "history was compacted",
    "refused: AlreadyExists",
    "refused: Conflict",
    "refused: Forbidden",
    "refused: Invalid",
    "refused: NotFound",
    "the clock jumped",
    "the disk failed",
    "the power failed",
    "the server was killed",
    "unacknowledged writes were cut off",
];

/// The points that never happened.
pub fn never(seen: &std::collections::BTreeMap<&'static str, u64>) -> Vec<&'static str> {
    POINTS.iter().filter(|point| !seen.contains_key(**point)).copied().collect()
}

/// The point for a refusal, if it is one.
pub fn refusal(reason: &str) -> Option<&'static str> {
    POINTS.iter().find(|point| point.strip_prefix("refused: ") == Some(reason)).copied()
}
