//! A small Deployment-like schema for tests, made by hand.

use std::sync::Arc;

use schema::{Field, IntFormat, Link, ListKind, Schema, Shape, StringFormat, Struct};
use serde_json::Value;

pub(crate) fn link(shape: Shape) -> Link {
    Link::Inline(Arc::new(Schema { shape, ..Schema::default() }))
}

pub(crate) fn text() -> Link {
    link(Shape::String(StringFormat::Plain))
}

pub(crate) fn integer() -> Link {
    link(Shape::Integer(IntFormat::Int32))
}

pub(crate) fn list(items: Link, kind: ListKind) -> Link {
    link(Shape::List { items, kind })
}

pub(crate) fn keyed(items: Link, keys: &[&str]) -> Link {
    list(items, ListKind::Map(keys.iter().map(|key| (*key).into()).collect()))
}

pub(crate) fn map(values: Link) -> Link {
    link(Shape::Map { values, atomic: false })
}

pub(crate) fn field(schema: Link) -> Field {
    Field::new(schema)
}

pub(crate) fn merging(schema: Link, key: &str) -> Field {
    Field { merge_list: true, merge_key: (!key.is_empty()).then(|| key.into()), ..field(schema) }
}

pub(crate) fn record(fields: Vec<(&str, Field)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(name, field)| (name.into(), field)).collect(), ..Struct::default() }
}

pub(crate) fn object(fields: Vec<(&str, Field)>) -> Link {
    link(Shape::Struct(record(fields)))
}

fn port() -> Link {
    let protocol = Field { default: Some(Value::from("TCP")), ..field(text()) };
    object(vec![
        ("name", field(text())),
        ("containerPort", field(integer())),
        ("hostPort", field(integer())),
        ("protocol", protocol),
    ])
}

fn container() -> Link {
    let resources = object(vec![("limits", field(map(link(Shape::Quantity))))]);
    object(vec![
        ("name", field(text())),
        ("image", field(text())),
        ("args", field(list(text(), ListKind::Atomic))),
        ("ports", merging(keyed(port(), &["containerPort", "protocol"]), "containerPort")),
        ("env", merging(keyed(object(vec![("name", field(text())), ("value", field(text()))]), &["name"]), "name")),
        ("resources", field(resources)),
    ])
}

fn metadata() -> Link {
    object(vec![
        ("name", field(text())),
        ("namespace", field(text())),
        ("uid", field(text())),
        ("resourceVersion", field(text())),
        ("generation", field(integer())),
        ("creationTimestamp", field(link(Shape::String(StringFormat::Time)))),
        ("labels", field(map(text()))),
        ("annotations", field(map(text()))),
        ("finalizers", merging(list(text(), ListKind::Set), "")),
        ("managedFields", field(list(link(Shape::Any), ListKind::Atomic))),
    ])
}

fn spec() -> Link {
    let selector = Struct { atomic: true, ..record(vec![("matchLabels", field(map(text())))]) };
    let volume = object(vec![
        ("name", field(text())),
        ("emptyDir", field(object(vec![("medium", field(text()))]))),
        ("hostPath", field(object(vec![("path", field(text()))]))),
    ]);
    let pod = object(vec![
        ("containers", merging(keyed(container(), &["name"]), "name")),
        ("volumes", Field { retain_keys: true, ..merging(keyed(volume, &["name"]), "name") }),
        ("nodeName", field(text())),
    ]);
    let template = object(vec![("metadata", field(metadata())), ("spec", field(pod))]);
    let strategy = object(vec![("type", field(text())), ("rollingUpdate", field(map(link(Shape::IntOrString))))]);
    object(vec![
        ("replicas", field(integer())),
        ("selector", Field { required: true, ..field(link(Shape::Struct(selector))) }),
        ("template", Field { required: true, ..field(template) }),
        ("strategy", Field { retain_keys: true, ..field(strategy) }),
        ("paused", field(link(Shape::Boolean))),
        ("free", field(link(Shape::Any))),
    ])
}

/// A Deployment with the parts that merging cares about.
pub(crate) fn deployment() -> Schema {
    let status = object(vec![("replicas", field(integer()))]);
    Schema {
        shape: Shape::Struct(record(vec![
            ("apiVersion", field(text())),
            ("kind", field(text())),
            ("metadata", field(metadata())),
            ("spec", field(spec())),
            ("status", field(status)),
        ])),
        ..Schema::default()
    }
}
