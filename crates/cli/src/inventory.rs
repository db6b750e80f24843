//! What an apply with `--prune` declared, kept in the cluster so that the next one knows what is declared no more.

use std::collections::BTreeSet;

use meta::ObjectExt;
use planner::Reference;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::Api;
use crate::planning::{Stopped, placed};
use crate::report::CommandError;

/// The namespace of inventories.
const NAMESPACE: &str = "default";

/// One inventory.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inventory {
    name: String,
    known: BTreeSet<Reference>,
}

impl Inventory {
    /// Reads the one of this name; empty when there is none yet.
    pub async fn read(api: &Api, name: &str) -> Result<Inventory, CommandError> {
        Inventory::stored(api, format!("setpoint-inventory-{name}")).await
    }

    /// The same as it was when a plan was kept; what it holds decides what is pruned.
    pub async fn unmoved(self, api: &Api) -> Result<Inventory, CommandError> {
        if Inventory::stored(api, self.name.clone()).await? == self {
            return Ok(self);
        }
        let name = self.name;
        Err(Stopped(format!("configmap/{name} has changed since the plan was made; nothing was written")).into())
    }

    async fn stored(api: &Api, name: String) -> Result<Inventory, CommandError> {
        let known = match api.get(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")).await {
            Err(refused) if refused.reason == "NotFound" => BTreeSet::new(),
            Err(refused) => return Err(refused.into()),
            Ok(map) => serde_json::from_str(map.text(&["data", "objects"])).map_err(|error| {
                Stopped(format!("the inventory configmap/{name} cannot be read ({error}); nothing was pruned"))
            })?,
        };
        Ok(Inventory { name, known })
    }

    /// What it has that is declared no more.
    pub fn no_longer_in(&self, objects: &[Value]) -> Vec<Reference> {
        let declared = Inventory::references(objects);
        // Another version of the same kind is the same object.
        let same = |a: &Reference, b: &Reference| {
            let group = |r: &Reference| r.api_version.rsplit_once('/').map_or(String::new(), |(g, _)| g.to_owned());
            (group(a), &a.kind, &a.namespace, &a.name) == (group(b), &b.kind, &b.namespace, &b.name)
        };
        self.known.iter().filter(|known| !declared.iter().any(|one| same(one, known))).cloned().collect()
    }

    /// Everything it has and everything declared.
    pub fn with(&self, objects: &[Value]) -> BTreeSet<Reference> {
        self.known.iter().cloned().chain(Inventory::references(objects)).collect()
    }

    /// The objects by reference.
    pub fn references(objects: &[Value]) -> BTreeSet<Reference> {
        objects.iter().map(placed).collect()
    }

    /// Writes it.
    pub async fn write(&self, api: &Api, references: &BTreeSet<Reference>) -> Result<(), CommandError> {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": NAMESPACE, "labels": {"setpoint.dev/inventory": "true"}},
            "data": {"objects": serde_json::to_string(references)?}});
        api.apply(&map).await?;
        Ok(())
    }
}
