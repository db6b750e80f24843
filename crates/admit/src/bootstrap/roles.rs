//! The default roles and bindings, read from the facts file.

use meta::ObjectExt;
use serde_json::{Map, Value, json};

use crate::rbac::{GROUP, PolicyRule};

const FACTS: &str = include_str!("roles.txt");

/// Every default ClusterRole, Role, ClusterRoleBinding and RoleBinding.
pub fn roles() -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for line in FACTS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match (line.strip_prefix("  "), out.last_mut()) {
            (Some(rule), Some(role)) => push_rule(role, rule),
            _ => out.push(head(line)),
        }
    }
    out
}

/// The rules of one default ClusterRole; empty when there is none of that name.
pub fn cluster_role_rules(name: &str) -> Vec<PolicyRule> {
    let is = |object: &Value| object.text(&["kind"]) == "ClusterRole" && object.name() == name;
    roles().iter().find(|object| is(object)).map(PolicyRule::of_role).unwrap_or_default()
}

/// The service account of a controller: upstream's, which its role is bound to. A few are not called `-controller`.
pub fn controller_account(name: &str) -> String {
    let has_role = !cluster_role_rules(&format!("system:controller:{name}")).is_empty();
    if has_role { name.to_owned() } else { format!("{name}-controller") }
}

fn push_rule(role: &mut Value, line: &str) {
    let mut rule = rule(line);
    // Upstream's controllers update where ours patch: whoever may replace an object may change a part of it, so
    // this grants nothing more.
    if role.name().starts_with("system:controller:") && rule.verbs.iter().any(|v| v == "update") {
        rule.verbs.push("patch".to_owned());
        rule.verbs.sort();
        rule.verbs.dedup();
    }
    let rule = rule.to_value();
    if let Some(Value::Array(rules)) = role.get_mut("rules") {
        rules.push(rule);
    }
}

fn rule(line: &str) -> PolicyRule {
    let mut columns = line.split(' ').map(list);
    let mut next = || columns.next().unwrap_or_default();
    let (verbs, second, third) = (next(), next(), next());
    if second == ["url"] {
        return PolicyRule { verbs, non_resource_urls: third, ..PolicyRule::default() };
    }
    PolicyRule { verbs, api_groups: second, resources: third, resource_names: next(), ..PolicyRule::default() }
}

fn list(column: &str) -> Vec<String> {
    column.split(',').map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
}

fn head(line: &str) -> Value {
    let mut words = line.split(' ');
    let (word, full_name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let kind = match word {
        "clusterrole" => "ClusterRole",
        "role" => "Role",
        "clusterbinding" => "ClusterRoleBinding",
        _ => "RoleBinding",
    };
    let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind});
    let name = match full_name.split_once('/') {
        Some((namespace, name)) => {
            object.put(&["metadata", "namespace"], namespace);
            name
        }
        None => full_name,
    };
    object.put(&["metadata", "name"], name);
    object.put(&["metadata", "annotations", "rbac.authorization.kubernetes.io/autoupdate"], "true");
    object.put(&["metadata", "labels", "kubernetes.io/bootstrapping"], "rbac-defaults");
    if kind.ends_with("Binding") {
        finish_binding(&mut object, words);
    } else {
        finish_role(&mut object, words);
    }
    object
}

fn finish_role<'w>(object: &mut Value, words: impl Iterator<Item = &'w str>) {
    object.put(&["rules"], Value::Array(Vec::new()));
    let mut selectors = Vec::new();
    for word in words {
        let (sign, label) = word.split_at(1);
        let label = format!("{}/{label}", "rbac.authorization.k8s.io");
        if sign == "=" {
            selectors.push(json!({"matchLabels": {label: "true"}}));
        } else {
            object.put(&["metadata", "labels", &label], "true");
        }
    }
    if !selectors.is_empty() {
        object.put(&["aggregationRule", "clusterRoleSelectors"], selectors);
    }
}

fn finish_binding<'w>(object: &mut Value, mut words: impl Iterator<Item = &'w str>) {
    let (word, role) = words.next().and_then(|role| role.split_once(':')).unwrap_or_default();
    let kind = if word == "clusterrole" { "ClusterRole" } else { "Role" };
    object.put(&["roleRef"], json!({"apiGroup": GROUP, "kind": kind, "name": role}));
    let subjects: Vec<Value> = words.filter_map(|word| word.split_once(':')).map(|(k, n)| subject(k, n)).collect();
    if !subjects.is_empty() {
        object.put(&["subjects"], subjects);
    }
}

fn subject(word: &str, name: &str) -> Value {
    let mut out = Map::new();
    match (word, name.split_once('/')) {
        ("sa", Some((namespace, name))) => {
            out.extend([("kind", "ServiceAccount"), ("name", name), ("namespace", namespace)].map(pair));
        }
        ("user", _) => out.extend([("kind", "User"), ("name", name), ("apiGroup", GROUP)].map(pair)),
        _ => out.extend([("kind", "Group"), ("name", name), ("apiGroup", GROUP)].map(pair)),
    }
    Value::Object(out)
}

fn pair((key, text): (&str, &str)) -> (String, Value) {
    (key.to_owned(), json!(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(kind: &str, name: &str) -> Value {
        let all = roles();
        all.into_iter().find(|o| o.text(&["kind"]) == kind && o.name() == name).expect("is among the defaults")
    }

    #[test]
    fn facts_become_objects() {
        assert_eq!(
            find("ClusterRole", "cluster-admin")["rules"],
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ])
        );
        let edit = find("ClusterRole", "edit");
        assert_eq!(edit.label("rbac.authorization.k8s.io/aggregate-to-admin"), Some("true"));
        assert_eq!(
            edit["aggregationRule"]["clusterRoleSelectors"],
            json!([{"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}])
        );
        assert_eq!(
            find("ClusterRoleBinding", "cluster-admin")["subjects"],
            json!([{"apiGroup": GROUP, "kind": "Group", "name": "system:masters"}])
        );
        let signer = find("RoleBinding", "system:controller:bootstrap-signer");
        let account = json!({"kind": "ServiceAccount", "name": "bootstrap-signer", "namespace": "kube-system"});
        assert_eq!(signer["subjects"][0], account);
    }

    #[test]
    fn every_binding_names_a_default_role() {
        let all = roles();
        let has = |kind: &str, namespace: &str, name: &str| {
            all.iter().any(|o| o.text(&["kind"]) == kind && o.name() == name && o.namespace() == namespace)
        };
        for binding in all.iter().filter(|o| o.get("roleRef").is_some()) {
            let (kind, name) = (binding.text(&["roleRef", "kind"]), binding.text(&["roleRef", "name"]));
            let namespace = if kind == "Role" { binding.namespace() } else { "" };
            assert!(has(kind, namespace, name), "{} names {kind} {name}", binding.name());
        }
    }

    #[test]
    fn every_rule_has_verbs_and_a_target() {
        for role in roles().iter().filter(|o| o.get("rules").is_some()) {
            for rule in PolicyRule::of_role(role) {
                let target = rule.resources.is_empty() != rule.non_resource_urls.is_empty();
                assert!(target && !rule.verbs.is_empty(), "{}: {rule:?}", role.name());
            }
        }
    }
}
