//! Where an API server is and who one is there, as a kubeconfig says.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use meta::ObjectExt;
use serde_json::Value;

/// Largest file read: a kubeconfig of a thousand clusters is smaller.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// One context, resolved: file contents are read, except those that are read again later.
#[derive(Clone, Debug)]
pub struct Access {
    /// The context's name.
    pub context: String,
    /// Scheme, host, port, and perhaps the path under which the API stands.
    pub server: Uri,
    /// The authorities to trust, PEM; `None` trusts nobody that is not named, so it is needed unless `insecure`.
    pub authorities: Option<Vec<u8>>,
    /// Takes any certificate.
    pub insecure: bool,
    /// The name that the certificate must have, in place of the host.
    pub server_name: Option<String>,
    /// How to say who one is.
    pub credential: Credential,
}

/// How one says who one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// A client certificate and its key.
    pub identity: Option<Identity>,
    /// A bearer token.
    pub token: Option<Secret>,
    /// A file whose content is the bearer token, read again while it is used: such tokens are short-lived.
    pub token_file: Option<PathBuf>,
    /// Whom to act as: name and groups.
    pub act_as: Option<(String, Vec<String>)>,
}

/// A client certificate and its key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate and what leads to its authority.
    pub certificate: Vec<u8>,
    /// Secret.
    pub key: Vec<u8>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(secret)")
    }
}

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Why a kubeconfig is of no use.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no kubeconfig, or a part of it is not what it should be.
    #[error("{path}: {why}")]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Reads `path` and resolves `context`, or the current one.
pub fn read_kubeconfig(path: &Path, context: Option<&str>) -> Result<Access, KubeconfigError> {
    let text = read_file(path)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let invalid = |why: String| KubeconfigError::Invalid { path: path.to_owned(), why };
    let text = String::from_utf8(text).map_err(|_| invalid("it is not UTF-8 text".to_owned()))?;
    let config: Value = serde_saphyr::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    let chosen = Chosen::of(&config, context).map_err(invalid)?;
    let part = |owner: &Value, field: &str| bytes_of(owner, field, directory, path);
    let certificate = part(chosen.user, "client-certificate")?;
    let key = part(chosen.user, "client-key")?;
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        _ => return Err(invalid("a client certificate needs its key, and a key its certificate".to_owned())),
    };
    Ok(Access {
        context: chosen.context.to_owned(),
        server: server(chosen.cluster).map_err(invalid)?,
        authorities: part(chosen.cluster, "certificate-authority")?,
        insecure: chosen.cluster.flag(&["insecure-skip-tls-verify"]),
        server_name: text_of(chosen.cluster, "tls-server-name"),
        credential: Credential {
            identity,
            token: text_of(chosen.user, "token").map(Secret),
            token_file: text_of(chosen.user, "tokenFile").map(|file| directory.join(file)),
            act_as: acting(chosen.user),
        },
    })
}

fn acting(user: &Value) -> Option<(String, Vec<String>)> {
    let groups = user.items(&["as-groups"]).iter().filter_map(Value::as_str).map(str::to_owned);
    Some((text_of(user, "as")?, groups.collect()))
}

/// The three entries that a context names.
struct Chosen<'c> {
    context: &'c str,
    cluster: &'c Value,
    user: &'c Value,
}

static NOBODY: Value = Value::Null;

impl<'c> Chosen<'c> {
    fn of(config: &'c Value, context: Option<&'c str>) -> Result<Chosen<'c>, String> {
        if !config.is_object() || !matches!(config.text(&["kind"]), "" | "Config") {
            return Err("it is not an object of kind Config".to_owned());
        }
        let name = context.unwrap_or_else(|| config.text(&["current-context"]));
        if name.is_empty() {
            return Err("no current-context is set; name one with --context".to_owned());
        }
        let entry = named(config, "contexts", "context", name)
            .ok_or_else(|| format!("context {name:?} does not exist; there are: {}", names(config, "contexts")))?;
        let cluster_name = entry.text(&["cluster"]);
        let cluster = named(config, "clusters", "cluster", cluster_name)
            .ok_or_else(|| format!("context {name:?} names cluster {cluster_name:?}, which does not exist"))?;
        let user_name = entry.text(&["user"]);
        let user = match user_name {
            "" => &NOBODY,
            _ => named(config, "users", "user", user_name)
                .ok_or_else(|| format!("context {name:?} names user {user_name:?}, which does not exist"))?,
        };
        unsupported(cluster, user)?;
        Ok(Chosen { context: name, cluster, user })
    }
}

/// Says so instead of failing later in a way that nobody understands.
fn unsupported(cluster: &Value, user: &Value) -> Result<(), String> {
    let has = |owner: &Value, field: &str| owner.get(field).is_some_and(|value| !value.is_null());
    for (owner, field) in
        [(cluster, "proxy-url"), (user, "exec"), (user, "auth-provider"), (user, "username"), (user, "password")]
    {
        if has(owner, field) {
            return Err(format!("{field} is not supported; use a client certificate, token or tokenFile"));
        }
    }
    Ok(())
}

fn named<'c>(config: &'c Value, list: &str, field: &str, name: &str) -> Option<&'c Value> {
    config.items(&[list]).iter().find(|entry| entry.text(&["name"]) == name)?.get(field)
}

fn names(config: &Value, list: &str) -> String {
    let names: Vec<&str> = config.items(&[list]).iter().map(|entry| entry.text(&["name"])).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn text_of(owner: &Value, field: &str) -> Option<String> {
    Some(owner.text(&[field])).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn server(cluster: &Value) -> Result<Uri, String> {
    let text = cluster.text(&["server"]);
    let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let uri: Uri = text.parse().map_err(|error| format!("server {text:?} is no address: {error}"))?;
    match uri.scheme_str() {
        Some("https") if uri.host().is_some() => Ok(uri),
        _ => Err(format!("server {text:?} is not an https address")),
    }
}

/// What `FIELD-data` holds, or else the file that `FIELD` names, relative to the kubeconfig.
fn bytes_of(owner: &Value, field: &str, directory: &Path, path: &Path) -> Result<Option<Vec<u8>>, KubeconfigError> {
    let invalid = |why: String| KubeconfigError::Invalid { path: path.to_owned(), why };
    if let Some(encoded) = text_of(owner, &format!("{field}-data")) {
        let compact: String = encoded.split_ascii_whitespace().collect();
        let decoded = STANDARD.decode(compact).map_err(|error| invalid(format!("{field}-data: {error}")))?;
        return Ok(Some(decoded));
    }
    text_of(owner, field).map(|file| read_file(&directory.join(file))).transpose()
}

fn read_file(path: &Path) -> Result<Vec<u8>, KubeconfigError> {
    use std::io::Read;
    let failed = |source| KubeconfigError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "
apiVersion: v1
kind: Config
current-context: inline
clusters:
- {name: a, cluster: {server: 'https://a:6443', certificate-authority-data: Q0E=, tls-server-name: api}}
- {name: b, cluster: {server: 'b.example', certificate-authority: ca.pem}}
- {name: open, cluster: {server: 'https://c', insecure-skip-tls-verify: true}}
- {name: plain, cluster: {server: 'http://c'}}
- {name: proxied, cluster: {server: 'https://c', proxy-url: 'http://p'}}
contexts:
- {name: inline, context: {cluster: a, user: inline}}
- {name: files, context: {cluster: b, user: files}}
- {name: token, context: {cluster: open, user: token}}
- {name: nobody, context: {cluster: open}}
- {name: plain, context: {cluster: plain}}
- {name: proxied, context: {cluster: proxied}}
- {name: exec, context: {cluster: open, user: exec}}
- {name: half, context: {cluster: open, user: half}}
- {name: lost, context: {cluster: gone}}
users:
- {name: inline, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}
- {name: files, user: {client-certificate: cert.pem, client-key: key.pem, tokenFile: token}}
- {name: token, user: {token: abc, as: them, as-groups: [x, z]}}
- {name: exec, user: {exec: {command: login}}}
- {name: half, user: {client-key-data: S0VZ}}
";

    fn read(context: Option<&str>) -> Result<Access, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("config");
        for (name, content) in [("config", CONFIG), ("ca.pem", "CA2"), ("cert.pem", "CERT2"), ("key.pem", "KEY2")] {
            std::fs::write(directory.path().join(name), content).expect("written");
        }
        read_kubeconfig(&path, context).map_err(|error| error.to_string())
    }

    #[test]
    fn inline_data_files_and_tokens_are_read() {
        let inline = read(None).expect("read");
        assert_eq!((inline.server.to_string(), inline.context.as_str()), ("https://a:6443/".to_owned(), "inline"));
        assert_eq!((inline.authorities.as_deref(), inline.server_name.as_deref()), (Some(&b"CA"[..]), Some("api")));
        let identity = inline.credential.identity.clone().expect("a certificate");
        assert_eq!((&identity.certificate[..], &identity.key[..]), (&b"CERT"[..], &b"KEY"[..]));
        assert!(!format!("{inline:?}").contains("KEY"), "no key is shown");

        let files = read(Some("files")).expect("read");
        assert_eq!((files.server.host(), files.authorities.as_deref()), (Some("b.example"), Some(&b"CA2"[..])));
        assert_eq!(files.credential.identity.map(|identity| identity.key), Some(b"KEY2".to_vec()));
        assert!(files.credential.token_file.is_some_and(|path| path.is_absolute()));

        let token = read(Some("token")).expect("read");
        assert!(token.insecure && !format!("{token:?}").contains("abc"));
        assert_eq!(token.credential.act_as, Some(("them".to_owned(), vec!["x".to_owned(), "z".to_owned()])));
        assert_eq!(read(Some("nobody")).expect("read").credential, Credential::default());
    }

    #[test]
    fn what_is_of_no_use_is_said() {
        for (context, expected) in [
            ("missing", "context \"missing\" does not exist; there are: inline, files,"),
            ("plain", "is not an https address"),
            ("proxied", "proxy-url is not supported"),
            ("exec", "exec is not supported; use a client certificate, token or tokenFile"),
            ("half", "a client certificate needs its key"),
            ("lost", "names cluster \"gone\", which does not exist"),
        ] {
            let error = read(Some(context)).expect_err(context);
            assert!(error.contains(expected), "{context}: {error}");
        }
    }
}
