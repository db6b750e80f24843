//! Owners of `replicas` seen through the `scale` subresource.

use std::collections::BTreeMap;

use super::ledger::{Ledger, Owned};
use crate::fields::{FieldSet, Path, PathElement};

const SCALE: &str = "autoscaling/v1";

fn replicas_of_scale() -> Path {
    vec![PathElement::field("spec"), PathElement::field("replicas")]
}

/// The owners that a Scale shows: those that own the replicas of the scaled object. `paths` says where each
/// version of the object keeps them (`None`: nowhere).
pub fn scale_to_subresource(parent: &Ledger, paths: &BTreeMap<String, Option<Path>>) -> Ledger {
    let scaled = parent.owners.iter().filter(|(_, owned)| match paths.get(&owned.api_version) {
        Some(Some(path)) => owned.set.has(path),
        _ => false,
    });
    let owners = scaled.map(|(id, owned)| {
        let set = FieldSet::from_iter([replicas_of_scale()]);
        (id.clone(), Owned { set, api_version: SCALE.to_owned(), time: owned.time })
    });
    Ledger { owners: owners.collect() }
}

/// The owners of the object after a write of its Scale: who lost the replicas there loses them here, who gained
/// them there gains them here in `api_version`.
pub fn scale_to_parent(
    parent: Ledger,
    scale: Ledger,
    api_version: &str,
    paths: &BTreeMap<String, Option<Path>>,
) -> Ledger {
    let mut scale = scale;
    let mut owners = BTreeMap::new();
    for (id, mut owned) in parent.owners {
        let Some(path) = paths.get(&owned.api_version) else { continue };
        let path = path.as_ref().filter(|path| owned.set.has(path));
        let keeps = scale.owners.contains_key(&id);
        if let Some(path) = path {
            if keeps {
                scale.owners.remove(&id);
            } else {
                owned.set = owned.set.difference(&FieldSet::from_iter([path.clone()]));
            }
        }
        if !owned.set.is_empty() {
            owners.insert(id, owned);
        }
    }
    let Some(Some(path)) = paths.get(api_version) else { return Ledger { owners } };
    for (id, owned) in scale.owners.into_iter().filter(|(_, owned)| owned.set.has(&replicas_of_scale())) {
        let set = FieldSet::from_iter([path.clone()]);
        owners.insert(id, Owned { set, api_version: api_version.to_owned(), time: owned.time });
    }
    Ledger { owners }
}
