//! Images as a node needs them: is it there, fetch it, how is it run.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use agent::pod::Failure;
use agent::pressure::Amount;
use client::BoxFuture;
use serde_json::Value;

/// An image that is complete on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalImage {
    /// What a container's status shows, by digest.
    pub id: String,
    /// Its names, whole.
    pub names: Vec<String>,
    /// Bytes.
    pub size: u64,
    /// Read-only layers as directories, the topmost first.
    pub layers: Vec<PathBuf>,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments.
    pub cmd: Vec<String>,
    /// Variables.
    pub env: Vec<(String, String)>,
    /// `user`, `user:group`, or empty.
    pub user: String,
    /// The directory to start in; may be empty.
    pub working_dir: String,
    /// `SIGTERM` or a number; empty means SIGTERM.
    pub stop_signal: String,
    /// What the runtime knows it by, where that is not `id`.
    pub reference: String,
    /// The runtime itself applies what the image says of how it is run, which is not known here.
    pub is_configured_by_runtime: bool,
}

/// The answer to a question about an image.
pub type BoxedImage<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// Where images come from. Failures carry the reason that a container's status shows (`ErrImagePull`,
/// `InvalidImageName`, `RegistryUnavailable`).
pub trait ImageStore: Send + Sync {
    /// The image of a name, if it is there.
    fn find<'a>(&'a self, name: &'a str) -> BoxedImage<'a, Option<LocalImage>>;
    /// Fetches an image. `secrets` are the pull secrets of the pod, as objects.
    fn pull<'a>(&'a self, name: &'a str, secrets: &'a [Value]) -> BoxedImage<'a, LocalImage>;
    /// All images.
    fn list(&self) -> BoxedImage<'_, Vec<LocalImage>>;
    /// Removes images that nothing needs, the longest unused first.
    fn collect(&self, needed: Needed, limits: ImageLimits) -> BoxedImage<'_, Collected>;
}

/// What may not be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed {
    /// Names that pods of the node write.
    pub names: BTreeSet<String>,
    /// Layers that containers stand on.
    pub layers: BTreeSet<PathBuf>,
}

/// When images are removed: upstream's numbers unless somebody says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// From this much of the disk taken...
    pub high_percent: u8,
    /// ...until this much is taken.
    pub low_percent: u8,
    /// What is room enough, whatever that is in percent.
    pub spare: Option<Spare>,
    /// Younger images stay.
    pub age_min: Duration,
}

/// Free bytes that are enough on a disk of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Only with less are images removed...
    pub start_bytes: u64,
    /// ...until there are as many.
    pub end_bytes: u64,
}

impl Spare {
    /// Twice what pods are evicted at (3 GiB of the disk of images), so that images go well before pods; and a third more, as
    /// upstream's 20 % are of its 15 %. The percentages are the smaller ones on disks below 40 GiB.
    pub const DEFAULT: Spare = Spare { start_bytes: 6 << 30, end_bytes: 8 << 30 };
}

impl Default for ImageLimits {
    fn default() -> ImageLimits {
        let age_min = Duration::from_secs(2 * 60);
        ImageLimits { high_percent: 85, low_percent: 80, spare: Some(Spare::DEFAULT), age_min }
    }
}

impl ImageLimits {
    /// The limits on a disk of which so much is free, in percent alone; none when there is room enough.
    pub(crate) fn on(self, disk: &Amount) -> Option<ImageLimits> {
        let Some(spare) = self.spare else { return Some(self) };
        let (available, capacity) = (disk.available.unsigned_abs(), disk.capacity.unsigned_abs().max(1));
        if available >= spare.start_bytes {
            return None;
        }
        // Rounded so that at least that much is free in the end.
        let free = spare.end_bytes.saturating_mul(100).div_ceil(capacity).min(100);
        let enough = u8::try_from(100 - free).unwrap_or(0);
        Some(ImageLimits { low_percent: self.low_percent.max(enough), spare: None, ..self })
    }

    /// Everything that nothing needs and that is old enough goes.
    pub(crate) fn everything(self) -> ImageLimits {
        ImageLimits { high_percent: 0, low_percent: 0, spare: None, ..self }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The names removed.
    pub removed: Vec<String>,
    /// Bytes given back.
    pub freed_bytes: u64,
    /// Bytes that should have been given back and were not.
    pub missing_bytes: u64,
}

/// What a pull policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Use what is there.
    Use,
    /// Fetch it.
    Fetch,
    /// It is not there and may not be fetched.
    Refuse,
}

/// What `policy` asks for.
pub(crate) fn course(policy: &str, is_present: bool) -> Course {
    match (policy, is_present) {
        ("Always", _) | ("IfNotPresent" | "", false) => Course::Fetch,
        ("Never", false) => Course::Refuse,
        _ => Course::Use,
    }
}

/// How long a pull may take in all: images of many gigabytes on slow lines, but not for ever.
pub(crate) const PULL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_go_when_there_is_neither_a_share_nor_room() {
        let gib = |count: i64| count << 30;
        let check = |limits: ImageLimits, available: i64, capacity: i64, expected: Option<(u8, u8)>| {
            let found = limits.on(&Amount { available, capacity });
            let percent = found.map(|limits| (limits.high_percent, limits.low_percent));
            assert_eq!(percent, expected, "{available} of {capacity}");
        };
        let default = ImageLimits::default();
        check(default, gib(24), gib(252), None);
        check(default, gib(6), gib(252), None);
        check(default, gib(6) - 1, gib(252), Some((85, 96)));
        // Percentages are the smaller ones here: the store judges by them alone.
        check(default, gib(5), gib(20), Some((85, 80)));
        check(default, 0, 0, Some((85, 80)));
        check(ImageLimits { spare: None, ..default }, gib(24), gib(252), Some((85, 80)));
    }

    #[test]
    fn policies() {
        let check = |policy: &str, present: bool, expected: Course| assert_eq!(course(policy, present), expected);
        check("Always", true, Course::Fetch);
        check("IfNotPresent", true, Course::Use);
        check("IfNotPresent", false, Course::Fetch);
        check("Never", true, Course::Use);
        check("Never", false, Course::Refuse);
    }
}
