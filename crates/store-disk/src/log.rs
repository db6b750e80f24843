//! The end of the log: appends frames, syncs, moves to the next segment.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use store::Revision;

use crate::frame::{FRAME_HEADER, FrameHeader, SEGMENT_HEADER, SegmentHeader, finish, segment_name};
use crate::options::{Mutant, Options};
use crate::record;
use crate::recover::Segment;
use crate::sum::LogId;
use crate::vfs::{Vfs, VfsFile};

/// The log, open for appending. Only one frame is ever unsynced, apart from a seal.
pub struct Log {
    vfs: Arc<dyn Vfs>,
    options: Options,
    id: LogId,
    file: Box<dyn VfsFile>,
    end: u64,
    synced: u64,
    chain: u64,
    revision: Revision,
    segments: VecDeque<Segment>,
}

/// Where an existing log ends.
pub struct LogEnd {
    /// Which log.
    pub id: LogId,
    /// The chain there.
    pub chain: u64,
    /// Up to where the last segment is known to be durable.
    pub synced: u64,
    /// The last logged revision.
    pub revision: Revision,
    /// The segments, the last of which is appended to.
    pub segments: Vec<Segment>,
}

impl Log {
    /// Begins a log: its first segment, durable.
    pub fn begin(vfs: Arc<dyn Vfs>, options: Options, id: LogId, revision: Revision) -> io::Result<Log> {
        let header = SegmentHeader { id, number: 1, revision: revision.0, chain: 0 };
        let file = create_segment(&*vfs, &options, header)?;
        let end = SEGMENT_HEADER as u64;
        let segments = VecDeque::from([Segment { number: 1, revision, bytes: end }]);
        Ok(Log { vfs, options, id, file, end, synced: end, chain: 0, revision, segments })
    }

    /// Goes on with a log that was read: what was read is made durable first, because a killed process leaves
    /// frames that were written but not synced, and readers are about to see them.
    pub fn resume(vfs: Arc<dyn Vfs>, options: Options, from: LogEnd) -> io::Result<Log> {
        let Some(last) = from.segments.last().copied() else {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the log has no segment"));
        };
        let file = vfs.open(&segment_name(last.number))?;
        if file.length()? > last.bytes {
            file.truncate(last.bytes)?;
        }
        if !options.has(Mutant::TrustCache) && !options.has(Mutant::KeepUnsynced) {
            touch(&*vfs, &*file, &last, from.synced)?;
        }
        file.sync()?;
        vfs.sync_dir()?;
        let (end, synced) = (last.bytes, last.bytes);
        let LogEnd { id, chain, revision, segments, .. } = from;
        Ok(Log { vfs, options, id, file, end, synced, chain, revision, segments: segments.into() })
    }

    /// Which log this is.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// The last revision that is durable in the log.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    fn write(&mut self, frame: &mut [u8], revision: Revision) -> io::Result<()> {
        let header = FrameHeader {
            offset: self.end,
            synced: self.synced,
            revision: revision.0,
            chain: self.chain,
            ..FrameHeader::default()
        };
        let header = finish(frame, self.id, header, self.options.header_crc());
        self.file.append(frame)?;
        self.end = header.end();
        self.chain = header.next_chain();
        self.revision = revision;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if !self.options.has(Mutant::SkipSync) {
            let first = self.file.sync();
            match first {
                Err(_) if self.options.has(Mutant::RetrySync) => self.file.sync()?,
                outcome => outcome?,
            }
        }
        self.synced = self.end;
        if let Some(segment) = self.segments.back_mut() {
            segment.bytes = self.end;
        }
        Ok(())
    }

    /// Appends a frame, whose payload stands behind room for its header, and makes it durable.
    ///
    /// # Errors
    /// After any error the log must not be used again: what is on the medium is unknown.
    pub fn commit(&mut self, frame: &mut [u8], revision: Revision) -> io::Result<()> {
        let outcome = self.write(frame, revision).and_then(|()| self.sync());
        if outcome.is_err() && !self.options.has(Mutant::KeepUnsynced) {
            self.retract();
        }
        outcome
    }

    /// Cuts off what a failed write or sync has left. After a failed sync the system takes the pages for written: the
    /// next process would read them, its own sync would not write them, and a power loss after it had gone on from
    /// there would leave a hole in the middle of the log. Nobody was told of them. If this fails too, so be it.
    fn retract(&mut self) {
        drop(self.file.truncate(self.synced));
        self.end = self.synced;
    }

    /// Appends an empty frame, unsynced: it says that everything before it was durable, so that damage to the
    /// last frame cannot be taken for a torn tail. It reaches the medium whenever the system likes.
    pub fn seal(&mut self) -> io::Result<()> {
        self.write(&mut [0; FRAME_HEADER], self.revision)
    }

    /// Seals and syncs: nothing can be torn any more.
    pub fn close(&mut self) -> io::Result<()> {
        self.seal()?;
        self.sync()
    }

    /// Whether the segment has reached its length.
    pub fn is_roll_due(&self) -> bool {
        self.end >= self.options.segment_bytes
    }

    /// Moves to the next segment. The order matters: the new one is durable before the old one says that the log
    /// goes on there, and that is durable before anything is written there.
    pub fn roll(&mut self) -> io::Result<()> {
        let number = self.segments.back().map_or(1, |segment| segment.number + 1);
        let mut frame = vec![0; FRAME_HEADER];
        record::put_continues(&mut frame, number);
        let header = FrameHeader {
            offset: self.end,
            synced: self.synced,
            revision: self.revision.0,
            chain: self.chain,
            ..FrameHeader::default()
        };
        let chain = finish(&mut frame, self.id, header, self.options.header_crc()).next_chain();
        let next = SegmentHeader { id: self.id, number, revision: self.revision.0, chain };
        if self.options.has(Mutant::RollEarly) {
            self.commit(&mut frame, self.revision)?;
        }
        let file = create_segment(&*self.vfs, &self.options, next)?;
        if !self.options.has(Mutant::RollEarly) {
            self.commit(&mut frame, self.revision)?;
        }
        self.file = file;
        (self.end, self.synced) = (SEGMENT_HEADER as u64, SEGMENT_HEADER as u64);
        self.segments.push_back(Segment { number, revision: self.revision, bytes: self.end });
        Ok(())
    }

    /// The first segment that is needed to go on from the state at `revision`.
    pub fn first_segment(&self, revision: Revision) -> u64 {
        let needed = self.segments.iter().rev().find(|segment| segment.revision <= revision);
        needed.or(self.segments.front()).map_or(1, |segment| segment.number)
    }

    /// How many bytes a checkpoint at `revision` would free.
    pub fn freeable(&self, revision: Revision) -> u64 {
        let first = self.first_segment(revision);
        self.segments.iter().take_while(|segment| segment.number < first).map(|segment| segment.bytes).sum()
    }

    /// Takes the segments before `first` off the list; they are no longer part of the log.
    pub fn forget_before(&mut self, first: u64) -> Vec<Segment> {
        let count = self.segments.iter().take_while(|segment| segment.number < first).count();
        self.segments.drain(..count).collect()
    }
}

/// Writes the end of a segment once more, as far as nothing proves that it is durable. If the sync of an earlier
/// process failed, the system takes those pages for written: readers see them, and a sync does not write them.
fn touch(vfs: &dyn Vfs, file: &dyn VfsFile, segment: &Segment, synced: u64) -> io::Result<()> {
    let unproven = usize::try_from(segment.bytes.saturating_sub(synced)).map_err(io::Error::other)?;
    let mut bytes = vec![0; unproven];
    let read = file.read_at(synced, &mut bytes)?;
    vfs.rewrite(&segment_name(segment.number), synced, &bytes[..read])
}

fn create_segment(vfs: &dyn Vfs, options: &Options, header: SegmentHeader) -> io::Result<Box<dyn VfsFile>> {
    let file = vfs.create(&segment_name(header.number))?;
    file.append(&header.encode())?;
    if !options.has(Mutant::SkipSync) {
        file.sync()?;
    }
    if !options.has(Mutant::SkipDirSync) {
        vfs.sync_dir()?;
    }
    Ok(file)
}
