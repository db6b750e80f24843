//! Building the schema.

use std::sync::Arc;

use serde_json::Value;

use super::props::{child, children, flag, given, is_int_or_string_all_of, is_int_or_string_any_of, list, text, texts};
use crate::{Facets, Field, IntFormat, Link, ListKind, Rule, Schema, Shape, StringFormat, Struct, builtin};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The schema of a whole custom resource: with apiVersion, kind and metadata, whatever is said of them.
pub(super) fn root(props: &Value) -> Schema {
    let mut built = schema(props);
    if !matches!(built.shape, Shape::Struct(_)) {
        built.shape = Shape::Struct(Struct { preserve_unknown: true, ..Struct::default() });
    }
    if let Shape::Struct(body) = &mut built.shape {
        add_resource_fields(body, props);
    }
    built
}

fn link(schema: Schema) -> Link {
    Link::Inline(Arc::new(schema))
}

fn shaped(shape: Shape) -> Schema {
    Schema { shape, ..Schema::default() }
}

/// A schema of the structure.
fn schema(props: &Value) -> Schema {
    let description = text(props, "description");
    let mut built = Schema {
        shape: shape(props),
        nullable: flag(props, "nullable"),
        default: given(props, "default").cloned(),
        facets: None,
        description: (!description.is_empty()).then(|| description.into()),
    };
    let mut facets = facets(props, true);
    let required = texts(props, "required");
    if !required.is_empty() && !matches!(built.shape, Shape::Struct(_)) {
        // Only a struct has a place for names of required fields.
        facets.get_or_insert_default().all_of.push(shaped(Shape::Struct(body_of(props, nested))));
    }
    built.facets = facets;
    built
}

fn shape(props: &Value) -> Shape {
    if flag(props, "x-kubernetes-int-or-string") {
        return Shape::IntOrString;
    }
    match text(props, "type") {
        "boolean" => Shape::Boolean,
        "integer" if text(props, "format") == "int32" => Shape::Integer(IntFormat::Int32),
        "integer" => Shape::Integer(IntFormat::Int64),
        "number" => Shape::Number,
        "string" => Shape::String(StringFormat::Plain),
        "array" => list_shape(props),
        "object" => object_shape(props),
        _ if children(props, "properties").next().is_some() => object_shape(props),
        _ => Shape::Any,
    }
}

fn list_shape(props: &Value) -> Shape {
    let kind = match text(props, "x-kubernetes-list-type") {
        "set" => ListKind::Set,
        "map" => ListKind::Map(texts(props, "x-kubernetes-list-map-keys").into_iter().map(Into::into).collect()),
        _ => ListKind::Atomic,
    };
    Shape::List { items: link(child(props, "items").map(schema).unwrap_or_default()), kind }
}

fn object_shape(props: &Value) -> Shape {
    let is_struct = flag(props, "x-kubernetes-embedded-resource") || children(props, "properties").next().is_some();
    let additional = match props.get("additionalProperties") {
        Some(Value::Bool(true)) => Some(hollow()),
        Some(props @ Value::Object(_)) => Some(schema(props)),
        _ => None,
    };
    match additional {
        Some(values) if !is_struct => {
            Shape::Map { values: link(values), atomic: text(props, "x-kubernetes-map-type") == "atomic" }
        }
        additional => {
            let mut body = body_of(props, schema);
            body.additional = additional.map(link);
            Shape::Struct(body)
        }
    }
}

/// Any value, but objects in it are emptied by pruning.
fn hollow() -> Schema {
    Schema { facets: Some(Box::new(Facets { hollow: true, ..Facets::default() })), ..Schema::default() }
}

/// The known fields, each read by `read`.
fn body_of(props: &Value, read: fn(&Value) -> Schema) -> Struct {
    let required = texts(props, "required");
    let mut body = Struct {
        required: required.iter().map(|name| (*name).into()).collect(),
        atomic: text(props, "x-kubernetes-map-type") == "atomic",
        preserve_unknown: flag(props, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag(props, "x-kubernetes-embedded-resource"),
        ..Struct::default()
    };
    for (name, props) in children(props, "properties") {
        let schema = read(props);
        let (default, required) = (schema.default.clone(), required.contains(&name));
        body.fields.insert(name.into(), Field { default, required, ..Field::new(link(schema)) });
    }
    if body.embedded_resource {
        add_resource_fields(&mut body, props);
    }
    body
}

fn add_resource_fields(body: &mut Struct, props: &Value) {
    for name in ["apiVersion", "kind"] {
        let string = || Field::new(link(shaped(Shape::String(StringFormat::Plain))));
        body.fields.entry(name.into()).or_insert_with(string);
    }
    let narrowed = super::props::property(props, "metadata").and_then(narrowed_metadata);
    let metadata = narrowed.map_or(Link::Named(OBJECT_META), link);
    let required = body.required.iter().any(|name| &**name == "metadata");
    body.fields.insert("metadata".into(), Field { required, ..Field::new(metadata) });
}

/// Object metadata whose names are narrowed further; `None` when they are not.
fn narrowed_metadata(props: &Value) -> Option<Schema> {
    let mut narrowed: Vec<(&str, Schema)> = Vec::new();
    narrowed.extend(children(props, "properties").map(|(name, props)| (name, schema(props))));
    let mut metadata = builtin(OBJECT_META).filter(|_| !narrowed.is_empty())?.clone();
    if let Shape::Struct(body) = &mut metadata.shape {
        for (name, schema) in narrowed {
            if let Some(field) = body.fields.get_mut(name) {
                field.schema = link(Schema { facets: schema.facets, ..field.schema.get().clone() });
            }
        }
    }
    Some(metadata)
}

/// A schema inside a junctor: value checks, over the fields and items it mentions.
fn nested(props: &Value) -> Schema {
    let items = child(props, "items").map(|items| Shape::List { items: link(nested(items)), kind: ListKind::Atomic });
    let has_fields = children(props, "properties").next().is_some() || !list(props, "required").is_empty();
    let body = has_fields.then(|| Shape::Struct(body_of(props, nested)));
    let mut facets = facets(props, false);
    let shape = match (body, items) {
        (Some(body), Some(items)) => {
            facets.get_or_insert_default().all_of.push(shaped(items));
            body
        }
        (Some(shape), None) | (None, Some(shape)) => shape,
        (None, None) => Shape::Any,
    };
    Schema { shape, facets, ..Schema::default() }
}

/// Value checks; `None` when there are none.
fn facets(props: &Value, in_structure: bool) -> Option<Box<Facets>> {
    let count = |key: &str| props.get(key).and_then(Value::as_u64);
    let bound = |key: &str, exclusive: &str| {
        let value = props.get(key).and_then(Value::as_f64)?;
        Some((value, flag(props, exclusive)))
    };
    let word = |key: &str| Some(text(props, key)).filter(|t| !t.is_empty()).map(Into::into);
    let nested_list = |key: &str| list(props, key).iter().map(nested).collect::<Vec<_>>();
    let (skip_any_of, skip_all_of) =
        if in_structure { (is_int_or_string_any_of(props), is_int_or_string_all_of(props)) } else { (false, false) };
    let facets = Facets {
        format: word("format"),
        enumeration: list(props, "enum").to_vec(),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: props.get("multipleOf").and_then(Value::as_f64),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        pattern: word("pattern"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag(props, "uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        all_of: nested_list("allOf").into_iter().skip(usize::from(skip_all_of)).collect(),
        any_of: if skip_any_of { Vec::new() } else { nested_list("anyOf") },
        one_of: nested_list("oneOf"),
        not: child(props, "not").map(|not| Box::new(nested(not))),
        rules: list(props, "x-kubernetes-validations").iter().map(rule).collect(),
        ..Facets::default()
    };
    (!facets.is_empty()).then(|| Box::new(facets))
}

fn rule(props: &Value) -> Rule {
    let word = |key: &str| Some(text(props, key)).filter(|t| !t.is_empty()).map(ToOwned::to_owned);
    Rule {
        rule: text(props, "rule").to_owned(),
        message: word("message"),
        message_expression: word("messageExpression"),
        reason: word("reason"),
        field_path: word("fieldPath"),
        optional_old_self: props.get("optionalOldSelf").and_then(Value::as_bool),
    }
}
