//! What is asked: the facts of one request that authorisation decides on.

use std::sync::Arc;

use meta::fields::FieldSelector;
use meta::{ApiError, GroupResource};

use crate::UserInfo;

/// One request. Either a resource request (`resource` not empty) or one for a `path`.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    /// Who asks.
    pub user: Arc<UserInfo>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection` or a special verb; for paths
    /// the lower-case HTTP method.
    pub verb: String,
    /// API group; empty for the legacy group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Lower-case plural; empty for paths.
    pub resource: String,
    /// E.g. `status`; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped requests and for all namespaces.
    pub namespace: String,
    /// Object name; empty for collections.
    pub name: String,
    /// The address, for requests that are not for resources.
    pub path: String,
    /// The field selector of list, watch and deletecollection.
    pub field_selector: Option<FieldSelector>,
}

impl Attributes {
    /// Whether this is about a resource.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// Group and resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.group, &*self.resource)
    }

    /// Whether the request is for this resource and subresource.
    pub fn is_for(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.group == group && self.resource == resource && self.subresource == subresource
    }

    /// The same asker and place, another verb, resource and name: for checks on the side.
    pub fn on_the_side(&self, verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Self {
        Self {
            user: Arc::clone(&self.user),
            verb: verb.to_owned(),
            group: group.to_owned(),
            version: "*".to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// 403 in upstream's words, `reason` appended when there is one.
    pub fn forbidden(&self, reason: &str) -> ApiError {
        let denial = sanitized(&self.denial());
        let why = if reason.is_empty() { denial } else { format!("{denial}: {reason}") };
        ApiError::forbidden(&self.group_resource(), &self.name, why)
    }

    fn denial(&self) -> String {
        let (user, verb) = (&self.user.name, &self.verb);
        if !self.is_resource() {
            return format!("User {user:?} cannot {verb} path {:?}", self.path);
        }
        let scope = match self.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let resource = self.combined_resource();
        format!("User {user:?} cannot {verb} resource {resource:?} in API group {:?} {scope}", self.group)
    }

    /// `pods` or `pods/log`.
    pub fn combined_resource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

/// A browser must not take the answer for HTML.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(attributes: Attributes, reason: &str, message: &str) {
        assert_eq!(attributes.forbidden(reason).message, message);
    }

    #[test]
    fn denials_read_like_upstream() {
        let user = Arc::new(UserInfo::new("x", [""; 0]));
        let pods = Attributes { user, verb: "list".into(), resource: "pods".into(), ..Attributes::default() };
        check(
            Attributes { namespace: "default".into(), ..pods.clone() },
            "",
            "pods is forbidden: User \"x\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"",
        );
        check(
            Attributes { group: "apps".into(), name: "n".into(), subresource: "scale".into(), ..pods.clone() },
            "RBAC: why",
            "pods.apps \"n\" is forbidden: User \"x\" cannot list resource \"pods/scale\" in API group \"apps\" at the \
             cluster scope: RBAC: why",
        );
        check(
            Attributes { resource: String::new(), verb: "get".into(), path: "/<b>".into(), ..pods },
            "",
            "forbidden: User \"x\" cannot get path \"/&lt;b&gt;\"",
        );
    }
}
