//! Who a client certificate says its holder is.

use admit::UserInfo;
use ring::digest::{SHA256, digest};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Where a certificate may carry the user's uid.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// The user of a certificate whose chain has been checked: name from the common name, groups from the organizations.
/// `None` when it names nobody.
pub fn user_of(der: &[u8]) -> Option<UserInfo> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().last()?.as_str().ok()?;
    if name.is_empty() {
        return None;
    }
    // A group that cannot be read must not be left out silently: the certificate proves nothing then.
    let groups: Vec<&str> = subject.iter_organization().map(|group| group.as_str()).collect::<Result<_, _>>().ok()?;
    let mut user = UserInfo::new(name, groups).authenticated();
    let uid = subject.iter_attributes().find(|attribute| attribute.attr_type().to_id_string() == UID_OID);
    user.uid = uid.and_then(|uid| uid.as_str().ok()).unwrap_or_default().to_owned();
    let fingerprint: String = digest(&SHA256, der).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={fingerprint}")]);
    Some(user)
}
