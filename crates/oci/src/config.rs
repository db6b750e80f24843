//! What an image says about how to run it, and what a container's spec makes of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::error::ImageError;
use crate::manifest::LAYERS_MAX;

/// The part of an image's config that matters to a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, or the program where there is no entrypoint.
    pub cmd: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Whom to run as; nobody named means root.
    pub user: User,
    /// The directory to start in; empty means `/`.
    pub working_dir: String,
    /// `80/tcp`.
    pub exposed_ports: Vec<String>,
    /// Directories that want to be volumes.
    pub volumes: Vec<String>,
    /// `SIGTERM` or a number; empty means SIGTERM.
    pub stop_signal: String,
    /// Notes.
    pub labels: BTreeMap<String, String>,
    /// The machine it is for, as `os/architecture[/variant]`.
    pub platform: String,
    /// The digests of the layers' plain tar streams, lowest first.
    pub diff_ids: Vec<Digest>,
}

/// Whom an image wants to run as.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// A number, or a name of the image's `/etc/passwd`; empty means root.
    pub name: String,
    /// A number, or a name of the image's `/etc/group`; empty means the user's own group.
    pub group: String,
}

impl User {
    /// Reads `user[:group]`.
    pub fn parse(text: &str) -> User {
        let (name, group) = text.split_once(':').unwrap_or((text, ""));
        User { name: name.to_owned(), group: group.to_owned() }
    }

    /// The number of the user, if the image names it by number or means root.
    pub fn uid(&self) -> Option<u32> {
        if self.name.is_empty() { Some(0) } else { self.name.parse().ok() }
    }

    /// The number of the group, if the image names it by number.
    pub fn gid(&self) -> Option<u32> {
        self.group.parse().ok()
    }
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
    #[serde(default)]
    config: Option<Section>,
    rootfs: RootFs,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Section {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    exposed_ports: Option<BTreeMap<String, Value>>,
    volumes: Option<BTreeMap<String, Value>>,
    stop_signal: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Option<Vec<Digest>>,
}

impl ImageConfig {
    /// Reads an image's config.
    pub fn parse(what: &str, bytes: &[u8]) -> Result<ImageConfig, ImageError> {
        let read = |error| ImageError::Damaged(format!("{what}: the config cannot be read: {error}"));
        let document: Document = serde_json::from_slice(bytes).map_err(read)?;
        let diff_ids = document.rootfs.diff_ids.unwrap_or_default();
        if diff_ids.len() > LAYERS_MAX {
            return Err(ImageError::TooLarge(format!("{what}: {} layers, more than {LAYERS_MAX}", diff_ids.len())));
        }
        let variant = document.variant.unwrap_or_default();
        let section = document.config.unwrap_or_default();
        Ok(ImageConfig {
            entrypoint: section.entrypoint.unwrap_or_default(),
            cmd: section.cmd.unwrap_or_default(),
            env: section.env.unwrap_or_default(),
            user: User::parse(&section.user.unwrap_or_default()),
            working_dir: section.working_dir.unwrap_or_default(),
            exposed_ports: section.exposed_ports.unwrap_or_default().into_keys().collect(),
            volumes: section.volumes.unwrap_or_default().into_keys().collect(),
            stop_signal: section.stop_signal.unwrap_or_default(),
            labels: section.labels.unwrap_or_default(),
            platform: crate::Platform::new(&document.os, &document.architecture, &variant).to_string(),
            diff_ids,
        })
    }
}

/// What a container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// `(name, value)`, each name once.
    pub env: Vec<(String, String)>,
    /// The directory to start in.
    pub working_dir: String,
}

/// What `config` becomes under a container's `command`, `args`, `env` and `working_dir`: a command replaces
/// entrypoint and cmd, args alone replace the cmd, variables replace those of their name.
///
/// # Errors
/// A text for the container's status, where there is nothing to run.
pub fn effective(
    config: &ImageConfig,
    command: &[String],
    args: &[String],
    env: &[(String, String)],
    working_dir: &str,
) -> Result<Effective, String> {
    let argv: Vec<String> = match (command.is_empty(), args.is_empty()) {
        (false, _) => command.iter().chain(args).cloned().collect(),
        (true, false) => config.entrypoint.iter().chain(args).cloned().collect(),
        (true, true) => config.entrypoint.iter().chain(&config.cmd).cloned().collect(),
    };
    if argv.is_empty() {
        return Err("no command specified".to_owned());
    }
    let own = config.env.iter().map(|line| match line.split_once('=') {
        Some((name, value)) => (name.to_owned(), value.to_owned()),
        None => (line.clone(), String::new()),
    });
    let working_dir = [working_dir, &config.working_dir, "/"].into_iter().find(|dir| !dir.is_empty()).unwrap_or("/");
    Ok(Effective { argv, env: merge_env(own.chain(env.iter().cloned())), working_dir: working_dir.to_owned() })
}

/// The last value of each name, at the place of the name's first.
fn merge_env(pairs: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut merged: Vec<(String, String)> = Vec::new();
    for (name, value) in pairs {
        match places.get(&name).and_then(|place| merged.get_mut(*place)) {
            Some(pair) => pair.1 = value,
            None => {
                places.insert(name.clone(), merged.len());
                merged.push((name, value));
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_container_overrides_the_image() {
        let config = ImageConfig { entrypoint: texts(&["e", "1"]), cmd: texts(&["c"]), ..ImageConfig::default() };
        let check = |config: &ImageConfig, command: &[&str], args: &[&str], expected: Result<Vec<String>, String>| {
            let found = effective(config, &texts(command), &texts(args), &[], "").map(|it| it.argv);
            assert_eq!(found, expected, "{command:?} {args:?}");
        };
        check(&config, &[], &[], Ok(texts(&["e", "1", "c"])));
        check(&config, &[], &["a"], Ok(texts(&["e", "1", "a"])));
        check(&config, &["x"], &[], Ok(texts(&["x"])));
        check(&config, &["x"], &["a"], Ok(texts(&["x", "a"])));
        check(&ImageConfig::default(), &[], &[], Err("no command specified".to_owned()));
        check(&ImageConfig::default(), &[], &["a"], Ok(texts(&["a"])));
    }

    #[test]
    fn variables_and_directory() {
        let config = ImageConfig { env: texts(&["A=1", "B=x=y", "C"]), cmd: texts(&["c"]), ..ImageConfig::default() };
        let own =
            [("B".to_owned(), "2".to_owned()), ("D".to_owned(), "3".to_owned()), ("D".to_owned(), "4".to_owned())];
        let found = effective(&config, &[], &[], &own, "").unwrap();
        let pairs: Vec<String> = found.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(pairs, ["A=1", "B=2", "C=", "D=4"]);
        assert_eq!(found.working_dir, "/");
        let moved = ImageConfig { working_dir: "/srv".to_owned(), ..config };
        assert_eq!(effective(&moved, &[], &[], &[], "").unwrap().working_dir, "/srv");
        assert_eq!(effective(&moved, &[], &[], &[], "/w").unwrap().working_dir, "/w");
    }

    #[test]
    fn configs_of_docker_and_oci_are_read() {
        let text = r#"{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"],"Cmd":["sh"],"Entrypoint":null,
            "User":"10:users","ExposedPorts":{"80/tcp":{}},"Volumes":{"/data":{}},"StopSignal":"SIGQUIT",
            "WorkingDir":"/srv","Labels":null,"ArgsEscaped":true},"rootfs":{"type":"layers","diff_ids":[]}}"#;
        let config = ImageConfig::parse("x", text.as_bytes()).unwrap();
        assert_eq!((config.cmd, config.entrypoint), (texts(&["sh"]), texts(&[])));
        assert_eq!((config.user.uid(), config.user.gid()), (Some(10), None));
        assert_eq!((config.exposed_ports, config.volumes), (texts(&["80/tcp"]), texts(&["/data"])));
        assert_eq!((config.stop_signal.as_str(), config.platform.as_str()), ("SIGQUIT", "linux/amd64"));
        assert!(ImageConfig::parse("x", b"{}").is_err());
        assert!(ImageConfig::parse("x", br#"{"rootfs":{"diff_ids":["sha256:zz"]}}"#).is_err());
    }
}
