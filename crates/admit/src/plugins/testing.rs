//! A small world for the tests of the steps.

use std::sync::Arc;

use kinds::Catalog;
use meta::{Gvk, Time};
use serde_json::Value;
use store::Snapshot;

use crate::admission::{Case, Operation, Request, World};
use crate::testing::snapshot;
use crate::{Attributes, UserInfo};

/// The moment at which tests happen.
pub const NOW: Time = Time::from_secs(1_800_000_000);

/// A state, and who may what in it.
pub struct Scene {
    snapshot: Snapshot,
    catalog: Catalog,
    kind: Gvk,
    may: Box<dyn Fn(&Attributes) -> bool>,
}

/// A request with its operation.
pub struct Asked {
    pub attributes: Attributes,
    pub operation: Operation,
}

impl Scene {
    /// A state with these objects, in which nobody may do anything on the side.
    pub fn new(objects: &[Value]) -> Self {
        Self {
            snapshot: snapshot(objects),
            catalog: Catalog::default(),
            kind: Gvk::new("", "v1", "Pod"),
            may: Box::new(|_| false),
        }
    }

    /// With an answer to questions on the side.
    pub fn where_may(mut self, may: impl Fn(&Attributes) -> bool + 'static) -> Self {
        self.may = Box::new(may);
        self
    }

    /// With all built-in kinds, and requests for this one.
    pub fn of_kind(mut self, kind: Gvk) -> Self {
        (self.catalog, self.kind) = (Catalog::built_in(), kind);
        self
    }

    /// The request in this state.
    pub fn case<'c>(&'c self, asked: &'c Asked, old: Option<&'c Value>) -> Case<'c> {
        static NO_OPTIONS: Value = Value::Null;
        Case {
            request: Request {
                attributes: &asked.attributes,
                operation: asked.operation,
                kind: &self.kind,
                dry_run: false,
                options: &NO_OPTIONS,
            },
            world: World {
                snapshot: &self.snapshot,
                catalog: &self.catalog,
                now: NOW,
                suffix: &|| "abcde".to_owned(),
                may: &*self.may,
            },
            old,
        }
    }
}

fn asked(operation: Operation, verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Asked {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = Attributes {
        user: Arc::new(UserInfo::new("ann", ["dev"])),
        verb: verb.into(),
        group: group.into(),
        version: "v1".into(),
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..Attributes::default()
    };
    Asked { attributes, operation }
}

/// A create; the resource may be `pods/eviction`.
pub fn create(group: &str, resource: &str, namespace: &str, name: &str) -> Asked {
    asked(Operation::Create, "create", group, resource, namespace, name)
}

/// An update.
pub fn update(group: &str, resource: &str, namespace: &str, name: &str) -> Asked {
    asked(Operation::Update, "update", group, resource, namespace, name)
}

/// A delete.
pub fn delete(group: &str, resource: &str, namespace: &str, name: &str) -> Asked {
    asked(Operation::Delete, "delete", group, resource, namespace, name)
}

impl Asked {
    /// The same by somebody else.
    pub fn by(mut self, user: UserInfo) -> Self {
        self.attributes.user = Arc::new(user);
        self
    }
}
