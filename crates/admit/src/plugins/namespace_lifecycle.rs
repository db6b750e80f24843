//! NamespaceLifecycle: nothing new in a namespace that is missing or going; some namespaces never go.

use meta::{ApiError, GroupResource, ObjectExt};
use serde_json::Value;

use crate::admission::{Case, Effects, Operation};

/// Namespaces that may not be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The validating half.
pub fn validate(case: &Case<'_>, new: Option<&Value>, _effects: &mut Effects) -> Result<(), ApiError> {
    let attributes = case.request.attributes;
    let of_namespace = attributes.group.is_empty() && attributes.resource == "namespaces";
    if of_namespace {
        let immortal = case.request.operation == Operation::Delete && IMMORTAL.contains(&attributes.name.as_str());
        return if immortal { Err(case.forbids(new, "this namespace may not be deleted")) } else { Ok(()) };
    }
    let creates = case.request.operation == Operation::Create;
    if attributes.namespace.is_empty() || !creates || is_access_review(case) {
        return Ok(());
    }
    check_namespace(case, new)
}

/// Reviews tell nothing about the namespace they ask about.
fn is_access_review(case: &Case<'_>) -> bool {
    case.is_for("authorization.k8s.io", "localsubjectaccessreviews", "")
}

fn check_namespace(case: &Case<'_>, new: Option<&Value>) -> Result<(), ApiError> {
    let name = case.namespace();
    let Some(namespace) = case.world.namespace(name) else {
        return Err(ApiError::not_found(&GroupResource::new("", "namespaces"), name));
    };
    if namespace.text(&["status", "phase"]) != "Terminating" && !namespace.is_deleting() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let cause = format!("namespace {name} is being terminated");
    Err(case.forbids(new, why).with_cause("NamespaceTerminating", cause, "metadata.namespace"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create};
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_and_ending_namespaces_take_nothing_new() {
        let namespace = |name: &str, phase: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": phase}});
        let scene = Scene::new(&[namespace("live", "Active"), namespace("going", "Terminating")]);
        let check = |namespace: &str, expected: Result<(), &str>| {
            let asked = create("", "configmaps", namespace, "c");
            let outcome = validate(&scene.case(&asked, None), None, &mut Effects::default());
            assert_eq!(outcome.map_err(|e| e.message), expected.map_err(str::to_owned));
        };
        check("live", Ok(()));
        check("none", Err("namespaces \"none\" not found"));
        check(
            "going",
            Err("configmaps \"c\" is forbidden: unable to create new content in namespace going because it is being \
                 terminated"),
        );
    }
}
