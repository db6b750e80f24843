//! How a kind's file declares its kind: a new definition is an ordinary namespaced resource without behaviour, and
//! every setter says one thing that differs.

use std::sync::Arc;

use meta::{FieldError, FieldPath, Gvk, ObjectExt, name};
use schema::{Link, Schema};
use serde_json::Value;

use crate::def::Text;
use crate::halves::{drop_status, keep_other_half};
use crate::{
    BuiltInRules, Column, Converged, Conversion, Health, KindDef, Rules, ScalePaths, Scope, SelectableField,
    SelectorAt, Subresource, UpdateOf, apply_order,
};

impl Default for BuiltInRules {
    fn default() -> Self {
        Self {
            default: |_| {},
            prepare_create: |_| {},
            prepare_update: |_, _, _| {},
            validate: |_| Vec::new(),
            validate_update: |_, _, _| Vec::new(),
            warnings: |_, _| Vec::new(),
            name_rule: name::dns1123_subdomain,
        }
    }
}

/// What it is and where it lives.
impl KindDef {
    /// A namespaced, stored resource with all verbs, no subresources and no behaviour of its own.
    pub fn new(
        group: impl Into<Text>,
        version: impl Into<Text>,
        kind: impl Into<Text>,
        plural: impl Into<Text>,
    ) -> Self {
        let kind = kind.into();
        Self {
            group: group.into(),
            version: version.into(),
            list_kind: format!("{kind}List").into(),
            singular: kind.to_ascii_lowercase().into(),
            kind,
            plural: plural.into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            scope: Scope::Namespaced,
            schema: Link::Inline(Arc::new(Schema::default())),
            verbs: Vec::new(),
            subresources: Vec::new(),
            counts_generation: false,
            volatile: false,
            virtual_only: false,
            columns: Vec::new(),
            selectable: Vec::new(),
            scale: None,
            secret_fields: Vec::new(),
            apply_order: apply_order::WORKLOAD,
            cascades_by_default: true,
            grace_seconds: None,
            conversion: None,
            health: Health::Static,
            rules: Rules::BuiltIn(BuiltInRules::default()),
            example: "",
            custom: None,
            deprecated: None,
        }
    }

    /// A kind that has no address of its own and is only spoken at subresources of others.
    pub fn spoken(group: impl Into<Text>, version: impl Into<Text>, kind: impl Into<Text>) -> Self {
        Self::new(group, version, kind, "").never_stored()
    }

    /// Objects live outside namespaces.
    pub fn cluster_scoped(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    /// One more short name.
    pub fn short(mut self, name: impl Into<Text>) -> Self {
        self.short_names.push(name.into());
        self
    }

    /// One more category.
    pub fn category(mut self, name: impl Into<Text>) -> Self {
        self.categories.push(name.into());
        self
    }

    /// The published name of its type.
    pub fn schema(mut self, published_name: &'static str) -> Self {
        self.schema = Link::Named(published_name);
        self
    }

    /// The schema, as a CustomResourceDefinition would declare it: for kinds that upstream does not have. One that
    /// cannot be read leaves the kind without fields, which the table's own test finds.
    pub fn schema_inline(mut self, declared: &Value) -> Self {
        let schema = schema::crd::structural(declared, &FieldPath::ROOT).unwrap_or_default();
        self.schema = Link::Inline(Arc::new(schema));
        self
    }

    /// Only these verbs are served.
    pub fn verbs(mut self, verbs: &[&'static str]) -> Self {
        self.verbs = verbs.to_vec();
        self
    }

    /// Create answers and nothing is stored.
    pub fn never_stored(mut self) -> Self {
        self.virtual_only = true;
        self.verbs(&["create"])
    }

    /// Kept outside the durable log.
    pub fn volatile(mut self) -> Self {
        self.volatile = true;
        self
    }

    /// Stored in the form of another version.
    pub fn stored_as(mut self, conversion: Conversion) -> Self {
        self.conversion = Some(conversion);
        self
    }

    /// `metadata.generation` counts changes of what is desired.
    pub fn counts_generation(mut self) -> Self {
        self.counts_generation = true;
        self
    }

    /// Sent as a warning with every answer.
    pub fn deprecated(mut self, warning: impl Into<Text>) -> Self {
        self.deprecated = Some(warning.into());
        self
    }
}

/// What stands beside it.
impl KindDef {
    /// A subresource that speaks the object's own kind.
    pub fn with_subresource(mut self, name: impl Into<Text>, verbs: &[&'static str]) -> Self {
        self.subresources.push(Subresource { name: name.into(), kind: None, verbs: verbs.to_vec() });
        self
    }

    /// A subresource that speaks another kind.
    pub fn with_subresource_of(mut self, name: impl Into<Text>, kind: Gvk, verbs: &[&'static str]) -> Self {
        self.subresources.push(Subresource { name: name.into(), kind: Some(kind), verbs: verbs.to_vec() });
        self
    }

    /// A status subresource; each address then writes only its own half, unless the kind prepares otherwise.
    pub fn with_status(self) -> Self {
        self.with_subresource("status", &["get", "patch", "update"])
            .prepares_create(drop_status)
            .prepares_update(keep_other_half)
    }

    /// A scale subresource whose numbers stand at these dot paths.
    pub fn with_scale(mut self, spec: impl Into<Text>, status: impl Into<Text>, selector: SelectorAt) -> Self {
        self.scale = Some(ScalePaths { spec: spec.into(), status: status.into(), selector });
        self.with_subresource_of("scale", Gvk::new("autoscaling", "v1", "Scale"), &["get", "patch", "update"])
    }
}

/// How it is shown, found and ordered.
impl KindDef {
    /// The columns of its table.
    pub fn columns(mut self, columns: Vec<Column>) -> Self {
        self.columns = columns;
        self
    }

    /// Field selectors may name the text, number or boolean at this dot path.
    pub fn selectable(self, path: &'static str) -> Self {
        self.selectable_by(path, read_path)
    }

    /// Field selectors may name this label; `read` gets the object and the label.
    pub fn selectable_by(mut self, label: impl Into<Text>, read: fn(&Value, &str) -> String) -> Self {
        self.selectable.push(SelectableField { label: label.into(), read });
        self
    }

    /// Dot paths whose values are secrets.
    pub fn secret_fields(mut self, paths: &[&'static str]) -> Self {
        self.secret_fields = paths.to_vec();
        self
    }

    /// One of [`apply_order`].
    pub fn apply_order(mut self, order: u16) -> Self {
        self.apply_order = order;
        self
    }

    /// Dependents stay unless the request says otherwise.
    pub fn orphans_by_default(mut self) -> Self {
        self.cascades_by_default = false;
        self
    }

    /// Deletion is graceful: how long, by object and what the request asks for.
    pub fn grace(mut self, seconds: fn(&Value, Option<i64>) -> i64) -> Self {
        self.grace_seconds = Some(seconds);
        self
    }

    /// The kind's own judgement of being converged.
    pub fn health(mut self, judge: fn(&Value) -> Converged) -> Self {
        self.health = Health::Of(judge);
        self
    }

    /// `status.observedGeneration` and the standard conditions say whether it is converged.
    pub fn health_by_conditions(mut self) -> Self {
        self.health = Health::Conditions;
        self
    }

    /// A minimal valid object, as JSON.
    pub fn example(mut self, json: &'static str) -> Self {
        self.example = json;
        self
    }
}

/// How it behaves.
impl KindDef {
    /// Custom kinds have no functions: their schema says it all.
    fn with_rule(mut self, set: impl FnOnce(&mut BuiltInRules)) -> Self {
        if let Rules::BuiltIn(rules) = &mut self.rules {
            set(rules);
        }
        self
    }

    /// Fills in defaults; must be idempotent.
    pub fn defaults(self, default: fn(&mut Value)) -> Self {
        self.with_rule(|rules| rules.default = default)
    }

    /// Runs before create.
    pub fn prepares_create(self, prepare: fn(&mut Value)) -> Self {
        self.with_rule(|rules| rules.prepare_create = prepare)
    }

    /// Runs before update with the new object, the old one and the address written to.
    pub fn prepares_update(self, prepare: fn(&mut Value, &Value, UpdateOf)) -> Self {
        self.with_rule(|rules| rules.prepare_update = prepare)
    }

    /// Checks a new object.
    pub fn validates(self, validate: fn(&Value) -> Vec<FieldError>) -> Self {
        self.with_rule(|rules| rules.validate = validate)
    }

    /// Checks a change: the new object, the old one and the address written to.
    pub fn validates_update(self, validate: fn(&Value, &Value, UpdateOf) -> Vec<FieldError>) -> Self {
        self.with_rule(|rules| rules.validate_update = validate)
    }

    /// Warnings that go with the answer.
    pub fn warns(self, warnings: fn(&Value, Option<&Value>) -> Vec<String>) -> Self {
        self.with_rule(|rules| rules.warnings = warnings)
    }

    /// The rule of names; RFC 1123 subdomains unless declared.
    pub fn named_by(self, rule: fn(&str) -> Vec<String>) -> Self {
        self.with_rule(|rules| rules.name_rule = rule)
    }
}

/// The scalar at a dot path as text; empty when absent.
fn read_path(object: &Value, path: &str) -> String {
    let steps: Vec<&str> = path.split('.').collect();
    match object.at(&steps) {
        Some(Value::String(text)) => text.clone(),
        Some(scalar @ (Value::Bool(_) | Value::Number(_))) => scalar.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn custom_kinds_stay_without_functions() {
        let mut def = KindDef::new("a.io", "v1", "Foo", "foos");
        def.rules = Rules::Custom;
        let def = def.with_status().defaults(|_| {});
        assert!(matches!(def.rules, Rules::Custom));
        assert!(def.subresource("status").is_some());
    }

    #[test]
    fn selectors_read_scalars() {
        let object = json!({"spec": {"text": "a", "flag": false, "number": 3, "list": []}});
        for (path, text) in
            [("spec.text", "a"), ("spec.flag", "false"), ("spec.number", "3"), ("spec.list", ""), ("x", "")]
        {
            assert_eq!(read_path(&object, path), text, "{path}");
        }
    }
}
