//! Reads Go struct declarations: JSON name, pointer or value, zero-value tags, protobuf number, `+default` markers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One Go package.
#[derive(Default)]
pub struct Package {
    /// Struct types by name.
    pub structs: BTreeMap<String, Struct>,
    /// String constants by name (`+default=ref(X)` points at them).
    pub constants: BTreeMap<String, String>,
}

/// One struct type.
#[derive(Default)]
pub struct Struct {
    /// Its fields in order.
    pub fields: Vec<Field>,
}

/// One tagged field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Field {
    /// JSON name; empty when inlined.
    pub json: String,
    /// Go type as written.
    pub go_type: String,
    /// The struct's fields are written in place.
    pub inline: bool,
    /// The tag has `omitempty`.
    pub omit_empty: bool,
    /// The tag has `omitzero`.
    pub omit_zero: bool,
    /// Protobuf number; 0 when it is not on that wire.
    pub number: u32,
    /// Protobuf name.
    pub proto_name: String,
    /// The `+default=` marker's text.
    pub default: Option<String>,
}

impl Field {
    /// Whether Go tells absent from zero.
    pub fn is_pointer(&self) -> bool {
        self.go_type.starts_with('*')
    }
}

/// Reads every hand-written file of a package.
pub fn read_package(dir: &Path) -> Result<Package, String> {
    let mut package = Package::default();
    for entry in fs::read_dir(dir).map_err(|e| format!("read {}: {e}", dir.display()))? {
        let path = entry.map_err(|e| format!("read {}: {e}", dir.display()))?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        let wanted = name.ends_with(".go") && !name.ends_with("_test.go") && !name.contains("generated");
        if wanted {
            let text = fs::read_to_string(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
            parse(&text, &mut package);
        }
    }
    Ok(package)
}

/// Reads one file into `package`.
pub fn parse(text: &str, package: &mut Package) {
    let mut current: Option<String> = None;
    let mut default = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(name) = struct_name(line) {
            current = Some(name);
        } else if line == "}" {
            current = None;
        } else if let Some(comment) = trimmed.strip_prefix("//") {
            if let Some(value) = comment.trim().strip_prefix("+default=") {
                default = Some(value.to_owned());
            }
            continue;
        } else if let Some(type_name) = &current {
            if let Some(mut field) = field(trimmed) {
                field.default = default.take();
                package.structs.entry(type_name.clone()).or_default().fields.push(field);
            }
        } else if let Some((name, value)) = constant(trimmed) {
            package.constants.insert(name, value);
        }
        default = None;
    }
}

fn struct_name(line: &str) -> Option<String> {
    let name = line.strip_prefix("type ")?.strip_suffix(" struct {")?;
    Some(name.trim().to_owned())
}

/// `Name Type = "value"`.
fn constant(line: &str) -> Option<(String, String)> {
    let (left, right) = line.split_once(" = ")?;
    let value = right.split("//").next()?.trim().strip_prefix('"')?.strip_suffix('"')?;
    let name = left.trim_start_matches("const ").split_whitespace().next()?;
    Some((name.to_owned(), value.to_owned()))
}

/// A line with a struct tag.
fn field(line: &str) -> Option<Field> {
    let (declaration, rest) = line.split_once('`')?;
    let (tag, _) = rest.split_once('`')?;
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let go_type = (*words.last()?).to_owned();
    let mut field = Field { go_type, ..Field::default() };
    let json = quoted(tag, "json:");
    let proto = quoted(tag, "protobuf:");
    if json.is_none() && proto.is_none() {
        return None;
    }
    let mut parts = json.unwrap_or("").split(',');
    field.json = parts.next().unwrap_or("").to_owned();
    field.inline = words.len() == 1 && field.json.is_empty();
    for option in parts {
        field.omit_empty |= option == "omitempty";
        field.omit_zero |= option == "omitzero";
    }
    for (index, part) in proto.unwrap_or("").split(',').enumerate() {
        if index == 1 {
            field.number = part.parse().unwrap_or(0);
        }
        if let Some(name) = part.strip_prefix("name=") {
            field.proto_name = name.to_owned();
        }
    }
    if field.proto_name.is_empty() {
        field.proto_name = lower_first(&field.go_type);
    }
    if field.json == "-" { None } else { Some(field) }
}

fn lower_first(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn quoted<'t>(tag: &'t str, key: &str) -> Option<&'t str> {
    let rest = &tag[tag.find(key)? + key.len()..];
    let inner = rest.strip_prefix('"')?;
    inner.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_struct() {
        let text = r#"
const Blue Colour = "blue"
type A struct {
	metav1.TypeMeta `json:",inline"`
	// replicas, prose.
	// +default=1
	Replicas *int32 `json:"replicas,omitempty" protobuf:"varint,1,opt,name=replicas"`
	Common `json:"" protobuf:"bytes,1,req"`
}
"#;
        let mut package = Package::default();
        parse(text, &mut package);
        let fields = &package.structs["A"].fields;
        assert!(fields[0].inline && fields[0].number == 0);
        assert_eq!((fields[1].json.as_str(), fields[1].number, fields[1].is_pointer()), ("replicas", 1, true));
        assert_eq!(fields[1].default.as_deref(), Some("1"));
        assert_eq!((fields[2].number, fields[2].proto_name.as_str()), (1, "common"));
        assert_eq!(package.constants["Blue"], "blue");
    }
}
