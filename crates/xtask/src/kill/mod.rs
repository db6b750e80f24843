//! `cargo xtask kill`: a real server, killed at random moments under load, on one data directory.
//!
//! Each round writes with many clients and watches, kills the server with SIGKILL, starts it again (sometimes killing
//! it during the start, too) and checks: every acknowledged write is there with the revision that was told; a write
//! in doubt happened or did not, nothing between; revisions never go back; the watch resumes from the last event it
//! saw, without gap or repetition; and what the events add up to is what a list shows.

mod keys;
mod shadow;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clock::{Ids, SeededIds, SystemIds};
use tokio::task::JoinSet;

use crate::bench::client::Client;
use crate::bench::server::{Server, build, spawn};
use keys::Keys;
use shadow::Shadow;

/// Writers at a time; each has keys of its own, so that the order of each key's writes is known.
const WRITERS: usize = 16;
/// The load lasts this long at most before the kill.
const LOAD_MS_MAX: u64 = 500;
/// A start that is to be killed is killed within this time: half of them before, half after the log is read.
const START_MS_MAX: u64 = 120;

/// Options of `kill`.
#[derive(clap::Args)]
pub struct Args {
    /// The server's binary; built in release mode when not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How often to kill.
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// What random choices follow; chosen at random when not given. The load itself is never the same twice.
    #[arg(long)]
    seed: Option<u64>,
}

/// Runs the rounds.
pub fn run(args: &Args) -> Result<(), String> {
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    let seed = args.seed.unwrap_or_else(|| SystemIds.number());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| e.to_string())?;
    let outcome = runtime.block_on(rounds(&binary, args.rounds, seed));
    outcome.map_err(|error| format!("{error} (seed {seed})"))
}

async fn rounds(binary: &Path, rounds: u64, seed: u64) -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let dice = SeededIds::new(seed);
    let mut world = World { keys: (0..WRITERS).map(Keys::new).collect(), shadow: Shadow::default(), writes: 0 };
    for round in 0..rounds {
        let told = |error: String| format!("round {round}: {error}");
        if dice.number().is_multiple_of(3) {
            kill_a_start(binary, dir.path(), &dice).await.map_err(told)?;
        }
        let server = Server::start(binary, dir.path(), &[]).await.map_err(told)?;
        world.round(server, &dice).await.map_err(told)?;
    }
    let server = Server::start(binary, dir.path(), &[]).await?;
    let stream = world.check(&server.client).await?;
    server.kill();
    fsck(binary, dir.path())?;
    println!("{rounds} kills, {} acknowledged writes, {} events: nothing lost", world.writes, stream.shadow().seen());
    Ok(())
}

/// A crash while a crash is being recovered from.
async fn kill_a_start(binary: &Path, data_dir: &Path, dice: &dyn Ids) -> Result<(), String> {
    let mut child = spawn(binary, "127.0.0.1:0", data_dir, &data_dir.join("kubeconfig"), &[])?;
    tokio::time::sleep(Duration::from_millis(dice.number() % START_MS_MAX)).await;
    child.kill().and_then(|()| child.wait()).map(drop).map_err(|e| e.to_string())
}

fn fsck(binary: &Path, data_dir: &Path) -> Result<(), String> {
    let status = std::process::Command::new(binary).args(["fsck", "--data-dir"]).arg(data_dir).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("fsck: {other:?}")),
    }
}

/// What must be so.
struct World {
    keys: Vec<Keys>,
    shadow: Shadow,
    writes: usize,
}

impl World {
    async fn round(&mut self, server: Server, dice: &dyn Ids) -> Result<(), String> {
        let stream = self.check(&server.client).await?;
        let recorder = tokio::spawn(stream.record());
        let writers = self.start_writers(&server.client, dice).await?;
        tokio::time::sleep(Duration::from_millis(dice.number() % LOAD_MS_MAX)).await;
        server.kill();
        self.keys = writers.join_all().await.into_iter().collect::<Result<_, _>>()?;
        self.shadow = recorder.await.map_err(|e| e.to_string())??;
        Ok(())
    }

    async fn start_writers(
        &mut self,
        client: &Client,
        dice: &dyn Ids,
    ) -> Result<JoinSet<Result<Keys, String>>, String> {
        let mut writers = JoinSet::new();
        for keys in std::mem::take(&mut self.keys) {
            let connection = client.connect().await?;
            writers.spawn(writer::write_until_killed(connection, keys, dice.number()));
        }
        Ok(writers)
    }

    /// Checks the state that a started server shows, and returns a watch that has seen all of it.
    async fn check(&mut self, client: &Client) -> Result<shadow::Stream, String> {
        let mut connection = client.connect().await?;
        let list = shadow::list(&mut connection).await?;
        if list.revision < self.shadow.newest() {
            return Err(format!("the list's revision {} is behind event {}", list.revision, self.shadow.newest()));
        }
        for keys in &mut self.keys {
            keys.settle(&list)?;
        }
        let mut stream = std::mem::take(&mut self.shadow).resume(client, &list).await?;
        stream.catch_up(&mut connection).await?;
        stream.shadow().must_be(&list)?;
        for keys in &mut self.keys {
            self.writes += keys.must_be_events(stream.shadow_mut())?;
        }
        Ok(stream)
    }
}
