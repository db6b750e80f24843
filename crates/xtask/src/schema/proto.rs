//! Reads `generated.proto`: package, messages, field numbers. Only the shapes that the generator writes.

use std::collections::BTreeMap;

use super::go;

/// One file's messages.
pub struct Messages {
    package: String,
    /// Message name, then field name, then number.
    numbers: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Messages {
    /// `k8s.io.kube_aggregator.pkg` is published as `io.k8s.kube-aggregator.pkg`.
    pub fn published_prefix(&self) -> String {
        self.package.replacen("k8s.io.", "io.k8s.", 1).replace('_', "-")
    }
}

/// Reads one file.
pub fn parse(text: &str) -> Messages {
    let mut messages = Messages { package: String::new(), numbers: BTreeMap::new() };
    let mut current = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(package) = line.strip_prefix("package ") {
            messages.package = package.trim_end_matches(';').to_owned();
        } else if let Some(rest) = line.strip_prefix("message ") {
            current = rest.trim_end_matches(" {").to_owned();
            messages.numbers.entry(current.clone()).or_default();
        } else if let Some((name, number)) = field(line) {
            messages.numbers.entry(current.clone()).or_default().insert(name, number);
        }
    }
    messages
}

/// `optional string name = 1;` -> (name, 1).
fn field(line: &str) -> Option<(String, u32)> {
    if !["optional ", "repeated ", "required ", "map<"].iter().any(|word| line.starts_with(word)) {
        return None;
    }
    let (left, right) = line.split_once(" = ")?;
    let number = right.trim_end_matches(';').split_whitespace().next()?.parse().ok()?;
    Some((left.rsplit(' ').next()?.to_owned(), number))
}

/// The Go tags must say the same numbers as the protobuf file; a difference means that a source is misread.
pub fn cross_check(messages: &Messages, package: &go::Package) -> Result<(), String> {
    for (message, fields) in &messages.numbers {
        let Some(go) = package.structs.get(message) else { continue };
        for tagged in go.fields.iter().filter(|f| f.number != 0) {
            if fields.get(&tagged.proto_name) != Some(&tagged.number) {
                let found = fields.get(&tagged.proto_name);
                let prefix = messages.published_prefix();
                return Err(format!("{prefix}.{message}.{}: {} in Go, {found:?} in proto", tagged.json, tagged.number));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_and_maps() {
        let text =
            "package k8s.io.api.x.v1;\nmessage A {\n  optional string name = 1;\n  map<string, string> m = 20;\n}\n";
        let messages = parse(text);
        assert_eq!(messages.published_prefix(), "io.k8s.api.x.v1");
        assert_eq!(messages.numbers["A"]["name"], 1);
        assert_eq!(messages.numbers["A"]["m"], 20);
    }
}
