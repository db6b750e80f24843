//! What a schema is made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::validate::pattern::Compiled;

/// The structure and the rules of one value.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Its structure.
    pub shape: Shape,
    /// Whether `null` is a value of its own (otherwise null reads as absent).
    pub nullable: bool,
    /// The value it takes when absent.
    pub default: Option<Value>,
    /// Value checks (custom resources); `None` when there are none, which is the common case.
    pub facets: Option<Box<Facets>>,
    /// Prose for `explain`; custom resources bring theirs, built-in types have none.
    pub description: Option<Arc<str>>,
}

/// The structure of a value.
#[derive(Clone, Debug, Default)]
pub enum Shape {
    /// Any JSON; nothing inside is known, kept or checked (RawExtension, JSON, preserve-unknown-fields without a type).
    #[default]
    Any,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer(IntFormat),
    /// A number with a fraction.
    Number,
    /// Text.
    String(StringFormat),
    /// A whole number or text.
    IntOrString,
    /// A decimal quantity: text, or a number that is turned into text.
    Quantity,
    /// An ordered list.
    List {
        /// The schema of every item.
        items: Link,
        /// How two lists merge.
        kind: ListKind,
    },
    /// Free keys, one schema for every value.
    Map {
        /// The schema of every value.
        values: Link,
        /// Whether appliers own the map as a whole.
        atomic: bool,
    },
    /// Known fields.
    Struct(Struct),
}

/// Known fields, and what happens to others.
#[derive(Clone, Debug, Default)]
pub struct Struct {
    /// Published name of a built-in type, whose values are held in Go's normal form; `None` in custom resources,
    /// whose values stay as sent.
    pub name: Option<&'static str>,
    /// By JSON name.
    pub fields: BTreeMap<Box<str>, Field>,
    /// Names of required fields.
    pub required: Vec<Box<str>>,
    /// Whether appliers own the struct as a whole.
    pub atomic: bool,
    /// Unknown fields are kept instead of pruned.
    pub preserve_unknown: bool,
    /// Carries apiVersion, kind and metadata of its own (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// Schema of unknown fields beside the known ones (custom resources only).
    pub additional: Option<Link>,
    /// Strategic merge: the names of union discriminators' sibling fields to keep (`retainKeys`).
    pub retain_keys: bool,
}

/// One known field.
#[derive(Clone, Debug)]
pub struct Field {
    /// The schema of its value.
    pub schema: Link,
    /// The field's default, which belongs to the use, not to the type used.
    pub default: Option<Value>,
    /// Protobuf field number; 0 for custom resources and fields that are not on that wire.
    pub proto: u32,
    /// Numbers of the messages around it, outermost first, where Go inlines a struct that the wire nests.
    pub proto_outer: Box<[u32]>,
    /// Strategic merge patch: merge key of a list of maps (`patchMergeKey`).
    pub merge_key: Option<Box<str>>,
    /// Strategic merge patch: the list is merged (`patchStrategy=merge`), not replaced.
    pub merge_list: bool,
    /// Strategic merge patch: `retainKeys`.
    pub retain_keys: bool,
    /// Whether the published schema requires it.
    pub required: bool,
    /// What becomes of its zero value.
    pub zero: Zero,
}

impl Field {
    /// A field that holds `schema` and has no further properties.
    pub fn new(schema: Link) -> Self {
        Self {
            schema,
            default: None,
            proto: 0,
            proto_outer: Box::default(),
            merge_key: None,
            merge_list: false,
            retain_keys: false,
            required: false,
            zero: Zero::Keep,
        }
    }
}

/// What becomes of a field's zero value (`""`, `0`, `false`, `[]`, `{}`).
///
/// Upstream keeps objects in Go structs, where a field that is not a pointer cannot tell absent from zero. Our normal
/// form is what Go would write, so that the same object has the same form whether it came as JSON or as protobuf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zero {
    /// Absent and zero differ (pointers, custom resources).
    #[default]
    Keep,
    /// Zero reads as absent (`omitempty` on a plain value).
    Omit,
    /// Absent reads as zero (a plain value that Go always writes).
    Fill,
}

/// A schema, inline or by the name of a built-in type (which may be recursive).
#[derive(Clone, Debug)]
pub enum Link {
    /// Held here.
    Inline(Arc<Schema>),
    /// A built-in type, by published name; resolved through [`crate::builtin`].
    Named(&'static str),
}

impl Link {
    /// The schema meant.
    pub fn get(&self) -> &Schema {
        static ANY: Schema =
            Schema { shape: Shape::Any, nullable: true, default: None, facets: None, description: None };
        match self {
            Self::Inline(schema) => schema,
            Self::Named(name) => crate::builtin(name).unwrap_or(&ANY),
        }
    }
}

/// How appliers merge two lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// As a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// Items keyed by these fields.
    Map(Vec<Box<str>>),
}

/// Width of a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntFormat {
    /// 32 bits, signed.
    Int32,
    /// 64 bits, signed.
    Int64,
}

/// Special texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StringFormat {
    /// Any text.
    #[default]
    Plain,
    /// Base64 of bytes (`[]byte` in Go).
    Bytes,
    /// `metav1.Time`.
    Time,
    /// `metav1.MicroTime`.
    MicroTime,
    /// `metav1.Duration` (Go syntax).
    Duration,
}

/// Value checks that a custom resource declares (JSON Schema's names).
#[derive(Clone, Debug, Default)]
pub struct Facets {
    /// JSON Schema `format` (date-time, email, uuid, ...), as declared.
    pub format: Option<Box<str>>,
    /// Allowed values.
    pub enumeration: Vec<Value>,
    /// Lower bound and whether it is exclusive.
    pub minimum: Option<(f64, bool)>,
    /// Upper bound and whether it is exclusive.
    pub maximum: Option<(f64, bool)>,
    /// The value is a multiple of this.
    pub multiple_of: Option<f64>,
    /// Shortest text, in characters.
    pub min_length: Option<u64>,
    /// Longest text, in characters.
    pub max_length: Option<u64>,
    /// Regular expression that the text contains.
    pub pattern: Option<Box<str>>,
    /// The expression, compiled when first needed.
    pub compiled: Compiled,
    /// Fewest items.
    pub min_items: Option<u64>,
    /// Most items.
    pub max_items: Option<u64>,
    /// Items are unique.
    pub unique_items: bool,
    /// Fewest entries.
    pub min_properties: Option<u64>,
    /// Most entries.
    pub max_properties: Option<u64>,
    /// `allOf`, as value validations over the same structure.
    pub all_of: Vec<Schema>,
    /// `anyOf`.
    pub any_of: Vec<Schema>,
    /// `oneOf`.
    pub one_of: Vec<Schema>,
    /// `not`.
    pub not: Option<Box<Schema>>,
    /// Nothing inside is known nor kept: objects are emptied by pruning (`additionalProperties: true`).
    pub hollow: bool,
    /// `x-kubernetes-validations`; evaluated by `admit`, which has CEL.
    pub rules: Vec<Rule>,
}

impl Facets {
    /// Whether nothing is checked.
    pub fn is_empty(&self) -> bool {
        let counts = [
            self.min_length,
            self.max_length,
            self.min_items,
            self.max_items,
            self.min_properties,
            self.max_properties,
        ];
        self.format.is_none()
            && self.enumeration.is_empty()
            && self.minimum.is_none()
            && self.maximum.is_none()
            && self.multiple_of.is_none()
            && self.pattern.is_none()
            && counts.iter().all(Option::is_none)
            && !self.unique_items
            && [&self.all_of, &self.any_of, &self.one_of].iter().all(|list| list.is_empty())
            && self.not.is_none()
            && !self.hollow
            && self.rules.is_empty()
    }
}

/// One `x-kubernetes-validations` entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// CEL, true when valid; sees `self` and, for transition rules, `oldSelf`.
    pub rule: String,
    /// Message for people.
    pub message: Option<String>,
    /// CEL that makes the message.
    pub message_expression: Option<String>,
    /// `FieldValueInvalid`, `FieldValueForbidden`, `FieldValueRequired` or `FieldValueDuplicate`.
    pub reason: Option<String>,
    /// Relative path of the field to blame.
    pub field_path: Option<String>,
    /// Also evaluate transition rules on create, with `oldSelf` optional.
    pub optional_old_self: Option<bool>,
}
