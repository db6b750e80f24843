//! The suite of every engine, on files and on a simulated medium.

use std::sync::Arc;

use store::suite::{self, Rig};
use store::{Limits, Store};

use super::{ByHand, by_hand, open, sim};
use crate::vfs::SimVfs;
use crate::{Disk, Options};

struct OnFiles {
    directory: tempfile::TempDir,
    options: Options,
    disk: Option<Disk>,
}

impl OnFiles {
    fn new(limits: Limits) -> OnFiles {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let options = Options { limits, segment_bytes: 20_000, checkpoint_bytes: 10_000, ..Options::default() };
        let disk = Disk::open(directory.path(), options.clone()).expect("a new store opens");
        OnFiles { directory, options, disk: Some(disk) }
    }
}

impl Rig for OnFiles {
    fn store(&self) -> &dyn Store {
        self.disk.as_ref().expect("open")
    }

    fn restart(&mut self) -> bool {
        self.disk.take().expect("open").close().expect("it closes");
        self.disk = Some(Disk::open(self.directory.path(), self.options.clone()).expect("it opens again"));
        true
    }
}

/// Restarts by being killed: what was written but not synced is still there.
pub struct OnMedium {
    vfs: Arc<SimVfs>,
    options: Options,
    disk: Option<ByHand>,
}

impl OnMedium {
    fn new(limits: Limits) -> OnMedium {
        OnMedium::with(limits, |_| ())
    }

    /// The same with other options.
    pub fn with(limits: Limits, change: impl FnOnce(&mut Options)) -> OnMedium {
        let mut options = Options {
            limits,
            segment_bytes: 3000,
            checkpoint_bytes: 1,
            sum_every: 3,
            reserve_revisions: 5,
            ..by_hand()
        };
        change(&mut options);
        let vfs = sim();
        OnMedium { disk: Some(open(&vfs, &options)), vfs, options }
    }
}

impl Rig for OnMedium {
    fn store(&self) -> &dyn Store {
        self.disk.as_ref().expect("open")
    }

    fn restart(&mut self) -> bool {
        let disk = self.disk.take().expect("open").0;
        disk.checkpoint().expect("it checkpoints");
        disk.abandon();
        self.vfs = Arc::new(SimVfs::new(self.vfs.medium().killed()));
        self.disk = Some(open(&self.vfs, &self.options));
        true
    }
}

#[test]
fn it_passes_on_files() {
    suite::run(&|limits| Box::new(OnFiles::new(limits)), 0..6);
}

#[test]
fn it_passes_on_a_simulated_medium() {
    suite::run(&|limits| Box::new(OnMedium::new(limits)), 0..60);
}
