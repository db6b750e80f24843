//! Credentials for registries, from secrets of the types `kubernetes.io/dockerconfigjson` and `kubernetes.io/dockercfg`.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde::Deserialize;

use crate::error::ImageError;
use crate::reference::{DEFAULT_REGISTRY, Reference};

/// Other names by which credentials for the default registry are filed.
const DEFAULT_ALIASES: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];
/// Secrets have at most 1 MiB; a configuration on a disk may be anything.
const CONFIG_BYTES_MAX: usize = 1 << 20;

/// The name by which Docker files a token in place of a password.
const BY_TOKEN: &str = "<token>";

/// A user's name and password. Has no `Debug`: it must not reach a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub username: String,
    /// The password, or a token in its place.
    pub password: String,
}

impl Login {
    /// Somebody whom a token server knows by a token of theirs.
    pub(super) fn of_identity_token(token: &str) -> Login {
        Login { username: BY_TOKEN.to_owned(), password: token.to_owned() }
    }

    /// The token, where there is one in place of a name and a password.
    pub(super) fn identity_token(&self) -> Option<&str> {
        (self.username == BY_TOKEN).then_some(self.password.as_str())
    }

    /// The value of an `Authorization` header; `None` where there is only a token.
    pub(super) fn basic(&self) -> Option<String> {
        let pair = self.identity_token().is_none().then(|| format!("{}:{}", self.username, self.password))?;
        Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair)))
    }
}

/// Credentials by the registries and repositories they are for. Has no `Debug`.
#[derive(Clone, Default)]
pub struct Keyring {
    /// Pattern and login; the more specific first, as kubelet sorts them.
    entries: Vec<(String, Login)>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
}

impl Keyring {
    /// Reads the data of a secret: `{"auths": {...}}`, or the older form without `auths`.
    ///
    /// # Errors
    /// `Damaged`; the text does not quote the data.
    pub fn from_docker_config(bytes: &[u8]) -> Result<Keyring, ImageError> {
        let damaged = |reason: &str| ImageError::Damaged(format!("the registry credentials {reason}"));
        if bytes.len() > CONFIG_BYTES_MAX {
            return Err(damaged("are too long"));
        }
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| damaged("are no JSON"))?;
        let auths = value.get("auths").cloned().unwrap_or(value);
        let auths: BTreeMap<String, Entry> =
            serde_json::from_value(auths).map_err(|_| damaged("are not of the form of a Docker config"))?;
        let mut keyring = Keyring::default();
        for (key, entry) in auths {
            if let Some(login) = login(entry) {
                keyring.add(&key, login);
            }
        }
        Ok(keyring)
    }

    /// Adds credentials for a registry: a host with an optional port and path, in which `*` stands for one part of
    /// the host's name.
    pub fn add(&mut self, pattern: &str, login: Login) {
        self.entries.push((normalise(pattern), login));
        self.entries.sort_by(|(a, _), (b, _)| b.cmp(a));
    }

    /// Adds all of another ring.
    pub fn extend(&mut self, other: Keyring) {
        for (pattern, login) in other.entries {
            self.add(&pattern, login);
        }
    }

    /// The credentials to try for an image, in order.
    pub fn logins(&self, image: &Reference) -> Vec<&Login> {
        self.matching(image.registry(), image.repository())
    }

    /// The credentials to try for a repository, in order.
    pub(super) fn matching(&self, registry: &str, repository: &str) -> Vec<&Login> {
        let mut found: Vec<&Login> = Vec::new();
        for (pattern, login) in &self.entries {
            if matches(pattern, registry, repository) && !found.contains(&login) {
                found.push(login);
            }
        }
        found
    }
}

fn login(entry: Entry) -> Option<Login> {
    let mut login = Login { username: entry.username, password: entry.password };
    if !entry.auth.is_empty() {
        let engine = base64::engine::general_purpose::STANDARD;
        // Some writers leave the padding out.
        let decoded = engine
            .decode(entry.auth.trim())
            .ok()
            .or_else(|| base64::engine::general_purpose::STANDARD_NO_PAD.decode(entry.auth.trim()).ok())?;
        let text = String::from_utf8(decoded).ok()?;
        let (username, password) = text.split_once(':')?;
        login = Login { username: username.to_owned(), password: password.to_owned() };
    }
    (!login.username.is_empty() || !login.password.is_empty()).then_some(login)
}

/// `host[:port][/path]`, whatever way it was written.
fn normalise(pattern: &str) -> String {
    let bare = pattern.trim().trim_start_matches("https://").trim_start_matches("http://");
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    let host = if DEFAULT_ALIASES.contains(&host) { DEFAULT_REGISTRY } else { host };
    let path = path.trim_end_matches('/');
    // The version of the protocol, as Docker files its own credentials.
    let path = ["v1", "v2"].into_iter().find_map(|version| path.strip_prefix(version)).map_or(path, |rest| {
        if rest.is_empty() || rest.starts_with('/') { rest.trim_start_matches('/') } else { path }
    });
    if path.is_empty() { host.to_owned() } else { format!("{host}/{path}") }
}

fn matches(pattern: &str, registry: &str, repository: &str) -> bool {
    let (host, path) = pattern.split_once('/').unwrap_or((pattern, ""));
    let port = |host: &str| host.rsplit_once(':').map(|(_, port)| port.to_owned());
    let labels = |host: &str| host.split(':').next().unwrap_or("").split('.').map(str::to_owned).collect::<Vec<_>>();
    let (own, wanted) = (labels(host), labels(registry));
    let path_fits = path.is_empty() || repository == path || repository.starts_with(path);
    let host_fits = || own.len() == wanted.len() && own.iter().zip(&wanted).all(|(glob, text)| glob_fits(glob, text));
    (host == registry || (port(host) == port(registry) && host_fits())) && path_fits
}

/// Whether a text fits a pattern in which `*` stands for anything.
fn glob_fits(glob: &str, text: &str) -> bool {
    let mut pieces = glob.split('*');
    let first = pieces.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = rest.get(at + piece.len()..).unwrap_or(""),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(config: &str, registry: &str, repository: &str) -> Vec<String> {
        let keyring = Keyring::from_docker_config(config.as_bytes()).ok().unwrap();
        keyring.matching(registry, repository).into_iter().map(|login| login.username.clone()).collect()
    }

    fn auths(keys: &[&str]) -> String {
        let auths: serde_json::Map<_, _> =
            keys.iter().map(|key| ((*key).to_owned(), serde_json::json!({"username": key, "password": "p"}))).collect();
        serde_json::json!({"auths": auths}).to_string()
    }

    #[test]
    fn credentials_are_found_as_kubelet_finds_them() {
        let check = |keys: &[&str], registry: &str, repository: &str, expected: &[&str]| {
            assert_eq!(users(&auths(keys), registry, repository), expected, "{keys:?} {registry}/{repository}");
        };
        check(&["https://index.docker.io/v1/"], "docker.io", "library/a", &["https://index.docker.io/v1/"]);
        check(&["docker.io"], "docker.io", "library/a", &["docker.io"]);
        check(&["r.example"], "r.example", "a", &["r.example"]);
        check(&["https://r.example/v2/"], "r.example", "a", &["https://r.example/v2/"]);
        check(&["r.example"], "s.example", "a", &[]);
        check(&["r.example"], "r.example:5000", "a", &[]);
        check(&["r.example:5000"], "r.example:5000", "a", &["r.example:5000"]);
        check(&["*.example"], "r.example", "a", &["*.example"]);
        check(&["*.example"], "a.b.example", "a", &[]);
        check(&["r.example", "r.example/team"], "r.example", "team/a", &["r.example/team", "r.example"]);
        check(&["r.example/team"], "r.example", "other/a", &[]);
        check(&["[::1]:5000"], "[::1]:5000", "a", &["[::1]:5000"]);
    }

    #[test]
    fn secrets_of_both_types_are_read() {
        // user:pa:ss
        let plain = r#"{"r.example":{"auth":"dXNlcjpwYTpzcw=="}}"#;
        let keyring = Keyring::from_docker_config(plain.as_bytes()).ok().unwrap();
        assert!(keyring.matching("r.example", "a")[0].password == "pa:ss");
        assert_eq!(users(r#"{"auths":{"r.example":{}}}"#, "r.example", "a"), Vec::<String>::new());
        for wrong in ["", "[]", r#"{"auths":{"r":{"auth":7}}}"#] {
            let error = Keyring::from_docker_config(wrong.as_bytes()).err().unwrap();
            assert!(error.to_string().starts_with("the registry credentials are"), "{error}");
        }
    }
}
