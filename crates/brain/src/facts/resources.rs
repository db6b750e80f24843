//! Amounts of resources.

use std::collections::BTreeMap;

use meta::{Quantity, SmallMap};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Amounts by resource name, as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantities(pub SmallMap<Quantity>);

impl<'de> Deserialize<'de> for Quantities {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Option::<SmallMap<Value>>::deserialize(from)?.unwrap_or_default();
        let read = |(name, value): (&str, &Value)| Some((Box::<str>::from(name), Quantity::from_value(value).ok()?));
        Ok(Quantities(written.iter().filter_map(read).collect()))
    }
}

impl Quantities {
    /// One amount.
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    /// The amounts as whole numbers.
    pub fn whole(&self) -> Requests {
        let mut requests = Requests::default();
        for (name, amount) in self.0.iter() {
            requests.set(name, if name == "cpu" { amount.milli() } else { amount.units() });
        }
        requests
    }
}

/// `resources` of a container or pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// What is set aside.
    pub requests: Quantities,
    /// What is the most.
    pub limits: Quantities,
}

/// Amounts as whole numbers: thousandths of a processor, bytes, and units of everything else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// `cpu` in thousandths.
    pub cpu_milli: i64,
    /// `memory` in bytes.
    pub memory: i64,
    /// `ephemeral-storage` in bytes.
    pub ephemeral_storage: i64,
    /// Everything else (hugepages in bytes, extended resources in units).
    pub others: BTreeMap<Box<str>, i64>,
}

impl Requests {
    /// The amount of one resource.
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu_milli,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            _ => self.others.get(name).copied().unwrap_or(0),
        }
    }

    /// Sets the amount of one resource.
    pub fn set(&mut self, name: &str, amount: i64) {
        match name {
            "cpu" => self.cpu_milli = amount,
            "memory" => self.memory = amount,
            "ephemeral-storage" => self.ephemeral_storage = amount,
            _ => {
                self.others.insert(name.into(), amount);
            }
        }
    }

    /// Adds another's amounts.
    pub fn add(&mut self, other: &Requests) {
        other.each(|name, amount| self.set(name, self.get(name).saturating_add(amount)));
    }

    /// Takes another's amounts where they are larger.
    pub fn raise_to(&mut self, other: &Requests) {
        other.each(|name, amount| self.set(name, self.get(name).max(amount)));
    }

    /// Calls `visit` with every amount.
    pub fn each(&self, mut visit: impl FnMut(&str, i64)) {
        visit("cpu", self.cpu_milli);
        visit("memory", self.memory);
        visit("ephemeral-storage", self.ephemeral_storage);
        self.others.iter().for_each(|(name, amount)| visit(name, *amount));
    }
}
