//! The names of a custom kind.

use meta::name;

use crate::check::{At, Faults};

pub(super) fn check(names: &At, faults: &mut Faults) {
    for field in ["plural", "singular", "kind", "listKind"] {
        let at = names.field(field);
        if at.text().is_empty() {
            faults.push(at.required(""));
        }
    }
    for field in ["plural", "singular"] {
        check_label(&names.field(field), faults);
    }
    for field in ["kind", "listKind"] {
        check_kind(&names.field(field), faults);
    }
    let (kind, list_kind) = (names.field("kind"), names.field("listKind"));
    if !kind.text().is_empty() && kind.text() == list_kind.text() {
        faults.push(list_kind.invalid("kind and listKind may not be the same"));
    }
    for field in ["shortNames", "categories"] {
        names.field(field).each().for_each(|word| check_word(&word, faults));
    }
}

fn check_label(at: &At, faults: &mut Faults) {
    if !at.text().is_empty() {
        check_word(at, faults);
    }
}

fn check_word(at: &At, faults: &mut Faults) {
    let broken = name::dns1035_label(at.text());
    if !broken.is_empty() {
        faults.push(at.invalid(broken.join(",")));
    }
}

fn check_kind(at: &At, faults: &mut Faults) {
    let broken = name::dns1035_label(&at.text().to_lowercase());
    if !at.text().is_empty() && !broken.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", broken.join(","));
        faults.push(at.invalid(detail));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use serde_json::{Value, json};

    #[test]
    fn names() {
        check(&["spec", "names", "shortNames"], json!(["bo"]), &[]);
        check(&["spec", "names", "kind"], Value::Null, &["spec.names.kind: Required value"]);
        check(
            &["spec", "names", "kind"],
            json!("Big Boat"),
            &[
                "spec.names.kind: Invalid value: \"Big Boat\": may have mixed case, but should otherwise match: a DNS-1035",
            ],
        );
        check(
            &["spec", "names", "listKind"],
            json!("Boat"),
            &["spec.names.listKind: Invalid value: \"Boat\": kind and listKind may not be the same"],
        );
        check(
            &["spec", "names", "categories"],
            json!(["All"]),
            &["spec.names.categories[0]: Invalid value: \"All\": a DNS-1035 label"],
        );
    }
}
