//! PriorityLevelConfiguration: how many requests of a level run at once, and what happens to the rest.

use meta::{FieldError, ObjectExt};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, non_negative, one_of, positive};
use crate::{Column, KindDef, UpdateOf, apply_order, column, fill};

/// What upstream assumes of a level that does not say.
const SHARES: i64 = 30;
const QUEUING: &[(&str, i64)] = &[("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)];
const QUEUES_MAX: i64 = 10_000_000;
const EXAMPLE: &str = r#"{"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
    "metadata": {"name": "robots"}, "spec": {"type": "Limited",
        "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Queue"}}}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations")
        .cluster_scoped()
        .schema("io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration")
        .with_status()
        .counts_generation()
        .columns(columns())
        .apply_order(apply_order::CLASS)
        .defaults(default)
        .validates(validate)
        .validates_update(|new, _, what| if what == UpdateOf::Main { validate(new) } else { Vec::new() })
        .example(EXAMPLE)
}

fn columns() -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Type", "string", "Whether it is limited.", |level, _| level.text(&["spec", "type"]).into()),
        Column::new("NominalConcurrencyShares", "string", "Its share of what runs at once.", |level, _| {
            shown(level, &["spec", "limited", "nominalConcurrencyShares"])
        }),
        Column::new("Queues", "string", "Its queues.", |level, _| queuing(level, "queues")),
        Column::new("HandSize", "string", "Queues that one flow may use.", |level, _| queuing(level, "handSize")),
        Column::new("QueueLengthLimit", "string", "The longest queue.", |level, _| queuing(level, "queueLengthLimit")),
        column::age(),
    ]
}

fn shown(level: &Value, path: &[&str]) -> Value {
    level.int(path).map_or_else(|| column::NONE.into(), |number| number.to_string().into())
}

fn queuing(level: &Value, field: &str) -> Value {
    shown(level, &["spec", "limited", "limitResponse", "queuing", field])
}

fn default(level: &mut Value) {
    let Some(spec) = fill::child(level, "spec") else { return };
    if let Some(exempt) = fill::child(spec, "exempt") {
        fill::absent(exempt, "nominalConcurrencyShares", 0);
        fill::absent(exempt, "lendablePercent", 0);
    }
    let Some(limited) = fill::child(spec, "limited") else { return };
    fill::absent(limited, "nominalConcurrencyShares", SHARES);
    fill::absent(limited, "lendablePercent", 0);
    let Some(response) = fill::child(limited, "limitResponse") else { return };
    if response.text(&["type"]) == "Queue"
        && let Some(queuing) = fill::made(response, "queuing")
    {
        QUEUING.iter().for_each(|(field, number)| fill::zero(queuing, field, *number));
    }
}

fn validate(level: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(level);
    let spec = root.field("spec");
    let (kind, limited, exempt) = (spec.field("type"), spec.field("limited"), spec.field("exempt"));
    one_of(&kind, &["Exempt", "Limited"], &mut faults);
    match kind.text() {
        "Limited" if exempt.is_set() => {
            faults.push(exempt.forbidden("must be nil if the type is Limited"));
        }
        "Limited" if limited.is_set() => check_limited(&limited, &mut faults),
        "Limited" => faults.push(limited.required("must not be empty when type is Limited")),
        "Exempt" if limited.is_set() => faults.push(limited.forbidden("must be nil if the type is not Limited")),
        _ => {}
    }
    faults
}

fn check_limited(limited: &At, faults: &mut Faults) {
    non_negative(&limited.field("nominalConcurrencyShares"), faults);
    let lendable = limited.field("lendablePercent");
    if !(0..=100).contains(&lendable.number()) {
        faults.push(lendable.invalid("must be between 0 and 100, inclusive"));
    }
    non_negative(&limited.field("borrowingLimitPercent"), faults);
    let response = limited.field("limitResponse");
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    one_of(&kind, &["Queue", "Reject"], faults);
    match kind.text() {
        "Reject" if queuing.is_set() => {
            faults.push(queuing.forbidden("must be nil if limited.limitResponse.type is not Limited"));
        }
        "Queue" if queuing.is_set() => check_queuing(&queuing, faults),
        "Queue" => faults.push(queuing.required("must not be empty if limited.limitResponse.type is Limited")),
        _ => {}
    }
}

fn check_queuing(queuing: &At, faults: &mut Faults) {
    QUEUING.iter().for_each(|(field, _)| positive(&queuing.field(field), faults));
    let (queues, hand) = (queuing.field("queues"), queuing.field("handSize"));
    if queues.number() > QUEUES_MAX {
        faults.push(queues.invalid(format!("must not be greater than {QUEUES_MAX}")));
    }
    if hand.number() > queues.number() {
        let detail = format!("should not be greater than queues ({})", queues.number());
        faults.push(hand.invalid(detail));
    }
}
