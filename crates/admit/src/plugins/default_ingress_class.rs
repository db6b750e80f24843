//! DefaultIngressClass: an ingress that names no class gets the default one.

use meta::{ApiError, ObjectExt};
use serde_json::Value;

use super::default_storage_class::default_of;
use crate::admission::{Case, Effects};

const MARK: &str = "ingressclass.kubernetes.io/is-default-class";
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    let named = new.annotation(CLASS_ANNOTATION).is_some() || new.at(&["spec", "ingressClassName"]).is_some();
    if !case.is_for("networking.k8s.io", "ingresses", "") || named {
        return Ok(());
    }
    if let Some(class) = default_of(case.world.list("networking.k8s.io/ingressclasses", ""), &[MARK]) {
        new.put(&["spec", "ingressClassName"], class.name());
    }
    Ok(())
}
