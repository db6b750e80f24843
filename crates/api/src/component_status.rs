//! ComponentStatus: the parts of this one process, under the names that clients know. Whoever gets an answer has the
//! proof that they are well.

use std::sync::Arc;

use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};
use store::{Entry, Revision};

use crate::list::Page;
use crate::{Answer, Body, ListAnswer, Request, Verb, World};

const PARTS: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

/// Answers GET of one and of all.
pub(crate) fn read(world: World<'_>, request: &Request) -> Result<Answer, ApiError> {
    let kind = Arc::clone(&request.target.kind);
    let warnings = kind.deprecated.iter().map(ToString::to_string).collect();
    let body = match request.verb {
        Verb::Get => {
            let found = PARTS.iter().find(|part| **part == request.target.name);
            let missing = || ApiError::not_found(&kind.group_resource(), &request.target.name);
            Body::Entry(entry(found.ok_or_else(missing)?))
        }
        Verb::List => {
            let entries = PARTS.iter().map(|part| entry(part)).collect();
            let revision = world.snapshot.revision();
            Body::List(Box::new(ListAnswer { kind, revision, entries, page: Page::default() }))
        }
        other => return Err(ApiError::method_not_allowed(&kind.group_resource(), other.as_str())),
    };
    Ok(Answer { code: 200, body, warnings })
}

fn entry(part: &str) -> Arc<Entry> {
    let mut object: Value =
        json!({"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"creationTimestamp": null}});
    object.put(&["metadata", "name"], part);
    object.put(&["conditions"], json!([{"type": "Healthy", "status": "True", "message": "ok"}]));
    let bytes = serde_json::to_vec(&object).unwrap_or_default();
    Arc::new(Entry::new(bytes.into(), bytes::Bytes::new(), Revision(0), Revision(0)))
}
