//! Certificate signing requests: what they ask for, and which of Kubernetes' own signers would sign them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// Client certificates of people and programs.
pub const API_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// Client certificates of node agents.
pub const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Serving certificates of node agents.
pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// No guarantees; kept for old clients.
pub const LEGACY_UNKNOWN: &str = "kubernetes.io/legacy-unknown";

/// Largest request looked at: a request with the largest usual key (RSA 16384) and a dozen names stays below.
const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// What a request asks for. Nothing in it is proven but that the asker has the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsrFacts {
    /// The request itself, DER.
    pub der: Vec<u8>,
    /// Subject common name.
    pub common_name: String,
    /// Subject organizations, in order.
    pub organizations: Vec<String>,
    /// DNS names.
    pub dns_names: Vec<String>,
    /// Addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// E-mail addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
    /// Whether the subject repeats an attribute or has one this reader cannot name.
    pub unusual_subject: bool,
}

impl CsrFacts {
    /// Reads a PEM block of type `CERTIFICATE REQUEST`; the error is upstream's sentence where it has one. The
    /// signature is left to the signer.
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        let wrong_type = || "PEM block type must be CERTIFICATE REQUEST".to_owned();
        if pem.len() > REQUEST_BYTES_MAX {
            return Err(format!("the request is longer than {REQUEST_BYTES_MAX} bytes"));
        }
        let block = Pem::iter_from_buffer(pem).next().and_then(Result::ok).ok_or_else(wrong_type)?;
        if block.label != "CERTIFICATE REQUEST" {
            return Err(wrong_type());
        }
        let malformed = |_| "the certificate request is malformed".to_owned();
        let (rest, request) = X509CertificationRequest::from_der(&block.contents).map_err(malformed)?;
        if !rest.is_empty() {
            return Err("trailing data after the certificate request".to_owned());
        }
        let mut facts = Self { der: block.contents.clone(), ..Self::default() };
        facts.read_subject(&request.certification_request_info.subject);
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                names.general_names.iter().for_each(|name| facts.read_name(name));
            }
        }
        Ok(facts)
    }

    fn read_subject(&mut self, subject: &X509Name<'_>) {
        let text = |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().unwrap_or("").to_owned();
        self.common_name = subject.iter_common_name().last().map(text).unwrap_or_default();
        self.organizations = subject.iter_organization().map(text).collect();
        let mut seen = BTreeSet::new();
        self.unusual_subject = subject.iter_rdn().any(|rdn| {
            let mut attributes = rdn.iter();
            let (first, second) = (attributes.next(), attributes.next());
            second.is_some() || first.is_none_or(|a| a.as_str().is_err() || !seen.insert(a.attr_type().to_id_string()))
        });
    }

    fn read_name(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(dns) => self.dns_names.push((*dns).to_owned()),
            GeneralName::RFC822Name(email) => self.emails.push((*email).to_owned()),
            GeneralName::URI(uri) => self.uris.push((*uri).to_owned()),
            GeneralName::IPAddress(bytes) => self.ip_addresses.extend(ip(bytes)),
            _ => {}
        }
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// Whether one of Kubernetes' own signers, by name, would sign the request. `Ok(false)`: no signer of ours.
pub fn check_signer(signer: &str, facts: &CsrFacts, usages: &[String]) -> Result<bool, String> {
    match signer {
        API_CLIENT => api_client_usages(usages)?,
        KUBELET_CLIENT => kubelet_client(facts, usages)?,
        KUBELET_SERVING => kubelet_serving(facts, usages)?,
        LEGACY_UNKNOWN => {}
        _ => return Ok(false),
    }
    Ok(true)
}

fn api_client_usages(usages: &[String]) -> Result<(), String> {
    let allowed = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if usages.iter().any(|usage| usage == "client auth") {
        return Ok(());
    }
    Err("missing required usage for client certificate: client auth".to_owned())
}

fn kubelet_client(facts: &CsrFacts, usages: &[String]) -> Result<(), String> {
    organization(facts)?;
    let given = [
        (!facts.dns_names.is_empty(), "DNS"),
        (!facts.emails.is_empty(), "Email"),
        (!facts.ip_addresses.is_empty(), "IP"),
        (!facts.uris.is_empty(), "URI"),
    ];
    if let Some((_, word)) = given.iter().find(|(given, _)| *given) {
        return Err(format!("{word} subjectAltNames are not allowed"));
    }
    common_name(facts)?;
    exact_usages(usages, "client auth")
}

fn kubelet_serving(facts: &CsrFacts, usages: &[String]) -> Result<(), String> {
    organization(facts)?;
    if facts.dns_names.is_empty() && facts.ip_addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    if !facts.emails.is_empty() {
        return Err("Email subjectAltNames are not allowed".to_owned());
    }
    if !facts.uris.is_empty() {
        return Err("URI subjectAltNames are not allowed".to_owned());
    }
    exact_usages(usages, "server auth")?;
    common_name(facts)
}

fn organization(facts: &CsrFacts) -> Result<(), String> {
    let only_nodes = facts.organizations == ["system:nodes"];
    if only_nodes { Ok(()) } else { Err("subject organization is not system:nodes".to_owned()) }
}

fn common_name(facts: &CsrFacts) -> Result<(), String> {
    let is_node = facts.common_name.starts_with("system:node:");
    if is_node { Ok(()) } else { Err("subject common name does not begin with system:node:".to_owned()) }
}

fn exact_usages(usages: &[String], auth: &str) -> Result<(), String> {
    let given: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let without_rsa = BTreeSet::from(["digital signature", auth]);
    let with_rsa = BTreeSet::from(["digital signature", "key encipherment", auth]);
    if given == without_rsa || given == with_rsa {
        return Ok(());
    }
    let mut wanted: Vec<&str> = with_rsa.into_iter().collect();
    wanted.sort_unstable();
    Err(format!("usages did not match [{}]", wanted.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(common_name: &str, organization: &str) -> CsrFacts {
        let organizations = vec![organization.to_owned()];
        CsrFacts { common_name: common_name.to_owned(), organizations, ..CsrFacts::default() }
    }

    fn usages(list: &[&str]) -> Vec<String> {
        list.iter().map(|usage| (*usage).to_owned()).collect()
    }

    #[test]
    fn signers_are_as_strict_as_upstream() {
        let check = |signer: &str, facts: &CsrFacts, given: &[&str], expected: Result<bool, &str>| {
            assert_eq!(check_signer(signer, facts, &usages(given)), expected.map_err(str::to_owned));
        };
        let node = facts("system:node:a", "system:nodes");
        check(KUBELET_CLIENT, &node, &["digital signature", "client auth"], Ok(true));
        check(
            KUBELET_CLIENT,
            &node,
            &["client auth"],
            Err("usages did not match [client auth digital signature key encipherment]"),
        );
        let master = facts("system:node:a", "system:masters");
        check(
            KUBELET_CLIENT,
            &master,
            &["digital signature", "client auth"],
            Err("subject organization is not system:nodes"),
        );
        let named = CsrFacts { dns_names: vec!["a".into()], ..node.clone() };
        check(
            KUBELET_CLIENT,
            &named,
            &["digital signature", "client auth"],
            Err("DNS subjectAltNames are not allowed"),
        );
        check(KUBELET_SERVING, &named, &["digital signature", "server auth"], Ok(true));
        check(
            KUBELET_SERVING,
            &node,
            &["digital signature", "server auth"],
            Err("DNS or IP subjectAltName is required"),
        );
        check(
            API_CLIENT,
            &facts("ann", "dev"),
            &["server auth"],
            Err("invalid usage for client certificate: server auth"),
        );
        check("example.com/own", &node, &[], Ok(false));
    }

    #[test]
    fn garbage_is_refused() {
        for pem in ["", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"] {
            assert!(CsrFacts::parse(pem.as_bytes()).is_err());
        }
    }
}
