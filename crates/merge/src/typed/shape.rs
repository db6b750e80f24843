//! The schema reduced to what merging needs: scalars, lists and maps.

use schema::{Field, Link, ListKind, Schema, Shape, StringFormat, Struct};
use serde_json::Value;

const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The type of a value.
#[derive(Clone, Copy)]
pub(crate) enum Type<'s> {
    /// A whole object: apiVersion, kind and metadata are known even where the schema does not list them.
    Object(&'s Schema),
    /// A value with a schema.
    Known(&'s Schema),
    /// No schema; maps merge by key, everything else is owned as a whole.
    Deduced,
    /// No schema, owned as a whole.
    Opaque,
}

/// What a value is under its type.
pub(crate) enum Atom<'s> {
    Scalar(Scalar),
    List(ListType<'s>),
    Map(MapType<'s>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    Text,
    Boolean,
    Any,
}

pub(crate) struct ListType<'s> {
    pub(crate) kind: Items<'s>,
    pub(crate) items: Type<'s>,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy)]
pub(crate) enum Items<'s> {
    Atomic,
    Set,
    Keyed(&'s [Box<str>]),
}

pub(crate) struct MapType<'s> {
    pub(crate) atomic: bool,
    body: Option<&'s Struct>,
    is_object: bool,
    rest: Option<Type<'s>>,
}

/// A member of a map: its type, and whether the schema declares it by name.
pub(crate) struct Member<'s> {
    pub(crate) ty: Type<'s>,
    pub(crate) declared: bool,
}

impl<'s> Type<'s> {
    pub(crate) fn of(link: &'s Link) -> Self {
        match link {
            Link::Named(RAW_EXTENSION) => Type::Opaque,
            link => Type::Known(link.get()),
        }
    }

    /// What `value` is under this type. Only values without a schema are judged by what they are.
    pub(crate) fn atom(self, value: &Value) -> Atom<'s> {
        match self {
            Type::Object(schema) => known(schema, value, true),
            Type::Known(schema) => known(schema, value, false),
            Type::Deduced => deduced(value, false),
            Type::Opaque => deduced(value, true),
        }
    }

    /// Whether nothing below is known by name.
    pub(crate) fn is_untyped(self) -> bool {
        match self {
            Type::Deduced | Type::Opaque => true,
            Type::Object(schema) | Type::Known(schema) => matches!(schema.shape, Shape::Any),
        }
    }

    pub(crate) fn nullable(self) -> bool {
        match self {
            Type::Object(schema) | Type::Known(schema) => schema.nullable || matches!(schema.shape, Shape::Any),
            Type::Deduced | Type::Opaque => true,
        }
    }
}

fn known<'s>(schema: &'s Schema, value: &Value, is_object: bool) -> Atom<'s> {
    match &schema.shape {
        Shape::Any if is_object => map(None, true, false, Some(Type::Deduced)),
        Shape::Any => deduced(value, false),
        Shape::Boolean => Atom::Scalar(Scalar::Boolean),
        Shape::Integer(_) | Shape::Number => Atom::Scalar(Scalar::Numeric),
        Shape::String(StringFormat::Time | StringFormat::MicroTime) => Atom::Scalar(Scalar::Any),
        Shape::String(_) => Atom::Scalar(Scalar::Text),
        Shape::IntOrString | Shape::Quantity => Atom::Scalar(Scalar::Any),
        Shape::List { items, kind } => Atom::List(ListType { kind: items_of(kind), items: Type::of(items) }),
        Shape::Map { values, atomic } => map(None, false, *atomic, Some(Type::of(values))),
        Shape::Struct(body) => map(Some(body), is_object || body.embedded_resource, body.atomic, rest(body)),
    }
}

fn map<'s>(body: Option<&'s Struct>, is_object: bool, atomic: bool, rest: Option<Type<'s>>) -> Atom<'s> {
    Atom::Map(MapType { atomic, body, is_object, rest })
}

fn rest(body: &Struct) -> Option<Type<'_>> {
    match &body.additional {
        Some(values) => Some(Type::of(values)),
        None if body.preserve_unknown || body.fields.is_empty() => Some(Type::Deduced),
        None => None,
    }
}

fn items_of(kind: &ListKind) -> Items<'_> {
    match kind {
        ListKind::Atomic => Items::Atomic,
        ListKind::Set => Items::Set,
        ListKind::Map(keys) => Items::Keyed(keys),
    }
}

fn deduced<'s>(value: &Value, opaque: bool) -> Atom<'s> {
    match value {
        Value::Array(_) => Atom::List(ListType { kind: Items::Atomic, items: Type::Opaque }),
        Value::Object(_) | Value::Null => {
            map(None, false, opaque, Some(if opaque { Type::Opaque } else { Type::Deduced }))
        }
        _ => Atom::Scalar(Scalar::Any),
    }
}

impl Atom<'_> {
    pub(crate) fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'s> ListType<'s> {
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.kind, Items::Atomic)
    }

    /// The default of a key field of the items.
    pub(crate) fn key_default(&self, key: &str) -> Option<&'s Value> {
        let (Type::Known(schema) | Type::Object(schema)) = self.items else { return None };
        match &schema.shape {
            Shape::Struct(body) => body.fields.get(key).and_then(default_of),
            _ => None,
        }
    }
}

fn default_of(field: &Field) -> Option<&Value> {
    field.default.as_ref().or_else(|| field.schema.get().default.as_ref())
}

impl<'s> MapType<'s> {
    /// The member under `name`; `None` when the schema knows no such field.
    pub(crate) fn member(&self, name: &str) -> Option<Member<'s>> {
        if let Some(field) = self.body.and_then(|body| body.fields.get(name)) {
            // A custom resource's schema says at most which names it allows in metadata.
            if !(self.is_object && name == "metadata" && bare(field)) {
                return Some(Member { ty: Type::of(&field.schema), declared: true });
            }
        }
        if let Some(ty) = if self.is_object { implied(name) } else { None } {
            return Some(Member { ty, declared: true });
        }
        self.rest.map(|ty| Member { ty, declared: false })
    }
}

/// A metadata field whose schema does not tell its structure.
fn bare(field: &Field) -> bool {
    match &field.schema.get().shape {
        Shape::Struct(body) => !body.fields.contains_key("labels"),
        _ => true,
    }
}

fn implied<'s>(name: &str) -> Option<Type<'s>> {
    match name {
        "apiVersion" | "kind" => Some(Type::Deduced),
        "metadata" => Some(schema::builtin(OBJECT_META).map_or(Type::Deduced, Type::Known)),
        _ => None,
    }
}
