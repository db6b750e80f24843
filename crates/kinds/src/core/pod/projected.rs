//! Projected volumes: several sources in one directory.

use std::collections::BTreeSet;

use meta::labels::Selector;
use meta::{FieldError, ObjectExt, name};

use super::path::unreserved;
use super::volume::{downward_file, file_mode, key_to_path, user};
use crate::check::{At, Faults, named, required, supported_text};

/// Ten minutes, in seconds.
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// One hour, in seconds.
const CERTIFICATE_SECONDS_MIN: i64 = 3600;
/// 91 days, in seconds.
const CERTIFICATE_SECONDS_MAX: i64 = 7_862_400;
/// One day, in seconds: what the signers of Kubernetes itself grant.
const KUBERNETES_CERTIFICATE_SECONDS_MAX: i64 = 86_400;
const KEY_TYPES: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
/// 256 KiB: all annotations together.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// A domain, a slash, and a path that can name what lives in a namespace: namespace, dot, name.
const SIGNER_MAX: usize = name::SUBDOMAIN_MAX + 1 + name::LABEL_MAX + 1 + name::SUBDOMAIN_MAX;
const CONFLICT: &str = "conflicting duplicate paths";

/// Checks `projected`.
pub(crate) fn check(at: &At, faults: &mut Faults) {
    file_mode(&at.field("defaultMode"), faults);
    user(&at.field("defaultUser"), faults);
    let mut paths = BTreeSet::new();
    for source in at.field("sources").each() {
        let mut count = 0;
        for (kind, check) in SOURCES {
            let inner = source.field(kind);
            if inner.is_set() {
                count += 1;
                check(at, &inner, &mut paths, faults);
            }
        }
        if count > 1 {
            faults.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

type Paths<'v> = BTreeSet<&'v str>;
type Check = for<'v, 'p> fn(&At<'v, 'p>, &At<'v, 'p>, &mut Paths<'v>, &mut Faults);

const SOURCES: &[(&str, Check)] = &[
    ("secret", keys),
    ("configMap", keys),
    ("downwardAPI", downward),
    ("serviceAccountToken", token),
    ("clusterTrustBundle", bundle),
    ("podCertificate", certificate),
];

/// Claims a path; upstream reports a conflict at the whole volume and shows `shown`.
fn claim<'v>(volume: &At, path: &'v str, shown: &str, paths: &mut Paths<'v>, faults: &mut Faults) {
    if !paths.insert(path) {
        faults.push(volume.invalid_as(shown, CONFLICT));
    }
}

fn keys<'v>(volume: &At<'v, '_>, at: &At<'v, '_>, paths: &mut Paths<'v>, faults: &mut Faults) {
    let name = at.field("name");
    required(&name, faults);
    for item in at.field("items").each() {
        key_to_path(&item, faults);
        let path = item.field("path").text();
        if !path.is_empty() {
            claim(volume, path, name.text(), paths, faults);
        }
    }
}

fn downward<'v>(volume: &At<'v, '_>, at: &At<'v, '_>, paths: &mut Paths<'v>, faults: &mut Faults) {
    for file in at.field("items").items() {
        downward_file(&at.with(file), faults);
        let path = file.text(&["path"]);
        if !path.is_empty() {
            claim(volume, path, path, paths, faults);
        }
    }
}

fn token<'v>(volume: &At<'v, '_>, at: &At<'v, '_>, _: &mut Paths<'v>, faults: &mut Faults) {
    let seconds = at.field("expirationSeconds");
    match seconds.int() {
        None => faults.push(seconds.required("")),
        Some(..TOKEN_SECONDS_MIN) => {
            faults.push(seconds.invalid("may not specify a duration less than 10 minutes"));
        }
        Some(TOKEN_SECONDS_MIN..=TOKEN_SECONDS_MAX) => {}
        Some(_) => faults.push(seconds.invalid("may not specify a duration larger than 2^32 seconds")),
    }
    // Upstream reports faults of the path at the volume itself.
    let path = volume.field("path");
    let path = path.with(at.field("path").value);
    if path.text().is_empty() {
        faults.push(path.required(""))
    } else {
        unreserved(&path, faults)
    }
    user(&at.field("user"), faults);
}

fn bundle<'v>(volume: &At<'v, '_>, at: &At<'v, '_>, paths: &mut Paths<'v>, faults: &mut Faults) {
    match (at.has("name"), at.has("signerName")) {
        (true, true) => faults.push(at.invalid("only one of name and signerName may be used")),
        (true, false) => bundle_by_name(at, faults),
        (false, true) => bundle_by_signer(at, faults),
        (false, false) => faults.push(at.required("either name or signerName must be specified")),
    }
    let path = at.field("path");
    required(&path, faults);
    user(&at.field("user"), faults);
    unreserved(&path, faults);
    claim(volume, path.text(), path.text(), paths, faults);
}

fn bundle_by_name(at: &At, faults: &mut Faults) {
    let (name, selector) = (at.field("name"), at.field("labelSelector"));
    if name.text().is_empty() {
        faults.push(name.required("must be a valid object name"));
    }
    // Names of bundles that belong to a signer begin with the signer's.
    let own = name.text().rsplit_once(':').map_or(name.text(), |(_, own)| own);
    let wrong = name::dns1123_subdomain(own).into_iter();
    faults.extend(wrong.map(|fault| name.invalid(format!("not a valid clustertrustbundlename: {fault}"))));
    if selector.is_set() {
        faults.push(selector.invalid("labelSelector must be unset if name is specified"));
    }
}

fn bundle_by_signer(at: &At, faults: &mut Faults) {
    let (signer, selector) = (at.field("signerName"), at.field("labelSelector"));
    if signer.text().is_empty() {
        faults.push(signer.required("must be a valid signer name"));
    }
    signer_name(&signer, faults);
    faults.extend(Selector::validate(selector.value, &selector.path));
}

/// The name of a signer of certificates: `domain/path`.
pub(crate) fn signer_name(at: &At, faults: &mut Faults) {
    let text = at.text();
    let (domain, path) = match text.split_once('/') {
        _ if text.is_empty() => return faults.push(at.required("")),
        Some((domain, path)) if !path.contains('/') => (domain, path),
        _ => {
            let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return faults.push(at.invalid(detail));
        }
    };
    if domain.len() > name::SUBDOMAIN_MAX {
        faults.push(FieldError::too_long(at.path, name::SUBDOMAIN_MAX));
    }
    first_bad_part(at, domain, name::dns1123_label, faults);
    if !domain.contains('.') {
        faults.push(at.invalid_as(domain, "should be a domain with at least two segments separated by dots"));
    }
    first_bad_part(at, path, name::dns1123_subdomain, faults);
    if text.len() > SIGNER_MAX {
        faults.push(FieldError::too_long(at.path, SIGNER_MAX));
    }
}

/// Reports the first part between dots that breaks the rule: more would say the same again.
fn first_bad_part(at: &At, text: &str, rule: fn(&str) -> Vec<String>, faults: &mut Faults) {
    if let Some((part, wrong)) = text.split('.').map(|part| (part, rule(part))).find(|(_, wrong)| !wrong.is_empty()) {
        let fault = |fault| at.invalid_as(text, format!("validating label {part:?}: {fault}"));
        faults.extend(wrong.into_iter().map(fault));
    }
}

fn certificate<'v>(volume: &At<'v, '_>, at: &At<'v, '_>, paths: &mut Paths<'v>, faults: &mut Faults) {
    signer_name(&at.field("signerName"), faults);
    user_annotations(&at.field("userAnnotations"), faults);
    user(&at.field("user"), faults);
    supported_text(&at.field("keyType"), KEY_TYPES, faults);
    lifetime(at, faults);
    let mut count = 0;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = at.field(field);
        if !path.text().is_empty() {
            count += 1;
            unreserved(&path, faults);
            claim(volume, path.text(), path.text(), paths, faults);
        }
    }
    if count == 0 {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        faults.push(at.required(detail));
    }
}

fn lifetime(at: &At, faults: &mut Faults) {
    let seconds = at.field("maxExpirationSeconds");
    let Some(number) = seconds.int() else { return };
    let signer = at.field("signerName").text();
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    let max = if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") {
        KUBERNETES_CERTIFICATE_SECONDS_MAX
    } else {
        CERTIFICATE_SECONDS_MAX
    };
    if number < CERTIFICATE_SECONDS_MIN {
        faults.push(seconds.invalid("if provided, maxExpirationSeconds must be >= 3600"));
    }
    if number > max {
        faults.push(seconds.invalid(format!("if provided, maxExpirationSeconds must be <= {max}")));
    }
}

fn user_annotations(at: &At, faults: &mut Faults) {
    let mut bytes = 0;
    for (key, value) in at.entries() {
        bytes += key.len() + value.text().len();
        let key = serde_json::Value::from(key.to_lowercase());
        let (at, before) = (at.with(&key), faults.len());
        named(&at, name::qualified_name, faults);
        if faults.len() == before && !at.text().contains('/') {
            faults.push(at.invalid("must be a domain-prefixed key (such as \"acme.io/foo\")"));
        }
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        faults.push(FieldError::too_long(at.path, ANNOTATIONS_BYTES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn sources_read_like_upstream() {
        let check = |sources: Value, expected: &[&str]| {
            let object = json!({"p": { "sources": sources }});
            let mut faults = Faults::new();
            super::check(&At::root(&object).field("p"), &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        let item = json!([{"key": "k", "path": "same"}]);
        check(json!([{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]), &[]);
        check(
            json!([{"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}]),
            &["p.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less \
               than 10 minutes"],
        );
        check(
            json!([{"secret": {"name": "s", "items": item}}, {"configMap": {"name": "c", "items": item}}]),
            &["p: Invalid value: \"c\": conflicting duplicate paths"],
        );
        check(
            json!([{"secret": {"name": "s"}, "configMap": {"name": "c"}}]),
            &["p.sources[0]: Forbidden: may not specify more than 1 volume type per source"],
        );
        check(
            json!([{"clusterTrustBundle": {"path": "b"}}]),
            &["p.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified"],
        );
    }
}
