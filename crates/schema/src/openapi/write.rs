//! From a schema to OpenAPI's JSON.

use serde_json::{Map, Value, json};

use crate::{Facets, Field, IntFormat, Link, ListKind, Rule, Schema, Shape, StringFormat, Struct};

/// Which OpenAPI.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Version {
    V2,
    V3,
}

/// Writes the schemas of one definition.
pub(super) struct Writer {
    version: Version,
    /// The definition is a custom resource's, which says only what was declared.
    is_custom: bool,
}

/// An object of OpenAPI in the making.
type Out = Map<String, Value>;

fn put(out: &mut Out, key: &str, value: impl Into<Value>) {
    out.insert(key.to_owned(), value.into());
}

impl Writer {
    pub fn new(version: Version, root: &Schema) -> Self {
        let is_custom = root.body().is_none_or(|body| body.name.is_none());
        Self { version, is_custom }
    }

    /// For a definition of a built-in type, whatever its shape.
    pub fn of_built_in(version: Version) -> Self {
        Self { version, is_custom: false }
    }

    /// A whole definition. One that knows nothing says only that it is an object.
    pub fn root(&self, schema: &Schema) -> Value {
        let is_open = match &schema.shape {
            Shape::Any => true,
            Shape::Struct(body) => self.is_custom && body.preserve_unknown && self.version == Version::V2,
            _ => false,
        };
        if is_open { json!({"type": "object"}) } else { self.node(schema) }
    }

    /// A schema in place.
    pub fn node(&self, schema: &Schema) -> Value {
        let mut out = Out::new();
        if let Some(description) = &schema.description {
            put(&mut out, "description", &**description);
        }
        let is_typeless = self.version == Version::V2 && schema.nullable && self.is_custom;
        if !is_typeless {
            self.shape(schema, &mut out);
        }
        if let Some(facets) = &schema.facets {
            self.facets(facets, &mut out);
        }
        if self.is_custom {
            if let Some(default) = &schema.default {
                put(&mut out, "default", default.clone());
            }
            if schema.nullable && self.version == Version::V3 && !matches!(schema.shape, Shape::Any) {
                put(&mut out, "nullable", true);
            }
        }
        Value::Object(out)
    }

    fn shape(&self, schema: &Schema, out: &mut Out) {
        match &schema.shape {
            Shape::Any => self.any(schema, out),
            Shape::Boolean => put(out, "type", "boolean"),
            Shape::Integer(width) => self.integer(*width, out),
            Shape::Number => {
                put(out, "type", "number");
                if !self.is_custom {
                    put(out, "format", "double");
                }
            }
            Shape::String(format) => string(*format, out),
            Shape::IntOrString => self.int_or_string(out),
            Shape::Quantity if self.version == Version::V2 => put(out, "type", "string"),
            Shape::Quantity => put(out, "oneOf", json!([{"type": "string"}, {"type": "number"}])),
            Shape::List { items, kind } => self.list(items, kind, out),
            Shape::Map { values, atomic } => self.map(values, *atomic, out),
            Shape::Struct(body) => self.body(body, out),
        }
    }

    /// Nothing known: said aloud in custom resources, where clients would else complain.
    fn any(&self, schema: &Schema, out: &mut Out) {
        let is_hollow = schema.facets.as_ref().is_some_and(|facets| facets.hollow);
        if self.is_custom && !is_hollow {
            put(out, "x-kubernetes-preserve-unknown-fields", true);
        }
    }

    fn integer(&self, width: IntFormat, out: &mut Out) {
        put(out, "type", "integer");
        if !self.is_custom {
            put(out, "format", if width == IntFormat::Int32 { "int32" } else { "int64" });
        }
    }

    fn int_or_string(&self, out: &mut Out) {
        match (self.version, self.is_custom) {
            (Version::V2, false) => {
                put(out, "type", "string");
                put(out, "format", "int-or-string");
            }
            (Version::V3, false) => {
                put(out, "format", "int-or-string");
                put(out, "oneOf", json!([{"type": "integer"}, {"type": "string"}]));
            }
            (version, true) => {
                put(out, "x-kubernetes-int-or-string", true);
                if version == Version::V3 {
                    put(out, "anyOf", json!([{"type": "integer"}, {"type": "string"}]));
                }
            }
        }
    }

    fn list(&self, items: &Link, kind: &ListKind, out: &mut Out) {
        put(out, "type", "array");
        put(out, "items", self.link(items));
        match kind {
            ListKind::Atomic if self.is_custom => {}
            ListKind::Atomic => put(out, "x-kubernetes-list-type", "atomic"),
            ListKind::Set => put(out, "x-kubernetes-list-type", "set"),
            ListKind::Map(keys) => {
                put(out, "x-kubernetes-list-type", "map");
                put(out, "x-kubernetes-list-map-keys", keys.iter().map(|key| &**key).collect::<Vec<_>>());
            }
        }
    }

    fn map(&self, values: &Link, atomic: bool, out: &mut Out) {
        put(out, "type", "object");
        put(out, "additionalProperties", self.additional(values));
        if atomic {
            put(out, "x-kubernetes-map-type", "atomic");
        }
    }

    fn additional(&self, values: &Link) -> Value {
        let is_hollow = values.get().facets.as_ref().is_some_and(|facets| facets.hollow);
        if is_hollow { Value::Bool(true) } else { self.link(values) }
    }

    fn body(&self, body: &Struct, out: &mut Out) {
        let is_closed_to_v2 = self.version == Version::V2 && body.preserve_unknown;
        if body.preserve_unknown {
            put(out, "x-kubernetes-preserve-unknown-fields", true);
        }
        if body.embedded_resource {
            put(out, "x-kubernetes-embedded-resource", true);
        }
        if body.atomic {
            put(out, "x-kubernetes-map-type", "atomic");
        }
        if is_closed_to_v2 {
            return;
        }
        put(out, "type", "object");
        if !body.fields.is_empty() {
            let properties = body.fields.iter().map(|(name, field)| (name.to_string(), self.field(field)));
            put(out, "properties", properties.collect::<Out>());
        }
        if let Some(additional) = &body.additional {
            put(out, "additionalProperties", self.additional(additional));
        }
        let required = self.required(body);
        if !required.is_empty() {
            put(out, "required", required);
        }
    }

    /// In v2 a nullable field, being without type, cannot be required either.
    fn required<'b>(&self, body: &'b Struct) -> Vec<&'b str> {
        let is_nullable = |name: &str| body.fields.get(name).is_some_and(|field| field.schema.get().nullable);
        let hides = self.version == Version::V2 && self.is_custom;
        body.required.iter().map(|name| &**name).filter(|name| !(hides && is_nullable(name))).collect()
    }

    fn field(&self, field: &Field) -> Value {
        let mut value = self.link(&field.schema);
        let Value::Object(out) = &mut value else { return value };
        if !self.is_custom {
            if let Some(default) = &field.default {
                put(out, "default", default.clone());
            }
            if let Some(key) = &field.merge_key {
                put(out, "x-kubernetes-patch-merge-key", &**key);
            }
            let strategies = [(field.merge_list, "merge"), (field.retain_keys, "retainKeys")];
            let strategies: Vec<&str> = strategies.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
            if !strategies.is_empty() {
                put(out, "x-kubernetes-patch-strategy", strategies.join(","));
            }
        }
        value
    }

    /// In v3 a reference may not have siblings, so it stands in an `allOf`.
    fn link(&self, link: &Link) -> Value {
        match (link, self.version) {
            (Link::Inline(schema), _) => self.node(schema),
            (Link::Named(name), Version::V2) => json!({"$ref": format!("#/definitions/{name}")}),
            (Link::Named(name), Version::V3) => json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]}),
        }
    }

    fn facets(&self, facets: &Facets, out: &mut Out) {
        let words = [("format", &facets.format), ("pattern", &facets.pattern)];
        for (key, word) in words.into_iter().filter_map(|(key, word)| word.as_deref().map(|word| (key, word))) {
            put(out, key, word);
        }
        if !facets.enumeration.is_empty() {
            put(out, "enum", facets.enumeration.clone());
        }
        bound(out, "minimum", "exclusiveMinimum", facets.minimum);
        bound(out, "maximum", "exclusiveMaximum", facets.maximum);
        if let Some(factor) = facets.multiple_of {
            put(out, "multipleOf", number(factor));
        }
        let counts = [
            ("minLength", facets.min_length),
            ("maxLength", facets.max_length),
            ("minItems", facets.min_items),
            ("maxItems", facets.max_items),
            ("minProperties", facets.min_properties),
            ("maxProperties", facets.max_properties),
        ];
        for (key, count) in counts.into_iter().filter_map(|(key, count)| count.map(|count| (key, count))) {
            put(out, key, count);
        }
        if facets.unique_items {
            put(out, "uniqueItems", true);
        }
        if !facets.rules.is_empty() {
            put(out, "x-kubernetes-validations", facets.rules.iter().map(rule).collect::<Vec<_>>());
        }
        if self.version == Version::V3 {
            junctors(facets, out);
        }
    }
}

fn string(format: StringFormat, out: &mut Out) {
    put(out, "type", "string");
    match format {
        StringFormat::Plain | StringFormat::Duration => {}
        StringFormat::Bytes => put(out, "format", "byte"),
        StringFormat::Time | StringFormat::MicroTime => put(out, "format", "date-time"),
    }
}

fn bound(out: &mut Out, key: &str, exclusive_key: &str, bound: Option<(f64, bool)>) {
    if let Some((value, exclusive)) = bound {
        put(out, key, number(value));
        if exclusive {
            put(out, exclusive_key, true);
        }
    }
}

/// A double, without fraction where it has none, as Go writes it.
fn number(value: f64) -> Value {
    /// Doubles up to here are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[allow(clippy::cast_possible_truncation)]
        return Value::from(value as i64);
    }
    Value::from(value)
}

fn junctors(facets: &Facets, out: &mut Out) {
    for (key, schemas) in [("allOf", &facets.all_of), ("oneOf", &facets.one_of)] {
        if !schemas.is_empty() {
            put(out, key, schemas.iter().map(nested).collect::<Vec<_>>());
        }
    }
    if !facets.any_of.is_empty() {
        let own: Vec<Value> = facets.any_of.iter().map(nested).collect();
        match out.remove("anyOf") {
            // The anyOf of int-or-string stands there already; both must hold.
            Some(int_or_string) => {
                let mut all = vec![json!({"anyOf": int_or_string})];
                all.extend(out.remove("allOf").and_then(|v| v.as_array().cloned()).unwrap_or_default());
                put(out, "allOf", all);
                put(out, "anyOf", own);
            }
            None => put(out, "anyOf", own),
        }
    }
    if let Some(not) = &facets.not {
        put(out, "not", nested(not));
    }
}

/// A schema inside a junctor: value checks without types.
fn nested(schema: &Schema) -> Value {
    let mut out = Out::new();
    match &schema.shape {
        Shape::List { items, .. } => put(&mut out, "items", nested(items.get())),
        Shape::Struct(body) => {
            if !body.fields.is_empty() {
                let fields = body.fields.iter().map(|(name, field)| (name.to_string(), nested(field.schema.get())));
                put(&mut out, "properties", fields.collect::<Out>());
            }
            if !body.required.is_empty() {
                put(&mut out, "required", body.required.iter().map(|name| &**name).collect::<Vec<_>>());
            }
        }
        _ => {}
    }
    if let Some(facets) = &schema.facets {
        Writer { version: Version::V3, is_custom: true }.facets(facets, &mut out);
    }
    Value::Object(out)
}

fn rule(rule: &Rule) -> Value {
    let mut out = Out::new();
    put(&mut out, "rule", rule.rule.as_str());
    let words = [
        ("message", &rule.message),
        ("messageExpression", &rule.message_expression),
        ("reason", &rule.reason),
        ("fieldPath", &rule.field_path),
    ];
    for (key, word) in words.into_iter().filter_map(|(key, word)| word.as_deref().map(|word| (key, word))) {
        put(&mut out, key, word);
    }
    if let Some(optional) = rule.optional_old_self {
        put(&mut out, "optionalOldSelf", optional);
    }
    Value::Object(out)
}
