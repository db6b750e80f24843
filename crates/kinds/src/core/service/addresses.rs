//! Addresses of a Service: `clusterIP`, `clusterIPs`, `ipFamilies`, `ipFamilyPolicy`, `externalIPs`.

use std::collections::BTreeSet;

use meta::name;
use serde_json::Value;

use super::is_headless;
use crate::check::{At, Faults, named, optional_one_of};
use crate::core::address::{check_not_special, is_ipv6};

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const STAYS: &str = "may not change once set";

pub(super) fn check(root: &At, spec: &At, faults: &mut Faults) {
    if spec.field("type").text() != "ExternalName" {
        check_cluster_ips(root, spec, faults);
    }
    for ip in spec.field("externalIPs").each() {
        let before = faults.len();
        named(&ip, name::ip, faults);
        if faults.len() == before {
            check_not_special(&ip, faults);
        }
    }
}

fn check_cluster_ips(root: &At, spec: &At, faults: &mut Faults) {
    let list = spec.field("clusterIPs");
    check_in_step(spec, &list, faults);
    check_families(&spec.field("ipFamilies"), faults);
    optional_one_of(&spec.field("ipFamilyPolicy"), POLICIES, faults);
    let sound = check_list(&list, faults);
    if list.items().len() > 2 {
        faults.push(list.invalid("may only hold up to 2 values"));
    }
    // What follows would only repeat faults in other words.
    if !sound {
        return;
    }
    let texts: Vec<&str> = list.items().iter().filter_map(Value::as_str).collect();
    if let [first, others @ ..] = &texts[..]
        && !others.is_empty()
        && !others.iter().all(|ip| is_ipv6(ip) != is_ipv6(first))
    {
        faults.push(list.invalid("may specify no more than one IP for each IP family"));
    }
    if !is_headless(root.value) {
        check_match(spec, &list, faults);
    }
}

/// `clusterIP` is the first of `clusterIPs`.
fn check_in_step(spec: &At, list: &At, faults: &mut Faults) {
    match (spec.field("clusterIP").text(), list.items()) {
        ("", []) => {}
        ("", _) => faults.push(list.invalid("must be empty when `clusterIP` is not specified")),
        (_, []) => faults.push(list.required("")),
        (ip, [first, ..]) if first != ip => faults.push(list.invalid("first value must match `clusterIP`")),
        _ => {}
    }
}

fn check_families(families: &At, faults: &mut Faults) {
    let mut seen = BTreeSet::new();
    for family in families.each() {
        optional_one_of(&family, FAMILIES, faults);
        if !seen.insert(family.text()) {
            faults.push(family.duplicate());
        }
    }
}

fn check_list(list: &At, faults: &mut Faults) -> bool {
    let before = faults.len();
    for (index, ip) in list.each().enumerate() {
        if index == 0 && ip.text() == "None" {
            if list.items().len() > 1 {
                faults.push(list.invalid("'None' must be the first and only value"));
            }
        } else {
            named(&ip, name::ip, faults);
        }
    }
    faults.len() == before
}

fn check_match(spec: &At, list: &At, faults: &mut Faults) {
    let families = spec.field("ipFamilies");
    for (index, (ip, family)) in list.each().zip(families.items()).enumerate() {
        let wanted = family.as_str().unwrap_or("");
        if (wanted == "IPv4" && is_ipv6(ip.text())) || (wanted == "IPv6" && !is_ipv6(ip.text())) {
            faults.push(ip.invalid(format!("expected an {wanted} value as indicated by `ipFamilies[{index}]`")));
        }
    }
}

/// The first address and family stay; a second one may come and go.
pub(super) fn check_change(new: &At, old: &At, faults: &mut Faults) {
    let (spec, old_spec) = (new.field("spec"), old.field("spec"));
    let is_name_only = |spec: &At| spec.field("type").text() == "ExternalName";
    if is_name_only(&spec) || is_name_only(&old_spec) {
        return;
    }
    let (headless, was_headless) = (is_headless(new.value), is_headless(old.value));
    if !(headless && was_headless) {
        check_list_change(&spec, &old_spec, &CLUSTER_IPS, faults);
    }
    if !headless && !was_headless {
        check_list_change(&spec, &old_spec, &IP_FAMILIES, faults);
    }
}

struct Listed {
    field: &'static str,
    /// As sentences name one entry.
    entry: &'static str,
}

const CLUSTER_IPS: Listed = Listed { field: "clusterIPs", entry: "clusterIP" };
const IP_FAMILIES: Listed = Listed { field: "ipFamilies", entry: "ipFamily" };

fn check_list_change(spec: &At, old_spec: &At, listed: &Listed, faults: &mut Faults) {
    let (list, old_list) = (spec.field(listed.field), old_spec.field(listed.field));
    let (now, before) = (list.items(), old_list.items());
    let at = |index: usize, detail: &str| {
        let item = At { value: list.value, path: list.path.index(index) };
        item.invalid(detail)
    };
    if now.len() == before.len() {
        let changed = before.iter().zip(now).enumerate().filter(|(_, (old, new))| old != new);
        faults.extend(changed.map(|(index, _)| at(index, STAYS)));
        return;
    }
    match (before.first(), now.first()) {
        (Some(_), None) => faults.push(at(0, &format!("primary {} can not be unset", listed.entry))),
        (Some(old), Some(new)) if old != new => faults.push(at(0, STAYS)),
        _ => {}
    }
    let policy = spec.field("ipFamilyPolicy");
    if now.len() == 1 && before.len() > 1 && policy.text() != "SingleStack" {
        faults.push(
            policy.invalid(format!("must be set to 'SingleStack' when releasing the secondary {}", listed.entry)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::faults;
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses() {
        let check = |extra: Value, expected: &[&str]| {
            let mut spec = json!({"ports": [{"port": 80}]});
            spec.as_object_mut().expect("map").extend(extra.as_object().expect("map").clone());
            assert_eq!(faults(spec), expected);
        };
        check(json!({"clusterIP": "10.0.0.1"}), &[]);
        check(json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]}), &[]);
        check(
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]}),
            &["spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`"],
        );
        check(
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "10.0.0.2"]}),
            &["spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"10.0.0.2\"]: may specify no more than one IP for each \
               IP family"],
        );
        check(
            json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv6"]}),
            &[
                "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`",
            ],
        );
        check(
            json!({"ipFamilies": ["IPv4", "IPv4"], "externalIPs": ["127.0.0.1"]}),
            &[
                "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, \
                 ::1/128)",
            ],
        );
    }

    #[test]
    fn changes() {
        let check = |new: Value, old: Value, expected: &[&str]| {
            let (new, old) = (json!({ "spec": new }), json!({ "spec": old }));
            let mut faults = Faults::new();
            check_change(&At::root(&new), &At::root(&old), &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        let one = json!({"clusterIPs": ["10.0.0.1"]});
        let two = json!({"clusterIPs": ["10.0.0.1", "fd00::1"]});
        check(one.clone(), one.clone(), &[]);
        check(two.clone(), one.clone(), &[]);
        check(
            json!({"clusterIPs": ["10.0.0.2"]}),
            one.clone(),
            &["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"],
        );
        check(
            one.clone(),
            two.clone(),
            &["spec.ipFamilyPolicy: Invalid value: null: must be set to 'SingleStack' when releasing the secondary \
               clusterIP"],
        );
        check(json!({"clusterIPs": ["10.0.0.1"], "ipFamilyPolicy": "SingleStack"}), two, &[]);
        check(json!({"type": "ExternalName"}), one, &[]);
    }
}
