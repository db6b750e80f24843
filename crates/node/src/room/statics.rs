//! Pods of manifests, and what the API shows of them.

use std::sync::Arc;

use agent::mirror::mirrors;
use agent::pod::Memory;
use meta::ObjectExt;
use serde_json::Value;
use store::{Key, Revision};

use super::{News, Room, Tenant};
use crate::mirrors;

impl Room {
    /// These pods are to run, and no others of manifests.
    pub(super) fn take_manifests(&mut self, pods: &[Arc<Value>]) {
        if !std::mem::replace(&mut self.knows_manifests, true) {
            // What runs of manifests that are no more is found now.
            self.is_stale = true;
        }
        for (uid, tenant) in self.tenants.iter_mut().filter(|(_, tenant)| tenant.is_static && !tenant.is_gone) {
            if !pods.iter().any(|pod| pod.uid() == uid) {
                tenant.is_gone = true;
                self.awake.insert(uid.clone());
                self.mirrors.wake(tenant.key.clone());
            }
        }
        pods.iter().for_each(|pod| self.take_static(pod));
        // Mirrors of pods that nothing describes any more.
        let all = self.mirror.view().list("core/pods", "");
        let is_due = |object: &&brain::Object| super::is_mirror(object) && self.is_ours(object);
        let due: Vec<Key> = all.iter().filter(is_due).map(|object| object.key.clone()).collect();
        due.into_iter().for_each(|key| self.mirrors.wake(key));
    }

    fn is_ours(&self, object: &brain::Object) -> bool {
        &*brain::facts::Pod::of(object).spec.node_name == self.config.name.as_str()
    }

    fn take_static(&mut self, pod: &Arc<Value>) {
        let uid = pod.uid().to_owned();
        let key = brain::key("core/pods", pod.namespace(), pod.name());
        self.awake.insert(uid.clone());
        self.mirrors.wake(key.clone());
        if let Some(tenant) = self.tenants.get_mut(&uid).filter(|tenant| tenant.is_static) {
            // Its manifest may have been gone for a moment.
            tenant.is_gone = false;
            return;
        }
        // What an earlier process said of it is found in its mirror.
        let shown = self.mirror.view().get_key(&key).map(|object| object.tree());
        let told = shown.filter(|shown| mirrors(shown, pod)).map(|mut shown| shown["status"].take());
        let object = match told {
            Some(status) => {
                let mut pod = (**pod).clone();
                pod.put(&["status"], status);
                Arc::new(pod)
            }
            None => Arc::clone(pod),
        };
        let tenant = Tenant {
            key,
            object,
            revision: Revision(0),
            is_gone: false,
            is_static: true,
            memory: Memory::default(),
            wake: None,
            refreshed: self.config.clock.now(),
            is_refreshing: false,
            is_clouded: false,
        };
        self.tenants.insert(uid, tenant);
    }

    /// A pod of a manifest that was changed waits until the one before has gone.
    pub(super) fn has_to_wait(&self, uid: &str) -> bool {
        let Some(own) = self.tenants.get(uid).filter(|tenant| tenant.is_static && !tenant.is_gone) else {
            return false;
        };
        self.tenants.iter().any(|(other, tenant)| other != uid && tenant.is_gone && tenant.key == own.key)
    }

    /// One has gone: whoever waited for it goes on.
    pub(super) fn go_on(&mut self, key: &Key) {
        let waiting = self.tenants.iter().filter(|(_, tenant)| tenant.key == *key);
        let waiting: Vec<String> = waiting.map(|(uid, _)| uid.clone()).collect();
        if !waiting.is_empty() {
            // They are looked at in the next round, which this brings about.
            let _ = self.news.send(News::Runtime);
        }
        self.awake.extend(waiting);
        self.mirrors.wake(key.clone());
    }

    /// Brings what the API shows up to date.
    pub(super) fn keep_mirrors(&mut self) {
        if !self.knows_manifests {
            return;
        }
        let now = self.config.clock.now();
        let view = self.mirror.view().clone();
        for key in self.mirrors.take_due(now) {
            let own = self.tenants.values().find(|tenant| tenant.is_static && tenant.key == key && !tenant.is_gone);
            let found = view.get_key(&key).filter(|object| own.is_some() || super::is_mirror(object));
            let shown = found.filter(|object| own.is_some() || self.is_ours(object)).map(|object| object.tree());
            if own.is_none() && shown.is_none() {
                self.mirrors.forget(&key);
                continue;
            }
            let node = view.get("core/nodes", "", &self.config.name).map(|node| node.tree());
            let pod = own.map(|tenant| &*tenant.object);
            let Some(act) = self.mirrors.begin(&key, pod, shown.as_ref(), node.as_ref(), now) else { continue };
            let (hands, news) = (Arc::clone(&self.hands), self.news.clone());
            tokio::spawn(async move {
                let refused = mirrors::perform(&hands.api, &key, &act).await.err();
                // The receiver is gone only when the node is.
                let _ = news.send(News::Mirrored { key, refused });
            });
        }
    }
}
