//! A map of few entries.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::labels::Labels;

/// A map from text, read once and then only looked at: its entries sorted in one allocation. It is for what stands beside
/// every object, as labels do, where a `BTreeMap` sets eleven entries aside for the first one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SmallMap<V>(Box<[(Box<str>, V)]>);

impl<V> SmallMap<V> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&V> {
        self.0.binary_search_by(|(own, _)| (**own).cmp(key)).ok().map(|at| &self.0[at].1)
    }

    /// Whether there is a value of this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> Default for SmallMap<V> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<V: fmt::Debug> fmt::Debug for SmallMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Of entries with one key the last counts.
impl<K: Into<Box<str>>, V> FromIterator<(K, V)> for SmallMap<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<(Box<str>, V)> = entries.into_iter().map(|(key, value)| (key.into(), value)).collect();
        if !entries.is_sorted_by(|(left, _), (right, _)| left < right) {
            entries.sort_by(|(left, _), (right, _)| left.cmp(right));
            entries.dedup_by(|later, earlier| {
                let is_same = later.0 == earlier.0;
                if is_same {
                    std::mem::swap(&mut later.1, &mut earlier.1);
                }
                is_same
            });
        }
        Self(entries.into())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for SmallMap<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = SmallMap<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SmallMap<V>, A::Error> {
                let mut entries: Vec<(Box<str>, V)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries.into_iter().collect())
            }
        }

        from.deserialize_map(Entries(PhantomData))
    }
}

impl Labels for SmallMap<Box<str>> {
    fn get(&self, key: &str) -> Option<&str> {
        SmallMap::get(self, key).map(|value| &**value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_map() {
        let map: SmallMap<i64> = serde_json::from_str(r#"{"b":1,"c":2,"a":3,"b":4}"#).unwrap();
        assert_eq!(format!("{map:?}"), r#"{"a": 3, "b": 4, "c": 2}"#, "the last of a key counts");
        assert_eq!((map.get("b"), map.get("d"), map.len()), (Some(&4), None, 3));
        assert!(serde_json::from_str::<SmallMap<i64>>("{}").unwrap().is_empty());
        assert!(serde_json::from_str::<SmallMap<i64>>("[]").is_err());
    }
}
