//! Times, serial numbers and a reader's view of certificates.

use std::time::Duration;

use clock::Ids;
use rcgen::{CertificateParams, SerialNumber};
use stdx::Time;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Clocks of clients may be behind ours by this much.
pub(crate) const BACKDATE_SECONDS: i64 = 5 * 60;

/// The last second that certificates can name (end of the year 9999).
const LAST_SECOND: i64 = 253_402_300_799;

/// Sets from when to when the certificate is valid, and a serial number nobody can guess.
pub(crate) fn stamp(params: &mut CertificateParams, from: Time, until: Time, ids: &dyn Ids) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |time: Time| epoch + Duration::from_secs(time.as_secs().clamp(0, LAST_SECOND).unsigned_abs());
    params.not_before = at(from);
    params.not_after = at(until);
    let mut serial = [0u8; 16];
    ids.fill(&mut serial);
    // A serial number is positive and has no leading zero byte.
    serial[0] = (serial[0] & 0x7f) | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
}

/// What a holder of a certificate asks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: Time,
    pub(crate) until: Time,
}

/// Reads the validity of a DER certificate.
pub(crate) fn validity(der: &[u8]) -> Option<Validity> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let validity = certificate.validity();
    let time = |at: x509_parser::time::ASN1Time| Time::from_secs(at.timestamp());
    Some(Validity { from: time(validity.not_before), until: time(validity.not_after) })
}

/// Whether the DER certificate has exactly this public key (the raw point of an elliptic-curve key).
pub(crate) fn has_key(der: &[u8], public_key: &[u8]) -> bool {
    X509Certificate::from_der(der)
        .is_ok_and(|(_, certificate)| certificate.public_key().subject_public_key.data.as_ref() == public_key)
}

/// The hash of a certificate's public key as kubeadm pins it: `sha256:` and the hexadecimal digest of the DER form.
pub(crate) fn key_hash(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate.public_key().raw);
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("sha256:{hex}"))
}

/// Whether `issuer` signed `der`.
pub(crate) fn is_signed_by(der: &[u8], issuer: &[u8]) -> bool {
    let (Ok((_, certificate)), Ok((_, issuer))) = (X509Certificate::from_der(der), X509Certificate::from_der(issuer))
    else {
        return false;
    };
    certificate.issuer() == issuer.subject() && certificate.verify_signature(Some(issuer.public_key())).is_ok()
}
