//! Who may approve, sign and ask for which certificates.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use meta::{ApiError, ObjectExt};
use serde_json::Value;

use crate::admission::{Case, Effects};
use crate::csr::{API_CLIENT, CsrFacts};
use crate::user::MASTERS;

const GROUP: &str = "certificates.k8s.io";
const REQUESTS: &str = "certificatesigningrequests";

/// Who asks is written here, whatever the request says of itself.
pub fn mutate_requester(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    if !case.is_for(GROUP, REQUESTS, "") {
        return Ok(());
    }
    for field in ["username", "uid", "groups", "extra"] {
        new.remove(&["spec", field]);
    }
    if let Some(user) = case.request.attributes.user.to_value().as_object() {
        user.iter().for_each(|(field, value)| new.put(&["spec", field], value.clone()));
    }
    Ok(())
}

/// CertificateApproval: whoever approves needs `approve` on the signer that the stored request names.
pub fn validate_approval(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let Some(old) = case.old.filter(|_| case.is_for(GROUP, REQUESTS, "approval")) else { return Ok(()) };
    let signer = old.text(&["spec", "signerName"]);
    if may(case, "approve", signer) {
        return Ok(());
    }
    Err(case.forbids(new, format!("user not permitted to approve requests with signerName {signer:?}")))
}

/// CertificateSigning: whoever writes the certificate needs `sign` on the signer.
pub fn validate_signing(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let (Some(new), Some(old)) = (new.filter(|_| case.is_for(GROUP, REQUESTS, "status")), case.old) else {
        return Ok(());
    };
    let same = |field: &str| new.at(&["status", field]) == old.at(&["status", field]);
    let signer = old.text(&["spec", "signerName"]);
    if (same("certificate") && same("conditions")) || may(case, "sign", signer) {
        return Ok(());
    }
    Err(case.forbids(Some(new), format!("user not permitted to sign requests with signerName {signer:?}")))
}

/// ClusterTrustBundleAttest: whoever publishes trust for a signer needs `attest` on it.
pub fn validate_attest(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let Some(new) = new.filter(|_| case.is_for(GROUP, "clustertrustbundles", "")) else { return Ok(()) };
    let signer = new.text(&["spec", "signerName"]);
    let unchanged = case.old.is_some_and(|old| old.get("spec") == new.get("spec"));
    if signer.is_empty() || unchanged || may(case, "attest", signer) {
        return Ok(());
    }
    Err(case.forbids(Some(new), format!("user not permitted to attest for signerName {signer:?}")))
}

/// CertificateSubjectRestriction: nobody becomes a master by certificate.
pub fn validate_subject(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let wanted = |new: &&Value| case.is_for(GROUP, REQUESTS, "") && new.text(&["spec", "signerName"]) == API_CLIENT;
    let Some(new) = new.filter(wanted) else { return Ok(()) };
    let unreadable = |why: String| case.forbids(Some(new), format!("failed to parse CSR: {why}"));
    let pem = STANDARD.decode(new.text(&["spec", "request"])).map_err(|error| unreadable(error.to_string()))?;
    let facts = CsrFacts::parse(&pem).map_err(unreadable)?;
    if facts.organizations.iter().any(|group| group == MASTERS) {
        let why = format!("use of {API_CLIENT} signer with system:masters group is not allowed");
        return Err(case.forbids(Some(new), why));
    }
    Ok(())
}

/// Permission on the signer itself or on all signers of its domain.
fn may(case: &Case<'_>, verb: &str, signer: &str) -> bool {
    let asked = |name: &str| case.request.attributes.on_the_side(verb, GROUP, "signers", "", name);
    let domain = signer.split('/').next().unwrap_or("");
    (case.world.may)(&asked(signer)) || (case.world.may)(&asked(&format!("{domain}/*")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, update};
    use super::*;
    use serde_json::json;

    #[test]
    fn approving_needs_the_right_on_the_signer() {
        let old = json!({"spec": {"signerName": "example.com/a"}});
        let check = |allowed: &'static str, expected: bool| {
            let scene =
                Scene::new(&[]).where_may(move |a| a.verb == "approve" && a.resource == "signers" && a.name == allowed);
            let asked = update(GROUP, "certificatesigningrequests/approval", "", "r");
            let outcome = validate_approval(&scene.case(&asked, Some(&old)), Some(&old), &mut Effects::default());
            assert_eq!(outcome.is_ok(), expected, "{allowed}");
        };
        check("example.com/a", true);
        check("example.com/*", true);
        check("example.com/b", false);
    }

    #[test]
    fn only_changes_of_the_certificate_need_sign() {
        let request = |certificate: &str| json!({"spec": {"signerName": "example.com/a"}, "status": {"certificate": certificate}});
        let scene = Scene::new(&[]);
        let asked = update(GROUP, "certificatesigningrequests/status", "", "r");
        let check = |certificate: &str| {
            let (old, new) = (request("x"), request(certificate));
            validate_signing(&scene.case(&asked, Some(&old)), Some(&new), &mut Effects::default()).is_ok()
        };
        assert!(check("x"));
        assert!(!check("y"));
    }
}
