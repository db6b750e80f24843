//! One operation: its name, parameters, body and answers.

use kinds::KindDef;
use serde_json::{Value, json};

use super::definitions::{DELETE_OPTIONS, PATCH, STATUS, Version, gvk_value, list_name_of, name_of};

/// Query parameters by what they belong to, with their types.
type Parameters = &'static [(&'static str, &'static str)];
const OF_LIST: Parameters = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const OF_WRITE: Parameters = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const OF_PATCH: Parameters = &[("force", "boolean")];
const OF_DELETE: Parameters = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
/// What a deletion of a collection shares with a list.
const OF_DELETE_COLLECTION: Parameters = &[
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
];

/// Where an operation stands.
#[derive(Clone, Copy)]
pub struct Place<'k> {
    /// The resource's kind.
    pub kind: &'k KindDef,
    /// The kind spoken there when it is another.
    pub spoken: Option<&'k KindDef>,
    /// Empty for the resource itself.
    pub subresource: &'k str,
    /// A namespaced resource's collection over all namespaces.
    pub all_namespaces: bool,
}

impl<'k> Place<'k> {
    /// Whether the verb is served here.
    pub fn serves(&self, verb: &str) -> bool {
        match self.kind.subresource(self.subresource) {
            Some(subresource) => subresource.verbs.contains(&verb),
            None => self.kind.verbs.is_empty() || self.kind.verbs.contains(&verb),
        }
    }

    /// The kind spoken here.
    fn speaks(&self) -> &'k KindDef {
        self.spoken.unwrap_or(self.kind)
    }
}

/// One verb at a place.
pub struct Operation<'p> {
    pub version: Version,
    pub place: &'p Place<'p>,
    pub verb: &'static str,
}

impl Operation<'_> {
    /// The HTTP method.
    pub fn method(&self) -> &'static str {
        match self.verb {
            "create" => "post",
            "update" => "put",
            "patch" => "patch",
            "delete" | "deletecollection" => "delete",
            _ => "get",
        }
    }

    /// As `x-kubernetes-action` says it.
    fn action(&self) -> &'static str {
        match self.verb {
            "create" => "post",
            "update" => "put",
            other => other,
        }
    }

    /// The operation object.
    pub fn to_value(&self) -> Value {
        let mut operation = json!({
            "operationId": self.id(),
            "tags": [self.tag()],
            "parameters": self.parameters(),
            "responses": self.responses(),
            "x-kubernetes-action": self.action(),
            "x-kubernetes-group-version-kind": gvk_value(&self.place.speaks().gvk()),
        });
        match self.version {
            Version::V2 => {
                operation["consumes"] = json!(if self.verb == "patch" { self.patches() } else { vec!["*/*"] });
                operation["produces"] = json!(["application/json"]);
            }
            Version::V3 => self.put_request_body(&mut operation),
        }
        operation
    }

    /// `listCoreV1NamespacedPod` and the like, as generators of clients expect.
    fn id(&self) -> String {
        let kind = self.place.kind;
        let verb = match self.verb {
            "get" => "read",
            "update" => "replace",
            "deletecollection" => "delete",
            other => other,
        };
        let collection = if self.verb == "deletecollection" { "Collection" } else { "" };
        let namespaced = if kind.is_namespaced() && !self.place.all_namespaces { "Namespaced" } else { "" };
        let everywhere = if self.place.all_namespaces { "ForAllNamespaces" } else { "" };
        let (group, version) = (camel(group_word(kind)), camel(&kind.version));
        let subresource = camel(self.place.subresource);
        format!("{verb}{group}{version}{collection}{namespaced}{}{subresource}{everywhere}", kind.kind)
    }

    fn tag(&self) -> String {
        let kind = self.place.kind;
        format!("{}_{}", group_word(kind).split('.').collect::<String>(), kind.version)
    }

    fn parameters(&self) -> Vec<Value> {
        let lists: &[Parameters] = match self.verb {
            "list" => &[OF_LIST],
            "create" | "update" => &[OF_WRITE],
            "patch" => &[OF_WRITE, OF_PATCH],
            "delete" => &[OF_DELETE],
            "deletecollection" => &[OF_DELETE, OF_DELETE_COLLECTION],
            _ => &[],
        };
        let query = lists.iter().flat_map(|list| list.iter());
        let query = query.map(|(name, kind)| query_parameter(self.version, name, kind));
        query.chain(self.body_parameter()).collect()
    }

    /// v2 has the body among the parameters.
    fn body_parameter(&self) -> Option<Value> {
        let name = self.body().filter(|_| self.version == Version::V2)?;
        let mut parameter = json!({"in": "body", "name": "body", "schema": self.version.reference(&name)});
        if self.body_is_required() {
            parameter["required"] = json!(true);
        }
        Some(parameter)
    }

    fn body_is_required(&self) -> bool {
        self.method() != "delete"
    }

    /// The type of the body.
    fn body(&self) -> Option<String> {
        match self.verb {
            "create" | "update" => Some(name_of(self.place.speaks())),
            "patch" => Some(PATCH.to_owned()),
            "delete" | "deletecollection" => Some(DELETE_OPTIONS.to_owned()),
            _ => None,
        }
    }

    fn put_request_body(&self, operation: &mut Value) {
        let Some(name) = self.body() else { return };
        let content = || json!({"schema": self.version.reference(&name)});
        let types = if self.verb == "patch" { self.patches() } else { vec!["*/*"] };
        let content: serde_json::Map<_, _> = types.into_iter().map(|kind| (kind.to_owned(), content())).collect();
        operation["requestBody"] = json!({"content": content});
        if self.body_is_required() {
            operation["requestBody"]["required"] = json!(true);
        }
    }

    fn patches(&self) -> Vec<&'static str> {
        api::accepted_patches(self.place.kind.custom.is_some()).to_vec()
    }

    /// The type of the answer.
    fn answer(&self) -> String {
        match self.verb {
            "list" => list_name_of(self.place.kind),
            "delete" | "deletecollection" => STATUS.to_owned(),
            _ => name_of(self.place.speaks()),
        }
    }

    fn responses(&self) -> Value {
        let codes: &[(&str, &str)] = match self.verb {
            "create" => &[("200", "OK"), ("201", "Created"), ("202", "Accepted")],
            "update" | "patch" => &[("200", "OK"), ("201", "Created")],
            "delete" => &[("200", "OK"), ("202", "Accepted")],
            _ => &[("200", "OK")],
        };
        let schema = self.version.reference(&self.answer());
        let mut responses = serde_json::Map::new();
        for (code, description) in codes {
            let response = match self.version {
                Version::V2 => json!({"description": description, "schema": schema}),
                Version::V3 => {
                    json!({"description": description, "content": {"application/json": {"schema": schema}}})
                }
            };
            responses.insert((*code).to_owned(), response);
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        Value::Object(responses)
    }
}

/// `core`, `apps`, `rbac.authorization`, `stable.example.com`.
fn group_word(kind: &KindDef) -> &str {
    match &*kind.group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    }
}

/// `rbac.authorization` as `RbacAuthorization`.
fn camel(text: &str) -> String {
    let words = text.split(['.', '-']).filter_map(|word| {
        let (first, rest) = word.split_at_checked(1)?;
        Some(format!("{}{rest}", first.to_ascii_uppercase()))
    });
    words.collect()
}

/// A part of the path.
pub fn path_parameter(version: Version, name: &str) -> Value {
    let mut parameter = parameter(version, "path", name, "string");
    parameter["required"] = json!(true);
    parameter
}

/// A part of the query.
pub fn query_parameter(version: Version, name: &str, kind: &str) -> Value {
    parameter(version, "query", name, kind)
}

fn parameter(version: Version, place: &str, name: &str, kind: &str) -> Value {
    let mut parameter = json!({"in": place, "name": name, "uniqueItems": true});
    match version {
        Version::V2 => parameter["type"] = json!(kind),
        Version::V3 => {
            parameter["schema"] = json!({"type": kind, "uniqueItems": true});
            parameter.as_object_mut().map(|map| map.remove("uniqueItems"));
        }
    }
    parameter
}
