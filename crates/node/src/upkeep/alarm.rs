//! The kernel's word that processes wait for memory.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Where the kernel is told what to watch for.
const FILE: &str = "/proc/pressure/memory";
/// Some process waits for memory for a tenth of two seconds. The kernel says so at most once in that time, which is the
/// shortest that it takes from those without the right to change limits.
const TRIGGER: &[u8] = b"some 200000 2000000\0";

/// Rings when memory is short.
pub(super) struct Alarm(Option<AsyncFd<OwnedFd>>);

impl Alarm {
    /// Without the kernel's help it never rings: then memory is looked at like everything else.
    pub fn open() -> Alarm {
        let open = || -> std::io::Result<AsyncFd<OwnedFd>> {
            let file = rustix::fs::open(FILE, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(&file, TRIGGER)?;
            runtime::register_urgent(file)
        };
        match open() {
            Ok(file) => Alarm(Some(file)),
            Err(error) => {
                tracing::debug!(%error, "the kernel does not tell when memory is short");
                Alarm(None)
            }
        }
    }

    /// Resolves when memory is short.
    pub async fn rung(&mut self) {
        let Some(file) = &self.0 else { return std::future::pending().await };
        match file.ready(Interest::PRIORITY).await {
            Ok(mut ready) => ready.clear_ready(),
            Err(error) => {
                tracing::debug!(%error, "the kernel does not tell any more when memory is short");
                self.0 = None;
                std::future::pending().await
            }
        }
    }
}
