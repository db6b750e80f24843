//! Certificates, requests for them, and the file that lets people in.

use std::sync::{Arc, LazyLock};

use admit::csr::{CsrFacts, check_signer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::{ManualClock, SeededIds};
use meta::Time;
use pki::{KubeconfigEntry, Pki, PkiConfig, merge_kubeconfig, user_of};

use crate::{inputs, text_of};

/// A certificate or a request, as DER and as PEM: a user that it names has a name.
pub fn subject(data: &[u8]) {
    if let Some(user) = user_of(data) {
        assert!(!user.name.is_empty());
    }
    let pem =
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n", STANDARD.encode(data));
    for pem in [data, pem.as_bytes()] {
        let Ok(facts) = CsrFacts::parse(pem) else { continue };
        let usages: Vec<String> = ["digital signature", "client auth"].map(str::to_owned).to_vec();
        for signer in [
            "kubernetes.io/kube-apiserver-client",
            "kubernetes.io/kube-apiserver-client-kubelet",
            "kubernetes.io/kubelet-serving",
        ] {
            let _ = check_signer(signer, &facts, &usages);
        }
    }
}

/// A request that OpenSSL made for the user `a` of the group `b`.
const REQUEST: &str = include_str!("request.pem");

pub fn subject_seeds() -> Vec<Vec<u8>> {
    let directory = std::env::temp_dir().join(format!("setpoint-seeds-{}", std::process::id()));
    let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
    let made = Pki::load_or_create(PkiConfig::new(&directory), clock, Arc::new(SeededIds::new(1)));
    let mut seeds = vec![REQUEST.as_bytes().to_vec()];
    if let Ok(pki) = made {
        seeds.push(pki.ca().der().to_vec());
        seeds.push(pki.server().der().to_vec());
    }
    let _ = std::fs::remove_dir_all(directory);
    let body: String = REQUEST.lines().filter(|line| !line.starts_with('-')).collect();
    seeds.extend(STANDARD.decode(body));
    seeds
}

static ENTRY: LazyLock<KubeconfigEntry<'static>> = LazyLock::new(|| KubeconfigEntry {
    name: "setpoint",
    server: "https://127.0.0.1:6443",
    ca_pem: "ca",
    cert_pem: "cert",
    key_pem: "key",
});

/// Merging adds the entry and, once it is there, nothing more.
pub fn kubeconfig_merge(data: &[u8]) {
    let Some(text) = text_of(data) else { return };
    let Ok(merged) = merge_kubeconfig(text, &ENTRY) else { return };
    let again = merge_kubeconfig(&merged, &ENTRY).unwrap_or_else(|error| panic!("{merged:?}: {error}"));
    assert_eq!(again, merged);
    assert!(merged.contains("https://127.0.0.1:6443"));
}

pub fn kubeconfig_seeds() -> Vec<Vec<u8>> {
    inputs(&[
        "",
        "apiVersion: v1\nkind: Config\ncurrent-context: other\nclusters:\n- name: other\n  cluster: {server: https://x}\nusers: []\ncontexts:\n- {name: other, context: {cluster: other, user: other}}\npreferences: {}\n",
        "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"clusters\":[{\"name\":\"setpoint\",\"cluster\":{}}],\"users\":null}",
        "clusters: {}\n",
        "kind: Pod\n",
        "contexts:\n- name: setpoint\n  context: {namespace: x}\n",
    ])
}
