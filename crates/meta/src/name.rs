//! The rules of names. Each function returns the faults it found, in upstream's words
//! (`k8s.io/apimachinery/pkg/util/validation`); an empty list is a valid name.

/// An RFC 1123 label: at most 63 characters, lower-case alphanumerics and `-`.
pub fn dns1123_label(_text: &str) -> Vec<String> {
    todo!()
}

/// An RFC 1123 subdomain: labels joined by `.`, at most 253 characters.
pub fn dns1123_subdomain(_text: &str) -> Vec<String> {
    todo!()
}

/// An RFC 1035 label: like RFC 1123 but starts with a letter.
pub fn dns1035_label(_text: &str) -> Vec<String> {
    todo!()
}

/// A name that may stand as one segment of a URL path (RBAC names and the like).
pub fn path_segment(_text: &str) -> Vec<String> {
    todo!()
}

/// A label or annotation key: optional DNS prefix, `/`, name of at most 63 characters.
pub fn qualified_name(_text: &str) -> Vec<String> {
    todo!()
}

/// A label value.
pub fn label_value(_text: &str) -> Vec<String> {
    todo!()
}

/// A C identifier (environment variables of old).
pub fn c_identifier(_text: &str) -> Vec<String> {
    todo!()
}

/// An IANA service name as container ports use it.
pub fn port_name(_text: &str) -> Vec<String> {
    todo!()
}

/// A key of a ConfigMap or Secret.
pub fn config_map_key(_text: &str) -> Vec<String> {
    todo!()
}

/// An IP address in the strict form (no leading zeros, no IPv4 in IPv6).
pub fn ip(_text: &str) -> Vec<String> {
    todo!()
}

/// A port number of 1 to 65535.
pub fn port_number(_port: i64) -> Vec<String> {
    todo!()
}
