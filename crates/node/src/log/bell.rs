//! Rings when something in a directory of logs is written: one queue of the kernel for the whole node, so that the
//! number of readers is not limited by the number of queues.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// Of the kernel's notes that are read at once.
const NOTES_BYTES: usize = 4_096;

/// The bells of one node.
#[derive(Clone)]
pub(crate) struct Bells(Arc<Inner>);

struct Inner {
    queue: AsyncFd<OwnedFd>,
    /// By the kernel's number of the directory.
    bells: Mutex<BTreeMap<i32, watch::Sender<()>>>,
}

/// One that is listened to.
pub(crate) struct Bell {
    rung: watch::Receiver<()>,
    number: i32,
    bells: Arc<Inner>,
}

impl Bells {
    /// Opens the queue. Must be called on a runtime; the task that reads it ends with the last bell.
    pub fn open() -> io::Result<Bells> {
        let queue = runtime::register(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)?;
        let inner = Arc::new(Inner { queue, bells: Mutex::default() });
        Ok(Bells(inner))
    }

    /// Listens to a directory.
    pub fn hang(&self, directory: &Path) -> io::Result<Bell> {
        let mut bells = self.0.lock();
        let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let number = inotify::add_watch(&self.0.queue, directory, flags)?;
        let rung = bells.entry(number).or_insert_with(|| watch::Sender::new(())).subscribe();
        Ok(Bell { rung, number, bells: Arc::clone(&self.0) })
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, watch::Sender<()>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads notes and rings; false when there are none.
    fn ring(&self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); NOTES_BYTES];
        let mut notes = inotify::Reader::new(self.queue.get_ref(), &mut buffer);
        loop {
            let number = notes.next()?.wd();
            let bells = self.lock();
            match bells.get(&number) {
                Some(bell) => bell.send_modify(|()| {}),
                // The queue overflowed: anything may have happened.
                None if number < 0 => bells.values().for_each(|bell| bell.send_modify(|()| {})),
                None => {}
            }
        }
    }
}

impl Bell {
    /// Resolves when it rang since the last time.
    pub async fn rung(&mut self) {
        loop {
            tokio::select! {
                // The sender lives as long as this bell hangs.
                _ = self.rung.changed() => return,
                ready = self.bells.queue.readable() => {
                    let Ok(mut ready) = ready else { return std::future::pending().await };
                    // Whoever listens reads the notes for all.
                    let _ = ready.try_io(|_| self.bells.ring());
                }
            }
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut bells = self.bells.lock();
        let is_last = bells.get(&self.number).is_some_and(|bell| bell.receiver_count() <= 1);
        if is_last {
            bells.remove(&self.number);
            // Fails when the directory is gone, and the watch with it.
            let _ = inotify::remove_watch(&self.bells.queue, self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn bells_ring_for_their_directory_and_are_taken_down() {
        let (one, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let bells = Bells::open().expect("a queue");
        let (mut first, mut second) = (bells.hang(one.path()).expect("hung"), bells.hang(one.path()).expect("hung"));
        let mut third = bells.hang(other.path()).expect("hung");
        let mut file = std::fs::File::create(one.path().join("f")).expect("made");
        file.write_all(b"x").expect("written");
        tokio::join!(first.rung(), second.rung());
        let mut quiet = std::pin::pin!(third.rung());
        tokio::select! {
            biased;
            () = &mut quiet => panic!("nothing happened there"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        file.write_all(b"y").expect("written");
        second.rung().await;
        drop(second);
        assert_eq!(bells.0.lock().len(), 1);
    }
}
