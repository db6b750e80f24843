//! A directory of manifests: one pod a file, watched by the kernel. A file that cannot be used is complained about
//! once; the pod that it described before goes on, and so do all others.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent::static_pod;
use brain::Note;
use clock::Clock;
use meta::{ObjectExt, Time};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde_json::Value;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use crate::room::News;
use crate::upkeep::Errand;

/// Largest manifest: the API's limit of an object, about.
const FILE_BYTES_MAX: u64 = 2 << 20;
/// Files that are read: twice the pods that a node may have.
const FILES_MAX: usize = 220;
/// Files are written in pieces: changes this close to each other are one.
const SETTLE: Duration = Duration::from_millis(100);
/// How often a directory that cannot be watched is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Of the kernel's notes that are read at once.
const NOTES_BYTES: usize = 4_096;

/// Reads the directory whenever it changes, and tells of all pods that it describes.
pub(crate) struct Manifests {
    pub directory: PathBuf,
    pub node: String,
    pub clock: Arc<dyn Clock>,
    pub news: mpsc::UnboundedSender<News>,
}

/// What is known of a file.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    bytes: Vec<u8>,
    /// The last pod that it described.
    pod: Option<Arc<Value>>,
}

impl Manifests {
    /// Until the node is gone.
    pub async fn run(self) {
        let mut known = BTreeMap::new();
        loop {
            // Watched before it is read: what changes meanwhile is seen again.
            let watch = Watch::open(&self.directory);
            if let Err(error) = &watch {
                tracing::debug!(directory = %self.directory.display(), %error, "manifests cannot be watched");
            }
            known = match self.read(known).await {
                Some(known) => known,
                None => return,
            };
            match watch {
                Ok(watch) => watch.changed().await,
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
            tokio::time::sleep(SETTLE).await;
        }
    }

    /// None when there is nobody to tell any more.
    async fn read(&self, known: BTreeMap<String, Known>) -> Option<BTreeMap<String, Known>> {
        let (directory, node, now) = (self.directory.clone(), self.node.clone(), self.clock.now());
        let read = tokio::task::spawn_blocking(move || scan(&directory, &node, known, now)).await;
        let (known, complaints) = read.ok()?;
        for complaint in complaints {
            tracing::warn!("{complaint}");
            self.news.send(News::Errand(Errand::Tell(Note::warning("FailedValidation", complaint)))).ok()?;
        }
        let pods = known.values().filter_map(|file| file.pod.clone()).collect();
        self.news.send(News::Manifests(pods)).ok()?;
        Some(known)
    }
}

/// All files of the directory, and what is wrong with those that are new. A directory that is not there has none.
fn scan(
    directory: &Path,
    node: &str,
    mut before: BTreeMap<String, Known>,
    now: Time,
) -> (BTreeMap<String, Known>, Vec<String>) {
    let (mut known, mut complaints) = (BTreeMap::new(), Vec::new());
    for name in names(directory) {
        let old = before.remove(&name).unwrap_or_default();
        let path = directory.join(&name);
        let complain = |why: String| format!("Could not process manifest file {}: {why}", path.display());
        match read_file(&path) {
            Ok(None) => {}
            Ok(Some(bytes)) if bytes == old.bytes => drop(known.insert(name, old)),
            Ok(Some(bytes)) => {
                let pod = describe(&bytes, &name, node, now);
                let pod = pod.map(Arc::new).map_err(|why| complaints.push(complain(why))).ok().or(old.pod);
                known.insert(name, Known { bytes, pod });
            }
            Err(error) => {
                complaints.push(complain(error.to_string()));
                known.insert(name, old);
            }
        }
    }
    one_a_name(&mut known, &mut complaints);
    (known, complaints)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names.truncate(FILES_MAX);
    names
}

/// None where there is nothing to read: a directory, or a file that is about to be written.
fn read_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Opening a pipe would wait for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
}

fn describe(bytes: &[u8], name: &str, node: &str, now: Time) -> Result<Value, String> {
    let (written, duplicates) = api::yaml::decode(bytes).map_err(|error| error.to_string())?;
    match duplicates.first() {
        Some(duplicate) => Err(format!("duplicate key: {duplicate}")),
        None => static_pod::pod(written, name, node, now),
    }
}

/// Of several files that describe pods of one name, the first counts.
fn one_a_name(known: &mut BTreeMap<String, Known>, complaints: &mut Vec<String>) {
    let mut taken: BTreeMap<(String, String), String> = BTreeMap::new();
    for (file, own) in known.iter_mut() {
        let Some(pod) = &own.pod else { continue };
        let key = (pod.namespace().to_owned(), pod.name().to_owned());
        if let Some(first) = taken.get(&key) {
            complaints.push(format!("Could not process manifest file {file}: {first} describes {} already", key.1));
            own.pod = None;
        } else {
            taken.insert(key, file.clone());
        }
    }
}

/// The kernel's eye on the directory.
struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    fn open(directory: &Path) -> io::Result<Watch> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let changes = WatchFlags::CLOSE_WRITE | WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVE;
        let own = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        inotify::add_watch(&queue, directory, changes | own)?;
        Ok(Watch(runtime::register(queue)?))
    }

    /// Resolves when something has changed since it was opened.
    async fn changed(&self) {
        let mut buffer = [MaybeUninit::uninit(); NOTES_BYTES];
        loop {
            let Ok(mut ready) = self.0.readable().await else { return };
            let read = ready.try_io(|queue| {
                let mut notes = inotify::Reader::new(queue.get_ref(), &mut buffer);
                Ok(notes.next().map(drop)?)
            });
            if !matches!(read, Err(_would_block)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, image: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: {image}}}]}}\n"
        )
    }

    fn shown(known: &BTreeMap<String, Known>) -> Vec<(&str, &str)> {
        let image = |pod: &'_ Arc<Value>| pod.items(&["spec", "containers"])[0].text(&["image"]).to_owned();
        let all = known.values().filter_map(|file| file.pod.as_ref());
        all.map(|pod| (pod.name(), &*image(pod).leak())).collect()
    }

    #[test]
    fn what_is_bad_is_told_and_what_was_good_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("written");
        let look = |known: BTreeMap<String, Known>| scan(directory.path(), "n", known, Time::from_secs(1));
        write("a.yaml", &manifest("one", "x"));
        write(
            "b.json",
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"two"},"spec":{"containers":[{"name":"c","image":"y"}]}}"#,
        );
        write("bad.yaml", "kind: [");
        write(".hidden.yaml", &manifest("hidden", "x"));
        write("empty.yaml", "");
        std::fs::create_dir(directory.path().join("sub")).expect("made");
        let (known, complaints) = look(BTreeMap::new());
        assert_eq!(shown(&known), [("one-n", "x"), ("two-n", "y")]);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("bad.yaml"), "{complaints:?}");
        // Told once.
        let (known, complaints) = look(known);
        assert_eq!(complaints, Vec::<String>::new());
        // A change, and one that is none.
        write("a.yaml", &manifest("one", "z"));
        write("b.json", "{}");
        let (known, complaints) = look(known);
        assert_eq!(shown(&known), [("one-n", "z"), ("two-n", "y")]);
        assert_eq!(complaints.len(), 1);
        std::fs::remove_file(directory.path().join("b.json")).expect("removed");
        write("c.yaml", &manifest("one", "again"));
        let (known, complaints) = look(known);
        assert_eq!(shown(&known), [("one-n", "z")]);
        assert!(complaints[0].contains("a.yaml describes one-n already"), "{complaints:?}");
        let (known, _) = scan(&directory.path().join("absent"), "n", known, Time::from_secs(1));
        assert_eq!(known, BTreeMap::new());
    }

    #[tokio::test]
    async fn the_directory_is_watched() {
        let directory = tempfile::tempdir().expect("a directory");
        let watch = Watch::open(directory.path()).expect("watched");
        let write = tokio::task::spawn_blocking({
            let path = directory.path().join("a.yaml");
            move || std::fs::write(path, "x")
        });
        watch.changed().await;
        write.await.expect("joined").expect("written");
    }
}
