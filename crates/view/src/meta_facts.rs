//! An object's metadata, decoded once per stored revision.

use meta::Time;
use meta::labels::LabelMap;
use serde::{Deserialize, Deserializer};

/// The part of `metadata` that decisions need often. Everything else is read from the object's tree.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.namespace`; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.labels`.
    pub labels: LabelMap,
    /// `metadata.ownerReferences`.
    pub owner_references: Vec<OwnerRef>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Box<str>>,
    /// `metadata.generation`; 0 when absent.
    pub generation: i64,
    /// `metadata.creationTimestamp`; the epoch when absent.
    #[serde(deserialize_with = "time_or_epoch")]
    pub creation_timestamp: Time,
    /// `metadata.deletionTimestamp`.
    #[serde(deserialize_with = "time")]
    pub deletion_timestamp: Option<Time>,
}

/// One owner reference.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerRef {
    /// The owner's `apiVersion`.
    pub api_version: Box<str>,
    /// The owner's kind.
    pub kind: Box<str>,
    /// The owner's name.
    pub name: Box<str>,
    /// The owner's uid.
    pub uid: Box<str>,
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// Whether foreground deletion of the owner waits for this object.
    pub block_owner_deletion: bool,
}

impl Meta {
    /// Whether deletion has begun.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that is the managing controller.
    pub fn controller(&self) -> Option<&OwnerRef> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether the managing controller is the object with this uid.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| &*owner.uid == uid)
    }
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    Ok(Option::<&str>::deserialize(from)?.and_then(Time::parse))
}

fn time_or_epoch<'de, D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
    Ok(time(from)?.unwrap_or(Time::EPOCH))
}

/// What is remembered beside a stored value: its metadata.
#[derive(Default)]
pub struct Facts {
    /// The metadata.
    pub meta: Meta,
}

impl Facts {
    /// Decodes the metadata; a value that is no object reads as an object without metadata.
    pub fn read(value: &[u8]) -> Facts {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Outer {
            metadata: Meta,
        }
        let outer: Outer = meta::stored::read(value).unwrap_or_default();
        Facts { meta: outer.metadata }
    }
}
