//! The forms in which objects are sent: themselves, as table rows, or their metadata alone.

use bytes::Bytes;
use kinds::{Cell, Column, KindDef};
use meta::{ObjectExt, Time};
use serde_json::{Map, Value, json};
use store::Entry;

use crate::json_path;
use crate::write::tree_at;

/// The form asked for with `Accept: ...;as=...`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Representation {
    /// The object itself.
    #[default]
    Object,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `Table`, each row with its object as asked.
    Table(RowObject),
}

/// What a table row carries beside its cells (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowObject {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl Representation {
    /// Whether stored bytes of this kind can go out as they are.
    pub fn sends_stored(self, kind: &KindDef) -> bool {
        self == Representation::Object && kind.conversion.is_none() && kind.custom.is_none()
    }

    /// The kind of a list in this form.
    pub fn list_kind(self, kind: &KindDef) -> (String, String) {
        let meta = |name: &str| ("meta.k8s.io/v1".to_owned(), name.to_owned());
        match self {
            Representation::Object => (kind.group_version().to_string(), kind.list_kind.to_string()),
            Representation::Metadata => meta("PartialObjectMetadataList"),
            Representation::Table(_) => meta("Table"),
        }
    }
}

/// A stored object as a tree at the version asked for; damage reads as null.
fn tree(kind: &KindDef, entry: &Entry) -> Value {
    tree_at(kind, entry).unwrap_or_default()
}

/// A stored object, alone, in the form asked for.
pub fn represent_entry(kind: &KindDef, form: Representation, entry: &Entry, now: Time) -> Bytes {
    if form.sends_stored(kind) {
        return entry.value.clone();
    }
    represent_tree(kind, form, tree(kind, entry), now)
}

/// An object, alone, in the form asked for.
pub fn represent_tree(kind: &KindDef, form: Representation, object: Value, now: Time) -> Bytes {
    let tree = match form {
        Representation::Object => object,
        Representation::Metadata => metadata_only(&object),
        Representation::Table(row_object) => {
            let mut table = table_head(kind, true);
            table.put(&["metadata", "resourceVersion"], object.text(&["metadata", "resourceVersion"]));
            table.put(&["rows"], vec![row(kind, row_object, &object, now)]);
            table
        }
    };
    to_bytes(&tree)
}

/// A stored object as an item of a list: a row for tables.
pub fn represent_list_item(kind: &KindDef, form: Representation, entry: &Entry, now: Time) -> Bytes {
    match form {
        Representation::Table(row_object) => to_bytes(&row(kind, row_object, &tree(kind, entry), now)),
        _ => represent_entry(kind, form, entry, now),
    }
}

/// A stored object as the object of a watch event. Only a stream's first table carries the columns.
pub fn represent_event(kind: &KindDef, form: Representation, entry: &Entry, now: Time, is_first: bool) -> Bytes {
    match form {
        Representation::Table(row_object) => {
            let object = tree(kind, entry);
            let mut table = table_head(kind, is_first);
            table.put(&["metadata", "resourceVersion"], object.text(&["metadata", "resourceVersion"]));
            table.put(&["rows"], vec![row(kind, row_object, &object, now)]);
            to_bytes(&table)
        }
        _ => represent_entry(kind, form, entry, now),
    }
}

/// A bookmark's object.
pub fn represent_bookmark(
    kind: &KindDef,
    form: Representation,
    revision: store::Revision,
    ends_initial: bool,
) -> Bytes {
    let mut metadata = json!({"resourceVersion": revision.0.to_string(), "creationTimestamp": null});
    if ends_initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let tree = match form {
        Representation::Object => {
            json!({"kind": &*kind.kind, "apiVersion": kind.group_version().to_string(), "metadata": metadata})
        }
        Representation::Metadata => {
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
        }
        Representation::Table(_) => {
            let object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
            let mut table = table_head(kind, false);
            table.put(&["metadata", "resourceVersion"], revision.0.to_string());
            table.put(&["rows"], json!([{"cells": [], "object": object}]));
            table
        }
    };
    to_bytes(&tree)
}

/// A table without rows.
pub fn table_head(kind: &KindDef, with_columns: bool) -> Value {
    let columns: Vec<Value> = if with_columns { kind.columns.iter().map(definition).collect() } else { Vec::new() };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": columns, "rows": []})
}

fn definition(column: &Column) -> Value {
    json!({
        "name": &*column.name, "type": &*column.kind, "format": &*column.format,
        "description": &*column.description, "priority": column.priority,
    })
}

fn row(kind: &KindDef, row_object: RowObject, object: &Value, now: Time) -> Value {
    let cells: Vec<Value> = kind.columns.iter().map(|column| cell(column, object, now)).collect();
    let mut row = json!({"cells": cells});
    match row_object {
        RowObject::None => {}
        RowObject::Metadata => row["object"] = metadata_only(object),
        RowObject::Object => row["object"] = object.clone(),
    }
    row
}

fn cell(column: &Column, object: &Value, now: Time) -> Value {
    match &column.cell {
        Cell::Of(make) => make(object, now),
        Cell::JsonPath(path) => {
            let found = json_path::first(object, path);
            if column.kind == "date" {
                return json!(kinds::column::since(found.as_ref().and_then(Value::as_str).unwrap_or(""), now));
            }
            found.map_or(Value::Null, |value| as_column_type(&column.kind, value))
        }
    }
}

/// A printer column whose value has another type than declared is shown as nothing, text columns show anything.
fn as_column_type(column_type: &str, value: Value) -> Value {
    match (column_type, &value) {
        ("integer", Value::Number(_)) | ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value,
        ("string", Value::String(_)) => value,
        ("string", Value::Null) => Value::Null,
        ("string", other) => json!(other.to_string()),
        _ => Value::Null,
    }
}

fn metadata_only(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn to_bytes(tree: &Value) -> Bytes {
    serde_json::to_vec(tree).unwrap_or_default().into()
}
