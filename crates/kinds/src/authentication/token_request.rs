//! TokenRequest: a token for a ServiceAccount. Spoken at `serviceaccounts/token`.

use meta::FieldError;
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults};
use crate::{KindDef, fill};

/// How long a token lives unless asked otherwise, and the bounds of asking, in seconds (upstream's).
pub const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;
const EXAMPLE: &str = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
    "metadata": {"namespace": "default"}, "spec": {"audiences": ["api"], "expirationSeconds": 3600}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::spoken(GROUP, "v1", "TokenRequest")
        .schema("io.k8s.api.authentication.v1.TokenRequest")
        .secret_fields(&["status.token"])
        .defaults(|request| {
            if let Some(spec) = fill::made(request, "spec") {
                fill::absent(spec, "expirationSeconds", SECONDS_DEFAULT);
            }
        })
        .validates(validate)
        .example(EXAMPLE)
}

fn validate(request: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(request);
    let spec = root.field("spec");
    let seconds = spec.field("expirationSeconds");
    if seconds.number() < SECONDS_MIN {
        faults.push(seconds.invalid_as(seconds.number(), "may not specify a duration less than 10 minutes"));
    }
    if seconds.number() > SECONDS_MAX {
        faults.push(seconds.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    faults
}
