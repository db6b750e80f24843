//! How this process proves and checks identities.

use std::sync::Arc;

use admit::tokens::{TokenConfig, TokenSigner};
use apiserver::Identity;
use pki::Pki;

/// The issuer's name, which is also the audience that means this API server.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The signing key lives in the key store; this lends it to the API.
struct Signer(Arc<Pki>);

impl TokenSigner for Signer {
    fn algorithm(&self) -> &str {
        self.0.token_key().algorithm()
    }

    fn key_id(&self) -> &str {
        self.0.token_key().key_id()
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        self.0.token_key().sign(message)
    }
}

/// The identity of an API server with these keys.
pub fn identity(pki: &Arc<Pki>) -> Identity {
    let keys = pki.token_key().keys();
    Identity {
        tokens: TokenConfig { issuer: ISSUER.to_owned(), audiences: vec![ISSUER.to_owned()], ..TokenConfig::default() },
        signer: Arc::new(Signer(Arc::clone(pki))),
        key_set: keys.to_jwks(),
        verifier: Arc::new(keys),
    }
}
