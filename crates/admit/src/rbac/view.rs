//! Roles and bindings of a snapshot, indexed by whom they are about.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use meta::ObjectExt;
use serde_json::Value;
use store::{Entry, Revision, Snapshot};

use super::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, PolicyRule, ROLE_BINDINGS, ROLES};
use crate::authorizer::Decision;
use crate::user::service_account_name;
use crate::{Attributes, UserInfo};

/// What role-based decisions are made on. Immutable; made anew when one of the four collections changes.
#[derive(Default)]
pub struct RbacView {
    cluster_roles: Parsed<Vec<PolicyRule>>,
    roles: Parsed<Vec<PolicyRule>>,
    parsed_bindings: [Parsed<Binding>; 2],
    cluster_bindings: Bindings,
    bindings: BTreeMap<String, Bindings>,
}

/// What the items of a collection say, with the revision at which each was read. (The entry's own memo is left to
/// the view of the controllers, which wants another form of the same entries.)
type Parsed<T> = BTreeMap<Arc<str>, (Revision, Arc<T>)>;

struct Binding {
    name: String,
    namespace: String,
    role_kind: String,
    role_name: String,
    subjects: Vec<Subject>,
}

struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// The bindings of one scope in order of their names, and where each user and group occurs in them.
#[derive(Default)]
struct Bindings {
    list: Vec<Arc<Binding>>,
    users: BTreeMap<String, Vec<Place>>,
    groups: BTreeMap<String, Vec<Place>>,
}

/// Index of a binding, index of the subject in it.
type Place = (usize, usize);

/// Why a rule applies to a user; shown in audit and in reviews.
pub struct RuleSource<'v> {
    binding: &'v Binding,
    subject: &'v Subject,
}

/// Every rule that applies to a user, and what could not be resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectRules {
    /// The rules, in the order of their bindings.
    pub rules: Vec<PolicyRule>,
    /// Roles that bindings name and nobody has.
    pub errors: Vec<String>,
}

impl RbacView {
    /// Reads the four collections; what has not changed since `previous` is not parsed again.
    pub fn read(snapshot: &Snapshot, previous: Option<&RbacView>) -> Self {
        let [cluster_bindings, bindings] = match previous.map(|view| &view.parsed_bindings) {
            Some([cluster, local]) => [Some(cluster), Some(local)],
            None => [None, None],
        };
        let mut view = Self {
            cluster_roles: parsed(snapshot, CLUSTER_ROLES, previous.map(|v| &v.cluster_roles), PolicyRule::of_role),
            roles: parsed(snapshot, ROLES, previous.map(|v| &v.roles), PolicyRule::of_role),
            parsed_bindings: [
                parsed(snapshot, CLUSTER_ROLE_BINDINGS, cluster_bindings, binding),
                parsed(snapshot, ROLE_BINDINGS, bindings, binding),
            ],
            ..Self::default()
        };
        view.index();
        view
    }

    fn index(&mut self) {
        let [cluster, local] = &self.parsed_bindings;
        for (_, binding) in cluster.values() {
            self.cluster_bindings.add(Arc::clone(binding));
        }
        for (_, binding) in local.values() {
            self.bindings.entry(binding.namespace.clone()).or_default().add(Arc::clone(binding));
        }
    }

    /// Whether some rule that applies to the asker allows the request.
    pub fn authorize(&self, asked: &Attributes) -> Decision {
        let mut errors = Vec::new();
        let found = self.visit(&asked.user, &asked.namespace, |visited| match visited {
            Ok((source, rule)) if rule.allows(asked) => ControlFlow::Break(source.to_string()),
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => {
                errors.push(error);
                ControlFlow::Continue(())
            }
        });
        match found {
            ControlFlow::Break(source) => Decision::Allow { reason: format!("RBAC: allowed by {source}") },
            ControlFlow::Continue(()) if errors.is_empty() => Decision::NoOpinion { reason: String::new() },
            ControlFlow::Continue(()) => Decision::NoOpinion { reason: format!("RBAC: {}", joined(&errors)) },
        }
    }

    /// Every rule that applies to `user` in `namespace` (cluster-wide ones alone when it is empty).
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> SubjectRules {
        let mut found = SubjectRules::default();
        let _ = self.visit(user, namespace, |visited| {
            match visited {
                Ok((_, rule)) => found.rules.push(rule.clone()),
                Err(error) => found.errors.push(error),
            }
            ControlFlow::<()>::Continue(())
        });
        found
    }

    /// The rules of the role that a binding in `namespace` names; the error is upstream's sentence.
    pub fn role_rules(&self, kind: &str, name: &str, namespace: &str) -> Result<&[PolicyRule], String> {
        let (role, word) = match kind {
            "ClusterRole" => (self.cluster_roles.get(name), "clusterrole"),
            "Role" => (self.roles.get(format!("{namespace}/{name}").as_str()), "role"),
            other => return Err(format!("unsupported role reference kind: {other:?}")),
        };
        match role {
            Some((_, rules)) => Ok(rules),
            None => Err(format!("{word}.{} {name:?} not found", super::GROUP)),
        }
    }

    fn visit<'v, B>(
        &'v self,
        user: &UserInfo,
        namespace: &str,
        mut visitor: impl FnMut(Result<(&RuleSource<'v>, &'v PolicyRule), String>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let local = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        for bindings in [Some(&self.cluster_bindings), local].into_iter().flatten() {
            for (binding, subject) in bindings.places_of(user) {
                let binding = &bindings.list[binding];
                let source = RuleSource { binding, subject: &binding.subjects[subject] };
                match self.role_rules(&binding.role_kind, &binding.role_name, &binding.namespace) {
                    Ok(rules) => rules.iter().try_for_each(|rule| visitor(Ok((&source, rule))))?,
                    Err(error) => visitor(Err(error))?,
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Bindings {
    fn add(&mut self, binding: Arc<Binding>) {
        let at = self.list.len();
        for (index, subject) in binding.subjects.iter().enumerate() {
            let (map, key) = match subject.kind.as_str() {
                "User" => (&mut self.users, subject.name.clone()),
                "Group" => (&mut self.groups, subject.name.clone()),
                "ServiceAccount" => match subject.account_namespace(&binding.namespace) {
                    "" => continue,
                    namespace => (&mut self.users, service_account_name(namespace, &subject.name)),
                },
                _ => continue,
            };
            map.entry(key).or_default().push((at, index));
        }
        self.list.push(binding);
    }

    /// The places that apply to `user`: bindings in order, each once, by its first matching subject.
    fn places_of(&self, user: &UserInfo) -> Vec<Place> {
        let by_group = user.groups.iter().filter_map(|group| self.groups.get(group));
        let mut places: Vec<Place> =
            self.users.get(&user.name).into_iter().chain(by_group).flatten().copied().collect();
        places.sort_unstable();
        places.dedup_by_key(|(binding, _)| *binding);
        places
    }
}

impl Subject {
    fn account_namespace<'s>(&'s self, binding_namespace: &'s str) -> &'s str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }
}

impl fmt::Display for RuleSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding { name, namespace, role_kind, role_name, .. } = self.binding;
        let subject = match self.subject.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", self.subject.name, self.subject.account_namespace(namespace)),
            _ => self.subject.name.clone(),
        };
        let (kind, name) = match namespace.as_str() {
            "" => ("ClusterRoleBinding", name.clone()),
            namespace => ("RoleBinding", format!("{name}/{namespace}")),
        };
        write!(f, "{kind} {name:?} of {role_kind} {role_name:?} to {} {subject:?}", self.subject.kind)
    }
}

/// One error as it is, several in brackets, each once: how upstream joins errors.
pub(crate) fn joined(errors: &[String]) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for error in errors {
        if !unique.contains(&error.as_str()) {
            unique.push(error);
        }
    }
    match unique[..] {
        [only] => only.to_owned(),
        _ => format!("[{}]", unique.join(", ")),
    }
}

fn parsed<T>(
    snapshot: &Snapshot,
    collection: &str,
    previous: Option<&Parsed<T>>,
    parse: impl Fn(&Value) -> T,
) -> Parsed<T> {
    let read = |name: &Arc<str>, entry: &Arc<Entry>| {
        let known = previous.and_then(|known| known.get(name)).filter(|(revision, _)| *revision == entry.modified);
        known.cloned().unwrap_or_else(|| (entry.modified, Arc::new(parse(&tree(&entry.value)))))
    };
    snapshot.range(collection, "", "").map(|(name, entry)| (Arc::clone(name), read(name, entry))).collect()
}

fn binding(object: &Value) -> Binding {
    Binding {
        name: object.name().to_owned(),
        namespace: object.namespace().to_owned(),
        role_kind: object.text(&["roleRef", "kind"]).to_owned(),
        role_name: object.text(&["roleRef", "name"]).to_owned(),
        subjects: object.items(&["subjects"]).iter().map(subject).collect(),
    }
}

fn subject(subject: &Value) -> Subject {
    let text = |field: &str| subject.text(&[field]).to_owned();
    Subject { kind: text("kind"), name: text("name"), namespace: text("namespace") }
}

/// What is stored was encoded by us; what cannot be read grants nothing.
fn tree(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::snapshot;
    use serde_json::json;

    fn role(kind: &str, namespace: &str, name: &str, resource: &str) -> Value {
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
        let metadata = match namespace {
            "" => json!({"name": name}),
            _ => json!({"name": name, "namespace": namespace}),
        };
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "rules": [rule]})
    }

    fn bind(namespace: &str, name: &str, role: &str, subjects: Value) -> Value {
        let (kind, metadata) = match namespace {
            "" => ("ClusterRoleBinding", json!({"name": name})),
            _ => ("RoleBinding", json!({"name": name, "namespace": namespace})),
        };
        let (role_kind, role_name) = role.split_once(':').expect("kind:name");
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "roleRef": {"kind": role_kind, "name": role_name}, "subjects": subjects,
        })
    }

    fn view() -> RbacView {
        RbacView::read(
            &snapshot(&[
                role("ClusterRole", "", "reader", "pods"),
                role("Role", "a", "secret-reader", "secrets"),
                bind("", "everywhere", "ClusterRole:reader", json!([{"kind": "Group", "name": "ops"}])),
                bind("a", "here", "Role:secret-reader", json!([{"kind": "ServiceAccount", "name": "bot"}])),
                bind("a", "pods", "ClusterRole:reader", json!([{"kind": "User", "name": "ann"}])),
                bind("b", "dangling", "Role:nowhere", json!([{"kind": "User", "name": "ann"}])),
            ]),
            None,
        )
    }

    fn ask(user: UserInfo, namespace: &str, resource: &str) -> Decision {
        view().authorize(&Attributes {
            user: Arc::new(user),
            verb: "get".into(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: "x".into(),
            ..Attributes::default()
        })
    }

    fn allowed(reason: &str) -> Decision {
        Decision::Allow { reason: reason.into() }
    }

    fn silent(reason: &str) -> Decision {
        Decision::NoOpinion { reason: reason.into() }
    }

    #[test]
    fn decides_like_upstream() {
        let ops = || UserInfo::new("o", ["ops"]);
        let ann = || UserInfo::new("ann", [""; 0]);
        let by_group = "RBAC: allowed by ClusterRoleBinding \"everywhere\" of ClusterRole \"reader\" to Group \"ops\"";
        assert_eq!(ask(ops(), "a", "pods"), allowed(by_group));
        assert_eq!(ask(ops(), "", "pods"), allowed(by_group));
        assert_eq!(ask(ops(), "a", "secrets"), silent(""));
        let by_name = "RBAC: allowed by RoleBinding \"pods/a\" of ClusterRole \"reader\" to User \"ann\"";
        assert_eq!(ask(ann(), "a", "pods"), allowed(by_name));
        assert_eq!(ask(ann(), "", "pods"), silent(""));
        let missing = "RBAC: role.rbac.authorization.k8s.io \"nowhere\" not found";
        assert_eq!(ask(ann(), "b", "pods"), silent(missing));
        let bot = UserInfo::service_account("a", "bot", "1");
        let by_account =
            "RBAC: allowed by RoleBinding \"here/a\" of Role \"secret-reader\" to ServiceAccount \"bot/a\"";
        assert_eq!(ask(bot, "a", "secrets"), allowed(by_account));
        assert_eq!(ask(UserInfo::service_account("b", "bot", "1"), "a", "secrets"), silent(""));
    }

    #[test]
    fn rules_for_are_those_that_apply() {
        let found = view().rules_for(&UserInfo::new("ann", ["ops"]), "b");
        assert_eq!(found.rules.len(), 1);
        assert_eq!(found.errors, ["role.rbac.authorization.k8s.io \"nowhere\" not found"]);
    }
}
