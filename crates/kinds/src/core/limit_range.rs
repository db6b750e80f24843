//! LimitRange: what one object of a namespace may ask for.

use std::collections::{BTreeMap, BTreeSet};

use meta::{FieldError, ObjectExt, Quantity, name};
use serde_json::{Map, Value};

use super::pod::resources::{allows_overcommit, container_resource_name, resource_name};
use crate::check::{At, Faults, named};
use crate::{KindDef, UpdateOf, apply_order, column, fill};

const TYPES: &[&str] = &["Container", "PersistentVolumeClaim", "Pod"];
const NO_STORAGE: &str = "either minimum or maximum storage value is required, but neither was provided";
const EXAMPLE: &str = r#"{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small", "namespace": "default"},
    "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}, "min": {"memory": "8Mi"}}]}}"#;

/// The kind.
pub fn def() -> KindDef {
    KindDef::new("", "v1", "LimitRange", "limitranges")
        .short("limits")
        .schema("io.k8s.api.core.v1.LimitRange")
        .columns(vec![column::name(), column::created_at()])
        .apply_order(apply_order::BOUND)
        .defaults(default)
        .validates(validate)
        .validates_update(|new, _, _: UpdateOf| validate(new))
        .example(EXAMPLE)
}

/// For containers: without a limit the maximum is one, without a request the limit or else the minimum is one.
fn default(object: &mut Value) {
    let Some(spec) = fill::child(object, "spec") else { return };
    for item in fill::items(spec, "limits").filter(|item| item.text(&["type"]) == "Container") {
        spread(item, "max", "default");
        spread(item, "default", "defaultRequest");
        spread(item, "min", "defaultRequest");
    }
}

fn spread(item: &mut Value, from: &str, to: &str) {
    let source: Map<String, Value> = item.map(&[from]).cloned().unwrap_or_default();
    for (resource, amount) in source {
        let target = item.map_mut(&[to]);
        target.entry(resource).or_insert(amount);
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut faults = Faults::new();
    let root = At::root(object);
    let spec = root.field("spec");
    let mut types = BTreeSet::new();
    for item in spec.field("limits").each() {
        let kind = item.field("type");
        check_type(&kind, &mut faults);
        if !types.insert(kind.text()) {
            faults.push(kind.duplicate());
        }
        check_item(&item, &mut faults);
    }
    faults
}

fn check_type(kind: &At, faults: &mut Faults) {
    let before = faults.len();
    named(kind, name::qualified_name, faults);
    if faults.len() == before && !kind.text().contains('/') && !TYPES.contains(&kind.text()) {
        faults.push(kind.invalid("must be a standard limit type or fully qualified"));
    }
}

type Amounts<'v> = BTreeMap<&'v str, Quantity>;

struct Bounds<'v> {
    min: Amounts<'v>,
    max: Amounts<'v>,
    default: Amounts<'v>,
    request: Amounts<'v>,
    ratio: Amounts<'v>,
}

fn check_item(item: &At, faults: &mut Faults) {
    let kind = item.field("type").text();
    let is_pod = kind == "Pod";
    let max = amounts(&item.field("max"), kind, faults);
    let min = amounts(&item.field("min"), kind, faults);
    let mut defaults = ["default", "defaultRequest"].map(|field| {
        let at = item.field(field);
        if is_pod && at.value.as_object().is_some_and(|map| !map.is_empty()) {
            faults.push(at.forbidden("may not be specified when `type` is 'Pod'"));
        }
        if is_pod { Amounts::new() } else { amounts(&at, kind, faults) }
    });
    if kind == "PersistentVolumeClaim" && !min.contains_key("storage") && !max.contains_key("storage") {
        faults.push(item.field("limits").required(NO_STORAGE));
    }
    let ratio = amounts(&item.field("maxLimitRequestRatio"), kind, faults);
    let [default, request] = std::mem::take(&mut defaults);
    let bounds = Bounds { min, max, default, request, ratio };
    let lists = [&bounds.min, &bounds.max, &bounds.default, &bounds.request, &bounds.ratio];
    let resources: BTreeSet<&str> = lists.iter().flat_map(|list| list.keys().copied()).collect();
    resources.into_iter().for_each(|resource| check_resource(item, resource, &bounds, faults));
}

fn amounts<'v>(list: &At<'v, '_>, kind: &str, faults: &mut Faults) -> Amounts<'v> {
    let mut amounts = Amounts::new();
    for (resource, entry) in list.entries() {
        match kind {
            "Pod" | "Container" => container_resource_name(&entry, resource, faults),
            _ => drop(resource_name(&entry, resource, faults)),
        }
        match Quantity::parse(entry.text()) {
            Ok(amount) => drop(amounts.insert(resource, amount)),
            Err(fault) => faults.push(entry.invalid(fault)),
        }
    }
    amounts
}

/// One comparison: where the fault stands, the lesser and the greater amount and what they are called.
type Comparison<'b> = (&'static str, Option<&'b Quantity>, &'static str, Option<&'b Quantity>, &'static str);

fn check_resource(item: &At, resource: &str, bounds: &Bounds, faults: &mut Faults) {
    let (min, max) = (bounds.min.get(resource), bounds.max.get(resource));
    let (limit, request) = (bounds.default.get(resource), bounds.request.get(resource));
    let comparisons: [Comparison; 6] = [
        ("min", min, "min value", max, "max value"),
        ("defaultRequest", min, "min value", request, "default request value"),
        ("defaultRequest", request, "default request value", max, "max value"),
        ("defaultRequest", request, "default request value", limit, "default limit value"),
        ("default", min, "min value", limit, "default value"),
        ("default", limit, "default value", max, "max value"),
    ];
    for (field, less, less_name, more, more_name) in comparisons {
        let (Some(less), Some(more)) = (less, more) else { continue };
        if less > more {
            let list = item.field(field);
            let detail = format!("{less_name} {less} is greater than {more_name} {more}");
            faults.push(list.entry(resource).invalid(detail));
        }
    }
    check_ratio(item, resource, bounds, faults);
    if let (Some(limit), Some(request)) = (limit, request)
        && !allows_overcommit(resource)
        && limit != request
    {
        let list = item.field("defaultRequest");
        let detail = format!("default value {limit} must equal to defaultRequest value {request} in {resource}");
        faults.push(list.entry(resource).invalid(detail));
    }
}

fn check_ratio(item: &At, resource: &str, bounds: &Bounds, faults: &mut Faults) {
    let Some(ratio) = bounds.ratio.get(resource) else { return };
    let list = item.field("maxLimitRequestRatio");
    let at = list.entry(resource);
    if *ratio < Quantity::from_units(1) {
        faults.push(at.invalid(format!("ratio {ratio} is less than 1")));
    }
    let (Some(min), Some(max)) = (bounds.min.get(resource), bounds.max.get(resource)) else { return };
    if min.is_zero() {
        return;
    }
    let widest = max.milli() as f64 / min.milli() as f64;
    if ratio.milli() as f64 / 1000.0 > widest {
        faults.push(at.invalid(format!("ratio {ratio} is greater than max/min = {widest:.6}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults() {
        let mut object =
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}}]}});
        default(&mut object);
        let item = &object["spec"]["limits"][0];
        assert_eq!(item["default"], json!({"cpu": "2"}));
        assert_eq!(item["defaultRequest"], json!({"cpu": "2", "memory": "1Gi"}));
    }

    #[test]
    fn faults() {
        let check = |item: Value, expected: &[&str]| {
            let texts: Vec<String> =
                validate(&json!({"spec": {"limits": [item]}})).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({"type": "Pod", "max": {"cpu": "2"}, "min": {"cpu": "1"}}), &[]);
        check(
            json!({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}),
            &["spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"],
        );
        check(
            json!({"type": "Pod", "default": {"cpu": "1"}}),
            &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        );
        check(
            json!({"type": "PersistentVolumeClaim"}),
            &["spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but \
               neither was provided"],
        );
        check(
            json!({"type": "Robot", "maxLimitRequestRatio": {"cpu": "500m"}}),
            &[
                "spec.limits[0].type: Invalid value: \"Robot\": must be a standard limit type or fully qualified",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
            ],
        );
    }
}
