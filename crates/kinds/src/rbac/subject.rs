//! Whom a binding names, and the role it gives.

use meta::{ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, required_name, same};
use crate::{Column, KindDef, column, fill};

/// What both kinds of binding have in common.
pub(super) fn binding(def: KindDef) -> KindDef {
    def.columns(columns()).named_by(name::path_segment).defaults(default)
}

fn default(binding: &mut Value) {
    if let Some(role) = fill::child(binding, "roleRef") {
        fill::zero(role, "apiGroup", GROUP);
    }
    for subject in fill::items(binding, "subjects") {
        if matches!(subject.text(&["kind"]), "User" | "Group") {
            fill::zero(subject, "apiGroup", GROUP);
        }
    }
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Role", "string", "The role given.", |binding, _| {
            let role = &binding["roleRef"];
            format!("{}/{}", role.text(&["kind"]), role.text(&["name"])).into()
        }),
        column::age(),
        Column::new("Users", "string", "Users it is given to.", |binding, _| names(binding, "User")).wide(),
        Column::new("Groups", "string", "Groups it is given to.", |binding, _| names(binding, "Group")).wide(),
        Column::new("ServiceAccounts", "string", "ServiceAccounts it is given to.", |binding, _| {
            names(binding, "ServiceAccount")
        })
        .wide(),
    ]
}

fn names(binding: &Value, kind: &str) -> Value {
    let of_kind = binding.items(&["subjects"]).iter().filter(|subject| subject.text(&["kind"]) == kind);
    let text = |subject: &Value| match kind {
        "ServiceAccount" => format!("{}/{}", subject.text(&["namespace"]), subject.text(&["name"])),
        _ => subject.text(&["name"]).to_owned(),
    };
    of_kind.map(text).collect::<Vec<_>>().join(", ").into()
}

pub(super) fn check(binding: &At, kinds: &[&str], namespaced: bool, faults: &mut Faults) {
    let role = binding.field("roleRef");
    let (group, kind) = (role.field("apiGroup"), role.field("kind"));
    if group.text() != GROUP {
        faults.push(group.unsupported(&[GROUP]));
    }
    if !kinds.contains(&kind.text()) {
        faults.push(kind.unsupported(kinds));
    }
    required_name(&role.field("name"), name::path_segment, faults);
    binding.field("subjects").each().for_each(|subject| check_subject(&subject, namespaced, faults));
}

fn check_subject(subject: &At, namespaced: bool, faults: &mut Faults) {
    let (kind, group, given) = (subject.field("kind"), subject.field("apiGroup"), subject.field("name"));
    match kind.text() {
        "ServiceAccount" => {
            required_name(&given, name::dns1123_subdomain, faults);
            if !group.text().is_empty() {
                faults.push(group.unsupported(&[""]));
            }
            let namespace = subject.field("namespace");
            if !namespaced && namespace.text().is_empty() {
                faults.push(namespace.required(""));
            }
        }
        "User" | "Group" => {
            required_name(&given, |_| Vec::new(), faults);
            if group.text() != GROUP {
                faults.push(group.unsupported(&[GROUP]));
            }
        }
        _ => {
            required_name(&given, |_| Vec::new(), faults);
            faults.push(kind.unsupported(&["ServiceAccount", "User", "Group"]));
        }
    }
}

pub(super) fn check_change(new: &At, old: &At, faults: &mut Faults) {
    let role = new.field("roleRef");
    if !same(role.value, old.field("roleRef").value) {
        faults.push(role.invalid("cannot change roleRef"));
    }
}
