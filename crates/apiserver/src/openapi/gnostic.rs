//! OpenAPI v2 as protobuf, the messages of `openapi.v2`: which JSON member has which number and form. Members that
//! are not in the tables and begin with `x-` are extensions, written as YAML (which JSON is).

use serde_json::Value;

/// How a member stands on the wire. A list repeats its member.
enum Wire {
    Text,
    Flag,
    Whole,
    Double,
    /// Any value, as YAML.
    Yaml,
    Message(&'static Message),
    /// A message inside a message that has it as its only field, this number.
    Wrapped(u32, &'static Message),
    /// The type of a schema: one word or several.
    Words,
    /// A schema, or whether anything is allowed.
    SchemaOrFlag,
    /// A parameter, which is one of several messages by its place.
    Parameter,
}

/// A message: its members, and where others go.
struct Message {
    fields: &'static [(&'static str, u32, Wire)],
    /// Members of any other name: name and message.
    named: Option<(u32, &'static Message)>,
    /// Extensions.
    extension: u32,
}

const fn message(extension: u32, fields: &'static [(&'static str, u32, Wire)]) -> Message {
    Message { fields, named: None, extension }
}

static SCHEMA: Message = message(
    31,
    &[
        ("$ref", 1, Wire::Text),
        ("format", 2, Wire::Text),
        ("title", 3, Wire::Text),
        ("description", 4, Wire::Text),
        ("default", 5, Wire::Yaml),
        ("multipleOf", 6, Wire::Double),
        ("maximum", 7, Wire::Double),
        ("exclusiveMaximum", 8, Wire::Flag),
        ("minimum", 9, Wire::Double),
        ("exclusiveMinimum", 10, Wire::Flag),
        ("maxLength", 11, Wire::Whole),
        ("minLength", 12, Wire::Whole),
        ("pattern", 13, Wire::Text),
        ("maxItems", 14, Wire::Whole),
        ("minItems", 15, Wire::Whole),
        ("uniqueItems", 16, Wire::Flag),
        ("maxProperties", 17, Wire::Whole),
        ("minProperties", 18, Wire::Whole),
        ("required", 19, Wire::Text),
        ("enum", 20, Wire::Yaml),
        ("additionalProperties", 21, Wire::SchemaOrFlag),
        ("type", 22, Wire::Words),
        ("items", 23, Wire::Wrapped(1, &SCHEMA)),
        ("allOf", 24, Wire::Message(&SCHEMA)),
        ("properties", 25, Wire::Message(&PROPERTIES)),
        ("discriminator", 26, Wire::Text),
        ("readOnly", 27, Wire::Flag),
        ("example", 30, Wire::Yaml),
    ],
);
static PROPERTIES: Message = Message { fields: &[], named: Some((1, &SCHEMA)), extension: 0 };
static PATH_ITEM: Message = message(
    10,
    &[
        ("$ref", 1, Wire::Text),
        ("get", 2, Wire::Message(&OPERATION)),
        ("put", 3, Wire::Message(&OPERATION)),
        ("post", 4, Wire::Message(&OPERATION)),
        ("delete", 5, Wire::Message(&OPERATION)),
        ("options", 6, Wire::Message(&OPERATION)),
        ("head", 7, Wire::Message(&OPERATION)),
        ("patch", 8, Wire::Message(&OPERATION)),
        ("parameters", 9, Wire::Parameter),
    ],
);
static OPERATION: Message = message(
    13,
    &[
        ("tags", 1, Wire::Text),
        ("summary", 2, Wire::Text),
        ("description", 3, Wire::Text),
        ("operationId", 5, Wire::Text),
        ("produces", 6, Wire::Text),
        ("consumes", 7, Wire::Text),
        ("parameters", 8, Wire::Parameter),
        ("responses", 9, Wire::Message(&RESPONSES)),
        ("schemes", 10, Wire::Text),
        ("deprecated", 11, Wire::Flag),
    ],
);
static RESPONSES: Message = Message { fields: &[], named: Some((1, &RESPONSE_VALUE)), extension: 2 };
/// One of a response and a reference; references are not used, so that the members are the response's own.
static RESPONSE_VALUE: Message = message(0, &[("", 1, Wire::Message(&RESPONSE))]);
static RESPONSE: Message = message(5, &[("description", 1, Wire::Text), ("schema", 2, Wire::Wrapped(1, &SCHEMA))]);
static INFO: Message =
    message(7, &[("title", 1, Wire::Text), ("version", 2, Wire::Text), ("description", 3, Wire::Text)]);
static HEAD: Message = message(16, &[("swagger", 1, Wire::Text), ("info", 2, Wire::Message(&INFO))]);
static BODY_PARAMETER: Message = message(
    6,
    &[
        ("description", 1, Wire::Text),
        ("name", 2, Wire::Text),
        ("in", 3, Wire::Text),
        ("required", 4, Wire::Flag),
        ("schema", 5, Wire::Message(&SCHEMA)),
    ],
);
static QUERY_PARAMETER: Message = message(
    23,
    &[
        ("required", 1, Wire::Flag),
        ("in", 2, Wire::Text),
        ("description", 3, Wire::Text),
        ("name", 4, Wire::Text),
        ("type", 6, Wire::Text),
        ("format", 7, Wire::Text),
        ("uniqueItems", 20, Wire::Flag),
    ],
);
static PATH_PARAMETER: Message = message(
    22,
    &[
        ("required", 1, Wire::Flag),
        ("in", 2, Wire::Text),
        ("description", 3, Wire::Text),
        ("name", 4, Wire::Text),
        ("type", 5, Wire::Text),
        ("format", 6, Wire::Text),
        ("uniqueItems", 19, Wire::Flag),
    ],
);

/// A document in the making.
pub struct Document {
    head: Vec<u8>,
    paths: Vec<u8>,
    definitions: Vec<u8>,
}

impl Document {
    /// With what stands at the head.
    pub fn new(head: &Value) -> Document {
        Document { head: encode(&HEAD, head), paths: Vec::new(), definitions: Vec::new() }
    }

    /// Adds a path.
    pub fn path(&mut self, path: &str, item: &Value) {
        put_named(&mut self.paths, 2, path, &encode(&PATH_ITEM, item));
    }

    /// Adds a definition.
    pub fn definition(&mut self, name: &str, schema: &Value) {
        put_named(&mut self.definitions, 1, name, &encode(&SCHEMA, schema));
    }

    /// The whole.
    pub fn finish(self) -> Vec<u8> {
        let mut out = self.head;
        put_bytes(&mut out, 8, &self.paths);
        put_bytes(&mut out, 9, &self.definitions);
        out
    }
}

fn encode(message: &'static Message, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    // A union of one: the value itself is the member.
    if let [("", number, Wire::Message(inner))] = message.fields {
        put_bytes(&mut out, *number, &encode(inner, value));
        return out;
    }
    for (key, member) in value.as_object().into_iter().flatten() {
        match message.fields.iter().find(|(name, ..)| name == key) {
            Some((_, number, wire)) => put_member(&mut out, *number, wire, member),
            None => put_other(&mut out, message, key, member),
        }
    }
    out
}

/// A member that the message does not know by name.
fn put_other(out: &mut Vec<u8>, message: &'static Message, key: &str, member: &Value) {
    match message.named {
        Some((number, inner)) if !(message.extension > 0 && key.starts_with("x-")) => {
            put_named(out, number, key, &encode(inner, member));
        }
        _ if message.extension > 0 && key.starts_with("x-") => {
            put_named(out, message.extension, key, &yaml(member));
        }
        // What v2 has no word for says nothing to its readers.
        _ => {}
    }
}

fn put_member(out: &mut Vec<u8>, number: u32, wire: &Wire, member: &Value) {
    match (wire, member) {
        (Wire::Words, _) => put_bytes(out, number, &words(member)),
        // Values may be lists themselves; only `enum` is a list of values.
        (Wire::Yaml, Value::Array(values)) if number == 20 => {
            values.iter().for_each(|value| put_bytes(out, number, &yaml(value)));
        }
        (Wire::Yaml, value) => put_bytes(out, number, &yaml(value)),
        (_, Value::Array(members)) => members.iter().for_each(|member| put_member(out, number, wire, member)),
        (Wire::Text, Value::String(text)) => put_bytes(out, number, text.as_bytes()),
        (Wire::Flag, Value::Bool(flag)) => put_varint_field(out, number, u64::from(*flag)),
        (Wire::Whole, Value::Number(n)) => put_varint_field(out, number, n.as_u64().unwrap_or(0)),
        (Wire::Double, Value::Number(n)) => put_double(out, number, n.as_f64().unwrap_or(0.0)),
        (Wire::Message(inner), Value::Object(_)) => put_bytes(out, number, &encode(inner, member)),
        (Wire::Wrapped(only, inner), Value::Object(_)) => {
            put_bytes(out, number, &wrapped(*only, encode(inner, member)))
        }
        (Wire::SchemaOrFlag, Value::Bool(flag)) => {
            let mut item = Vec::new();
            put_varint_field(&mut item, 2, u64::from(*flag));
            put_bytes(out, number, &item);
        }
        (Wire::SchemaOrFlag, Value::Object(_)) => put_bytes(out, number, &wrapped(1, encode(&SCHEMA, member))),
        (Wire::Parameter, Value::Object(_)) => put_bytes(out, number, &parameter(member)),
        _ => {}
    }
}

fn words(member: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let several = member.as_array().into_iter().flatten();
    for word in several.chain(Some(member)).filter_map(Value::as_str) {
        put_bytes(&mut out, 1, word.as_bytes());
    }
    out
}

/// Parameters are unions in unions: body, or one that is not a body, by its place.
fn parameter(member: &Value) -> Vec<u8> {
    let inner = match member["in"].as_str() {
        Some("body") => wrapped(1, encode(&BODY_PARAMETER, member)),
        Some("path") => wrapped(2, wrapped(4, encode(&PATH_PARAMETER, member))),
        _ => wrapped(2, wrapped(3, encode(&QUERY_PARAMETER, member))),
    };
    wrapped(1, inner)
}

fn yaml(value: &Value) -> Vec<u8> {
    wrapped(2, value.to_string().into_bytes())
}

fn wrapped(number: u32, inner: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::with_capacity(inner.len() + 6);
    put_bytes(&mut out, number, &inner);
    out
}

fn put_named(out: &mut Vec<u8>, number: u32, name: &str, value: &[u8]) {
    let mut entry = Vec::with_capacity(name.len() + value.len() + 12);
    put_bytes(&mut entry, 1, name.as_bytes());
    put_bytes(&mut entry, 2, value);
    put_bytes(out, number, &entry);
}

fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] & 0x7f | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}
