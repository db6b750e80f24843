//! One rule of a role.

use meta::ObjectExt;
use serde_json::{Map, Value, json};

use crate::Attributes;

/// `rbac.authorization.k8s.io/v1` PolicyRule. `*` means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyRule {
    /// Verbs.
    pub verbs: Vec<String>,
    /// API groups; the empty text is the legacy group.
    pub api_groups: Vec<String>,
    /// Resources: `pods`, `pods/log`, `*`, `*/scale`.
    pub resources: Vec<String>,
    /// Object names; empty means all.
    pub resource_names: Vec<String>,
    /// Addresses that are no resources; a final `*` matches any rest.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Reads one rule's tree.
    pub fn from_value(rule: &Value) -> Self {
        Self {
            verbs: texts(rule, "verbs"),
            api_groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            resource_names: texts(rule, "resourceNames"),
            non_resource_urls: texts(rule, "nonResourceURLs"),
        }
    }

    /// Reads the `rules` of a role.
    pub fn of_role(role: &Value) -> Vec<Self> {
        role.items(&["rules"]).iter().map(Self::from_value).collect()
    }

    /// The rule's tree, empty fields left out.
    pub fn to_value(&self) -> Value {
        let fields = [
            ("apiGroups", &self.api_groups),
            ("nonResourceURLs", &self.non_resource_urls),
            ("resourceNames", &self.resource_names),
            ("resources", &self.resources),
            ("verbs", &self.verbs),
        ];
        let filled = fields.into_iter().filter(|(_, list)| !list.is_empty());
        Value::Object(filled.map(|(key, list)| (key.to_owned(), json!(list))).collect::<Map<_, _>>())
    }

    /// Whether the rule permits the request.
    pub fn allows(&self, asked: &Attributes) -> bool {
        if !asked.is_resource() {
            return self.has_verb(&asked.verb) && self.has_path(&asked.path);
        }
        self.has_verb(&asked.verb)
            && has_or_all(&self.api_groups, &asked.group)
            && self.has_resource(&asked.resource, &asked.subresource)
            && (self.resource_names.is_empty() || has(&self.resource_names, &asked.name))
    }

    pub(super) fn has_verb(&self, verb: &str) -> bool {
        has_or_all(&self.verbs, verb)
    }

    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| match rule.split_once('/') {
            None => rule == "*" || (subresource.is_empty() && rule == resource),
            Some((main, sub)) => !subresource.is_empty() && sub == subresource && (main == "*" || main == resource),
        })
    }

    pub(super) fn has_path(&self, path: &str) -> bool {
        self.non_resource_urls.iter().any(|rule| path_covers(rule, path))
    }
}

/// Whether the address `owned` (perhaps with a final `*`) includes `path`.
pub(super) fn path_covers(owned: &str, path: &str) -> bool {
    owned == path || (owned.ends_with('*') && path.starts_with(owned.trim_end_matches('*')))
}

pub(super) fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|item| item == text)
}

pub(super) fn has_or_all(list: &[String], text: &str) -> bool {
    list.iter().any(|item| item == "*" || item == text)
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    value.items(&[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(resource: &str, subresource: &str, name: &str) -> Attributes {
        let text = str::to_owned;
        Attributes {
            verb: text("get"),
            resource: text(resource),
            subresource: text(subresource),
            name: text(name),
            ..Attributes::default()
        }
    }

    fn rule(resources: &[&str], names: &[&str]) -> PolicyRule {
        let list = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        PolicyRule {
            verbs: list(&["get"]),
            api_groups: list(&[""]),
            resources: list(resources),
            resource_names: list(names),
            ..PolicyRule::default()
        }
    }

    #[test]
    fn resources_match_like_upstream() {
        let check = |resources: &[&str], names: &[&str], asked: Attributes, expected: bool| {
            assert_eq!(rule(resources, names).allows(&asked), expected, "{resources:?} {names:?} {asked:?}");
        };
        check(&["pods"], &[], asked("pods", "", "a"), true);
        check(&["pods"], &[], asked("pods", "log", "a"), false);
        check(&["pods/log"], &[], asked("pods", "log", "a"), true);
        check(&["pods/log"], &[], asked("pods", "", "a"), false);
        check(&["*/log"], &[], asked("pods", "log", "a"), true);
        check(&["*/log"], &[], asked("pods", "", "a"), false);
        check(&["pods/*"], &[], asked("pods", "log", "a"), false);
        check(&["*"], &[], asked("pods", "log", "a"), true);
        check(&["pods"], &["a"], asked("pods", "", "a"), true);
        check(&["pods"], &["a"], asked("pods", "", "b"), false);
        check(&["pods"], &["a"], asked("pods", "", ""), false);
        check(&["pods"], &[], Attributes { group: "apps".into(), ..asked("pods", "", "") }, false);
    }

    #[test]
    fn paths_match_like_upstream() {
        let check = |owned: &str, path: &str, expected: bool| assert_eq!(path_covers(owned, path), expected);
        check("*", "/anything", true);
        check("/api/*", "/api/v1", true);
        check("/api/*", "/api", false);
        check("/healthz", "/healthz", true);
        check("/healthz", "/healthz/etcd", false);
    }

    proptest! {
        /// A rule that names nothing of the request never allows it, whatever else it names.
        #[test]
        fn deny_by_default(verb in "[a-z]{1,8}", resource in "[a-z]{1,8}") {
            let rule = PolicyRule { verbs: vec!["other-verb".into()], ..rule(&["*"], &[]) };
            let asked = Attributes { verb, resource, ..Attributes::default() };
            prop_assert!(!rule.allows(&asked));
        }
    }
}
