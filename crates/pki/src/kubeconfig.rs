//! The kubeconfig that lets people in: one entry, merged into whatever file they have.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::file;

/// What to write. The name is used for cluster, user and context.
#[derive(Clone, Copy)]
pub struct KubeconfigEntry<'e> {
    /// E.g. `setpoint`.
    pub name: &'e str,
    /// E.g. `https://127.0.0.1:6443`.
    pub server: &'e str,
    /// The authority's certificate, PEM.
    pub ca_pem: &'e str,
    /// The client's certificate, PEM.
    pub cert_pem: &'e str,
    /// The client's key, PEM. Secret.
    pub key_pem: &'e str,
}

impl fmt::Debug for KubeconfigEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, server, .. } = self;
        f.debug_struct("KubeconfigEntry").field("name", name).field("server", server).finish_non_exhaustive()
    }
}

/// Why a kubeconfig was left as it was.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The file that is there cannot be understood; it is not overwritten.
    #[error("the existing kubeconfig is not one: {0}")]
    Unreadable(String),
    /// The file cannot be read or written.
    #[error("cannot write {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Merges the entry into the file at `path`, which is made when absent. Atomic, mode 0600.
pub fn write_kubeconfig(path: &Path, entry: &KubeconfigEntry<'_>) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Write { path: path.to_owned(), source };
    let existing = file::read(path).map_err(failed)?.unwrap_or_default();
    let merged = merge_kubeconfig(&existing, entry)?;
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        file::make_dir(parent).map_err(failed)?;
    }
    if merged == existing { Ok(()) } else { file::write(path, &merged).map_err(failed) }
}

/// The text of `existing` (empty for none) with the entry added or replaced. Entries of other names stay; the current
/// context changes only when there is none.
pub fn merge_kubeconfig(existing: &str, entry: &KubeconfigEntry<'_>) -> Result<String, KubeconfigError> {
    let mut config = parse(existing)?;
    let name = entry.name;
    let encoded = |pem: &str| STANDARD.encode(pem);
    let cluster = json!({"server": entry.server, "certificate-authority-data": encoded(entry.ca_pem)});
    let user = json!({
        "client-certificate-data": encoded(entry.cert_pem),
        "client-key-data": encoded(entry.key_pem),
    });
    put_named(&mut config, "clusters", json!({"name": name, "cluster": cluster}))?;
    put_named(&mut config, "users", json!({"name": name, "user": user}))?;
    if !has_named(&config, "contexts", name) {
        let context = json!({"name": name, "context": {"cluster": name, "user": name}});
        put_named(&mut config, "contexts", context)?;
    }
    if config.get("current-context").and_then(Value::as_str).unwrap_or("").is_empty() {
        config["current-context"] = json!(name);
    }
    Ok(render(&config))
}

fn parse(existing: &str) -> Result<Value, KubeconfigError> {
    let empty = || json!({"apiVersion": "v1", "kind": "Config"});
    if existing.trim().is_empty() {
        return Ok(empty());
    }
    let unreadable = |why: String| KubeconfigError::Unreadable(why);
    let config = read_yaml(existing).map_err(unreadable)?;
    match &config {
        Value::Null => Ok(empty()),
        Value::Object(map) if map.get("kind").is_none_or(|kind| kind == "Config") => Ok(config),
        _ => Err(unreadable("it is not an object of kind Config".to_owned())),
    }
}

/// With numbers read as kubectl reads them.
fn read_yaml(text: &str) -> Result<Value, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

fn has_named(config: &Value, list: &str, name: &str) -> bool {
    let entries = config.get(list).and_then(Value::as_array);
    entries.is_some_and(|entries| entries.iter().any(|entry| entry.get("name").is_some_and(|n| n == name)))
}

fn put_named(config: &mut Value, list: &str, entry: Value) -> Result<(), KubeconfigError> {
    if config.get(list).is_none_or(Value::is_null) {
        config[list] = json!([]);
    }
    let Some(entries) = config.get_mut(list).and_then(Value::as_array_mut) else {
        return Err(KubeconfigError::Unreadable(format!("{list} is not a list")));
    };
    match entries.iter_mut().find(|known| known.get("name") == entry.get("name")) {
        Some(known) => *known = entry,
        None => entries.push(entry),
    }
    Ok(())
}

/// YAML when it reads back as the same tree, else JSON, which every YAML reader takes: other people's entries may
/// hold anything.
fn render(config: &Value) -> String {
    let yaml = serde_saphyr::to_string(config).unwrap_or_default();
    if read_yaml(&yaml).is_ok_and(|back| back == *config) {
        return yaml;
    }
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: KubeconfigEntry<'static> = KubeconfigEntry {
        name: "setpoint",
        server: "https://127.0.0.1:6443",
        ca_pem: "CA",
        cert_pem: "CERT",
        key_pem: "KEY",
    };

    fn merged(existing: &str) -> Value {
        let text = merge_kubeconfig(existing, &ENTRY).expect("merged");
        read_yaml(&text).expect("reads back")
    }

    #[test]
    fn a_new_file_is_complete() {
        let config = merged("");
        assert_eq!(config["kind"], "Config");
        assert_eq!(config["current-context"], "setpoint");
        assert_eq!(config["clusters"][0]["cluster"]["certificate-authority-data"], "Q0E=");
        assert_eq!(config["users"][0]["user"]["client-key-data"], "S0VZ");
        assert_eq!(config["contexts"][0]["context"], json!({"cluster": "setpoint", "user": "setpoint"}));
    }

    #[test]
    fn others_stay_and_stay_current() {
        let existing = "
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: work
clusters:
- {name: work, cluster: {server: 'https://work', extensions: [{name: x, extension: {n: 0644}}]}}
- {name: setpoint, cluster: {server: 'https://old'}}
contexts:
- {name: work, context: {cluster: work, user: me, namespace: 'yes'}}
- {name: setpoint, context: {cluster: setpoint, user: setpoint, namespace: mine}}
users:
- {name: me, user: {token: '0123', exec: {command: aws, args: [a, '1e3']}}}
";
        let before: Value = read_yaml(existing).expect("reads");
        let config = merged(existing);
        assert_eq!(config["current-context"], "work");
        assert_eq!(config["preferences"], before["preferences"]);
        assert_eq!(config["clusters"][0], before["clusters"][0]);
        assert_eq!(config["clusters"][1]["cluster"]["server"], ENTRY.server);
        assert_eq!(config["contexts"], before["contexts"], "an own context keeps its namespace");
        assert_eq!(config["users"][0], before["users"][0]);
        assert_eq!(config["users"][1]["name"], "setpoint");
    }

    #[test]
    fn merging_twice_changes_nothing() {
        let once = merge_kubeconfig("", &ENTRY).expect("merged");
        assert_eq!(merge_kubeconfig(&once, &ENTRY).expect("merged"), once);
    }

    #[test]
    fn what_is_not_understood_is_not_overwritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub").join("config");
        write_kubeconfig(&path, &ENTRY).expect("written");
        for junk in ["{", "- a", "kind: Pod", "clusters: 5"] {
            std::fs::write(&path, junk).expect("written");
            assert!(write_kubeconfig(&path, &ENTRY).is_err(), "{junk}");
            assert_eq!(std::fs::read_to_string(&path).expect("read"), junk);
        }
    }

    #[test]
    fn debug_shows_no_key() {
        assert!(!format!("{ENTRY:?}").contains("KEY"));
    }
}
