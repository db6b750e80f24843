use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use admit::csr::{API_CLIENT, KUBELET_CLIENT};
use clock::{ManualClock, SystemIds};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::*;
use crate::cert;
use crate::identity::user_of;

const NOW: Time = Time::from_secs(1_800_000_000);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn open(dir: &Path, clock: &Arc<ManualClock>) -> Result<Pki, PkiError> {
    Pki::load_or_create(PkiConfig::new(dir), Arc::clone(clock) as Arc<dyn Clock>, Arc::new(SystemIds))
}

fn fresh() -> (tempfile::TempDir, Arc<ManualClock>) {
    (tempfile::tempdir().expect("a directory"), Arc::new(ManualClock::at(NOW)))
}

#[test]
fn what_was_made_is_found_again() {
    let (dir, clock) = fresh();
    let first = open(dir.path(), &clock).expect("made");
    let again = open(dir.path(), &clock).expect("found");
    assert_eq!(first.ca().pem(), again.ca().pem());
    assert_eq!(first.server().cert_pem(), again.server().cert_pem());
    assert_eq!(first.admin().key_pem(), again.admin().key_pem());
    assert_eq!(first.token_key().keys().to_jwks(), again.token_key().keys().to_jwks());
    for entry in fs::read_dir(dir.path()).expect("listed") {
        let entry = entry.expect("readable");
        assert_eq!(entry.metadata().expect("there").permissions().mode() & 0o777, 0o600, "{:?}", entry.path());
    }
}

#[test]
fn leaves_are_renewed_before_and_after_their_end() {
    let (dir, clock) = fresh();
    let pki = open(dir.path(), &clock).expect("made");
    let first = pki.server().cert_pem().to_owned();
    assert!(!pki.renew().expect("no error"));
    clock.advance(DAY * 250);
    assert!(pki.needs_renewal(clock.now()));
    assert!(pki.renew().expect("renewed"));
    assert_ne!(pki.server().cert_pem(), first);
    clock.advance(DAY * 1000);
    let late = open(dir.path(), &clock).expect("starts with expired leaves");
    assert!(late.server().until() > clock.now());
    assert_eq!(late.ca().pem(), pki.ca().pem());
    clock.jump_to(NOW);
    assert!(late.needs_renewal(NOW), "a certificate of the future is renewed too");
}

#[test]
fn a_clock_that_starts_in_1970_does_no_harm() {
    let (dir, clock) = fresh();
    clock.jump_to(Time::EPOCH);
    open(dir.path(), &clock).expect("made");
    clock.jump_to(NOW);
    let pki = open(dir.path(), &clock).expect("found");
    assert!(cert::validity(pki.ca().der()).is_some_and(|v| v.from < NOW && NOW < v.until));
    assert!(cert::validity(pki.server().der()).is_some_and(|v| v.from < NOW && NOW < v.until));
}

#[test]
fn a_new_host_name_makes_a_new_server_certificate() {
    let (dir, clock) = fresh();
    let first = open(dir.path(), &clock).expect("made").server().cert_pem().to_owned();
    let config = PkiConfig { host_names: vec!["box.example".into()], ..PkiConfig::new(dir.path()) };
    let pki = Pki::load_or_create(config, clock, Arc::new(SystemIds)).expect("found");
    assert_ne!(pki.server().cert_pem(), first);
}

#[test]
fn damaged_leaves_are_replaced_and_lost_authorities_reported() {
    let (dir, clock) = fresh();
    open(dir.path(), &clock).expect("made");
    fs::write(dir.path().join("apiserver.pem"), "torn").expect("written");
    open(dir.path(), &clock).expect("replaced");
    fs::remove_file(dir.path().join("ca.crt")).expect("removed");
    let healed = open(dir.path(), &clock).expect("a crash between key and certificate heals");
    assert!(cert::is_signed_by(healed.server().der(), healed.ca().der()));
    fs::remove_file(dir.path().join("ca.key")).expect("removed");
    assert!(matches!(open(dir.path(), &clock), Err(PkiError::KeyLost { .. })));
}

#[test]
fn certificates_name_their_user() {
    let (dir, clock) = fresh();
    let pki = open(dir.path(), &clock).expect("made");
    let admin = user_of(pki.admin().der()).expect("a user");
    assert_eq!(
        (admin.name.as_str(), admin.groups),
        ("kubernetes-admin", vec!["system:masters".to_owned(), "system:authenticated".to_owned(),])
    );
    assert!(admin.extra["authentication.kubernetes.io/credential-id"][0].starts_with("X509SHA256="));
    let node = pki.issue(&Purpose::client("system:node:a", Some("system:nodes"))).expect("issued");
    assert_eq!(user_of(node.der()).expect("a user").node(), Some("a"));
    assert_eq!(user_of(b"garbage"), None);
}

fn request(common_name: &str, organization: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.distinguished_name.push(DnType::OrganizationName, organization);
    let key = KeyPair::generate().expect("a key");
    params.serialize_request(&key).expect("a request").pem().expect("pem")
}

#[test]
fn requests_are_signed_when_their_signer_allows() {
    let (dir, clock) = fresh();
    let pki = open(dir.path(), &clock).expect("made");
    let usages = ["digital signature", "client auth"].map(str::to_owned);
    let sign = |request: &str, signer: &str, seconds: Option<i64>| {
        let order = CsrOrder { request: request.as_bytes(), signer, usages: &usages, seconds };
        pki.sign_csr(order).map_err(|error| error.to_string())
    };
    let node = request("system:node:a", "system:nodes");
    let pem = sign(&node, KUBELET_CLIENT, Some(1)).expect("signed");
    let der = x509_parser::pem::parse_x509_pem(pem.as_bytes()).expect("pem").1.contents;
    assert!(cert::is_signed_by(&der, pki.ca().der()));
    assert_eq!(user_of(&der).expect("a user").node(), Some("a"));
    let until = cert::validity(&der).expect("read").until;
    assert_eq!(until, Time::from_secs(NOW.as_secs() + 600), "at least ten minutes");
    let forged = request("system:node:a", "system:masters");
    assert_eq!(sign(&forged, KUBELET_CLIENT, None), Err("subject organization is not system:nodes".to_owned()));
    assert_eq!(sign(&node, "example.com/x", None), Err("unrecognized signerName: \"example.com/x\"".to_owned()));
    assert!(sign("junk", API_CLIENT, None).is_err());
}

#[test]
fn nothing_secret_is_shown() {
    let (dir, clock) = fresh();
    let pki = open(dir.path(), &clock).expect("made");
    let shown = format!("{pki:?} {:?} {:?} {:?}", pki.server(), pki.token_key(), pki.ca());
    let secret = pki.server().key_pem().lines().nth(1).expect("a line").to_owned();
    assert!(!shown.contains("PRIVATE") && !shown.contains(&secret), "{shown}");
}
