//! The store of images on disk.

mod gc;
mod images;
mod layers;
mod layout;
mod lock;
mod record;

pub use gc::{GcPolicy, GcReport, InUse};
pub use images::{DiskUsage, Image, Images, StoreOptions};
pub(crate) use images::{Inner, Work};
pub(crate) use layout::{Layout, entries};
pub(crate) use record::Record;

#[cfg(test)]
mod tests;
