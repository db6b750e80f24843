//! The file in which a node's registries are described, in the form of k3s's `registries.yaml`.
//!
//! It is read by hand and not by derived code: what is wrong with it is told by the names of its fields, and no message can
//! quote a password.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::connect;
use super::hosts::{Hosts, Mirror, Rewrite, Target, TlsOptions, canonical};
use super::keyring::Login;

/// A file of this size names a thousand registries; files of keys are smaller.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Each may take its time to fail.
const ENDPOINTS_MAX: usize = 16;
const REWRITES_MAX: usize = 64;
/// A pattern that is compiled; the crate's own limit is ten times as much.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// It, or a file that it names, cannot be read.
    #[error("{}: {field}cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Who names it, and a space; empty for the file itself.
        field: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is no YAML.
    #[error("{}: line {line}: this is no YAML, or a key is there twice; see docs/images.md for the form", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where.
        line: u64,
    },
    /// A field is not as it must be.
    #[error("{}: {field}: {problem}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Which.
        field: String,
        /// What is wrong with it, and what to write.
        problem: String,
    },
}

/// A field, and what is wrong with it.
type Fault = (String, String);

/// Reads a file of registries; whatever is wrong with it is told now and not at the first pull.
pub(super) fn read(path: &Path) -> Result<Hosts, HostsError> {
    let bytes =
        bytes(path).map_err(|source| HostsError::Read { path: path.to_owned(), field: String::new(), source })?;
    let field = |(field, problem): Fault| HostsError::Field { path: path.to_owned(), field, problem };
    let syntax = |line| HostsError::Syntax { path: path.to_owned(), line };
    let text = String::from_utf8(bytes).map_err(|_| syntax(1))?;
    let parsed: Result<Option<Value>, _> = serde_saphyr::from_str(&text);
    let value = parsed.map_err(|error| syntax(error.location().map_or(1, |location| location.line())))?;
    let reader = Reader { directory: path.parent().unwrap_or(Path::new("")) };
    reader.file(&value.unwrap_or_default()).map_err(field)
}

fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read(path)
}

/// Files named without a leading `/` are looked for beside the file that names them.
struct Reader<'r> {
    directory: &'r Path,
}

impl Reader<'_> {
    fn file(&self, value: &Value) -> Result<Hosts, Fault> {
        let mut hosts = Hosts::default();
        let top = fields("", value, &["mirrors", "configs"])?;
        for (host, mirror) in entries("mirrors", top.get("mirrors").copied())? {
            let field = format!("mirrors.{host:?}");
            let mirrors = mirrors(&field, mirror)?;
            let plain = mirrors.iter().filter_map(|mirror| Target::parse(&mirror.address).ok()).filter(|at| !at.tls);
            hosts.plain_http.extend(plain.map(|at| at.authority()));
            hosts.mirrors.insert(host.clone(), mirrors);
        }
        for (host, config) in entries("configs", top.get("configs").copied())? {
            self.config(&mut hosts, host, config)?;
        }
        Ok(hosts)
    }

    fn config(&self, hosts: &mut Hosts, host: &str, config: &Value) -> Result<(), Fault> {
        let field = format!("configs.{host:?}");
        let config = fields(&field, config, &["auth", "tls"])?;
        if let Some(login) = config.get("auth").map(|auth| login(&format!("{field}.auth"), auth)).transpose()?.flatten()
        {
            if host == "*" {
                return fault(&field, "a login must name its host: else whoever is asked would be shown it");
            }
            hosts.logins.add(host, login);
        }
        if let Some(tls) = config.get("tls") {
            let (field, host) = (format!("{field}.tls"), canonical(host));
            let options = self.tls(&field, tls)?;
            connect::tls_config(&hosts.authorities_pem, Some(&options)).map_err(|why| (field, why))?;
            hosts.tls.insert(host, options);
        }
        Ok(())
    }

    fn tls(&self, field: &str, value: &Value) -> Result<TlsOptions, Fault> {
        let tls = fields(field, value, &["ca_file", "cert_file", "key_file", "insecure_skip_verify"])?;
        let file = |name: &str| -> Result<Option<Vec<u8>>, Fault> {
            let field = format!("{field}.{name}");
            let path = text(&field, tls.get(name).copied())?
                .filter(|path| !path.is_empty())
                .map(|path| self.directory.join(path));
            let read = |path: PathBuf| {
                bytes(&path).map_err(|error| (field, format!("{} cannot be read: {error}", path.display())))
            };
            path.map(read).transpose()
        };
        let client = match (file("cert_file")?, file("key_file")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return fault(field, "cert_file and key_file go together: give both, or none"),
        };
        let is_unverified = match tls.get("insecure_skip_verify") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(is_unverified)) => *is_unverified,
            Some(_) => return fault(&format!("{field}.insecure_skip_verify"), "must be true or false"),
        };
        Ok(TlsOptions { authorities_pem: file("ca_file")?.unwrap_or_default(), client, is_unverified })
    }
}

fn fault<T>(field: &str, problem: &str) -> Result<T, Fault> {
    Err((field.to_owned(), problem.to_owned()))
}

/// The map at `field`, which has no other keys than these. Nothing counts as an empty map.
fn fields<'v>(field: &str, value: &'v Value, known: &[&str]) -> Result<BTreeMap<&'v str, &'v Value>, Fault> {
    let map = entries(field, Some(value))?;
    let shown = if field.is_empty() { "the file" } else { field };
    match map.clone().find(|(key, _)| !known.contains(&key.as_str())) {
        Some((key, _)) => fault(shown, &format!("there is no field {key:?} here; fields are {}", known.join(", "))),
        None => Ok(map.filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.as_str(), value)).collect()),
    }
}

fn entries<'v>(field: &str, value: Option<&'v Value>) -> Result<serde_json::map::Iter<'v>, Fault> {
    static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match value {
        None | Some(Value::Null) => Ok(NOTHING.iter()),
        Some(Value::Object(map)) => Ok(map.iter()),
        Some(_) => fault(if field.is_empty() { "the file" } else { field }, "must be a map"),
    }
}

fn text<'v>(field: &str, value: Option<&'v Value>) -> Result<Option<&'v str>, Fault> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => fault(field, "must be a text; put it in quotes"),
    }
}

fn mirrors(field: &str, value: &Value) -> Result<Vec<Mirror>, Fault> {
    let mirror = fields(field, value, &["endpoint", "rewrite"])?;
    let rewrites = rewrites(&format!("{field}.rewrite"), mirror.get("rewrite").copied())?;
    let field = format!("{field}.endpoint");
    let list = match mirror.get("endpoint") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= ENDPOINTS_MAX => list,
        Some(Value::Array(_)) => return fault(&field, &format!("more than {ENDPOINTS_MAX} endpoints")),
        Some(_) => return fault(&field, "must be a list of addresses, such as [\"https://mirror.example\"]"),
    };
    let one = |(index, value): (usize, &Value)| endpoint(&format!("{field}[{index}]"), value, &rewrites);
    list.iter().enumerate().map(one).collect()
}

/// An address may leave the scheme out. The API is at `/v2` of it; a path is taken to be where the API is, as k3s does.
fn endpoint(field: &str, value: &Value, rewrites: &[Rewrite]) -> Result<Mirror, Fault> {
    let written = text(field, Some(value))?.unwrap_or_default().trim_end_matches('/');
    let address = if written.contains("://") { written.to_owned() } else { format!("https://{written}") };
    // An address with a login in it is none; the text is not shown.
    let Ok(target) = Target::parse(&address) else {
        return fault(field, "is no address such as https://mirror.example:5000; a login belongs into configs");
    };
    let is_api_root = !matches!(target.path.trim_end_matches('/'), "" | "/v2");
    let address = if is_api_root { address } else { address.trim_end_matches("/v2").to_owned() };
    Ok(Mirror { address, is_api_root, rewrites: rewrites.to_vec() })
}

fn rewrites(field: &str, value: Option<&Value>) -> Result<Vec<Rewrite>, Fault> {
    let entries = entries(field, value)?;
    if entries.len() > REWRITES_MAX {
        return fault(field, &format!("more than {REWRITES_MAX} rewrites"));
    }
    let one = |(pattern, replacement): (&String, &Value)| {
        let field = format!("{field}.{pattern:?}");
        let replacement = text(&field, Some(replacement))?.unwrap_or_default().to_owned();
        let compiled = regex::RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
        let pattern = compiled.map_err(|_| (field, "is no regular expression".to_owned()))?;
        Ok(Rewrite { pattern, replacement })
    };
    entries.map(one).collect()
}

fn login(field: &str, value: &Value) -> Result<Option<Login>, Fault> {
    let auth = fields(field, value, &["username", "password", "auth", "identity_token"])?;
    let read = |name: &str| text(&format!("{field}.{name}"), auth.get(name).copied()).map(Option::unwrap_or_default);
    let (username, password, both, token) =
        (read("username")?, read("password")?, read("auth")?, read("identity_token")?);
    if !token.is_empty() {
        return Ok(Some(Login::of_identity_token(token)));
    }
    if !both.is_empty() {
        let decoded = STANDARD.decode(both.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
        let Some((username, password)) = pair else {
            return fault(&format!("{field}.auth"), "must be username:password in base64");
        };
        return Ok(Some(Login { username: username.to_owned(), password: password.to_owned() }));
    }
    let login = Login { username: username.to_owned(), password: password.to_owned() };
    Ok((!login.username.is_empty() || !login.password.is_empty()).then_some(login))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Hosts, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registries.yaml");
        std::fs::write(&path, text).unwrap();
        super::read(&path).map_err(|error| stdx::chain(&error).replace(&format!("{}: ", path.display()), ""))
    }

    #[test]
    fn endpoints_are_asked_in_order() {
        let hosts = read(
            "mirrors:\n  docker.io:\n    endpoint: [\"https://a.example\", \"http://b:5000/v2/\", c.example/v2/hub]\n    \
             rewrite: {\"^library/(.*)\": \"official/$1\"}\n  own:5000: {endpoint: [\"http://own:5000\"]}\n  empty: {}\nconfigs:\n",
        );
        let hosts = hosts.unwrap_or_else(|error| panic!("{error}"));
        let shown = |registry: &str| -> Vec<String> {
            let all = hosts.endpoints(registry).unwrap();
            all.iter().map(|one| format!("{}{} {}", one.base, one.api, one.repository("library/x"))).collect()
        };
        let expected = [
            "https://a.example/v2 official/x",
            "http://b:5000/v2 official/x",
            "https://c.example/v2/hub official/x",
            "https://registry-1.docker.io/v2 library/x",
        ];
        assert_eq!(shown("docker.io"), expected);
        // The registry itself, at the address that was given for it.
        assert_eq!(shown("own:5000"), ["http://own:5000/v2 library/x"]);
        assert_eq!(shown("empty"), ["https://empty/v2 library/x"]);
    }

    #[test]
    fn logins_are_for_their_host() {
        let hosts = read(
            "configs:\n  docker.io: {auth: {username: u, password: p}}\n  a.example:5000: {auth: {auth: dTpw}}\n  \
             b.example: {auth: {identity_token: t}}\n",
        );
        let hosts = hosts.unwrap_or_else(|error| panic!("{error}"));
        let of = |host: &str| -> Vec<(String, String)> {
            let found = hosts.logins.matching(host, "library/x");
            found.into_iter().map(|login| (login.username.clone(), login.password.clone())).collect()
        };
        let pair = |name: &str, password: &str| vec![(name.to_owned(), password.to_owned())];
        assert_eq!((of("docker.io"), of("a.example:5000")), (pair("u", "p"), pair("u", "p")));
        assert_eq!((of("b.example"), of("c.example")), (pair("<token>", "t"), vec![]));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_place_and_no_secret_is() {
        let check = |text: &str, expected: &str| {
            let error = read(text).err().unwrap_or_else(|| panic!("{text}"));
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        };
        check("mirrors:\n  a: [\n", "line ");
        check("mirrors: [a]", "mirrors: must be a map");
        check("mirror: {}", "the file: there is no field \"mirror\" here; fields are mirrors, configs");
        check("mirrors: {a: {endpoint: x}}", "mirrors.\"a\".endpoint: must be a list");
        check("mirrors: {a: {endpoint: [\"https://u:s3cret@b\"]}}", "mirrors.\"a\".endpoint[0]: is no address");
        check("mirrors: {a: {endpoint: [b], rewrite: {\"(\": x}}}", "mirrors.\"a\".rewrite.\"(\": is no regular");
        check("configs: {a: {auth: s3cret}}", "configs.\"a\".auth: must be a map");
        check("configs: {a: {auth: {password: [s3cret]}}}", "configs.\"a\".auth.password: must be a text");
        check("configs: {a: {auth: {auth: s3cret}}}", "configs.\"a\".auth.auth: must be username:password in base64");
        check("configs: {\"*\": {auth: {username: s3cret}}}", "configs.\"*\": a login must name its host");
        check("configs: {a: {tls: {ca_file: /absent}}}", "configs.\"a\".tls.ca_file: /absent cannot be read");
        check(
            "configs: {a: {tls: {cert_file: registries.yaml}}}",
            "configs.\"a\".tls: cert_file and key_file go together",
        );
        check("configs: {a: {tls: {ca_file: registries.yaml}}}", "configs.\"a\".tls: there is no certificate");
        check("configs: {a: {tls: {insecure_skip_verify: 1}}}", "configs.\"a\".tls.insecure_skip_verify: must be");
    }
}
