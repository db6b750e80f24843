//! What a spec must satisfy before anything of it touches the disk. The API checks far more; this keeps names from
//! becoming paths.

use contract::{ContainerSpec, NetworkMode, SandboxSpec};
use contract::{Error, Result};

/// Names become parts of paths: 253 is the API's own limit.
fn name(what: &str, text: &str) -> Result<()> {
    let plain = !text.is_empty() && text.len() <= 253 && !text.starts_with('.');
    if plain && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Ok(());
    }
    Err(Error::Invalid(format!("{what} {text:?} cannot be part of a path")))
}

pub(super) fn sandbox(spec: &SandboxSpec) -> Result<()> {
    name("pod name", &spec.meta.name)?;
    name("namespace", &spec.meta.namespace)?;
    name("pod uid", &spec.meta.uid)?;
    // The limit of sethostname.
    if spec.network == NetworkMode::Pod && (spec.hostname.is_empty() || spec.hostname.len() > 64) {
        return Err(Error::Invalid(format!("host name {:?} must have 1 to 64 bytes", spec.hostname)));
    }
    Ok(())
}

pub(super) fn container(spec: &ContainerSpec) -> Result<()> {
    name("container name", &spec.name)?;
    if spec.command.is_empty() {
        return Err(Error::Invalid("no command specified".to_owned()));
    }
    if spec.root.lower_dirs.is_empty() {
        return Err(Error::Invalid("the image has no layers".to_owned()));
    }
    let absolute = spec.mounts.iter().find(|mount| !mount.container_path.starts_with('/'));
    match absolute {
        Some(mount) => Err(Error::Invalid(format!("mount path {:?} is not absolute", mount.container_path))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_cannot_become_paths() {
        for (text, good) in
            [("web-0", true), ("a.b_c", true), ("", false), ("..", false), ("a/b", false), ("a\0", false)]
        {
            assert_eq!(super::name("name", text).is_ok(), good, "{text:?}");
        }
    }
}
