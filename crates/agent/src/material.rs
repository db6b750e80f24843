//! What a pod refers to, fetched before its containers are made: nothing here asks for anything.

use std::collections::BTreeMap;

use serde_json::Value;

/// Objects and tokens that a pod refers to. An absent name is an object that there is not.
#[derive(Clone, Debug, Default)]
pub struct Material {
    /// Config maps of its namespace, by name.
    pub config_maps: BTreeMap<String, Value>,
    /// Secrets of its namespace, by name.
    pub secrets: BTreeMap<String, Value>,
    /// Services that it is told of.
    pub services: Vec<Value>,
    /// Tokens by audience and validity.
    pub tokens: BTreeMap<(String, i64), String>,
    /// `status.allocatable` of its node.
    pub allocatable: Value,
}

impl Material {
    /// One config map.
    pub fn config_map(&self, name: &str) -> Result<&Value, String> {
        self.config_maps.get(name).ok_or_else(|| format!("configmap \"{name}\" not found"))
    }

    /// One secret.
    pub fn secret(&self, name: &str) -> Result<&Value, String> {
        self.secrets.get(name).ok_or_else(|| format!("secret \"{name}\" not found"))
    }
}
