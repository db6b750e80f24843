//! Who asks.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Members bypass authorisation.
pub const MASTERS: &str = "system:masters";
/// Everybody who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of whoever did not say who they are.
pub const ANONYMOUS: &str = "system:anonymous";
/// Node agents.
pub const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// Every service account.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// A user as authentication found them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// Unique among active users.
    pub name: String,
    /// Unique over time; may be empty.
    pub uid: String,
    /// Groups, in the order authentication gave them.
    pub groups: Vec<String>,
    /// What else the authenticator knows, by lower-case key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user with a name and groups.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// `system:anonymous`.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// A service account, with the groups every service account has.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> Self {
        let groups = [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}"), AUTHENTICATED.to_owned()];
        Self { uid: uid.to_owned(), ..Self::new(service_account_name(namespace, name), groups) }
    }

    /// Whether the user is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// The node this user is the agent of: `None` for anybody else, the empty name when it cannot be told.
    pub fn node(&self) -> Option<&str> {
        let node = self.name.strip_prefix(NODE_PREFIX)?;
        self.is_in(NODES).then_some(node)
    }

    /// Namespace and name when the user is a service account.
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        let (namespace, name) = self.name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
        let valid = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
        valid.then_some((namespace, name))
    }

    /// With [`AUTHENTICATED`] among the groups, as everybody gets it who is neither anonymous nor has it.
    pub fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// `authentication.k8s.io/v1` UserInfo, as reviews carry it.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        let texts = [("username", &self.name), ("uid", &self.uid)];
        out.extend(texts.into_iter().filter(|(_, t)| !t.is_empty()).map(|(k, t)| (k.to_owned(), json!(t))));
        if !self.groups.is_empty() {
            out.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            out.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(out)
    }
}

/// `system:serviceaccount:NAMESPACE:NAME`.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_nodes_and_service_accounts() {
        assert_eq!(UserInfo::new("system:node:a", [NODES]).node(), Some("a"));
        assert_eq!(UserInfo::new("system:node:a", [MASTERS]).node(), None, "the group is needed too");
        assert_eq!(UserInfo::service_account("ns", "sa", "1").as_service_account(), Some(("ns", "sa")));
        for forged in ["system:serviceaccount:ns", "system:serviceaccount::x", "system:serviceaccount:a:b:c", "x"] {
            assert_eq!(UserInfo::new(forged, [""; 0]).as_service_account(), None, "{forged}");
        }
    }

    #[test]
    fn nobody_is_both_authenticated_and_not() {
        assert!(!UserInfo::anonymous().authenticated().is_in(AUTHENTICATED));
        assert_eq!(UserInfo::new("a", ["g"]).authenticated().authenticated().groups, ["g", AUTHENTICATED]);
    }
}
