//! The control socket of a running server: for commands that need the store itself, by whoever may open the data
//! directory. One line asks, one line answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use store_disk::Disk;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

/// Longest line: a path of PATH_MAX with escapes.
const LINE_BYTES_MAX: u64 = 16 * 1024;
/// How long a peer may take to say its line.
const LINE_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the socket of a data directory is.
fn socket_path(data_dir: &Path) -> PathBuf {
    data_dir.join("control.sock")
}

/// Answers commands until the process ends. The caller holds the store's lock, so a socket that is there is stale.
pub fn listen(data_dir: &Path, disk: Arc<Disk>) -> std::io::Result<()> {
    let path = socket_path(data_dir);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let disk = Arc::clone(&disk);
            tokio::spawn(async move {
                // The peer has gone: nobody is left to tell.
                let _ = answer(stream, disk).await;
            });
        }
    });
    Ok(())
}

async fn answer(mut stream: UnixStream, disk: Arc<Disk>) -> std::io::Result<()> {
    let mut line = String::new();
    {
        let mut reader = BufReader::new((&mut stream).take(LINE_BYTES_MAX));
        tokio::time::timeout(LINE_TIMEOUT, reader.read_line(&mut line)).await??;
    }
    let asked: Value = serde_json::from_str(&line).unwrap_or_default();
    let reply = match (asked["command"].as_str(), asked["file"].as_str()) {
        (Some("backup"), Some(file)) => backup(disk, PathBuf::from(file)).await,
        _ => json!({"error": "unknown command"}),
    };
    stream.write_all(format!("{reply}\n").as_bytes()).await
}

async fn backup(disk: Arc<Disk>, file: PathBuf) -> Value {
    match tokio::task::spawn_blocking(move || disk.backup(&file)).await {
        Ok(Ok(info)) => json!({"items": info.items, "revision": info.revision.0}),
        Ok(Err(error)) => json!({"error": stdx::chain(&error)}),
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// Asks the server that runs on `data_dir` for a backup into `file` (an absolute path). `None`: no server runs there.
pub async fn ask_backup(data_dir: &Path, file: &Path) -> Option<Result<(u64, u64), String>> {
    let mut stream = UnixStream::connect(socket_path(data_dir)).await.ok()?;
    let asked = json!({"command": "backup", "file": file});
    let mut line = String::new();
    let exchange = async {
        stream.write_all(format!("{asked}\n").as_bytes()).await?;
        BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line).await
    };
    if let Err(error) = exchange.await {
        return Some(Err(error.to_string()));
    }
    let reply: Value = serde_json::from_str(&line).unwrap_or_default();
    Some(match (reply["items"].as_u64(), reply["revision"].as_u64()) {
        (Some(items), Some(revision)) => Ok((items, revision)),
        _ => Err(reply["error"].as_str().unwrap_or("the server ended the connection").to_owned()),
    })
}
