//! Services and where they lead.

use std::collections::BTreeSet;
use std::sync::Arc;

use meta::ObjectExt;
use serde_json::Value;

use super::{Facts, Ledger, is_active, is_ready, selects};

const SLICES: &str = "discovery.k8s.io/endpointslices";
const MIRRORING: &str = "endpointslicemirroring-controller.k8s.io";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE: &str = "kubernetes.io/service-name";

/// The addresses of the pods that a service sends to.
fn backends(ledger: &Ledger, service: &Value) -> BTreeSet<String> {
    let selected = |pod: &&Arc<Value>| selects(service.map(&["spec", "selector"]), pod) && is_active(pod);
    let ready = ledger.list_in("core/pods", service.namespace()).filter(selected).filter(|pod| is_ready(pod));
    ready.map(|pod| pod.text(&["status", "podIP"]).to_owned()).filter(|ip| !ip.is_empty()).collect()
}

fn has_selector(service: &Value) -> bool {
    service.map(&["spec", "selector"]).is_some_and(|selector| !selector.is_empty())
}

/// A Service's Endpoints list its pods.
pub fn endpoints(facts: &Facts<'_>, service: &Value) -> Option<String> {
    let ledger = facts.ledger;
    if !has_selector(service) || service.is_deleting() {
        return None;
    }
    let Some(object) = ledger.find("core/endpoints", service.namespace(), service.name()) else {
        return Some("has no endpoints".to_owned());
    };
    let subsets = object.items(&["subsets"]).iter().flat_map(|subset| subset.items(&["addresses"]));
    let listed: BTreeSet<String> = subsets.map(|address| address.text(&["ip"]).to_owned()).collect();
    compare(&listed, &backends(ledger, service))
}

/// A Service's EndpointSlices list its pods, each once.
pub fn slices(facts: &Facts<'_>, service: &Value) -> Option<String> {
    let ledger = facts.ledger;
    if !has_selector(service) || service.is_deleting() {
        return None;
    }
    let mut listed = BTreeSet::new();
    for slice in ledger.owned(service.uid(), SLICES) {
        for endpoint in slice.items(&["endpoints"]).iter().filter(|e| e.flag(&["conditions", "ready"])) {
            for address in endpoint.items(&["addresses"]).iter().filter_map(Value::as_str) {
                if !listed.insert(address.to_owned()) {
                    return Some(format!("lists {address} twice"));
                }
            }
        }
    }
    compare(&listed, &backends(ledger, service))
}

fn compare(listed: &BTreeSet<String>, wanted: &BTreeSet<String>) -> Option<String> {
    (listed != wanted).then(|| format!("lists {listed:?} instead of {wanted:?}"))
}

/// What users write as the Endpoints of a Service without selector is mirrored.
pub fn mirrored(facts: &Facts<'_>, service: &Value) -> Option<String> {
    if has_selector(service) || service.is_deleting() {
        return None;
    }
    let (namespace, name) = (service.namespace(), service.name());
    let endpoints = facts.ledger.find("core/endpoints", namespace, name);
    let endpoints = endpoints.filter(|endpoints| endpoints.label("endpointslice.kubernetes.io/skip-mirror").is_none());
    let subsets = endpoints.map(|endpoints| endpoints.items(&["subsets"])).unwrap_or_default();
    let wanted = subsets.iter().flat_map(|subset| subset.items(&["addresses"]));
    let wanted: BTreeSet<String> = wanted.map(|address| address.text(&["ip"]).to_owned()).collect();
    let is_mirror =
        |slice: &&Arc<Value>| slice.label(MANAGED_BY) == Some(MIRRORING) && slice.label(SERVICE) == Some(name);
    let slices = facts.ledger.list_in(SLICES, namespace).filter(is_mirror);
    let listed =
        slices.flat_map(|slice| slice.items(&["endpoints"])).flat_map(|endpoint| endpoint.items(&["addresses"]));
    compare(&listed.filter_map(Value::as_str).map(str::to_owned).collect(), &wanted)
}

/// A mirror has something to show.
pub fn mirrors_something(facts: &Facts<'_>, slice: &Value) -> Option<String> {
    if slice.label(MANAGED_BY) != Some(MIRRORING) {
        return None;
    }
    let name = slice.label(SERVICE).unwrap_or_default();
    let service = facts.ledger.find("core/services", slice.namespace(), name);
    let endpoints = facts.ledger.find("core/endpoints", slice.namespace(), name);
    let lives = service.is_some_and(|service| !has_selector(service)) && endpoints.is_some();
    (!lives).then(|| format!("mirrors {name}, which is not there"))
}
