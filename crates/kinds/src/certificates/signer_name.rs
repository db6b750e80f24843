//! Names of signers: `example.com/name`.

use meta::name;

use crate::check::{At, Faults};

/// Longest name, in bytes: a domain, a slash, and a path of DNS subdomains (upstream's limit).
const NAME_MAX: usize = 571;

pub(super) fn check(signer: &At, faults: &mut Faults) {
    if signer.text().is_empty() {
        faults.push(signer.required(""));
        return;
    }
    let Some((domain, path)) = signer.text().split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        faults.push(signer.invalid(detail));
        return;
    };
    let broken = name::dns1123_subdomain(domain).into_iter();
    faults.extend(broken.map(|fault| signer.invalid_as(domain, format!("validating label \"{domain}\": {fault}"))));
    if domain.split('.').count() < 2 {
        faults.push(signer.invalid_as(domain, "should be a domain with at least two segments separated by dots"));
    }
    let broken = name::dns1123_subdomain(path).into_iter();
    faults.extend(broken.map(|fault| signer.invalid_as(path, format!("validating label \"{path}\": {fault}"))));
    if signer.text().len() > NAME_MAX {
        faults.push(meta::FieldError::too_long(signer.path, NAME_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn signer_names() {
        let check = |name: &str, expected: usize| {
            let mut faults = Faults::new();
            check(&At::root(&json!(name)), &mut faults);
            assert_eq!(faults.len(), expected, "{name} {faults:?}");
        };
        for name in ["kubernetes.io/kube-apiserver-client", "a.b/c.d"] {
            check(name, 0);
        }
        for name in ["", "a.b", "a.b/c/d", "ab/c", "a.b/C", "A.b/c"] {
            check(name, 1);
        }
    }
}
