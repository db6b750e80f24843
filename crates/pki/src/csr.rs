//! Signing other people's certificate requests.

use admit::csr::{CsrFacts, check_signer};
use clock::Ids;
use rcgen::{CertificateSigningRequestParams, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose};
use rustls_pki_types::CertificateSigningRequestDer;
use stdx::Time;

use crate::authority::Authority;
use crate::cert::{self, BACKDATE_SECONDS};
use crate::error::PkiError;

const SECONDS_MAX: i64 = 365 * 24 * 60 * 60;
/// Twice the time a certificate is dated back: it must not be born expired.
const SECONDS_MIN: i64 = 10 * 60;

/// What an approved CertificateSigningRequest asks for.
#[derive(Clone, Copy, Debug)]
pub struct CsrOrder<'o> {
    /// `spec.request`, decoded: a PEM block.
    pub request: &'o [u8],
    /// `spec.signerName`.
    pub signer: &'o str,
    /// `spec.usages`.
    pub usages: &'o [String],
    /// `spec.expirationSeconds`.
    pub seconds: Option<i64>,
}

/// The signed certificate, PEM. The error is for the request's `Failed` condition.
pub(crate) fn sign(authority: &Authority, order: CsrOrder<'_>, now: Time, ids: &dyn Ids) -> Result<String, PkiError> {
    let facts = CsrFacts::parse(order.request).map_err(PkiError::Request)?;
    if !check_signer(order.signer, &facts, order.usages).map_err(PkiError::Request)? {
        return Err(PkiError::Request(format!("unrecognized signerName: {:?}", order.signer)));
    }
    // The library keeps one value per attribute and would drop groups silently.
    if facts.unusual_subject {
        return Err(PkiError::Request("subjects with repeated attributes cannot be signed".to_owned()));
    }
    let der = CertificateSigningRequestDer::from(facts.der);
    let refused = |error: rcgen::Error| PkiError::Request(format!("the certificate request cannot be signed: {error}"));
    let mut request = CertificateSigningRequestParams::from_der(&der).map_err(refused)?;
    let params = &mut request.params;
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    (params.key_usages, params.extended_key_usages) = usages(order.usages)?;
    let seconds = order.seconds.map_or(SECONDS_MAX, |seconds| seconds.clamp(SECONDS_MIN, SECONDS_MAX));
    let from = Time::from_secs(now.as_secs().saturating_sub(BACKDATE_SECONDS));
    let until = Time::from_secs(now.as_secs().saturating_add(seconds)).min(authority.until());
    cert::stamp(params, from, until, ids);
    request.signed_by(authority.issuer()).map(|certificate| certificate.pem()).map_err(refused)
}

type Usages = (Vec<KeyUsagePurpose>, Vec<ExtendedKeyUsagePurpose>);

fn usages(wanted: &[String]) -> Result<Usages, PkiError> {
    let (mut key, mut extended) = (Vec::new(), Vec::new());
    for usage in wanted {
        match usage.as_str() {
            "signing" | "digital signature" => key.push(KeyUsagePurpose::DigitalSignature),
            "content commitment" => key.push(KeyUsagePurpose::ContentCommitment),
            "key encipherment" => key.push(KeyUsagePurpose::KeyEncipherment),
            "key agreement" => key.push(KeyUsagePurpose::KeyAgreement),
            "data encipherment" => key.push(KeyUsagePurpose::DataEncipherment),
            "encipher only" => key.push(KeyUsagePurpose::EncipherOnly),
            "decipher only" => key.push(KeyUsagePurpose::DecipherOnly),
            "any" => extended.push(ExtendedKeyUsagePurpose::Any),
            "server auth" => extended.push(ExtendedKeyUsagePurpose::ServerAuth),
            "client auth" => extended.push(ExtendedKeyUsagePurpose::ClientAuth),
            "code signing" => extended.push(ExtendedKeyUsagePurpose::CodeSigning),
            "email protection" | "s/mime" => extended.push(ExtendedKeyUsagePurpose::EmailProtection),
            "timestamping" => extended.push(ExtendedKeyUsagePurpose::TimeStamping),
            "ocsp signing" => extended.push(ExtendedKeyUsagePurpose::OcspSigning),
            other => return Err(PkiError::Request(format!("unsupported usage: {other}"))),
        }
    }
    key.dedup();
    Ok((key, extended))
}
