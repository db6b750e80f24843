//! A CustomResourceDefinition as kinds: one for each served version, the same [`KindDef`] that built-in ones are.

use std::sync::Arc;

use meta::ObjectExt;
use meta::{FieldPath, condition};
use schema::{Link, Schema};
use serde_json::Value;

use crate::{Cell, Column, KindDef, Rules, ScalePaths, Scope, SelectableField, SelectorAt, column};

/// The kinds that a definition serves; none before its names are accepted and it is established.
pub fn served(definition: &Value) -> Vec<KindDef> {
    if !condition::is_true(definition, "Established") {
        return Vec::new();
    }
    let versions = definition.items(&["spec", "versions"]).iter();
    versions.filter(|version| version.flag(&["served"])).map(|version| kind(definition, version)).collect()
}

/// One version of a definition as a kind.
pub fn kind(definition: &Value, version: &Value) -> KindDef {
    let text = |path: &[&str]| definition.text(path).to_owned();
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    let names = definition.at(&["spec", "names"]).cloned().unwrap_or_default();
    let words = |field: &str| -> Vec<crate::def::Text> {
        names.items(&[field]).iter().filter_map(Value::as_str).map(|word| word.to_owned().into()).collect()
    };
    let mut def = KindDef::new(group, version.text(&["name"]).to_owned(), text(&["spec", "names", "kind"]), plural);
    def.singular = names.text(&["singular"]).to_owned().into();
    def.list_kind = names.text(&["listKind"]).to_owned().into();
    (def.short_names, def.categories) = (words("shortNames"), words("categories"));
    def.scope = if text(&["spec", "scope"]) == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
    def.schema = Link::Inline(Arc::new(schema_of(version)));
    def.rules = Rules::Custom;
    def.counts_generation = true;
    def.custom = Some(definition.name().into());
    def.columns = columns(version);
    def.selectable = version.items(&["selectableFields"]).iter().filter_map(selectable).collect();
    if version.flag(&["deprecated"]) {
        let warning = version.text(&["deprecationWarning"]);
        let gvk = format!("{}/{} {}", def.group, def.version, def.kind);
        def.deprecated =
            Some(if warning.is_empty() { format!("{gvk} is deprecated").into() } else { warning.to_owned().into() });
    }
    if version.at(&["subresources", "status"]).is_some() {
        def = def.with_status();
    }
    if let Some(scale) = version.at(&["subresources", "scale"]) {
        let path = |field: &str| scale.text(&[field]).trim_start_matches('.').to_owned();
        let selector = match path("labelSelectorPath") {
            empty if empty.is_empty() => SelectorAt::Absent,
            path => SelectorAt::Text(path.into()),
        };
        let ScalePaths { spec, status, selector } =
            ScalePaths { spec: path("specReplicasPath").into(), status: path("statusReplicasPath").into(), selector };
        def = def.with_scale(spec, status, selector);
    }
    def
}

/// The version's schema. One that cannot be read (it was refused when written, or comes from before a rule) keeps
/// everything, so that no data is lost.
fn schema_of(version: &Value) -> Schema {
    let declared = version.at(&["schema", "openAPIV3Schema"]);
    let root = FieldPath::ROOT;
    declared.and_then(|declared| schema::crd::structural(declared, &root).ok()).unwrap_or_default()
}

fn columns(version: &Value) -> Vec<Column> {
    let mut columns = vec![column::name()];
    let declared = version.items(&["additionalPrinterColumns"]);
    if declared.is_empty() {
        columns.push(column::age());
        return columns;
    }
    columns.extend(declared.iter().map(|declared| Column {
        name: declared.text(&["name"]).to_owned().into(),
        kind: declared.text(&["type"]).to_owned().into(),
        format: declared.text(&["format"]).to_owned().into(),
        description: declared.text(&["description"]).to_owned().into(),
        priority: declared.int(&["priority"]).and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
        cell: Cell::JsonPath(declared.text(&["jsonPath"]).to_owned().into()),
    }));
    columns
}

fn selectable(declared: &Value) -> Option<SelectableField> {
    let path = declared.text(&["jsonPath"]).strip_prefix('.')?;
    Some(SelectableField { label: path.to_owned().into(), read: read_path })
}

/// The scalar at a dot path, as selectors compare it.
fn read_path(object: &Value, label: &str) -> String {
    match object.at(&label.split('.').collect::<Vec<_>>()) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}
