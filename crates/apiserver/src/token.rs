//! Service-account tokens over the API: made by TokenRequest, judged by TokenReview, published for verifiers elsewhere.

use std::sync::Arc;

use admit::tokens;
use api::Request;
use client::Body;
use http::Response;
use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};

use crate::app::App;
use crate::authn;
use crate::respond::tree_response;

/// POST `serviceaccounts/NAME/token`.
pub fn request(app: &App, request: &Request) -> Result<Response<Body>, ApiError> {
    let gvk = meta::Gvk::new("authentication.k8s.io", "v1", "TokenRequest");
    let body = api::decode_as(request, &gvk, "io.k8s.api.authentication.v1.TokenRequest")?;
    let target = &request.target;
    let account = (target.namespace.as_str(), target.name.as_str());
    let (identity, now) = (&app.identity, app.clock.now());
    let grant = tokens::token_request(&identity.tokens, &app.snapshot(), account, &body, now, &app.ids.uid())?;
    let mut answer = grant.answer;
    let token = tokens::sign(&grant.claims, &*identity.signer)
        .map_err(|_| ApiError::internal("the token could not be signed"))?;
    answer.put(&["status", "token"], token);
    answer.put(&["metadata", "name"], target.name.clone());
    answer.put(&["metadata", "namespace"], target.namespace.clone());
    answer.put(&["metadata", "creationTimestamp"], now.to_rfc3339());
    Ok(tree_response(201, &answer))
}

/// POST `tokenreviews`.
pub fn review(app: &App, request: &Request) -> Result<Response<Body>, ApiError> {
    let gvk = meta::Gvk::new("authentication.k8s.io", "v1", "TokenReview");
    let mut review = api::decode_as(request, &gvk, "io.k8s.api.authentication.v1.TokenReview")?;
    let token = review.text(&["spec", "token"]).to_owned();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let wanted = review.at(&["spec", "audiences"]).map(texts).filter(|audiences| !audiences.is_empty());
    let outcome = authn::proven(app, &token, wanted.as_deref());
    let status = match outcome {
        Ok(Some(proven)) => {
            json!({"authenticated": true, "user": proven.user.to_value(), "audiences": proven.audiences})
        }
        Ok(None) => json!({"user": {}, "error": "[invalid bearer token]"}),
        Err(reason) => json!({"user": {}, "error": format!("[invalid bearer token, {reason}]")}),
    };
    review.put(&["status"], status);
    // The token itself goes back as it came: the asker has it.
    Ok(tree_response(201, &review))
}

/// The issuer's discovery document and keys.
pub fn issuer_response(app: &Arc<App>, path: &str) -> Option<Response<Body>> {
    let identity = &app.identity;
    match path {
        "/.well-known/openid-configuration" => {
            let keys = format!("{}/openid/v1/jwks", identity.tokens.issuer.trim_end_matches('/'));
            Some(tree_response(
                200,
                &tokens::discovery_document(&identity.tokens, &keys, &[identity.signer.algorithm()]),
            ))
        }
        "/openid/v1/jwks" => Some(tree_response(200, &identity.key_set)),
        _ => None,
    }
}
