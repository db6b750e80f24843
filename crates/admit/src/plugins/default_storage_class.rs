//! DefaultStorageClass: a claim that names no class gets the default one.

use std::cmp::Reverse;

use meta::{ApiError, ObjectExt};
use serde_json::Value;

use crate::admission::{Case, Effects};

const MARKS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    let named = new.annotation(CLASS_ANNOTATION).is_some() || new.at(&["spec", "storageClassName"]).is_some();
    if !case.is_for("", "persistentvolumeclaims", "") || named {
        return Ok(());
    }
    if let Some(class) = default_of(case.world.list("storage.k8s.io/storageclasses", ""), &MARKS) {
        new.put(&["spec", "storageClassName"], class.name());
    }
    Ok(())
}

/// The newest of the objects that carry one of the marks; of equally old ones the first by name.
pub(super) fn default_of(objects: Vec<Value>, marks: &[&str]) -> Option<Value> {
    let is_marked = |object: &Value| marks.iter().any(|mark| object.annotation(mark) == Some("true"));
    let age = |object: &Value| Reverse(object.text(&["metadata", "creationTimestamp"]).to_owned());
    objects.into_iter().filter(is_marked).min_by_key(|object| (age(object), object.name().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create};
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_default_is_taken() {
        let class = |name: &str, time: &str| {
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {
                "name": name, "creationTimestamp": time, "annotations": {MARKS[0]: "true"},
            }})
        };
        let scene = Scene::new(&[
            class("old", "2026-01-01T00:00:00Z"),
            class("b", "2026-02-01T00:00:00Z"),
            class("a", "2026-02-01T00:00:00Z"),
        ]);
        let asked = create("", "persistentvolumeclaims", "d", "c");
        let check = |mut claim: Value, expected: &str| {
            mutate(&scene.case(&asked, None), &mut claim, &mut Effects::default()).expect("admitted");
            assert_eq!(claim["spec"]["storageClassName"], expected);
        };
        check(json!({"spec": {}}), "a");
        check(json!({"spec": {"storageClassName": ""}}), "");
    }
}
