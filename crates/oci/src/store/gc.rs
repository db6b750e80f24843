//! Garbage: images that nothing runs, when the disk is full or they are old; and what no image needs any more.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use stdx::Time;

use super::images::{Images, Inner, guard, named};
use super::record::Record;
use crate::digest::Digest;
use crate::error::ImageError;

/// When images go. The defaults are kubelet's.
#[derive(Clone, Debug)]
pub struct GcPolicy {
    /// From this much of the disk taken, images are removed...
    pub high_percent: u8,
    /// ...until this much is taken.
    pub low_percent: u8,
    /// Younger images stay.
    pub age_min: Duration,
    /// Images unused for longer go, however free the disk is.
    pub unused_max: Option<Duration>,
}

impl Default for GcPolicy {
    fn default() -> Self {
        GcPolicy { high_percent: 85, low_percent: 80, age_min: Duration::from_secs(120), unused_max: None }
    }
}

impl GcPolicy {
    /// The bytes to free, so that `low_percent` of the disk are taken, once `high_percent` are.
    pub fn excess(&self, capacity_bytes: u64, available_bytes: u64) -> u64 {
        let share = |percent: u8| (u128::from(capacity_bytes) * u128::from(percent.min(100)) / 100) as u64;
        let taken = capacity_bytes.saturating_sub(available_bytes);
        if capacity_bytes == 0 || taken < share(self.high_percent) {
            return 0;
        }
        taken.saturating_sub(share(self.low_percent))
    }
}

/// What containers use.
#[derive(Clone, Debug, Default)]
pub struct InUse {
    /// IDs of images.
    pub images: BTreeSet<Digest>,
    /// Directories of layers, as [`crate::Image::layers`] names them: kept even where their image is gone.
    pub layers: BTreeSet<PathBuf>,
}

/// What a collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// The names removed.
    pub removed: Vec<String>,
    /// Bytes given back to the disk.
    pub freed_bytes: u64,
    /// Bytes that should have been freed by the policy and could not be.
    pub missing_bytes: u64,
}

impl Images {
    /// Collects garbage. `Busy` if another process pulls or imports at this moment; then try again later.
    pub fn gc(&self, in_use: &InUse, policy: &GcPolicy) -> Result<GcReport, ImageError> {
        let now = self.inner.options.clock.now();
        self.inner.note_use(in_use, now);
        let usage = self.file_system()?;
        let to_free = policy.excess(usage.capacity_bytes, usage.available_bytes);
        self.inner.locks.exclusively(|| self.inner.collect(in_use, policy, now, to_free))?
    }

    /// Deletes what no image needs and no container uses, but no image.
    pub fn sweep(&self, in_use: &InUse) -> Result<GcReport, ImageError> {
        let keep_all = GcPolicy { unused_max: None, ..GcPolicy::default() };
        let now = self.inner.options.clock.now();
        self.inner.locks.exclusively(|| self.inner.collect(in_use, &keep_all, now, 0))?
    }
}

impl Inner {
    fn note_use(&self, in_use: &InUse, now: Time) {
        let mut used = guard(&self.used);
        used.extend(in_use.images.iter().map(|id| (id.clone(), now)));
    }

    fn collect(&self, in_use: &InUse, policy: &GcPolicy, now: Time, to_free: u64) -> Result<GcReport, ImageError> {
        let mut report = GcReport { freed_bytes: self.sweep(in_use)?, ..GcReport::default() };
        for group in self.candidates(in_use, policy, now)? {
            let expired = policy.unused_max.is_some_and(|max| now.since(group.used) > max);
            if !expired && report.freed_bytes >= to_free {
                continue;
            }
            for name in group.names {
                self.layout.remove(&self.layout.image(&name))?;
                report.removed.push(name);
            }
            report.freed_bytes += self.sweep(in_use)?;
        }
        report.missing_bytes = to_free.saturating_sub(report.freed_bytes);
        Ok(report)
    }

    /// The images that may go, least recently used first.
    fn candidates(&self, in_use: &InUse, policy: &GcPolicy, now: Time) -> Result<Vec<Candidate>, ImageError> {
        let records = Record::all(&self.layout)?;
        let used = guard(&self.used).clone();
        let ids: BTreeSet<&Digest> = records.iter().map(|record| &record.config_digest).collect();
        let mut found = Vec::new();
        for id in ids {
            let own: Vec<&Record> = records.iter().filter(|record| record.config_digest == *id).collect();
            let pulled = own.iter().map(|record| record.pulled_micros).max().map_or(now, Time::from_micros);
            let runs = in_use.images.contains(id) || own.iter().any(|record| self.is_used(record, in_use));
            if runs || own.iter().any(|record| record.pinned) || now.since(pulled) < policy.age_min {
                continue;
            }
            let used = used.get(id).copied().unwrap_or(pulled);
            found.push(Candidate { used, pulled, names: own.iter().map(|record| record.name.clone()).collect() });
        }
        found.sort_by_key(|candidate| (candidate.used, candidate.pulled));
        Ok(found)
    }

    /// Whether a container stands on the image: on its topmost layer, since lower ones are shared.
    fn is_used(&self, record: &Record, in_use: &InUse) -> bool {
        let top = record.layers.last().map(|layer| self.layout.layer_fs(&layer.chain));
        top.is_some_and(|top| in_use.layers.contains(&top))
    }

    /// Deletes blobs and layers that no record, no container and no work needs. The bytes freed.
    fn sweep(&self, in_use: &InUse) -> Result<u64, ImageError> {
        let pins = guard(&self.pins);
        let records = Record::all(&self.layout)?;
        let blobs: BTreeSet<&Digest> = records.iter().flat_map(Record::blobs).chain(pins.keys()).collect();
        let chains: BTreeSet<&Digest> = records
            .iter()
            .flat_map(|record| record.layers.iter().map(|layer| &layer.chain))
            .chain(pins.keys())
            .collect();
        let mut freed = 0;
        for (algorithm, directory) in [("sha256", "blobs/sha256"), ("sha512", "blobs/sha512"), ("sha256", "partial")] {
            let present = named(&self.layout.root().join(directory), algorithm);
            for (_, path) in present.into_iter().filter(|(digest, _)| !blobs.contains(digest)) {
                freed += self.layout.remove(&path)?;
            }
        }
        for (chain, path) in named(&self.layout.root().join("layers"), "sha256") {
            if !chains.contains(&chain) && !in_use.layers.contains(&self.layout.layer_fs(&chain)) {
                freed += self.layout.remove(&path)?;
            }
        }
        Ok(freed)
    }
}

/// An image that may go.
struct Candidate {
    used: Time,
    pulled: Time,
    names: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_freed_below_the_high_mark() {
        let policy = GcPolicy::default();
        let check = |capacity, available, expected| assert_eq!(policy.excess(capacity, available), expected);
        check(1000, 151, 0);
        check(1000, 150, 50);
        check(1000, 0, 200);
        check(0, 0, 0);
        check(u64::MAX, u64::MAX, 0);
    }
}
