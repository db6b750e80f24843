//! What pods have left that nobody knows any more: this process was killed after they were gone and before the last of
//! them was removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::dirs::Dirs;
use crate::volume;

/// Directories that belong to no pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Orphans {
    /// Uids of pods with a directory.
    pods: Vec<String>,
    /// Directories of logs.
    logs: Vec<PathBuf>,
}

impl Orphans {
    /// Those of pods that are not in `known`. New pods must not come meanwhile: their directories would be among them.
    pub fn find(dirs: &Dirs, logs: &Path, known: impl Fn(&str) -> bool) -> Orphans {
        let pods = names(&dirs.pods()).into_iter().filter(|uid| !known(uid)).collect();
        let is_orphan = |name: &String| name.rsplit_once('_').is_some_and(|(_, uid)| !known(uid));
        let logs = names(logs).into_iter().filter(is_orphan).map(|name| logs.join(name)).collect();
        Orphans { pods, logs }
    }

    /// Removes them. Blocks; what cannot be removed is found again at the next start.
    pub fn remove(self, dirs: &Dirs) {
        for uid in self.pods {
            if let Err(why) = volume::tear_down(&dirs.pod(&uid), &dirs.volumes(&uid)) {
                tracing::warn!(uid, why, "what is left of a pod cannot be removed");
            }
        }
        for path in self.logs {
            if let Err(error) = std::fs::remove_dir_all(&path) {
                tracing::warn!(path = %path.display(), %error, "logs of a pod that is gone cannot be removed");
            }
        }
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_knows_goes() {
        let directory = tempfile::tempdir().expect("a directory");
        let (dirs, logs) = (Dirs::new(directory.path()), directory.path().join("logs"));
        for uid in ["known", "gone"] {
            std::fs::create_dir_all(dirs.volume(uid, "v")).expect("made");
            std::fs::create_dir_all(logs.join(format!("n_p_{uid}/c"))).expect("made");
        }
        std::fs::write(logs.join("somebody's"), "").expect("written");
        let orphans = Orphans::find(&dirs, &logs, |uid| uid == "known");
        assert_eq!(orphans, Orphans { pods: vec!["gone".to_owned()], logs: vec![logs.join("n_p_gone")] });
        orphans.remove(&dirs);
        let left: Vec<String> = names(&dirs.pods()).into_iter().chain(names(&logs)).collect();
        assert_eq!(left, ["known", "n_p_known", "somebody's"]);
    }
}
