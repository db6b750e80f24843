//! PodCertificateRequest: a node asks for the certificate of one of its pods.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::{GROUP, signer_name};
use crate::check::{At, Faults, immutable, required, required_name};
use crate::{Column, KindDef, UpdateOf, column, fill};

/// Bounds of the lifetime that may be asked for, in seconds, and what is asked for unless said (upstream's).
const SECONDS_MIN: i64 = 3600;
const SECONDS_MAX: i64 = 91 * 24 * 3600;
const SECONDS_DEFAULT: i64 = 24 * 3600;
const EXAMPLE: &str = r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
    "metadata": {"name": "web-0-1", "namespace": "default"}, "spec": {"signerName": "example.com/pods",
        "podName": "web-0", "podUID": "a", "serviceAccountName": "default", "serviceAccountUID": "b",
        "nodeName": "node-1", "nodeUID": "c", "stubPKCS10Request": "MIIB"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "PodCertificateRequest", "podcertificaterequests")
        .schema("io.k8s.api.certificates.v1.PodCertificateRequest")
        .with_status()
        .columns(vec![
            column::name(),
            Column::new("PodName", "string", "The pod.", |request, _| request.text(&["spec", "podName"]).into()),
            Column::new("SignerName", "string", "Who is to sign.", |request, _| {
                request.text(&["spec", "signerName"]).into()
            }),
            Column::new("State", "string", "What became of it.", |request, _| state(request).into()),
            column::age(),
        ])
        .selectable("spec.nodeName")
        .selectable("spec.podName")
        .selectable("spec.signerName")
        .defaults(|request| {
            if let Some(spec) = fill::child(request, "spec") {
                fill::absent(spec, "maxExpirationSeconds", SECONDS_DEFAULT);
            }
        })
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn state(request: &Value) -> &str {
    let conditions = request.items(&["status", "conditions"]).iter();
    let decided = conditions.map(|condition| condition.text(&["type"]));
    decided.rev().find(|kind| matches!(*kind, "Issued" | "Denied" | "Failed")).unwrap_or("Pending")
}

fn validate(request: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(request);
    let spec = root.field("spec");
    signer_name::check(&spec.field("signerName"), &mut faults);
    for field in ["podName", "serviceAccountName", "nodeName"] {
        required_name(&spec.field(field), name::dns1123_subdomain, &mut faults);
    }
    for field in ["podUID", "serviceAccountUID", "nodeUID"] {
        required(&spec.field(field), &mut faults);
    }
    let seconds = spec.field("maxExpirationSeconds");
    if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds.number()) {
        faults.push(seconds.invalid(format!("must be in the range [{SECONDS_MIN}, {SECONDS_MAX}]")));
    }
    faults
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    immutable(&At::root(new).field("spec"), &At::root(old).field("spec"), &mut faults);
    faults
}
