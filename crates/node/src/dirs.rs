//! Where things of pods are.

use std::path::PathBuf;

/// The node's directory: `pods/<uid>/{volumes/<volume>,messages/<container>/<attempt>,resized/<id>}`.
#[derive(Clone, Debug)]
pub(crate) struct Dirs {
    root: PathBuf,
}

impl Dirs {
    pub fn new(root: impl Into<PathBuf>) -> Dirs {
        Dirs { root: root.into() }
    }

    pub fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    pub fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(word(uid))
    }

    pub fn volumes(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("volumes")
    }

    pub fn volume(&self, uid: &str, volume: &str) -> PathBuf {
        self.volumes(uid).join(word(volume))
    }

    /// The file that a container may leave its last words in.
    pub fn message(&self, uid: &str, container: &str, attempt: u32) -> PathBuf {
        self.pod(uid).join("messages").join(word(container)).join(attempt.to_string())
    }

    /// What running containers and sandboxes of a pod were resized to.
    pub fn all_resized(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("resized")
    }

    /// The resources that a running container, or a sandbox, was resized to.
    pub fn resized(&self, uid: &str, id: &str) -> PathBuf {
        self.all_resized(uid).join(word(id))
    }
}

/// A name as one part of a path. The API has checked such names; a path must not depend on that.
fn word(name: &str) -> String {
    match name {
        "" | "." | ".." => "_".to_owned(),
        name => name.replace(['/', '\0'], "_"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn no_name_leads_out() {
        let dirs = Dirs::new("/r");
        assert_eq!(dirs.volume("u", "../../etc"), Path::new("/r/pods/u/volumes/.._.._etc"));
        assert_eq!(dirs.pod(".."), Path::new("/r/pods/_"));
        assert_eq!(dirs.message("u", "c", 3), Path::new("/r/pods/u/messages/c/3"));
    }
}
