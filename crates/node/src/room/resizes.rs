//! Pods that ask for other resources than they have.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent::fit;
use agent::pod::Notice;
use agent::resize::{self, Grant};
use brain::facts::{self, Fact};
use meta::{ObjectExt, Time};
use serde_json::Value;

use super::{Room, Shown, Tenant};

impl Tenant {
    /// The pod as it was granted: what containers are made by, whatever its spec asks for by now.
    pub(super) fn granted(&self) -> Arc<Value> {
        match self.memory.grant().filter(|grant| grant.differs_from(&self.object)) {
            Some(grant) => Arc::new(grant.apply_to(&self.object)),
            None => Arc::clone(&self.object),
        }
    }

    fn wants_other(&self) -> bool {
        let grant = self.memory.grant();
        grant.is_some_and(|grant| grant.differs_from(&self.object)) && self.is_active() && !self.object.is_deleting()
    }
}

impl Room {
    /// Whoever asks for other resources gets them if there is room, or is told why not. All who wait are asked in each
    /// round, for anything may have made room.
    pub(super) fn grant_resizes(&mut self, now: Time) {
        self.recall_grants();
        let mut wanting = Vec::new();
        for (uid, tenant) in &mut self.tenants {
            if let Some(grant) = tenant.memory.grant().filter(|_| tenant.wants_other()) {
                wanting.push((resize::rank(&tenant.object, grant), uid.clone()));
            } else if tenant.memory.settle_resize() {
                self.awake.insert(uid.clone());
            }
        }
        wanting.sort();
        for (_, uid) in wanting {
            self.grant_resize(&uid, now);
        }
    }

    /// What was granted before this process began, and to pods that have just come.
    fn recall_grants(&mut self) {
        let nothing = Shown::default();
        for (uid, tenant) in self.tenants.iter_mut().filter(|(_, tenant)| tenant.memory.grant().is_none()) {
            let shown = self.shown.get(uid).unwrap_or(&nothing);
            tenant.memory.admit(Grant::of(&tenant.object).given(shown));
        }
    }

    fn grant_resize(&mut self, uid: &str, now: Time) {
        let Some(tenant) = self.tenants.get(uid) else { return };
        let object = Arc::clone(&tenant.object);
        let wanted = facts::Pod::read(object.to_string().as_bytes());
        // A node that is not there yet has no room that anybody knows of.
        let Some(pending) = self.with_node(|node, labels| {
            let subject = fit::Node { name: &self.config.name, labels, facts: node };
            fit::resize_refusal(&subject, &self.others(uid), &wanted)
        }) else {
            return;
        };
        let Some(tenant) = self.tenants.get_mut(uid) else { return };
        let notice: Option<Notice> = match pending {
            None => Some(tenant.memory.grant_resize(&object)),
            Some(pending) => tenant.memory.hold_resize(&object, pending),
        };
        if let Some(notice) = notice {
            self.awake.insert(uid.to_owned());
            self.tell(&object, vec![notice], &BTreeMap::new(), now);
        }
    }

    /// Who is here beside this pod.
    pub(super) fn others(&self, uid: &str) -> Vec<fit::Other> {
        let view = self.mirror.view();
        let nothing = Shown::default();
        let other = |(uid, tenant): (&String, &Tenant)| {
            let facts = facts::Pod::of(&view.get_key(&tenant.key)?);
            let shown = self.shown.get(uid).unwrap_or(&nothing);
            let has_other =
                |grant: &&Grant| grant.differs_from(&tenant.object) || grant.given(shown).differs_from(&tenant.object);
            let taken = match tenant.memory.grant().filter(has_other) {
                Some(grant) => grant.taken(&tenant.object, shown),
                None => facts.spec.requests(),
            };
            Some(fit::Other { facts, taken })
        };
        self.tenants.iter().filter(|(other, tenant)| *other != uid && tenant.is_active()).filter_map(other).collect()
    }
}
