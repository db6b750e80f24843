//! CertificateSigningRequest: asks for a certificate. Who asks is written by the server, never by the client.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::{FieldError, ObjectExt, name};
use serde_json::{Value, json};

use super::{GROUP, pem, signer_name};
use crate::check::{At, Faults, named, one_of, supported_text};
use crate::halves::{keep_all_but, restore};
use crate::{Column, Converged, KindDef, UpdateOf, column};

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// Fewest seconds that a certificate may be asked to live (upstream's limit).
const SECONDS_MIN: i64 = 600;
/// Conditions that decide; they are written at `approval` only.
const DECISIONS: &[&str] = &["Approved", "Denied"];
const EXAMPLE: &str = r#"{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
    "metadata": {"name": "ada"}, "spec": {"signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
        "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQgotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "CertificateSigningRequest", "certificatesigningrequests")
        .cluster_scoped()
        .short("csr")
        .schema("io.k8s.api.certificates.v1.CertificateSigningRequest")
        .with_status()
        .with_subresource("approval", &["get", "patch", "update"])
        .columns(columns())
        .selectable("spec.signerName")
        .health(health)
        .named_by(name::path_segment)
        .prepares_update(prepare_update)
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        column::age(),
        Column::new("SignerName", "string", "Who is to sign.", |request, _| {
            request.text(&["spec", "signerName"]).into()
        }),
        Column::new("Requestor", "string", "Who asks.", |request, _| request.text(&["spec", "username"]).into()),
        Column::new("RequestedDuration", "string", "How long it is to live.", |request, _| {
            let seconds = request.int(&["spec", "expirationSeconds"]);
            let lifetime = |seconds| column::span(meta::Time::EPOCH, meta::Time::from_secs(seconds));
            seconds.map_or_else(|| column::NONE.to_owned(), lifetime).into()
        }),
        Column::new("Condition", "string", "What became of it.", |request, _| condition(request).into()),
    ]
}

fn has(request: &Value, kind: &str) -> bool {
    request.items(&["status", "conditions"]).iter().any(|condition| condition.text(&["type"]) == kind)
}

fn condition(request: &Value) -> String {
    let mut words = Vec::new();
    if has(request, "Denied") {
        words.push("Denied");
    } else if has(request, "Approved") {
        words.push("Approved");
    }
    if words.is_empty() && !has(request, "Failed") {
        words.push("Pending");
    }
    if has(request, "Failed") {
        words.push("Failed");
    }
    if !request.text(&["status", "certificate"]).is_empty() {
        words.push("Issued");
    }
    words.join(",")
}

fn health(request: &Value) -> Converged {
    if has(request, "Denied") {
        return Converged::Failed("was denied".to_owned());
    }
    if has(request, "Failed") {
        return Converged::Failed("could not be signed".to_owned());
    }
    match (request.text(&["status", "certificate"]), has(request, "Approved")) {
        ("", false) => Converged::Progressing("waits for approval".to_owned()),
        ("", true) => Converged::Progressing("waits for its signer".to_owned()),
        _ => Converged::Yes,
    }
}

fn prepare_update(new: &mut Value, old: &Value, what: UpdateOf) {
    match what {
        UpdateOf::Main => {
            restore(new, old, "spec");
            restore(new, old, "status");
        }
        UpdateOf::Status => {
            keep_all_but(new, old, "status");
            set_decisions(new, old);
        }
        UpdateOf::Other(_) => {
            let conditions = new.at(&["status", "conditions"]).cloned();
            keep_all_but(new, old, "");
            if let Some(conditions) = conditions {
                new.put(&["status", "conditions"], conditions);
            }
        }
    }
}

/// The decisions stay what they were; other conditions are the signer's.
fn set_decisions(new: &mut Value, old: &Value) {
    let is_decision = |condition: &Value| DECISIONS.contains(&condition.text(&["type"]));
    let of = |request: &Value, decisions: bool| -> Vec<Value> {
        let all = request.items(&["status", "conditions"]).iter();
        all.filter(|condition| is_decision(condition) == decisions).cloned().collect()
    };
    let conditions = [of(old, true), of(new, false)].concat();
    if !conditions.is_empty() || new.at(&["status", "conditions"]).is_some() {
        new.put(&["status", "conditions"], conditions);
    }
}

fn validate(request: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(request);
    let spec = root.field("spec");
    check_request(&spec.field("request"), &mut faults);
    check_usages(&spec.field("usages"), &mut faults);
    signer_name::check(&spec.field("signerName"), &mut faults);
    let seconds = spec.field("expirationSeconds");
    if seconds.int().is_some_and(|seconds| seconds < SECONDS_MIN) {
        faults.push(seconds.invalid("may not specify a duration less than 600 seconds (10 minutes)"));
    }
    check_status(&root, &mut faults);
    faults
}

fn check_request(request: &At, faults: &mut Faults) {
    let decoded = STANDARD.decode(request.text()).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    let blocks = pem::blocks(&text);
    let sound = blocks.first().is_some_and(|block| block.label == "CERTIFICATE REQUEST" && block.is_sound);
    if !sound {
        faults.push(request.invalid_as(request.text(), "PEM block type must be CERTIFICATE REQUEST"));
    }
}

fn check_usages(usages: &At, faults: &mut Faults) {
    if usages.items().is_empty() {
        faults.push(usages.required("usages must be specified"));
    }
    let mut seen = BTreeSet::new();
    for usage in usages.each() {
        supported_text(&usage, USAGES, faults);
        if !seen.insert(usage.text()) {
            faults.push(usage.duplicate());
        }
    }
}

fn check_status(root: &At, faults: &mut Faults) {
    let status = root.field("status");
    let mut seen = BTreeSet::new();
    for condition in status.field("conditions").each() {
        let (kind, value) = (condition.field("type"), condition.field("status"));
        if kind.text().is_empty() {
            faults.push(kind.required(""));
        } else {
            named(&kind, name::qualified_name, faults);
        }
        one_of(&value, &["True", "False", "Unknown"], faults);
        let final_ones = ["Approved", "Denied", "Failed"];
        if final_ones.contains(&kind.text()) && !matches!(value.text(), "" | "True") {
            faults.push(value.unsupported(&["True"]));
        }
        if !seen.insert(kind.text()) {
            faults.push(FieldError::duplicate(condition.path, json!(kind.text())));
        }
    }
    if DECISIONS.iter().all(|decision| seen.contains(decision)) {
        faults.push(status.field("conditions").invalid("Approved and Denied conditions are mutually exclusive"));
    }
}

fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(new);
    check_status(&root, &mut faults);
    let status = root.field("status");
    let certificate = status.field("certificate");
    let before = old.text(&["status", "certificate"]);
    if what == UpdateOf::Status {
        if !before.is_empty() && certificate.text() != before {
            faults.push(certificate.forbidden("updates may not set this field once it has been set"));
        } else if !certificate.text().is_empty() {
            check_certificate(&certificate, &mut faults);
        }
    }
    for decision in ["Approved", "Denied", "Failed"] {
        if has(old, decision) && !has(new, decision) {
            let detail = format!("updates may not remove a condition of type \"{decision}\"");
            faults.push(status.field("conditions").forbidden(detail));
        }
    }
    faults
}

fn check_certificate(certificate: &At, faults: &mut Faults) {
    let decoded = STANDARD.decode(certificate.text()).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    let blocks = pem::blocks(&text);
    if blocks.is_empty() {
        faults.push(certificate.invalid("must contain at least one CERTIFICATE PEM block"));
    }
    if blocks.iter().any(|block| block.label != "CERTIFICATE" || !block.is_sound) {
        faults.push(certificate.invalid("only CERTIFICATE PEM blocks are allowed"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_written_at_approval_only() {
        let approved = json!({"type": "Approved", "status": "True"});
        let failed = json!({"type": "Failed", "status": "True"});
        let old = json!({"spec": 1, "status": {"conditions": [approved]}});
        let check = |new: Value, what, expected: Value| {
            let mut new = new;
            prepare_update(&mut new, &old, what);
            assert_eq!(new, expected);
        };
        check(
            json!({"spec": 2, "status": {"conditions": [failed]}}),
            UpdateOf::Status,
            json!({"spec": 1, "status": {"conditions": [approved, failed]}}),
        );
        check(
            json!({"spec": 2, "status": {"conditions": [approved, failed], "certificate": "x"}}),
            UpdateOf::Other("approval"),
            json!({"spec": 1, "status": {"conditions": [approved, failed]}}),
        );
        check(json!({"spec": 2}), UpdateOf::Main, old.clone());
    }

    #[test]
    fn faults() {
        let texts: Vec<String> = validate(&json!({"spec": {"request": "", "usages": ["client auth", "client auth"],
            "signerName": "a", "expirationSeconds": 1}}))
        .iter()
        .map(|fault| fault.field.clone())
        .collect();
        assert_eq!(texts, ["spec.request", "spec.usages[1]", "spec.signerName", "spec.expirationSeconds"]);
        assert_eq!(condition(&json!({})), "Pending");
    }
}
