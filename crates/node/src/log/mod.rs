//! Containers' logs: files of records `time stream tag text`, put aside by size (`contract::rotated`).

mod bell;
mod files;
mod follow;
mod last_words;
mod record;
mod tail;

pub(crate) use bell::Bells;
pub(crate) use follow::Reading;
pub(crate) use last_words::last_words;
