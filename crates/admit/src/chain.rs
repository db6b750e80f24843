//! The admission steps in their order, one table.
//!
//! The caller runs [`mutate`], then mutating policies and webhooks, then [`validate`], then validating policies and
//! webhooks, then [`charge`] (quota), and commits the object with the [`Effects`] in one transaction. When that fails
//! because something else changed, all of it starts anew on a newer snapshot.

use meta::ApiError;
use serde_json::Value;

use crate::admission::{Case, Effects, Operation};
use crate::plugins::{
    certificates, default_ingress_class, default_storage_class, default_tolerations, limit_ranger, namespace_lifecycle,
    node_restriction, pod_security, pod_topology_labels, priority, resource_quota, runtime_class, service_account,
    storage_in_use, taint_nodes, volume_resize,
};

/// Changes the new object.
pub type Mutate = fn(&Case<'_>, &mut Value, &mut Effects) -> Result<(), ApiError>;
/// Looks at the new object (none for deletes).
pub type Validate = fn(&Case<'_>, Option<&Value>, &mut Effects) -> Result<(), ApiError>;

/// One admission step.
pub struct Plugin {
    /// Upstream's name.
    pub name: &'static str,
    /// The operations it is asked for.
    pub handles: &'static [Operation],
    /// Its mutating half.
    pub mutate: Option<Mutate>,
    /// Its validating half.
    pub validate: Option<Validate>,
}

use Operation::{Connect, Create, Delete, Update};

/// Every step, in upstream's order.
pub const PLUGINS: &[Plugin] = &[
    Plugin {
        name: "NamespaceLifecycle",
        handles: &[Create, Update, Delete],
        mutate: None,
        validate: Some(namespace_lifecycle::validate),
    },
    Plugin {
        name: "LimitRanger",
        handles: &[Create, Update],
        mutate: Some(limit_ranger::mutate),
        validate: Some(limit_ranger::validate),
    },
    Plugin {
        name: "ServiceAccount",
        handles: &[Create, Update],
        mutate: Some(service_account::mutate),
        validate: Some(service_account::validate),
    },
    Plugin {
        name: "NodeRestriction",
        handles: &[Create, Update, Delete],
        mutate: None,
        validate: Some(node_restriction::validate),
    },
    Plugin { name: "TaintNodesByCondition", handles: &[Create], mutate: Some(taint_nodes::mutate), validate: None },
    Plugin { name: "PodSecurity", handles: &[Create, Update], mutate: None, validate: Some(pod_security::validate) },
    Plugin {
        name: "Priority",
        handles: &[Create, Update],
        mutate: Some(priority::mutate),
        validate: Some(priority::validate),
    },
    Plugin {
        name: "DefaultTolerationSeconds",
        handles: &[Create, Update],
        mutate: Some(default_tolerations::mutate),
        validate: None,
    },
    Plugin {
        name: "DefaultStorageClass",
        handles: &[Create],
        mutate: Some(default_storage_class::mutate),
        validate: None,
    },
    Plugin {
        name: "StorageObjectInUseProtection",
        handles: &[Create],
        mutate: Some(storage_in_use::mutate),
        validate: None,
    },
    Plugin {
        name: "PersistentVolumeClaimResize",
        handles: &[Update],
        mutate: None,
        validate: Some(volume_resize::validate),
    },
    Plugin {
        name: "RuntimeClass",
        handles: &[Create],
        mutate: Some(runtime_class::mutate),
        validate: Some(runtime_class::validate),
    },
    // Upstream does this when it prepares the object, before it is checked.
    Plugin {
        name: "CertificateRequester",
        handles: &[Create],
        mutate: Some(certificates::mutate_requester),
        validate: None,
    },
    Plugin {
        name: "CertificateApproval",
        handles: &[Update],
        mutate: None,
        validate: Some(certificates::validate_approval),
    },
    Plugin {
        name: "CertificateSigning",
        handles: &[Update],
        mutate: None,
        validate: Some(certificates::validate_signing),
    },
    Plugin {
        name: "ClusterTrustBundleAttest",
        handles: &[Create, Update],
        mutate: None,
        validate: Some(certificates::validate_attest),
    },
    Plugin {
        name: "CertificateSubjectRestriction",
        handles: &[Create],
        mutate: None,
        validate: Some(certificates::validate_subject),
    },
    Plugin {
        name: "DefaultIngressClass",
        handles: &[Create],
        mutate: Some(default_ingress_class::mutate),
        validate: None,
    },
    Plugin { name: "PodTopologyLabels", handles: &[Create], mutate: Some(pod_topology_labels::mutate), validate: None },
];

/// Runs every mutating step on the new object.
pub fn mutate(case: &Case<'_>, new: &mut Value, effects: &mut Effects) -> Result<(), ApiError> {
    // A missing or ending namespace is told before anything else is looked at.
    namespace_lifecycle::validate(case, Some(new), effects)?;
    for plugin in applicable(case.request.operation) {
        if let Some(mutate) = plugin.mutate {
            mutate(case, new, effects)?;
        }
    }
    Ok(())
}

/// Runs every validating step; `new` is absent for deletes.
pub fn validate(case: &Case<'_>, new: Option<&Value>, effects: &mut Effects) -> Result<(), ApiError> {
    for plugin in applicable(case.request.operation) {
        if let Some(validate) = plugin.validate {
            validate(case, new, effects)?;
        }
    }
    Ok(())
}

/// Charges the quotas of the namespace. The last step: everybody else has agreed.
pub fn charge(case: &Case<'_>, new: Option<&Value>, effects: &mut Effects) -> Result<(), ApiError> {
    match (case.request.operation, new) {
        (Create | Update, Some(new)) => resource_quota::charge(case, new, effects),
        (Create | Update | Delete | Connect, _) => Ok(()),
    }
}

fn applicable(operation: Operation) -> impl Iterator<Item = &'static Plugin> {
    PLUGINS.iter().filter(move |plugin| plugin.handles.contains(&operation))
}
