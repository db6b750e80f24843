//! The tag of an image reference: all that the API needs to know about one.

/// The longest repository name that registries take.
const NAME_MAX: usize = 255;
/// The longest tag that registries take.
const TAG_MAX: usize = 128;

/// The pull policy an image gets when none is given: `Always` for the tag `latest`, whether written or implied. What is
/// no reference at all gets `IfNotPresent`, as it has no tag.
pub fn default_pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of a reference, `latest` when neither tag nor digest is written; `None` when there is only a digest or when
/// the text is no reference.
pub fn tag(image: &str) -> Option<&str> {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let (name, tag) = split_tag(rest);
    let fine = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest) && !is_identifier(image);
    match (fine, tag, digest) {
        (false, ..) => None,
        (true, Some(tag), _) => Some(tag),
        (true, None, Some(_)) => None,
        (true, None, None) => Some("latest"),
    }
}

/// A colon after the last slash begins the tag; one before it belongs to the port of the registry.
fn split_tag(rest: &str) -> (&str, Option<&str>) {
    let start = rest.rfind('/').map_or(0, |slash| slash + 1);
    match rest.get(start..).and_then(|last| last.find(':')) {
        Some(colon) => (rest.get(..start + colon).unwrap_or(""), rest.get(start + colon + 1..)),
        None => (rest, None),
    }
}

fn is_name(name: &str) -> bool {
    if name.is_empty() || name.len() > NAME_MAX {
        return false;
    }
    match name.split_once('/') {
        Some((first, rest)) if is_registry(first) => is_domain(first) && rest.split('/').all(is_component),
        _ => name.split('/').all(is_component),
    }
}

/// Whether the first part of a name is a registry rather than a repository.
fn is_registry(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first
}

fn is_domain(text: &str) -> bool {
    if let Some((address, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        let fine = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
        return fine && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_digits));
    }
    let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
    let part = |p: &str| {
        !p.is_empty()
            && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !p.starts_with('-')
            && !p.ends_with('-')
    };
    host.split('.').all(part) && port.is_none_or(is_digits)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Lower-case words joined by one dot, one or two underscores or any number of hyphens.
fn is_component(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let mut separator = String::new();
    let (Some(first), Some(last)) = (text.bytes().next(), text.bytes().last()) else { return false };
    if !word(first) || !word(last) {
        return false;
    }
    for c in text.chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            if !is_separator(&separator) {
                return false;
            }
            separator.clear();
        } else {
            separator.push(c);
        }
    }
    true
}

fn is_separator(text: &str) -> bool {
    matches!(text, "" | "." | "_" | "__") || text.bytes().all(|b| b == b'-')
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= TAG_MAX
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let fine = algorithm.split(['-', '_', '+', '.']).all(|part| {
        part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    // Known algorithms have one length, unknown ones at least 32 digits.
    let length_fits = match algorithm {
        "sha256" => hex.len() == 64,
        "sha384" => hex.len() == 96,
        "sha512" => hex.len() == 128,
        _ => hex.len() >= 32,
    };
    fine && length_fits && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Bare image ids are not references.
fn is_identifier(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_as_registries_read_them() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let check = |image: &str, expected: Option<&str>| assert_eq!(tag(image), expected, "{image}");
        check("nginx", Some("latest"));
        check("nginx:1.27", Some("1.27"));
        check("nginx:latest", Some("latest"));
        check("localhost:5000/a/b", Some("latest"));
        check("localhost:5000/a/b:v1", Some("v1"));
        check("Registry.Example/x", Some("latest"));
        check("[::1]:5000/x:2", Some("2"));
        check(&format!("nginx@{digest}"), None);
        check(&format!("nginx:1@{digest}"), Some("1"));
        check(&format!("nginx:latest@{digest}"), Some("latest"));
        check("nginx@sha256:abc", None);
        check("Nginx", None);
        check("", None);
        check("a..b", None);
        check("a___b", None);
        check("a__b---c", Some("latest"));
        check(&"a".repeat(64), None);
        assert_eq!(default_pull_policy("nginx"), "Always");
        assert_eq!(default_pull_policy("nginx:1"), "IfNotPresent");
    }
}
