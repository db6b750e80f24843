//! All authorisers in their order: masters, nodes, roles.

use std::sync::{Arc, Mutex, PoisonError};

use store::{Revision, Snapshot};

use crate::node_authorizer::{self, authorize_node};
use crate::rbac::{COLLECTIONS, PolicyRule, RbacView, SubjectRules};
use crate::user::MASTERS;
use crate::{Attributes, UserInfo};

/// What an authoriser says. Nobody denies; what nobody allows is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Permitted.
    Allow {
        /// For audit and reviews.
        reason: String,
    },
    /// Not permitted by this authoriser.
    NoOpinion {
        /// Why not, when there is more to say; shown to the asker.
        reason: String,
    },
}

impl Decision {
    /// Whether the request may go on.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }

    /// The reason, whatever was decided.
    pub fn reason(&self) -> &str {
        match self {
            Self::Allow { reason } | Self::NoOpinion { reason } => reason,
        }
    }
}

/// Decides on requests. Keeps the indexed form of the roles for as long as they do not change.
pub struct Authorizer {
    node_rules: Vec<PolicyRule>,
    cached: Mutex<Option<Cached>>,
}

struct Cached {
    revision: Revision,
    marks: Marks,
    view: Arc<RbacView>,
}

/// Number of items and newest write, for each collection. Of two states of one store they are equal only when the
/// items are: what was put since has a newer write, and what was only removed leaves fewer items.
type Marks = [(usize, Revision); 4];

impl Default for Authorizer {
    fn default() -> Self {
        Self { node_rules: node_authorizer::static_rules(), cached: Mutex::new(None) }
    }
}

impl Authorizer {
    /// Decides on one request against one state.
    pub fn authorize(&self, snapshot: &Snapshot, asked: &Attributes) -> Decision {
        if asked.user.is_in(MASTERS) {
            return Decision::Allow { reason: String::new() };
        }
        let node = authorize_node(snapshot, &self.node_rules, asked);
        if node.is_allowed() {
            return node;
        }
        match self.view(snapshot).authorize(asked) {
            Decision::NoOpinion { reason } => Decision::NoOpinion { reason: named(node.reason(), &reason) },
            allowed => allowed,
        }
    }

    /// The roles of `snapshot`, indexed.
    pub fn view(&self, snapshot: &Snapshot) -> Arc<RbacView> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = cached.as_ref().filter(|c| c.revision == snapshot.revision()) {
            return Arc::clone(&cached.view);
        }
        let (revision, marks) = (snapshot.revision(), marks(snapshot));
        let view = match cached.as_ref().filter(|c| c.marks == marks) {
            Some(cached) => Arc::clone(&cached.view),
            None => Arc::new(RbacView::read(snapshot, cached.as_ref().map(|c| &*c.view))),
        };
        *cached = Some(Cached { revision, marks, view: Arc::clone(&view) });
        view
    }

    /// What `user` may do in `namespace`, for SelfSubjectRulesReview. Nodes have permissions beyond rules: for them
    /// the errors say that the answer is incomplete.
    pub fn rules_for(&self, snapshot: &Snapshot, user: &UserInfo, namespace: &str) -> SubjectRules {
        let mut found = self.view(snapshot).rules_for(user, namespace);
        if user.node().is_some() {
            found.errors.push("node authorizer does not support user rule resolution".to_owned());
        }
        if user.is_in(MASTERS) {
            let all = || vec!["*".to_owned()];
            let resources = PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
            found.rules.push(resources);
            found.rules.push(PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() });
        }
        found
    }
}

/// Each authoriser's reason behind its name, one a line.
fn named(node: &str, rbac: &str) -> String {
    let reasons = [("node", node), ("rbac", rbac)].into_iter().filter(|(_, reason)| !reason.is_empty());
    reasons.map(|(name, reason)| format!("{name}: {reason}")).collect::<Vec<_>>().join("\n")
}

fn marks(snapshot: &Snapshot) -> Marks {
    COLLECTIONS.map(|collection| {
        let newest = snapshot.range(collection, "", "").map(|(_, entry)| entry.modified).max();
        (snapshot.count(collection), newest.unwrap_or_default())
    })
}

#[cfg(test)]
#[path = "authorizer_tests.rs"]
mod tests;
