//! Nobody grants what they do not hold: the checks on writes of roles and bindings.

use std::collections::{BTreeMap, BTreeSet};

use meta::{ApiError, GroupResource, ObjectExt};
use serde_json::Value;

use super::rule::{has, has_or_all, path_covers};
use super::view::joined;
use super::{GROUP, PolicyRule, RbacView};
use crate::Attributes;
use crate::user::MASTERS;

/// How many single permissions (verb, group, resource, name) one write may be broken down to. Roles of this
/// kind are written by people; the product of four long lists would otherwise keep a processor for hours.
const SINGLES_MAX: usize = 100_000;

/// Checks the write of a Role or ClusterRole: the writer holds every rule of `new`, or may `escalate`. `may` answers
/// for any request of the same user (all authorisers, not this one alone).
pub fn check_role(
    view: &RbacView,
    asked: &Attributes,
    may: &dyn Fn(&Attributes) -> bool,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), ApiError> {
    let same = |field: &str| old.is_some_and(|old| old.get(field) == new.get(field));
    if is_master(asked) || (same("rules") && same("aggregationRule")) {
        return Ok(());
    }
    let escalate = asked.on_the_side("escalate", GROUP, &asked.resource, &asked.namespace, new.name());
    if may(&escalate) {
        return Ok(());
    }
    let forbidden = |why: String| ApiError::forbidden(&asked.group_resource(), new.name(), why);
    confirm(view, asked, &PolicyRule::of_role(new)).map_err(forbidden)?;
    let aggregates = |role: &Value| role.at(&["aggregationRule"]).is_some_and(|rule| !rule.is_null());
    if aggregates(new) || old.is_some_and(aggregates) {
        let missing = "must have cluster-admin privileges to use an aggregationRule".to_owned();
        confirm(view, asked, &full_authority()).map_err(|_| forbidden(missing))?;
    }
    Ok(())
}

/// Checks the write of a RoleBinding or ClusterRoleBinding: the writer holds every rule of the role it names, or
/// may `bind` that role.
pub fn check_binding(
    view: &RbacView,
    asked: &Attributes,
    may: &dyn Fn(&Attributes) -> bool,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), ApiError> {
    let same = |field: &str| old.is_some_and(|old| old.get(field) == new.get(field));
    if is_master(asked) || (same("roleRef") && same("subjects")) {
        return Ok(());
    }
    let (kind, role) = (new.text(&["roleRef", "kind"]), new.text(&["roleRef", "name"]));
    let resource = if kind == "ClusterRole" { "clusterroles" } else { "roles" };
    if may(&asked.on_the_side("bind", GROUP, resource, &asked.namespace, role)) {
        return Ok(());
    }
    let unknown = |_| ApiError::not_found(&GroupResource::new(GROUP, kind.to_lowercase()), role);
    let rules = view.role_rules(kind, role, &asked.namespace).map_err(unknown)?;
    confirm(view, asked, rules).map_err(|why| ApiError::forbidden(&asked.group_resource(), new.name(), why))
}

fn is_master(asked: &Attributes) -> bool {
    asked.user.is_in(MASTERS)
}

fn full_authority() -> Vec<PolicyRule> {
    let all = || vec!["*".to_owned()];
    vec![
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

fn confirm(view: &RbacView, asked: &Attributes, wanted: &[PolicyRule]) -> Result<(), String> {
    let held = view.rules_for(&asked.user, &asked.namespace);
    let missing = covers(&held.rules, wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    let lines: BTreeSet<String> = compacted(missing).iter().map(described).collect();
    let lines = lines.into_iter().collect::<Vec<_>>().join("\n");
    let (name, groups) = (&asked.user.name, quoted(&asked.user.groups));
    let mut message =
        format!("user {name:?} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{lines}");
    if !held.errors.is_empty() {
        message.push_str(&format!("; resolution errors: [{}]", joined(&held.errors)));
    }
    Err(message)
}

/// The single permissions in `wanted` that no rule in `held` covers.
pub fn covers(held: &[PolicyRule], wanted: &[PolicyRule]) -> Result<Vec<PolicyRule>, String> {
    let singles: usize = wanted.iter().map(count).fold(0, usize::saturating_add);
    if singles > SINGLES_MAX {
        return Err(format!("the role has {singles} single permissions; at most {SINGLES_MAX} can be checked"));
    }
    let uncovered = |single: &PolicyRule| !held.iter().any(|rule| covers_single(rule, single));
    Ok(wanted.iter().flat_map(broken_down).filter(uncovered).collect())
}

fn count(rule: &PolicyRule) -> usize {
    let resources = [&rule.api_groups, &rule.resources, &rule.verbs].into_iter().map(|l| l.len());
    let resources = resources.fold(rule.resource_names.len().max(1), usize::saturating_mul);
    resources.saturating_add(rule.non_resource_urls.len().saturating_mul(rule.verbs.len()))
}

/// A rule as rules with one verb, group, resource and name each.
fn broken_down(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut singles = Vec::with_capacity(count(rule));
    let names: Vec<Vec<String>> = match rule.resource_names.is_empty() {
        true => vec![Vec::new()],
        false => rule.resource_names.iter().map(|name| vec![name.clone()]).collect(),
    };
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                singles.extend(names.iter().map(|name| PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    resource_names: name.clone(),
                    ..PolicyRule::default()
                }));
            }
        }
    }
    for url in &rule.non_resource_urls {
        let single = |verb: &String| PolicyRule {
            verbs: vec![verb.clone()],
            non_resource_urls: vec![url.clone()],
            ..PolicyRule::default()
        };
        singles.extend(rule.verbs.iter().map(single));
    }
    singles
}

fn covers_single(held: &PolicyRule, single: &PolicyRule) -> bool {
    let names = held.resource_names.is_empty()
        || (!single.resource_names.is_empty() && single.resource_names.iter().all(|n| has(&held.resource_names, n)));
    let paths = &held.non_resource_urls;
    names
        && single.verbs.iter().all(|verb| held.has_verb(verb))
        && single.api_groups.iter().all(|group| has_or_all(&held.api_groups, group))
        && single.resources.iter().all(|resource| holds_resource(held, resource))
        && single.non_resource_urls.iter().all(|path| paths.iter().any(|owned| path_covers(owned, path)))
}

fn holds_resource(held: &PolicyRule, resource: &str) -> bool {
    let of_any = |sub: &str| has(&held.resources, &format!("*/{sub}"));
    has_or_all(&held.resources, resource) || resource.split_once('/').is_some_and(|(_, sub)| of_any(sub))
}

/// Single permissions on the same resource as one rule with several verbs.
fn compacted(singles: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut by_place: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
    let mut out = Vec::new();
    for mut rule in singles {
        if rule.non_resource_urls.is_empty() {
            let verbs = std::mem::take(&mut rule.verbs);
            by_place.entry(rule).or_default().extend(verbs);
        } else {
            out.push(rule);
        }
    }
    out.extend(by_place.into_iter().map(|(place, verbs)| PolicyRule { verbs, ..place }));
    out
}

fn described(rule: &PolicyRule) -> String {
    let parts = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let filled = parts.iter().filter(|(_, list)| !list.is_empty());
    format!("{{{}}}", filled.map(|(key, list)| format!("{key}:{}", quoted(list))).collect::<Vec<_>>().join(", "))
}

/// `["a" "b"]`, as Go prints a list of quoted texts.
pub(crate) fn quoted(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserInfo;
    use crate::testing::snapshot;
    use proptest::prelude::*;
    use serde_json::json;
    use std::sync::Arc;

    fn rule(verbs: &[&str], resources: &[&str], names: &[&str]) -> PolicyRule {
        let list = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect();
        PolicyRule {
            verbs: list(verbs),
            api_groups: list(&[""]),
            resources: list(resources),
            resource_names: list(names),
            ..PolicyRule::default()
        }
    }

    fn view() -> RbacView {
        let role = |name: &str, rules: Value| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
                   "rules": rules})
        };
        RbacView::read(
            &snapshot(&[
                role("reader", json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}])),
                role("admin", json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                   "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "reader"},
                   "subjects": [{"kind": "User", "name": "ann"}]}),
            ]),
            None,
        )
    }

    fn asked(resource: &str) -> Attributes {
        let user = Arc::new(UserInfo::new("ann", ["g1", "g2"]));
        Attributes { user, verb: "create".into(), group: GROUP.into(), resource: resource.into(), ..Default::default() }
    }

    #[test]
    fn a_role_beyond_ones_own_is_refused_in_upstreams_words() {
        let new = json!({"metadata": {"name": "r"}, "rules": [
            {"verbs": ["get", "delete", "create"], "apiGroups": [""], "resources": ["pods"]},
        ]});
        let refused = check_role(&view(), &asked("clusterroles"), &|_| false, None, &new).unwrap_err();
        assert_eq!(
            refused.message,
            "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: user \"ann\" (groups=[\"g1\" \"g2\"]) is \
             attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], \
             Verbs:[\"delete\" \"create\"]}"
        );
        let may_escalate = |a: &Attributes| a.verb == "escalate" && a.name == "r";
        assert_eq!(check_role(&view(), &asked("clusterroles"), &may_escalate, None, &new), Ok(()));
        assert_eq!(check_role(&view(), &asked("clusterroles"), &|_| false, Some(&new), &new), Ok(()), "unchanged");
        let less = json!({"metadata": {"name": "r"}, "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        ]});
        assert_eq!(check_role(&view(), &asked("clusterroles"), &|_| false, None, &less), Ok(()));
    }

    #[test]
    fn aggregation_needs_full_authority() {
        let new = json!({"metadata": {"name": "r"}, "rules": [], "aggregationRule": {"clusterRoleSelectors": []}});
        let refused = check_role(&view(), &asked("clusterroles"), &|_| false, None, &new).unwrap_err();
        assert!(refused.message.ends_with("must have cluster-admin privileges to use an aggregationRule"));
    }

    #[test]
    fn a_binding_needs_the_roles_rules_or_bind() {
        let bind = |role: &str| json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": []});
        let check = |role: &str, may: &dyn Fn(&Attributes) -> bool| {
            check_binding(&view(), &asked("clusterrolebindings"), may, None, &bind(role)).map_err(|e| e.code)
        };
        assert_eq!(check("reader", &|_| false), Ok(()));
        assert_eq!(check("admin", &|_| false), Err(403));
        assert_eq!(check("admin", &|a| a.verb == "bind" && a.resource == "clusterroles"), Ok(()));
        assert_eq!(check("absent", &|_| false), Err(404));
    }

    #[test]
    fn huge_roles_are_refused_not_multiplied_out() {
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let huge = PolicyRule {
            verbs: many.clone(),
            api_groups: many.clone(),
            resources: many.clone(),
            resource_names: many,
            ..PolicyRule::default()
        };
        assert!(covers(&[], &[huge]).is_err());
    }

    proptest! {
        /// What is covered by the held rules is allowed by them: nobody gains a permission.
        #[test]
        fn covered_means_allowed(
            held in proptest::collection::vec((0usize..3, 0usize..4, 0usize..3), 0..4),
            wanted in (0usize..3, 0usize..4, 0usize..3),
        ) {
            let make = |(verb, resource, name): (usize, usize, usize)| rule(
                [&["get"][..], &["*"], &["get", "list"]][verb],
                [&["pods"][..], &["*"], &["*/log"], &["pods/log", "pods"]][resource],
                [&[][..], &["a"], &["a", "b"]][name],
            );
            let held: Vec<PolicyRule> = held.into_iter().map(make).collect();
            let wanted = make(wanted);
            prop_assume!(covers(&held, std::slice::from_ref(&wanted)).is_ok_and(|missing| missing.is_empty()));
            for verb in ["get", "list", "delete"] {
                for (resource, sub) in [("pods", ""), ("pods", "log"), ("nodes", ""), ("nodes", "log")] {
                    for name in ["", "a", "b", "c"] {
                        let asked = Attributes {
                            verb: verb.into(), resource: resource.into(), subresource: sub.into(), name: name.into(),
                            ..Attributes::default()
                        };
                        let has = held.iter().any(|rule| rule.allows(&asked));
                        prop_assert!(!wanted.allows(&asked) || has, "{held:?} {wanted:?} {asked:?}");
                    }
                }
            }
        }
    }
}
