//! The built-in types, read from the facts file that `cargo xtask schema` writes.
//!
//! Grammar, one type after another, sorted by name:
//!
//! ```text
//! <published name>[ atomic]          a struct; its fields follow, each indented by one space
//! <published name> = <shape>         a type with JSON of its own: any intstr quantity time microtime
//!  <field> <type> <numbers> <flag>...
//! ```
//!
//! A type is a scalar (`bool int32 int64 number string bytes`), `[type` (list), `{type` (map), `@Name` (a type of
//! the same package) or `@full.name`. Numbers are the protobuf numbers from the outermost message that Go inlines
//! down to the field; 0 when the field is not on that wire. Flags: `required`; `omit` and `fill` ([`Zero`]);
//! `set` and `map=a,b` (list kinds, else atomic); `atomic` and `granular` (maps and structs); `merge`, `retainKeys`,
//! `replace`, `key=a` (strategic merge); `default=<JSON>` (last, may hold spaces).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::{Field, IntFormat, Link, ListKind, Schema, Shape, StringFormat, Struct, Zero};

const FACTS: &str = include_str!("../facts/v1.37.facts");

/// One type: where its lines are, and what they say once somebody has asked.
struct Entry {
    name: &'static str,
    lines: &'static str,
    schema: OnceLock<Schema>,
}

/// The schema of a built-in type by its published name, e.g. `io.k8s.api.apps.v1.Deployment`.
///
/// The first call finds the types' places in the file (about half a millisecond); each type is read when it is
/// first asked for.
pub fn builtin(name: &str) -> Option<&'static Schema> {
    let index = index();
    let at = index.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
    index.get(at).map(|entry| entry.schema.get_or_init(|| read_type(entry.name, entry.lines)))
}

/// The published names of all built-in types, sorted.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    index().iter().map(|entry| entry.name)
}

/// `name` with the lifetime of the facts; `None` when no such type exists.
pub(crate) fn interned(name: &str) -> Option<&'static str> {
    let index = index();
    index.binary_search_by(|entry| entry.name.cmp(name)).ok().map(|at| index[at].name)
}

fn index() -> &'static [Entry] {
    static INDEX: OnceLock<Vec<Entry>> = OnceLock::new();
    INDEX.get_or_init(|| entries(FACTS))
}

fn entries(text: &'static str) -> Vec<Entry> {
    let mut starts = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !line.starts_with([' ', '#']) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let slices = starts.iter().zip(ends).map(|(start, end)| &text[*start..end]);
    slices.map(|lines| Entry { name: word(lines), lines, schema: OnceLock::new() }).collect()
}

/// The first word.
fn word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or("")
}

fn read_type(name: &'static str, lines: &'static str) -> Schema {
    let (head, fields) = lines.split_once('\n').unwrap_or((lines, ""));
    if let Some((_, shape)) = head.split_once(" = ") {
        return Schema { shape: special(shape), ..Schema::default() };
    }
    let mut body = Struct { name: Some(name), atomic: head.ends_with(" atomic"), ..Struct::default() };
    let package = name.rsplit_once('.').map_or("", |(package, _)| package);
    for line in fields.lines().filter(|l| !l.is_empty()) {
        let (field_name, field) = read_field(package, line.trim_start());
        body.retain_keys |= field.retain_keys;
        if field.required {
            body.required.push(field_name.into());
        }
        body.fields.insert(field_name.into(), field);
    }
    Schema { shape: Shape::Struct(body), ..Schema::default() }
}

fn special(shape: &str) -> Shape {
    match shape {
        "intstr" => Shape::IntOrString,
        "quantity" => Shape::Quantity,
        "time" => Shape::String(StringFormat::Time),
        "microtime" => Shape::String(StringFormat::MicroTime),
        _ => Shape::Any,
    }
}

/// The flags of one field that change its type's shape.
#[derive(Default)]
struct Flags<'t> {
    list: Option<ListKind>,
    atomic: bool,
    granular: bool,
    words: BTreeMap<&'t str, &'t str>,
}

fn read_field(package: &str, line: &'static str) -> (&'static str, Field) {
    let (line, default) = match line.split_once(" default=") {
        Some((line, json)) => (line, serde_json::from_str(json).ok()),
        None => (line, None),
    };
    let mut words = line.split(' ');
    let name = words.next().unwrap_or("");
    let type_text = words.next().unwrap_or("");
    let mut numbers: Vec<u32> = words.next().unwrap_or("").split('.').filter_map(|n| n.parse().ok()).collect();
    let proto = numbers.pop().unwrap_or(0);
    let flags = read_flags(words);
    let has = |flag: &str| flags.words.contains_key(flag);
    let field = Field {
        schema: read_link(package, type_text, &flags),
        default,
        proto,
        proto_outer: numbers.into(),
        merge_key: flags.words.get("key").map(|key| (*key).into()),
        merge_list: has("merge"),
        retain_keys: has("retainKeys"),
        required: has("required"),
        zero: if has("omit") {
            Zero::Omit
        } else if has("fill") {
            Zero::Fill
        } else {
            Zero::Keep
        },
    };
    (name, field)
}

fn read_flags<'t>(words: impl Iterator<Item = &'t str>) -> Flags<'t> {
    let mut flags = Flags::default();
    for flag in words {
        let (word, value) = flag.split_once('=').unwrap_or((flag, ""));
        match word {
            "set" => flags.list = Some(ListKind::Set),
            "map" => flags.list = Some(ListKind::Map(value.split(',').map(Into::into).collect())),
            "atomic" => flags.atomic = true,
            "granular" => flags.granular = true,
            _ => {
                flags.words.insert(word, value);
            }
        }
    }
    flags
}

fn read_link(package: &str, text: &str, flags: &Flags<'_>) -> Link {
    let shape = if let Some(items) = text.strip_prefix('[') {
        let kind = flags.list.clone().unwrap_or(ListKind::Atomic);
        Shape::List { items: read_link(package, items, &Flags::default()), kind }
    } else if let Some(values) = text.strip_prefix('{') {
        Shape::Map { values: read_link(package, values, &Flags::default()), atomic: flags.atomic }
    } else if let Some(name) = text.strip_prefix('@') {
        return read_reference(package, name, flags);
    } else {
        return scalar(text);
    };
    inline(shape)
}

/// A named type; a use that is granular where the type is atomic gets its own copy.
fn read_reference(package: &str, name: &str, flags: &Flags<'_>) -> Link {
    let full = if name.contains('.') { name.to_owned() } else { format!("{package}.{name}") };
    match (interned(&full), flags.granular) {
        (Some(name), false) => Link::Named(name),
        (Some(name), true) => granular(name),
        (None, _) => inline(Shape::Any),
    }
}

fn granular(name: &'static str) -> Link {
    let mut schema = builtin(name).cloned().unwrap_or_default();
    if let Shape::Struct(body) = &mut schema.shape {
        body.atomic = false;
    }
    Link::Inline(Arc::new(schema))
}

fn inline(shape: Shape) -> Link {
    Link::Inline(Arc::new(Schema { shape, ..Schema::default() }))
}

/// Scalars are shared: there are thousands of them.
fn scalar(text: &str) -> Link {
    static SCALARS: OnceLock<[(&str, Arc<Schema>); 6]> = OnceLock::new();
    let of = |shape| Arc::new(Schema { shape, ..Schema::default() });
    let scalars = SCALARS.get_or_init(|| {
        [
            ("string", of(Shape::String(StringFormat::Plain))),
            ("int32", of(Shape::Integer(IntFormat::Int32))),
            ("bool", of(Shape::Boolean)),
            ("int64", of(Shape::Integer(IntFormat::Int64))),
            ("bytes", of(Shape::String(StringFormat::Bytes))),
            ("number", of(Shape::Number)),
        ]
    });
    match scalars.iter().find(|(name, _)| *name == text) {
        Some((_, schema)) => Link::Inline(Arc::clone(schema)),
        None => inline(Shape::Any),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = "io.k8s.api.core.v1";
    const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

    fn field(type_name: &str, field: &str) -> &'static Field {
        let schema = builtin(type_name).unwrap_or_else(|| panic!("{type_name} is missing"));
        schema.field(field).unwrap_or_else(|| panic!("{type_name}.{field} is missing"))
    }

    fn list_kind(type_name: &str, name: &str) -> ListKind {
        match &field(type_name, name).schema.get().shape {
            Shape::List { kind, .. } => kind.clone(),
            other => panic!("{type_name}.{name} is {other:?}"),
        }
    }

    fn keys(keys: &[&str]) -> ListKind {
        ListKind::Map(keys.iter().map(|k| (*k).into()).collect())
    }

    #[test]
    fn lists_merge_as_published() {
        let check = |type_name: String, field: &str, kind| assert_eq!(list_kind(&type_name, field), kind, "{field}");
        check(format!("{CORE}.PodSpec"), "containers", keys(&["name"]));
        check(format!("{CORE}.Container"), "ports", keys(&["containerPort", "protocol"]));
        check(format!("{CORE}.ServiceSpec"), "ports", keys(&["port", "protocol"]));
        check(format!("{CORE}.PodSpec"), "tolerations", ListKind::Atomic);
        check(format!("{CORE}.PodStatus"), "conditions", keys(&["type"]));
        check(format!("{META}.ObjectMeta"), "finalizers", ListKind::Set);
        check(format!("{META}.ObjectMeta"), "ownerReferences", keys(&["uid"]));
    }

    #[test]
    fn fields_carry_merge_rules_defaults_and_numbers() {
        let ports = field("io.k8s.api.core.v1.Container", "ports");
        assert_eq!(ports.merge_key.as_deref(), Some("containerPort"));
        assert!(ports.merge_list);
        let protocol = field("io.k8s.api.core.v1.ContainerPort", "protocol");
        assert_eq!((protocol.default.clone(), protocol.zero, protocol.proto), (Some("TCP".into()), Zero::Omit, 4));
        let empty_dir = field("io.k8s.api.core.v1.Volume", "emptyDir");
        assert_eq!((&*empty_dir.proto_outer, empty_dir.proto), (&[2][..], 2));
        assert!(field("io.k8s.api.apps.v1.DeploymentSpec", "strategy").retain_keys);
        assert!(field("io.k8s.api.apps.v1.DeploymentSpec", "selector").required);
        assert_eq!(field("io.k8s.api.apps.v1.DeploymentSpec", "replicas").zero, Zero::Keep);
        assert_eq!(field("io.k8s.api.core.v1.Container", "resources").zero, Zero::Fill);
    }

    #[test]
    fn types_with_json_of_their_own() {
        let shape = |name: &str| builtin(name).map(|s| s.shape.clone());
        assert!(matches!(shape("io.k8s.apimachinery.pkg.util.intstr.IntOrString"), Some(Shape::IntOrString)));
        assert!(matches!(shape("io.k8s.apimachinery.pkg.api.resource.Quantity"), Some(Shape::Quantity)));
        assert!(matches!(shape(&format!("{META}.Time")), Some(Shape::String(StringFormat::Time))));
        assert!(matches!(shape("io.k8s.apimachinery.pkg.runtime.RawExtension"), Some(Shape::Any)));
        let binary = field("io.k8s.api.core.v1.ConfigMap", "binaryData").schema.get();
        let Shape::Map { values, .. } = &binary.shape else { panic!("binaryData is {binary:?}") };
        assert!(matches!(values.get().shape, Shape::String(StringFormat::Bytes)));
    }

    #[test]
    fn every_type_reads_and_every_reference_resolves() {
        let mut names = 0;
        for name in builtin_names() {
            let schema = builtin(name).expect("listed");
            names += 1;
            let Shape::Struct(body) = &schema.shape else { continue };
            for (field, value) in &body.fields {
                assert!(!is_dangling(&value.schema), "{name}.{field}");
            }
        }
        assert!(names > 500, "{names} types");
    }

    fn is_dangling(link: &Link) -> bool {
        match link {
            Link::Named(name) => builtin(name).is_none(),
            Link::Inline(schema) => match &schema.shape {
                Shape::Any => true,
                Shape::List { items, .. } => is_dangling(items),
                Shape::Map { values, .. } => is_dangling(values),
                _ => false,
            },
        }
    }

    #[test]
    fn unknown_names_are_absent() {
        assert!(builtin("io.k8s.api.core.v1.Nothing").is_none());
        assert!(builtin("").is_none());
    }
}
