//! PriorityClass: how important pods are, by name.

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use crate::check::{At, Faults, immutable, optional_one_of};
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

/// The highest priority that users may define; what lies above is the system's.
pub const USER_PRIORITY_MAX: i64 = 1_000_000_000;
/// The classes of the system, with their values.
pub const SYSTEM: &[(&str, i64)] =
    &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
const EXAMPLE: &str = r#"{"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"},
    "value": 1000, "description": "For what must not wait."}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
        .cluster_scoped()
        .short("pc")
        .schema("io.k8s.api.scheduling.v1.PriorityClass")
        .counts_generation()
        .columns(vec![
            column::name(),
            Column::new("Value", "integer", "The priority.", |class, _| column::number(class, &["value"])),
            Column::new("Global-Default", "boolean", "Whether pods without a class get it.", |class, _| {
                class.flag(&["globalDefault"]).into()
            }),
            column::age(),
            Column::new("PreemptionPolicy", "string", "Whether its pods displace others.", |class, _| {
                class.text(&["preemptionPolicy"]).into()
            }),
        ])
        .apply_order(apply_order::CLASS)
        .defaults(|class| fill::absent(class, "preemptionPolicy", "PreemptLowerPriority"))
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(class: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(class);
    let value = root.field("value");
    if class.name().starts_with("system-") {
        check_system(&root, &mut faults);
    } else if value.number() > USER_PRIORITY_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        faults.push(value.forbidden(detail));
    }
    optional_one_of(&root.field("preemptionPolicy"), &["Never", "PreemptLowerPriority"], &mut faults);
    faults
}

fn check_system(root: &At, faults: &mut Faults) {
    let (own, value) = (root.value.name(), root.field("value").number());
    let why = match SYSTEM.iter().find(|(known, _)| *known == own) {
        None => format!("{own} is not a known system priority class"),
        Some((_, wanted)) if *wanted != value => format!("value of {own} PriorityClass must be {wanted}"),
        Some(_) if root.field("globalDefault").is_true() => {
            format!("globalDefault of {own} PriorityClass must be false")
        }
        Some(_) => return,
    };
    let meta = root.field("metadata");
    let detail = format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
    faults.push(meta.field("name").forbidden(detail));
}

fn validate_update(new: &Value, old: &Value, _: UpdateOf) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let (root, old_root) = (At::root(new), At::root(old));
    let value = root.field("value");
    // Pods carry the number they were given; another one here would not be theirs.
    if value.number() != old_root.field("value").number() {
        faults.push(value.forbidden("may not be changed in an update."));
    }
    immutable(&root.field("preemptionPolicy"), &old_root.field("preemptionPolicy"), &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults() {
        let check = |name: &str, value: i64, expected: &[&str]| {
            let class = json!({"metadata": {"name": name}, "value": value});
            let texts: Vec<String> = validate(&class).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check("high", 1_000_000_000, &[]);
        check("system-node-critical", 2_000_001_000, &[]);
        check(
            "high",
            1_000_000_001,
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        );
        check(
            "system-mine",
            1,
            &[
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
               error: system-mine is not a known system priority class",
            ],
        );
    }
}
