//! The declaration of a kind.

use std::borrow::Cow;
use std::sync::Arc;

use meta::{FieldError, GroupKind, GroupResource, GroupVersion, Gvk, Gvr, ObjectExt, Time, condition};
use schema::Link;
use serde_json::Value;

/// Text that is static for built-in kinds and owned for custom ones.
pub type Text = Cow<'static, str>;

/// Everything there is to know about one kind at one version.
#[derive(Clone)]
pub struct KindDef {
    /// API group; empty for the legacy group.
    pub group: Text,
    /// Version.
    pub version: Text,
    /// CamelCase kind.
    pub kind: Text,
    /// Kind of the list; `FooList` unless declared otherwise.
    pub list_kind: Text,
    /// Lower-case plural, as in addresses.
    pub plural: Text,
    /// Lower-case singular.
    pub singular: Text,
    /// What kubectl users type.
    pub short_names: Vec<Text>,
    /// Such as `all`.
    pub categories: Vec<Text>,
    /// Namespaced or not.
    pub scope: Scope,
    /// Its schema.
    pub schema: Link,
    /// Verbs served; empty means all eight of an ordinary resource.
    pub verbs: Vec<&'static str>,
    /// Subresources served beside the object itself.
    pub subresources: Vec<Subresource>,
    /// Whether `metadata.generation` counts changes of what is desired.
    pub counts_generation: bool,
    /// Stored outside the durable log (Leases, Events).
    pub volatile: bool,
    /// Never stored: create answers and forgets (reviews, bindings).
    pub virtual_only: bool,
    /// Columns of the table form; name and age are declared like the others.
    pub columns: Vec<Column>,
    /// Fields that field selectors may name, beside `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<SelectableField>,
    /// Where replicas stand, for the scale subresource.
    pub scale: Option<ScalePaths>,
    /// Paths (dot-separated) whose values are secrets: redacted in plans, logs and errors.
    pub secret_fields: Vec<&'static str>,
    /// Lower is applied earlier and deleted later.
    pub apply_order: u16,
    /// Deleting it deletes dependents in the background unless the request says otherwise (`false` = orphan).
    pub cascades_by_default: bool,
    /// Graceful deletion: the grace in seconds by object and what the request asks for; `None` deletes at once.
    pub grace_seconds: Option<fn(&Value, Option<i64>) -> i64>,
    /// The version that is stored, when it is not this one.
    pub conversion: Option<Conversion>,
    /// What it means for such an object to be converged.
    pub health: Health,
    /// Defaults and checks.
    pub rules: Rules,
    /// A minimal valid object; decoded, defaulted and validated by the table's own test.
    pub example: &'static str,
    /// For custom kinds: the name of the CustomResourceDefinition.
    pub custom: Option<Arc<str>>,
    /// Deprecation warning sent with every answer, if any.
    pub deprecated: Option<Text>,
}

/// Whether objects live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// Cluster-wide.
    Cluster,
}

/// What stands behind the object's own address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// `status`, `scale`, `eviction`, `log`, ...
    pub name: Text,
    /// Kind spoken there, when it is not the object's own.
    pub kind: Option<Gvk>,
    /// Verbs served there.
    pub verbs: Vec<&'static str>,
}

/// A resource address without a name: what discovery lists.
pub type Resource = Gvr;

/// A column of the table form.
#[derive(Clone)]
pub struct Column {
    /// Heading.
    pub name: Text,
    /// `string`, `integer`, `number`, `boolean`, `date`.
    pub kind: Text,
    /// OpenAPI format, `name` for the name column, else empty.
    pub format: Text,
    /// For people.
    pub description: Text,
    /// 0 always shown, above 0 only with `-o wide`.
    pub priority: i32,
    /// How the cell is made.
    pub cell: Cell,
}

/// How a cell is made.
#[derive(Clone)]
pub enum Cell {
    /// From the whole object; the time is for ages (which upstream renders server-side as durations, `5m`).
    Of(fn(&Value, Time) -> Value),
    /// JSONPath of a printer column (custom kinds).
    JsonPath(Text),
}

/// A field that selectors may name.
#[derive(Clone)]
pub struct SelectableField {
    /// As selectors write it, e.g. `spec.nodeName`.
    pub label: Text,
    /// Reads it; the empty text when absent.
    pub read: fn(&Value, &str) -> String,
}

/// Where the numbers of the scale subresource stand (dot paths without leading dot).
#[derive(Clone, Debug)]
pub struct ScalePaths {
    /// Desired replicas, e.g. `spec.replicas`.
    pub spec: Text,
    /// Observed replicas.
    pub status: Text,
    /// The selector.
    pub selector: SelectorAt,
}

/// Where and in what form the selector stands.
#[derive(Clone, Debug)]
pub enum SelectorAt {
    /// A `metav1.LabelSelector`.
    LabelSelector(Text),
    /// A plain map.
    Map(Text),
    /// The text form.
    Text(Text),
    /// None declared.
    Absent,
}

/// Stored at another version: how to get there and back.
#[derive(Clone)]
pub struct Conversion {
    /// Group, version and kind that are stored.
    pub hub: Gvk,
    /// Plural of the hub, for the storage collection.
    pub hub_plural: Text,
    /// From this version to the hub. Loses nothing: what the hub cannot say travels in annotations.
    pub to_hub: fn(&mut Value),
    /// Back.
    pub from_hub: fn(&mut Value),
}

/// What is being written by an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOf {
    /// The object's own address: status is not touched.
    Main,
    /// The status subresource: only status (and what upstream lets through) is touched.
    Status,
    /// Another subresource, by name (`ephemeralcontainers`, `resize`, `approval`, `finalize`).
    Other(&'static str),
}

/// Is it converged? A pure judgement of one object: the deeper cause is found by walking what it owns.
#[derive(Clone)]
pub enum Health {
    /// Exists, therefore converged (ConfigMap).
    Static,
    /// `status.observedGeneration` and the standard conditions decide.
    Conditions,
    /// The kind's own rule.
    Of(fn(&Value) -> Converged),
}

impl Health {
    /// Whether an object is as it should be.
    pub fn judge(&self, object: &Value) -> Converged {
        if object.is_deleting() {
            let held: Vec<&str> = object.finalizers().collect();
            let by = if held.is_empty() { String::new() } else { format!(", held by {}", held.join(", ")) };
            return Converged::Progressing(format!("is being deleted{by}"));
        }
        match self {
            Health::Static => Converged::Yes,
            Health::Of(rule) => rule(object),
            Health::Conditions => by_conditions(object),
        }
    }
}

fn by_conditions(object: &Value) -> Converged {
    let seen = object.int(&["status", "observedGeneration"]);
    if seen.is_some_and(|seen| seen < object.generation()) {
        return Converged::Progressing("its controller has not seen it yet".to_owned());
    }
    match condition::find(object, "Ready") {
        Some(ready) if ready.text(&["status"]) == "False" => {
            Converged::Progressing(ready.text(&["message"]).to_owned())
        }
        _ => Converged::Yes,
    }
}

/// The answer of [`Health`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Converged {
    /// As it should be.
    Yes,
    /// On the way; says what is still missing.
    Progressing(String),
    /// Will not get there without help; says why.
    Failed(String),
}

/// The kind's own behaviour, as plain functions. Each has a do-nothing default.
#[derive(Clone)]
pub enum Rules {
    /// Written in the kind's file.
    BuiltIn(BuiltInRules),
    /// From a CustomResourceDefinition; the schema says it all, `admit` evaluates it.
    Custom,
}

/// A built-in kind's functions. They see the object at this version, after decoding against the schema.
#[derive(Clone, Copy)]
pub struct BuiltInRules {
    /// Fills in what upstream fills in. Idempotent.
    pub default: fn(&mut Value),
    /// Before create: drops what clients may not set (status), computes server-owned fields.
    pub prepare_create: fn(&mut Value),
    /// Before update (after the generic part): `(new, old, what)`.
    pub prepare_update: fn(&mut Value, &Value, UpdateOf),
    /// Checks a new object.
    pub validate: fn(&Value) -> Vec<FieldError>,
    /// Checks a change `(new, old, what)`; runs besides nothing else, so it includes what `validate` checks where
    /// upstream does.
    pub validate_update: fn(&Value, &Value, UpdateOf) -> Vec<FieldError>,
    /// Warnings to send with the answer `(new, old)`.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// The rule for the object's name.
    pub name_rule: fn(&str) -> Vec<String>,
}

impl KindDef {
    /// `apps/v1`.
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(&*self.group, &*self.version)
    }

    /// Group, version and kind.
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&*self.group, &*self.version, &*self.kind)
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(&*self.group, &*self.version, &*self.plural)
    }

    /// Group and kind, as `Invalid` errors name it.
    pub fn group_kind(&self) -> GroupKind {
        self.gvk().group_kind()
    }

    /// Group and resource, as other errors name it.
    pub fn group_resource(&self) -> GroupResource {
        self.gvr().group_resource()
    }

    /// The store's collection that holds the objects: `apps/deployments`; the legacy group is `core`.
    pub fn collection(&self) -> Arc<str> {
        let (group, plural) = match &self.conversion {
            Some(conversion) => (conversion.hub.group.as_str(), &*conversion.hub_plural),
            None => (&*self.group, &*self.plural),
        };
        let group = if group.is_empty() { "core" } else { group };
        format!("{group}/{plural}").into()
    }

    /// Whether objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// A subresource by name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}
