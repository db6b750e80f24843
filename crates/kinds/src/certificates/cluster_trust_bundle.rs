//! ClusterTrustBundle: certificates of authorities that pods can trust.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::{GROUP, pem, signer_name};
use crate::check::{At, Faults, immutable, named};
use crate::{Column, KindDef, UpdateOf, apply_order, column};

const EXAMPLE: &str = r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle",
    "metadata": {"name": "roots"},
    "spec": {"trustBundle": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "ClusterTrustBundle", "clustertrustbundles")
        .cluster_scoped()
        .schema("io.k8s.api.certificates.v1.ClusterTrustBundle")
        .columns(vec![
            column::name(),
            Column::new("SignerName", "string", "Whose authorities they are.", |bundle, _| {
                bundle.text(&["spec", "signerName"]).into()
            }),
        ])
        .selectable("spec.signerName")
        .apply_order(apply_order::CONFIG)
        .named_by(name_rule)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

/// Bundles of a signer are named `example.com:signer:name`.
fn name_rule(text: &str) -> Vec<String> {
    name::dns1123_subdomain(text.rsplit(':').next().unwrap_or(text))
}

fn validate(bundle: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(bundle);
    let (meta, spec) = (root.field("metadata"), root.field("spec"));
    let (own, signer) = (meta.field("name"), spec.field("signerName"));
    let prefix = if signer.text().is_empty() { String::new() } else { signer.text().replace('/', ":") + ":" };
    if !signer.text().is_empty() {
        signer_name::check(&signer, &mut faults);
    }
    if prefix.is_empty() {
        named(&own, name::dns1123_subdomain, &mut faults);
    } else if !own.text().starts_with(&prefix) {
        let detail = format!("ClusterTrustBundle for signerName {} must be named with prefix {prefix}", signer.text());
        faults.push(own.invalid(detail));
    }
    check_bundle(&spec.field("trustBundle"), &mut faults);
    faults
}

fn check_bundle(bundle: &At, faults: &mut Faults) {
    let blocks = pem::blocks(bundle.text());
    if blocks.is_empty() {
        faults.push(bundle.invalid_as("<value omitted>", "at least one trust anchor must be provided"));
    }
    for (index, block) in blocks.iter().enumerate() {
        if block.label != "CERTIFICATE" {
            let detail = format!("entry {index} has bad block type: {}", block.label);
            faults.push(bundle.invalid_as("<value omitted>", detail));
        } else if !block.is_sound {
            let detail = format!("entry {index} does not parse as X.509");
            faults.push(bundle.invalid_as("<value omitted>", detail));
        }
    }
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = validate(new);
    let (root, old_root) = (At::root(new), At::root(old));
    immutable(&root.field("spec").field("signerName"), &old_root.field("spec").field("signerName"), &mut faults);
    faults
}
