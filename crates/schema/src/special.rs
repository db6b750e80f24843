//! Built-in types whose JSON is free or a union: hand-written Go code reads and writes them.

use crate::{Link, Schema, builtin};

/// A type with JSON of its own that no [`Shape`](crate::Shape) describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// Any object, on the wire as its JSON (`raw = 1`).
    RawExtension,
    /// A set of fields, on the wire as its JSON (`Raw = 1`).
    FieldsV1,
    /// Any JSON, on the wire as its JSON (`raw = 1`).
    Json,
    /// A JSON schema or a list of them.
    PropsOrArray,
    /// A JSON schema or a boolean.
    PropsOrBool,
    /// A JSON schema or a list of texts.
    PropsOrStringArray,
}

const APIEXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.";

impl Special {
    /// What a use refers to, if it is one of these.
    pub fn of(link: &Link) -> Option<Special> {
        match link {
            Link::Named(name) => Self::of_name(name),
            Link::Inline(_) => None,
        }
    }

    fn of_name(name: &str) -> Option<Special> {
        match name {
            "io.k8s.apimachinery.pkg.runtime.RawExtension" => Some(Self::RawExtension),
            "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1" => Some(Self::FieldsV1),
            _ => match name.strip_prefix(APIEXTENSIONS)? {
                "JSON" => Some(Self::Json),
                "JSONSchemaPropsOrArray" => Some(Self::PropsOrArray),
                "JSONSchemaPropsOrBool" => Some(Self::PropsOrBool),
                "JSONSchemaPropsOrStringArray" => Some(Self::PropsOrStringArray),
                _ => None,
            },
        }
    }
}

/// The schema of a JSON schema.
pub(crate) fn json_schema_props() -> Option<&'static Schema> {
    builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
}
