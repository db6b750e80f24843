use super::*;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::server::{ClientHello, NoClientAuth, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConnection, ServerConnection};

/// A certificate of its own for `localhost`, PEM, and its key, PEM.
fn made() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn identity((certificate, key): &(String, String)) -> Identity {
    (certificates(certificate.as_bytes()).unwrap(), private_key(key.as_bytes()).unwrap())
}

fn trusted(of: &(String, String)) -> RootCertStore {
    authorities(certificates(of.0.as_bytes()).unwrap()).unwrap()
}

/// Whether both sides finish their handshake.
fn meets(client: ClientConfig, server: ServerConfig) -> bool {
    let mut client = ClientConnection::new(Arc::new(client), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    for _ in 0..4 {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        client.write_tls(&mut there).unwrap();
        server.read_tls(&mut &*there).unwrap();
        let is_taken = server.process_new_packets().is_ok();
        server.write_tls(&mut back).unwrap();
        client.read_tls(&mut &*back).unwrap();
        if client.process_new_packets().is_err() || !is_taken {
            return false;
        }
    }
    !client.is_handshaking() && !server.is_handshaking()
}

#[test]
fn servers_are_believed_as_far_as_was_asked() {
    let (own, other) = (made(), made());
    for (trust, expected) in [
        (Trust::Authorities(trusted(&own)), true),
        (Trust::Authorities(trusted(&other)), false),
        (Trust::Anybody { checks_signatures: true }, true),
        (Trust::Anybody { checks_signatures: false }, true),
    ] {
        let server = server(Arc::new(NoClientAuth), identity(&own), &[]).unwrap();
        assert_eq!(meets(client(trust, None, &[]).unwrap(), server), expected);
    }
}

#[test]
fn a_certificate_of_another_key_is_taken_only_without_a_look_at_signatures() {
    #[derive(Debug)]
    struct Liar(Arc<CertifiedKey>);
    impl ResolvesServerCert for Liar {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            Some(Arc::clone(&self.0))
        }
    }
    let (chain, key) = (identity(&made()).0, identity(&made()).1);
    let shown = Arc::new(CertifiedKey::new(chain, provider().key_provider.load_private_key(key).unwrap()));
    for checks_signatures in [true, false] {
        let server = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth().with_cert_resolver(Arc::new(Liar(Arc::clone(&shown))));
        let client = client(Trust::Anybody { checks_signatures }, None, &[]).unwrap();
        assert_eq!(meets(client, server), !checks_signatures);
    }
}

#[test]
fn clients_are_looked_at() {
    let (own, other) = (made(), made());
    for (shown, is_demanded, expected) in [
        (Some(&own), true, true),
        (Some(&own), false, true),
        (None, true, false),
        (None, false, true),
        (Some(&other), true, false),
        (Some(&other), false, false),
    ] {
        let server = server(clients_of(trusted(&own), is_demanded).unwrap(), identity(&own), &[]).unwrap();
        let client = client(Trust::Authorities(trusted(&own)), shown.map(identity), &[]).unwrap();
        assert_eq!(meets(client, server), expected, "{} {is_demanded}", shown.is_some());
    }
}

#[test]
fn what_pem_holds() {
    let (certificate, key) = made();
    assert_eq!(certificates(b"no PEM").unwrap(), []);
    assert_eq!(certificates(format!("{certificate}{key}{certificate}").as_bytes()).unwrap().len(), 2);
    assert!(certificates(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_err());
    assert!(private_key(certificate.as_bytes()).is_err());
    assert!(
        client(Trust::Anybody { checks_signatures: true }, Some((identity(&made()).0, identity(&made()).1)), &[])
            .is_err()
    );
}
