//! A certificate authority: its key, its certificate, what it signs.

use std::fmt;
use std::path::{Path, PathBuf};

use clock::Ids;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use stdx::Time;

use crate::error::PkiError;
use crate::{cert, file};

/// Authorities are not rotated, so they outlive the machine.
const LIFETIME_SECONDS: i64 = 20 * 366 * 24 * 60 * 60;

/// A machine without a battery starts in 1970 and learns the time later: the authority is valid from before it was
/// made (2020) and its lifetime counts from no earlier than this program (2026).
const VALID_FROM: Time = Time::from_secs(1_577_836_800);
const LIFETIME_FROM: Time = Time::from_secs(1_767_225_600);

/// A certificate authority.
pub struct Authority {
    pem: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    until: Time,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("until", &self.until).finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads `NAME.key` and `NAME.crt` in `dir`, or makes them. The key is written first: a crash between the two
    /// leaves a key without certificate, and the next start makes the certificate for it.
    pub(crate) fn load_or_create(
        dir: &Path,
        name: &str,
        common_name: &str,
        now: Time,
        ids: &dyn Ids,
    ) -> Result<Self, PkiError> {
        let (key_path, cert_path) = (dir.join(format!("{name}.key")), dir.join(format!("{name}.crt")));
        let stored = read(&cert_path)?;
        let key = match read(&key_path)? {
            Some(pem) => KeyPair::from_pem(&pem).map_err(|_| malformed(&key_path, "private key"))?,
            None if stored.is_some() => return Err(PkiError::KeyLost { path: key_path }),
            None => new_key(&key_path)?,
        };
        let pem = match stored {
            Some(pem) => pem,
            None => {
                let pem = self_signed(&key, common_name, now, ids)?;
                write(&cert_path, &pem)?;
                pem
            }
        };
        Self::assemble(pem, key, &cert_path)
    }

    fn assemble(pem: String, key: KeyPair, path: &Path) -> Result<Self, PkiError> {
        let unreadable = || malformed(path, "certificate");
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| unreadable())?;
        let until = cert::validity(&der).ok_or_else(unreadable)?.until;
        if !cert::has_key(&der, key.public_key_raw()) {
            return Err(PkiError::Mismatch { path: path.to_owned() });
        }
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|_| unreadable())?;
        Ok(Self { pem, der, issuer, until })
    }

    /// The certificate, PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The certificate, DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    pub(crate) fn issuer(&self) -> &Issuer<'static, KeyPair> {
        &self.issuer
    }

    /// When what is signed now may end at the latest.
    pub(crate) fn until(&self) -> Time {
        self.until
    }
}

fn self_signed(key: &KeyPair, common_name: &str, now: Time, ids: &dyn Ids) -> Result<String, PkiError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let until = Time::from_secs(now.max(LIFETIME_FROM).as_secs().saturating_add(LIFETIME_SECONDS));
    cert::stamp(&mut params, now.min(VALID_FROM), until, ids);
    let made = params.self_signed(key);
    made.map(|certificate| certificate.pem())
        .map_err(|error| PkiError::Issue { name: common_name.to_owned(), reason: error.to_string() })
}

/// Makes a P-256 key and stores it.
pub(crate) fn new_key(path: &Path) -> Result<KeyPair, PkiError> {
    let key = KeyPair::generate().map_err(|error| PkiError::Key(error.to_string()))?;
    write(path, &key.serialize_pem())?;
    Ok(key)
}

pub(crate) fn malformed(path: &Path, what: &'static str) -> PkiError {
    PkiError::Malformed { path: path.to_owned(), what }
}

pub(crate) fn read(path: &Path) -> Result<Option<String>, PkiError> {
    file::read(path).map_err(|source| PkiError::Read { path: PathBuf::from(path), source })
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    file::write(path, text).map_err(|source| PkiError::Write { path: PathBuf::from(path), source })
}
