//! ServiceCIDR: a range that addresses of Services are taken from.

use meta::{FieldError, ObjectExt, name};
use serde_json::Value;

use super::GROUP;
use crate::check::{At, Faults, named};
use crate::{Column, KindDef, UpdateOf, column};

const EXAMPLE: &str = r#"{"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
    "spec": {"cidrs": ["10.96.0.0/12"]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new(GROUP, "v1", "ServiceCIDR", "servicecidrs")
        .cluster_scoped()
        .schema("io.k8s.api.networking.v1.ServiceCIDR")
        .with_status()
        .columns(vec![
            column::name(),
            Column::new("CIDRs", "string", "The ranges.", |range, _| {
                let cidrs = range.items(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
                cidrs.collect::<Vec<_>>().join(",").into()
            }),
            column::age(),
        ])
        .health_by_conditions()
        .validates(validate)
        .validates_update(validate_update)
        .example(EXAMPLE)
}

fn validate(range: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(range);
    let spec = root.field("spec");
    let cidrs = spec.field("cidrs");
    match cidrs.items() {
        [] => faults.push(cidrs.required("at least one CIDR required")),
        [_] => {}
        [first, second] => {
            let is_v6 = |cidr: &Value| cidr.as_str().is_some_and(|text| text.contains(':'));
            if is_v6(first) == is_v6(second) {
                faults.push(cidrs.invalid(
                    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                     2001:db8::/96",
                ));
            }
        }
        _ => faults.push(cidrs.invalid("may only hold up to 2 values")),
    }
    cidrs.each().for_each(|cidr| named(&cidr, name::cidr, &mut faults));
    faults
}

/// A second range may come and go; the first one stays.
fn validate_update(new: &Value, old: &Value, what: UpdateOf) -> Vec<FieldError> {
    if what == UpdateOf::Status {
        return Vec::new();
    }
    let mut faults = validate(new);
    let root = At::root(new);
    let spec = root.field("spec");
    let (cidrs, before) = (spec.field("cidrs"), old.items(&["spec", "cidrs"]));
    let kept = cidrs.items().len().min(before.len());
    if cidrs.items()[..kept] != before[..kept] {
        faults.push(cidrs.invalid("field is immutable"));
    }
    faults
}
