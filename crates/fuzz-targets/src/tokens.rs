//! Bearer tokens: whatever is sent, nobody is proven by a signature that nobody made.

use admit::tokens::{self, SignatureError, SignatureVerifier, TokenConfig};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use meta::Time;
use store::{Mem, Store};

use crate::{inputs, lines, text_of};

const NOW: i64 = 1_800_000_000;

/// Knows one answer.
struct Says(Result<(), SignatureError>);

impl SignatureVerifier for Says {
    fn verify(&self, _algorithm: &str, _key: &str, _message: &[u8], _signature: &[u8]) -> Result<(), SignatureError> {
        self.0
    }
}

/// The bytes as a token, and two lines as the header and the claims of one. A wrong signature proves nobody; a good
/// one proves only whom the state knows, and the state is empty.
pub fn jwt_verify(data: &[u8]) {
    let mut parts = lines(data).map(|part| URL_SAFE_NO_PAD.encode(part));
    let (header, claims) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let made = format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode("signature"));
    for token in text_of(data).into_iter().chain([made.as_str()]) {
        judge(token);
    }
}

fn judge(token: &str) {
    let config = TokenConfig { issuer: "me".to_owned(), audiences: vec!["me".to_owned()], ..TokenConfig::default() };
    let snapshot = Mem::default().snapshot();
    let ask =
        |answer, wanted| tokens::authenticate(&config, &Says(answer), &snapshot, token, wanted, Time::from_secs(NOW));
    let other = ["other".to_owned()];
    for answer in [Err(SignatureError::Wrong), Err(SignatureError::UnknownKey), Ok(())] {
        for wanted in [None, Some(&other[..])] {
            let proven = ask(answer, wanted).is_ok_and(|proven| proven.is_some());
            assert!(!proven, "nobody stands behind {token:?}");
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let claims = format!(
        "{{\"iss\":\"me\",\"sub\":\"system:serviceaccount:a:b\",\"aud\":[\"me\"],\"exp\":{},\"nbf\":1,\"iat\":1,\"kubernetes.io\":{{\"namespace\":\"a\",\"serviceaccount\":{{\"name\":\"b\",\"uid\":\"u\"}},\"pod\":{{\"name\":\"p\",\"uid\":\"v\"}}}}}}",
        NOW + 60
    );
    let headers =
        ["{\"alg\":\"ES256\",\"kid\":\"k\"}", "{\"alg\":\"none\"}", "{\"alg\":\"HS256\",\"kid\":\"../../etc/passwd\"}"];
    let mut seeds: Vec<Vec<u8>> = headers.iter().map(|header| format!("{header}\n{claims}").into_bytes()).collect();
    seeds.extend(inputs(&["a.b.c", "..", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJtZSJ9.", ""]));
    seeds
}
