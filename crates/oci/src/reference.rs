//! Names of images as people write them, made whole the way Docker and containerd do it.

use std::fmt;

use crate::digest::Digest;
use crate::error::ImageError;

/// The registry that a name without one means.
pub const DEFAULT_REGISTRY: &str = "docker.io";
/// What the default registry was called once; still written in credentials.
const LEGACY_REGISTRY: &str = "index.docker.io";
/// Where the default registry keeps images whose name has one part.
const OFFICIAL: &str = "library/";
/// What a name without tag and digest means.
const DEFAULT_TAG: &str = "latest";
/// The limit of the distribution specification's implementations.
const REPOSITORY_BYTES_MAX: usize = 255;
/// From the grammar: `[\w][\w.-]{0,127}`.
const TAG_BYTES_MAX: usize = 128;
/// Longer than any name that passes the limits above: what is longer need not be looked at.
const REFERENCE_BYTES_MAX: usize = 1024;

/// A complete, valid name: registry, repository, and a tag or a digest.
///
/// A name with both keeps the digest only, as containerd has it: the digest decides what is pulled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Reads a name: `busybox` is `docker.io/library/busybox:latest`.
    pub fn parse(text: &str) -> Result<Reference, ImageError> {
        let refuse = |reason: &str| ImageError::InvalidName { name: shorten(text), reason: reason.to_owned() };
        parse(text).map_err(|reason| refuse(&reason))
    }

    /// The host and port of the registry, as named.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path below the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, unless a digest decides.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// `registry/repository`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The same repository's image of that digest.
    pub fn with_digest(&self, digest: Digest) -> Reference {
        Reference { tag: None, digest: Some(digest), ..self.clone() }
    }

    /// What a registry calls the manifest: its digest or tag.
    pub(crate) fn selector(&self) -> &str {
        match &self.digest {
            Some(digest) => digest.as_str(),
            None => self.tag.as_deref().unwrap_or(DEFAULT_TAG),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => write!(f, ":{}", self.selector()),
        }
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(REFERENCE_BYTES_MAX).collect()
}

const FORMAT: &str = "invalid reference format";

fn parse(text: &str) -> Result<Reference, String> {
    if text.is_empty() || text.len() > REFERENCE_BYTES_MAX {
        return Err(FORMAT.to_owned());
    }
    if text.len() == 64 && is_hex(text) {
        return Err(format!("invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"));
    }
    let (registry, remainder) = split_registry(text);
    let until_tag = remainder.split(':').next().unwrap_or("");
    if until_tag.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(format!("{FORMAT}: repository name ({until_tag}) must be lowercase"));
    }
    let (name, digest) = match remainder.split_once('@') {
        None => (remainder.as_str(), None),
        Some((name, digest)) => (name, Some(Digest::parse(digest).ok_or_else(|| unsupported(digest))?)),
    };
    let (repository, tag) = match name.split_once(':') {
        None => (name, None),
        Some((name, tag)) => (name, Some(tag)),
    };
    if repository.len() > REPOSITORY_BYTES_MAX {
        return Err(format!("repository name must not be more than {REPOSITORY_BYTES_MAX} characters"));
    }
    let whole = is_registry(&registry) && repository.split('/').all(is_component) && tag.is_none_or(is_tag);
    if !whole {
        return Err(FORMAT.to_owned());
    }
    let tag = if digest.is_some() { None } else { Some(tag.unwrap_or(DEFAULT_TAG).to_owned()) };
    Ok(Reference { registry, repository: repository.to_owned(), tag, digest })
}

fn unsupported(digest: &str) -> String {
    match digest.split_once(':') {
        Some((algorithm, _)) if !matches!(algorithm, "sha256" | "sha512") => "unsupported digest algorithm".to_owned(),
        Some(_) => "invalid checksum digest length".to_owned(),
        None => FORMAT.to_owned(),
    }
}

fn split_registry(text: &str) -> (String, String) {
    let named = |first: &str| {
        first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    let (registry, remainder) = match text.split_once('/') {
        Some((first, rest)) if named(first) => (first, rest),
        _ => (DEFAULT_REGISTRY, text),
    };
    let registry = if registry == LEGACY_REGISTRY { DEFAULT_REGISTRY } else { registry };
    let official = registry == DEFAULT_REGISTRY && !remainder.contains('/');
    (registry.to_owned(), format!("{}{remainder}", if official { OFFICIAL } else { "" }))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            let address_fits = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
            if !address_fits {
                return false;
            }
            (None, rest.strip_prefix(':').map_or((!rest.is_empty()).then_some(""), Some))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(text), None),
        },
    };
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    host.is_none_or(|host| host.split('.').all(is_label)) && port.is_none_or(digits)
}

fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

/// `[a-z0-9]+` runs joined by `.`, `_`, `__` or dashes.
fn is_component(component: &str) -> bool {
    let plain = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase();
    let separator = |s: &str| matches!(s, "." | "_" | "__") || (!s.is_empty() && s.bytes().all(|byte| byte == b'-'));
    component.starts_with(plain)
        && component.ends_with(plain)
        && component.split(plain).all(|s| s.is_empty() || separator(s))
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_BYTES_MAX
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn check(text: &str, expected: &str) {
        match Reference::parse(text) {
            Ok(reference) => assert_eq!(reference.to_string(), expected, "{text}"),
            Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
        }
    }

    #[test]
    fn names_become_whole() {
        check("busybox", "docker.io/library/busybox:latest");
        check("busybox:1.36", "docker.io/library/busybox:1.36");
        check("index.docker.io/busybox", "docker.io/library/busybox:latest");
        check("docker.io/busybox", "docker.io/library/busybox:latest");
        check("bitnami/redis", "docker.io/bitnami/redis:latest");
        check("localhost/a", "localhost/a:latest");
        check("localhost:5000/a/b__c--d.e:T_1.x-", "localhost:5000/a/b__c--d.e:T_1.x-");
        check("127.0.0.1:5000/a", "127.0.0.1:5000/a:latest");
        check("[::1]:5000/a", "[::1]:5000/a:latest");
        check("[fe80::1]/a", "[fe80::1]/a:latest");
        check("Registry/a", "Registry/a:latest");
        check("registry.example/pause:3.10", "registry.example/pause:3.10");
        check(&format!("a@sha256:{HEX}"), &format!("docker.io/library/a@sha256:{HEX}"));
        check(&format!("a:v1@sha256:{HEX}"), &format!("docker.io/library/a@sha256:{HEX}"));
        // A number after the colon is a tag when no path follows.
        check("host:5000", "docker.io/library/host:5000");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let refuse = |text: &str, reason: &str| check(text, &format!("couldn't parse image name {text:?}: {reason}"));
        for text in ["", ":tag", "a:", "a:-x", "a b", "a//b", "/a", "a/", "a..b", "a___b", "-a", "a-", "a_", "a.:v"] {
            refuse(text, "invalid reference format");
        }
        for text in ["ho_st.x/a", "host:/a", "host:port/a", "-h.x/a", "h-.x/a", "[::1/a", "[]/a", "[x]:1/a", "a@", "ä"]
        {
            refuse(text, "invalid reference format");
        }
        refuse("Busybox", "invalid reference format: repository name (library/Busybox) must be lowercase");
        refuse("a@md5:00", "unsupported digest algorithm");
        refuse("a@sha256:00", "invalid checksum digest length");
        refuse(HEX, &format!("invalid repository name ({HEX}), cannot specify 64-byte hexadecimal strings"));
        let long = format!("x.y/{}", "a".repeat(256));
        refuse(&long, "repository name must not be more than 255 characters");
        refuse(&format!("a:{}", "t".repeat(129)), "invalid reference format");
    }

    proptest! {
        #[test]
        fn whole_names_stay_as_they_are(
            registry in "([a-z0-9]{1,8}\\.[a-z]{2,4}|localhost|\\[::1\\])(:[0-9]{1,5})?",
            path in proptest::collection::vec("[a-z0-9]{1,6}([._-][a-z0-9]{1,4})?", 1..4),
            tag in "[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}",
        ) {
            let text = format!("{registry}/{}:{tag}", path.join("/"));
            let reference = Reference::parse(&text).unwrap();
            prop_assert_eq!(reference.to_string(), text);
            prop_assert_eq!(Reference::parse(&reference.to_string()).unwrap(), reference);
        }

        #[test]
        fn nothing_panics_and_what_is_read_reads_back(text in "[a-zA-Z0-9._:/@\\[\\]é -]{0,60}") {
            if let Ok(reference) = Reference::parse(&text) {
                prop_assert_eq!(Reference::parse(&reference.to_string()).unwrap(), reference);
            }
        }
    }
}
