//! The rules of names. Each function returns the faults it found, in upstream's words
//! (`k8s.io/apimachinery/pkg/util/validation`); an empty list is a valid name.
//!
//! Upstream says "characters" in the older checks and "bytes" in those that label keys and values go through;
//! clients compare the sentences, so both wordings are kept where upstream has them.

use std::net::{IpAddr, Ipv6Addr};

/// Longest DNS label (RFC 1123 and 1035), and longest name part of a label key and label value.
pub const LABEL_MAX: usize = 63;
/// Longest DNS subdomain, and so longest name of most objects and longest ConfigMap key.
pub const SUBDOMAIN_MAX: usize = 253;
/// Longest IANA service name.
const PORT_NAME_MAX: usize = 15;

const LABEL_RE: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_MSG: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character";
const SUBDOMAIN_RE: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_MSG: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character";
const WILDCARD_RE: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD_MSG: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
     which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const RFC1035_RE: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const RFC1035_MSG: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
     alphabetic character, and end with an alphanumeric character";
const KEY_RE: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_MSG: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
     alphanumeric character";
const KEY_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
const VALUE_RE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const VALUE_MSG: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
     '.', and must start and end with an alphanumeric character";
const C_IDENTIFIER_MSG: &str = "a valid C identifier must start with alphabetic character or '_', followed by a \
     string of alphanumeric characters or '_'";
const CONFIG_KEY_MSG: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const HEADER_MSG: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
const ENV_MSG: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const EMPTY_MSG: &str = "must be non-empty";

/// An RFC 1123 label: at most 63 characters, lower-case alphanumerics and `-`.
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut faults = too_many_characters(text, LABEL_MAX);
    if !is_label(text) {
        faults.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            regex_error(LABEL_MSG, LABEL_RE, &["my-name", "123-abc"])
        });
    }
    faults
}

/// An RFC 1123 subdomain: labels joined by `.`, at most 253 characters.
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut faults = too_many_characters(text, SUBDOMAIN_MAX);
    faults.extend(subdomain_shape(text));
    faults
}

/// A subdomain whose first label is `*` (hosts of Ingress rules).
pub fn wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut faults = too_many_characters(text, SUBDOMAIN_MAX);
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        faults.push(regex_error(WILDCARD_MSG, WILDCARD_RE, &["*.example.com"]));
    }
    faults
}

/// An RFC 1035 label: like RFC 1123 but starts with a letter.
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut faults = too_many_characters(text, LABEL_MAX);
    if !(is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())) {
        faults.push(regex_error(RFC1035_MSG, RFC1035_RE, &["my-name", "abc-123"]));
    }
    faults
}

/// What of a `generateName` prefix is checked against the rule of names: the generated end will follow, so a
/// trailing `-` (with the character before it, as upstream has it) counts as a letter.
pub fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => {
            format!("{}a", stem.strip_suffix(|c: char| c.is_ascii()).unwrap_or(stem))
        }
        _ => prefix.to_owned(),
    }
}

/// A name that may stand as one segment of a URL path (RBAC names and the like).
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// The start of a path segment whose end is generated.
pub fn path_segment_prefix(text: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|bad| text.contains(**bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// A label or annotation key: optional DNS prefix, `/`, name of at most 63 characters.
pub fn qualified_name(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((_, rest)) if rest.contains('/') => return vec![malformed_key()],
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let mut faults = prefix.map(key_prefix).unwrap_or_default();
    if name.is_empty() {
        faults.push(format!("name part {EMPTY_MSG}"));
    } else if name.len() > LABEL_MAX {
        faults.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_key_name(name) {
        faults.push(format!("name part {}", regex_error(KEY_MSG, KEY_RE, KEY_EXAMPLES)));
    }
    faults
}

/// A label value.
pub fn label_value(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if text.len() > LABEL_MAX {
        faults.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !text.is_empty() && !is_key_name(text) {
        faults.push(regex_error(VALUE_MSG, VALUE_RE, &["MyValue", "my_value", "12345"]));
    }
    faults
}

/// A C identifier (environment variables of old).
pub fn c_identifier(text: &str) -> Vec<String> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if text.bytes().next().is_some_and(|b| word(b) && !b.is_ascii_digit()) && text.bytes().all(word) {
        return Vec::new();
    }
    vec![regex_error(C_IDENTIFIER_MSG, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"])]
}

/// An environment variable's name: printable ASCII except `=`.
pub fn env_var_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec![format!("environment variable name {EMPTY_MSG}")];
    }
    let fits = text.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=');
    if fits { Vec::new() } else { vec![ENV_MSG.to_owned()] }
}

/// The name of an HTTP header, as probes give it.
pub fn http_header_name(text: &str) -> Vec<String> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![regex_error(HEADER_MSG, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// An IANA service name as container ports use it.
pub fn port_name(text: &str) -> Vec<String> {
    let mut faults = too_many_characters(text, PORT_NAME_MAX);
    let mut unless = |fine: bool, fault: &str| {
        if !fine {
            faults.push(fault.to_owned());
        }
    };
    unless(
        !text.is_empty() && text.bytes().all(|b| is_lower(b) || b == b'-'),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    unless(text.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    unless(!text.contains("--"), "must not contain consecutive hyphens");
    unless(!text.starts_with('-') && !text.ends_with('-'), "must not begin or end with a hyphen");
    faults
}

/// A key of a ConfigMap or Secret.
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut faults = too_many_characters(text, SUBDOMAIN_MAX);
    if text.is_empty() || !text.bytes().all(is_key_byte) {
        faults.push(regex_error(CONFIG_KEY_MSG, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    if matches!(text, "." | "..") {
        faults.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        faults.push("must not start with '..'".to_owned());
    }
    faults
}

/// An IP address in the strict form (no leading zeros, no IPv4 in IPv6).
pub fn ip(text: &str) -> Vec<String> {
    let fault = match text.parse() {
        Ok(address) if is_mapped(&address) => "must not be an IPv4-mapped IPv6 address",
        Ok(_) => return Vec::new(),
        Err(_) if without_leading_zeros(text).parse::<IpAddr>().is_ok() => "must not have leading 0s",
        Err(_) => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    };
    vec![fault.to_owned()]
}

/// An IP address in the strict form that is also written canonically (fields younger than that rule).
pub fn ip_canonical(text: &str) -> Vec<String> {
    let faults = ip(text);
    match text.parse::<IpAddr>() {
        Ok(address) if faults.is_empty() && address.to_string() != text => {
            vec![format!("must be in canonical form (\"{address}\")")]
        }
        _ => faults,
    }
}

/// A CIDR in the strict form: no leading zeros, no IPv4 in IPv6, no bits beyond the prefix.
pub fn cidr(text: &str) -> Vec<String> {
    let fault = match parse_cidr(text) {
        Some((address, _)) if is_mapped(&address) => "must not have an IPv4-mapped IPv6 address",
        Some((address, length)) if has_host_bits(address, length) => "must not have bits set beyond the prefix length",
        Some(_) => return Vec::new(),
        None if parse_cidr(&without_leading_zeros(text)).is_some() => "must not have leading 0s in IP or prefix length",
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    };
    vec![fault.to_owned()]
}

/// A port number of 1 to 65535.
pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// A number between `low` and `high`, both allowed.
pub fn in_range(number: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&number) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// The sentence for text that does not match `regex`, with examples of text that does.
pub fn regex_error(message: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{regex}')");
    }
    let shown = examples.iter().map(|e| format!("'{e}', ")).collect::<Vec<_>>().join(" or ");
    format!("{message} (e.g. {shown}regex used for validation is '{regex}')")
}

fn too_many_characters(text: &str, max: usize) -> Vec<String> {
    if text.len() > max { vec![format!("must be no more than {max} characters")] } else { Vec::new() }
}

fn subdomain_shape(text: &str) -> Option<String> {
    (!is_subdomain(text)).then(|| regex_error(SUBDOMAIN_MSG, SUBDOMAIN_RE, &["example.com"]))
}

fn malformed_key() -> String {
    format!(
        "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        regex_error(KEY_MSG, KEY_RE, KEY_EXAMPLES)
    )
}

fn key_prefix(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec![format!("prefix part {EMPTY_MSG}")];
    }
    let length = (prefix.len() > SUBDOMAIN_MAX).then(|| format!("must be no more than {SUBDOMAIN_MAX} bytes"));
    length.into_iter().chain(subdomain_shape(prefix)).map(|fault| format!("prefix part {fault}")).collect()
}

fn is_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn is_key_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

/// Whether both ends satisfy `end` and all between satisfy `inner`; false for empty text.
fn shaped(text: &str, end: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => end(*only),
        [first, middle @ .., last] => end(*first) && end(*last) && middle.iter().all(|b| inner(*b)),
    }
}

fn is_label(text: &str) -> bool {
    shaped(text, is_lower, |b| is_lower(b) || b == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_key_name(text: &str) -> bool {
    shaped(text, |b| b.is_ascii_alphanumeric(), is_key_byte)
}

fn is_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// The text with every number in it stripped of leading zeros: what lenient parsers read.
fn without_leading_zeros(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_number = false;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let more_follows = rest.peek().is_some_and(char::is_ascii_hexdigit);
        if c == '0' && !in_number && more_follows {
            continue;
        }
        in_number = c.is_ascii_hexdigit();
        out.push(c);
    }
    out
}

fn parse_cidr(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let plain = length == "0" || (!length.starts_with('0') && length.bytes().all(|b| b.is_ascii_digit()));
    let length = length.parse().ok().filter(|length| plain && *length <= max)?;
    Some((address, length))
}

fn has_host_bits(address: IpAddr, length: u32) -> bool {
    let (bits, width) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
        IpAddr::V6(v6) => (Ipv6Addr::to_bits(v6), 128),
    };
    let host = width - length;
    host > 0 && bits.trailing_zeros() < host && bits != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_all(rule: fn(&str) -> Vec<String>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(rule(text), Vec::<String>::new(), "{text:?}");
        }
        for text in bad {
            assert!(!rule(text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn labels_and_subdomains() {
        let long = "a".repeat(63);
        let good = ["a", "ab", "a1", "a-1", "a--1--2--b", "0", "01", "1-2", "1a", long.as_str()];
        let longer = "a".repeat(64);
        let bad = [
            "",
            "A",
            "aBc",
            "-",
            "a-",
            "-a",
            "1-",
            "_",
            "a_",
            "a.b",
            "a.",
            ".",
            " ",
            "a b",
            "a\n",
            "é",
            "a@b",
            longer.as_str(),
        ];
        check_all(dns1123_label, &good, &bad);
        check_all(dns1123_subdomain, &["a", "a.b", "0.a.1", "a-b.c--d"], &["", ".", "a..b", "a.-b", "a.b.", "A.b"]);
        check_all(dns1035_label, &["a", "a-1", "ab"], &["", "0", "1a", "-a", "a-", "a.b", "A"]);
        check_all(wildcard_dns1123_subdomain, &["*.example.com", "*.a"], &["*", "*.*.com", "a.*.b", "*a.b", "a.b"]);
    }

    #[test]
    fn sentences_are_upstreams() {
        let check = |faults: Vec<String>, text: &str| assert_eq!(faults, [text.to_owned()]);
        check(
            dns1123_label("A"),
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        );
        check(dns1123_label("a.b"), "must not contain dots");
        check(
            dns1123_subdomain("A"),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        );
        check(dns1123_label(&"a".repeat(64)), "must be no more than 63 characters");
        check(label_value(&"a".repeat(64)), "must be no more than 63 bytes");
        check(qualified_name("/a"), "prefix part must be non-empty");
        check(
            qualified_name("a*"),
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        );
        check(path_segment(".."), "may not be '..'");
        check(port_number(0), "must be between 1 and 65535, inclusive");
        assert_eq!(path_segment("a/%"), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(qualified_name("").len(), 2);
    }

    #[test]
    fn keys_and_values() {
        let (long, longer) = ("a".repeat(63), "a".repeat(64));
        let prefixed = format!("{}/{long}", ["a".repeat(63).as_str(); 3].join("."));
        let good = ["simple", "now-with-dashes", "1-num", "1234", "simple/simple", "a.b/c_D.e", &long, &prefixed];
        let overlong = format!("{}/a", "a".repeat(254));
        let bad = ["", "nospecial%^=@", "-a", "a-", ".a", "a/", "/a", "a/b/c", "A/b", "a_b/c", &longer, &overlong];
        check_all(qualified_name, &good, &bad);
        check_all(label_value, &["", "simple", "a.b_C-d", "1", &long], &["-a", "a-", "a b", "a/b", "é", &longer]);
        check_all(config_map_key, &["a", ".a", "a..b", "-a_", "-"], &["", ".", "..", "..a", "a/b", "a b"]);
        check_all(c_identifier, &["a", "_", "A1_"], &["", "1a", "a-b", "a.b"]);
        check_all(env_var_name, &["a", "a-b", "1", " x"], &["", "a=b", "a\n", "é"]);
        check_all(http_header_name, &["X-Header", "a1"], &["", "a_b", "a b"]);
    }

    #[test]
    fn ports() {
        let good = ["telnet", "re-mail-ck", "pop3", "a", "a-1", "1-a", "a-1-b-2-c", "1-a-2-b-3"];
        let bad = ["longerthan15characters", "", "1", "12345", "1-2-3-4", "-begin", "end-", "two--hyphens", "A"];
        check_all(port_name, &good, &bad);
        assert!(port_number(1).is_empty() && port_number(65535).is_empty() && !port_number(65536).is_empty());
    }

    #[test]
    fn addresses() {
        let check = |faults: Vec<String>, fault: &str| match fault {
            "" => assert_eq!(faults, Vec::<String>::new()),
            _ => assert!(faults.len() == 1 && faults[0].starts_with(fault), "{faults:?} {fault}"),
        };
        check(ip("1.2.3.4"), "");
        check(ip("FE80::0ABC"), "");
        check(ip_canonical("FE80::0ABC"), "must be in canonical form (\"fe80::abc\")");
        check(ip("1.2.3.004"), "must not have leading 0s");
        check(ip("::ffff:1.2.3.04"), "must not have leading 0s");
        check(ip("::ffff:1.2.3.4"), "must not be an IPv4-mapped");
        for text in ["", "1.2.3", "1.2.3.256", "a", "fe80::1%eth0", "1.2.3.4/5", " 1.2.3.4"] {
            check(ip(text), "must be a valid IP address");
        }
        check(cidr("10.0.0.0/8"), "");
        check(cidr("0.0.0.0/0"), "");
        check(cidr("::/0"), "");
        check(cidr("2001:db8::/64"), "");
        check(cidr("10.0.0.1/8"), "must not have bits set");
        check(cidr("10.0.0.0/08"), "must not have leading 0s");
        check(cidr("010.0.0.0/8"), "must not have leading 0s");
        check(cidr("::ffff:1.2.3.0/120"), "must not have an IPv4-mapped");
        for text in ["", "10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/+8", "10.0.0.0/"] {
            check(cidr(text), "must be a valid CIDR value");
        }
    }

    #[test]
    fn generated_names_are_checked_with_a_letter_for_the_dash() {
        assert_eq!(mask_trailing_dash("web-"), "wea");
        assert_eq!(mask_trailing_dash("a--"), "aa");
        assert_eq!(mask_trailing_dash("é-"), "éa");
        assert_eq!(mask_trailing_dash("-"), "-");
        assert_eq!(mask_trailing_dash("web"), "web");
    }
}
