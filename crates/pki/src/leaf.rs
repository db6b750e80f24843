//! Certificates of servers and clients, each with its key.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use clock::Ids;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use stdx::Time;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::authority::{self, Authority};
use crate::cert::{self, BACKDATE_SECONDS, Validity};
use crate::error::PkiError;

/// A year, as kubeadm has it.
const LIFETIME_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Renewed when less than this part of the lifetime is left.
const RENEW_PART: i64 = 3;

/// What a certificate is for, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Common name: the user's name, or the server's.
    pub common_name: String,
    /// Organization: the user's group.
    pub organization: Option<String>,
    /// DNS names that a server answers to.
    pub dns_names: Vec<String>,
    /// Addresses that a server answers at.
    pub addresses: Vec<IpAddr>,
    /// Serves.
    pub server: bool,
    /// Calls.
    pub client: bool,
}

impl Purpose {
    /// A client: user and group.
    pub fn client(user: impl Into<String>, group: Option<&str>) -> Self {
        Self {
            common_name: user.into(),
            organization: group.map(str::to_owned),
            dns_names: Vec::new(),
            addresses: Vec::new(),
            server: false,
            client: true,
        }
    }

    /// A server that answers to these names and addresses.
    pub fn server(name: impl Into<String>, dns_names: Vec<String>, addresses: Vec<IpAddr>) -> Self {
        Self { dns_names, addresses, server: true, client: false, ..Self::client(name, None) }
    }
}

/// A certificate with its key.
pub struct Leaf {
    cert_pem: String,
    key_pem: String,
    der: CertificateDer<'static>,
    validity: Validity,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaf").field("validity", &self.validity).finish_non_exhaustive()
    }
}

impl Leaf {
    /// Makes a key and has `authority` sign a certificate for it.
    pub(crate) fn issue(authority: &Authority, purpose: &Purpose, now: Time, ids: &dyn Ids) -> Result<Self, PkiError> {
        let failed =
            |error: rcgen::Error| PkiError::Issue { name: purpose.common_name.clone(), reason: error.to_string() };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = params(purpose).map_err(failed)?;
        let from = Time::from_secs(now.as_secs().saturating_sub(BACKDATE_SECONDS));
        let until = Time::from_secs(now.as_secs().saturating_add(LIFETIME_SECONDS)).min(authority.until());
        cert::stamp(&mut params, from, until, ids);
        let certificate = params.signed_by(&key, authority.issuer()).map_err(failed)?;
        let validity = Validity { from, until };
        Ok(Self { cert_pem: certificate.pem(), key_pem: key.serialize_pem(), der: certificate.der().clone(), validity })
    }

    /// Reads what [`Leaf::to_pem`] wrote; `None` when the text is no matching pair.
    pub(crate) fn from_pem(text: &str) -> Option<Self> {
        let key = KeyPair::from_pem(text).ok()?;
        let der = CertificateDer::from_pem_slice(text.as_bytes()).ok()?;
        let validity = cert::validity(&der)?;
        if !cert::has_key(&der, key.public_key_raw()) {
            return None;
        }
        let at = text.find("-----BEGIN CERTIFICATE-----")?;
        Some(Self { cert_pem: text[at..].to_owned(), key_pem: key.serialize_pem(), der, validity })
    }

    /// Reads what [`Leaf::store`] wrote; `None` when there is nothing, or no matching pair.
    pub fn load(path: &Path) -> Result<Option<Self>, PkiError> {
        Ok(authority::read(path)?.and_then(|text| Leaf::from_pem(&text)))
    }

    /// Keeps key and certificate in one file, for the owner alone.
    pub fn store(&self, path: &Path) -> Result<(), PkiError> {
        authority::write(path, &self.to_pem())
    }

    /// Key and certificate as one text, so that they are stored in one atomic write.
    pub(crate) fn to_pem(&self) -> String {
        format!("{}{}", self.key_pem, self.cert_pem)
    }

    /// The certificate, PEM.
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// The private key, PEM (PKCS #8). Secret.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The certificate, DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The private key, DER, as rustls takes it. Secret.
    pub fn key(&self) -> Result<PrivateKeyDer<'static>, PkiError> {
        PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).map_err(|error| PkiError::Key(error.to_string()))
    }

    /// When it ends.
    pub fn until(&self) -> Time {
        self.validity.until
    }

    /// Whether the certificate is near its end, past it, or not yet valid (a clock went back).
    pub fn needs_renewal(&self, now: Time) -> bool {
        let Validity { from, until } = self.validity;
        let whole = until.as_secs().saturating_sub(from.as_secs());
        let left = until.as_secs().saturating_sub(now.as_secs());
        now < from || left < whole / RENEW_PART
    }

    /// Whether it is `authority`'s and answers to everything in `purpose`.
    pub(crate) fn serves(&self, authority: &Authority, purpose: &Purpose) -> bool {
        cert::is_signed_by(&self.der, authority.der()) && self.has_names(purpose)
    }

    fn has_names(&self, purpose: &Purpose) -> bool {
        let Ok((_, certificate)) = X509Certificate::from_der(&self.der) else { return false };
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
        let bytes = |address: &IpAddr| match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let subject = certificate.subject();
        let text = |a: &x509_parser::x509::AttributeTypeAndValue<'_>| a.as_str().unwrap_or("").to_owned();
        subject.iter_common_name().map(text).eq([purpose.common_name.clone()])
            && subject.iter_organization().map(text).eq(purpose.organization.clone())
            && purpose.dns_names.iter().all(|dns| names.iter().any(|n| *n == GeneralName::DNSName(dns)))
            && purpose.addresses.iter().all(|a| names.iter().any(|n| *n == GeneralName::IPAddress(&bytes(a))))
    }
}

pub(crate) fn params(purpose: &Purpose) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(organization) = &purpose.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
    }
    params.distinguished_name.push(DnType::CommonName, purpose.common_name.as_str());
    for name in &purpose.dns_names {
        params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    params.subject_alt_names.extend(purpose.addresses.iter().copied().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    let usages =
        [(purpose.server, ExtendedKeyUsagePurpose::ServerAuth), (purpose.client, ExtendedKeyUsagePurpose::ClientAuth)];
    params.extended_key_usages = usages.into_iter().filter(|(wanted, _)| *wanted).map(|(_, usage)| usage).collect();
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}
