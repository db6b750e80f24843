//! Who asks: a client certificate or a bearer token, possibly asking on behalf of somebody else.

use std::collections::BTreeMap;
use std::sync::Arc;

use admit::tokens::Authenticated;
use admit::{Attributes, UserInfo, bootstrap_token, tokens, user};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use meta::ApiError;

use crate::app::App;

/// Values of impersonation headers looked at.
const IMPERSONATION_MAX: usize = 256;

/// Who is at the other end, as the connection itself proves it: by a client certificate, or by being no connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The user that the certificate names.
    pub user: Option<Arc<UserInfo>>,
    /// A component of this process. It is nobody special, but it does not take the places of those who come from outside.
    pub is_inside: bool,
}

/// The user behind a request, or 401. A token that does not count is an error even beside a valid certificate.
pub fn authenticate(app: &App, peer: &Peer, headers: &HeaderMap) -> Result<Arc<UserInfo>, ApiError> {
    let proven = match bearer(headers) {
        Some(token) => Arc::new(token_user(app, token)?),
        None => peer.user.clone().unwrap_or_else(|| Arc::new(UserInfo::anonymous())),
    };
    impersonate(app, proven, headers)
}

/// Whom a token of any kind proves; see [`tokens::authenticate`].
pub fn proven(app: &App, token: &str, wanted: Option<&[String]>) -> Result<Option<Authenticated>, String> {
    let (identity, snapshot, now) = (&app.identity, app.store.snapshot(), app.clock.now());
    if let Some(user) = bootstrap_token::authenticate(&snapshot, token, now)? {
        let own = &identity.tokens.audiences;
        let audiences = wanted.map_or_else(|| own.clone(), |wanted| common(wanted, own));
        return match audiences.is_empty() {
            true => Err("the token is for other audiences".to_owned()),
            false => Ok(Some(Authenticated { user, audiences, stale: None })),
        };
    }
    tokens::authenticate(&identity.tokens, &*identity.verifier, &snapshot, token, wanted, now)
}

fn common(wanted: &[String], own: &[String]) -> Vec<String> {
    wanted.iter().filter(|audience| own.contains(audience)).cloned().collect()
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

fn token_user(app: &App, token: &str) -> Result<UserInfo, ApiError> {
    match proven(app, token, None) {
        Ok(Some(authenticated)) => Ok(authenticated.user),
        Ok(None) => Err(ApiError::unauthorized()),
        Err(reason) => {
            tracing::debug!(%reason, "a token was refused");
            Err(ApiError::unauthorized())
        }
    }
}

/// `Impersonate-*`: allowed only by the right to impersonate each thing named.
fn impersonate(app: &App, asker: Arc<UserInfo>, headers: &HeaderMap) -> Result<Arc<UserInfo>, ApiError> {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter().take(IMPERSONATION_MAX);
        values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let (names, groups, uids) = (all("impersonate-user"), all("impersonate-group"), all("impersonate-uid"));
    let extra = extra(headers);
    let Some(name) = names.first().filter(|name| !name.is_empty()) else {
        return match groups.is_empty() && uids.is_empty() && extra.is_empty() {
            true => Ok(asker),
            false => Err(ApiError::bad_request("requested a group, uid or extra to impersonate, but no user")),
        };
    };
    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let mut asked: Attributes = Attributes { user: Arc::clone(&asker), ..Attributes::default() }.on_the_side(
            "impersonate",
            group,
            resource,
            namespace,
            name,
        );
        asked.subresource = subresource.to_owned();
        authorize(app, &asked)
    };
    let mut acting = UserInfo::new(name.as_str(), groups.iter().map(String::as_str));
    match acting.as_service_account() {
        Some((namespace, account)) => {
            check("", "serviceaccounts", "", namespace, account)?;
            if groups.is_empty() {
                acting = UserInfo::service_account(namespace, account, "");
            }
        }
        None => check("", "users", "", "", name)?,
    }
    for group in &groups {
        check("", "groups", "", "", group)?;
    }
    for (key, values) in &extra {
        for value in values {
            check("authentication.k8s.io", "userextras", key, "", value)?;
        }
    }
    if let Some(uid) = uids.first() {
        check("authentication.k8s.io", "uids", "", "", uid)?;
        acting.uid = uid.clone();
    }
    acting.extra = extra;
    if acting.name == user::ANONYMOUS && acting.groups.is_empty() {
        acting.groups.push(user::UNAUTHENTICATED.to_owned());
    }
    Ok(Arc::new(if acting.name == user::ANONYMOUS { acting } else { acting.authenticated() }))
}

fn extra(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers.iter().take(IMPERSONATION_MAX) {
        if let (Some(key), Ok(value)) = (name.as_str().strip_prefix("impersonate-extra-"), value.to_str()) {
            extra.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    extra
}

/// 403 unless somebody allows it.
pub fn authorize(app: &App, asked: &Attributes) -> Result<(), ApiError> {
    let decision = app.authorizer.authorize(&app.store.snapshot(), asked);
    if decision.is_allowed() { Ok(()) } else { Err(asked.forbidden(decision.reason())) }
}
