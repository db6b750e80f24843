//! Why an apply was refused.

use std::collections::BTreeMap;
use std::fmt;

use meta::status::{Cause, Details};
use meta::{ApiError, Reason};

use super::ledger::{ManagerId, Operation};
use crate::fields::{Path, print_path};

/// More conflicts than this are counted but not listed; an answer must stay readable and bounded.
const LISTED_MAX: usize = 1000;

/// A field that the apply would change and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it.
    pub manager: ManagerId,
    /// The field.
    pub path: Path,
}

impl Conflict {
    /// The owner as messages write it: `"kubectl-client-side-apply" using apps/v1`.
    pub fn owner(&self) -> String {
        let id = &self.manager;
        let mut text = format!("{:?}", id.manager);
        if !id.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", id.subresource);
        }
        if id.operation == Operation::Update {
            text = format!("{text} using {}", id.api_version);
        }
        text
    }

    /// The field as messages write it: `.spec.replicas`.
    pub fn field(&self) -> String {
        print_path(&self.path)
    }
}

/// Why an apply was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// 409: others own what would change; ordered by owner.
    Conflicts(Vec<Conflict>),
    /// 400: the request contradicts itself.
    BadRequest(String),
    /// 500: upstream has no status of its own for it and sends the bare sentence.
    Unclassified(String),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflicts(conflicts) => f.write_str(&message(conflicts)),
            Self::BadRequest(text) | Self::Unclassified(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ApplyError {}

impl From<ApplyError> for ApiError {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Conflicts(conflicts) => {
                let causes = conflicts.iter().take(LISTED_MAX).map(cause).collect();
                let details = Some(Box::new(Details { causes, ..Details::default() }));
                ApiError { code: 409, reason: Some(Reason::Conflict), message: message(&conflicts), details }
            }
            ApplyError::BadRequest(text) => ApiError::bad_request(text),
            ApplyError::Unclassified(text) => ApiError { code: 500, reason: None, message: text, details: None },
        }
    }
}

fn cause(conflict: &Conflict) -> Cause {
    Cause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", conflict.owner()),
        field: conflict.field(),
    }
}

fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.owner(), only.field());
    }
    let mut by_owner: BTreeMap<&ManagerId, Vec<&Conflict>> = BTreeMap::new();
    for conflict in conflicts.iter().take(LISTED_MAX) {
        by_owner.entry(&conflict.manager).or_default().push(conflict);
    }
    let mut lines = Vec::new();
    for of_owner in by_owner.values() {
        lines.extend(of_owner.first().map(|first| format!("conflicts with {}:", first.owner())));
        lines.extend(of_owner.iter().map(|conflict| format!("- {}", conflict.field())));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
