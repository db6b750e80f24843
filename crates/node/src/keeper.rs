//! The task that keeps the Node: registers it, writes its status now and then and when the node runs short of something or
//! its runtime cannot be used, and tells the runtime the range of the pods' addresses when the cluster has given the node
//! one. Beside it, waiting for nobody, the Lease is renewed.

use std::sync::Arc;
use std::time::Duration;

use agent::pressure::Pressures;
use clock::Clock;
use contract::Cidr;
use meta::{ObjectExt, Time};
use serde_json::Value;
use tokio::sync::watch;

use crate::image::LocalImage;
use crate::machine::Machine;
use crate::node_object::{RENEW_EVERY, STATUS_EVERY, Told};
use crate::perform::Hands;
use crate::{NodeConfig, node_object};

/// How long to wait before something that failed is tried again, and at most for a range of addresses.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long changes are gathered before the Node is looked at for a range: anything may have changed.
const GATHER: Duration = Duration::from_millis(50);
/// How often it is looked whether the pods' network is still ready, which nobody announces.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long images may take to be listed; the status does not wait longer for what matters less than the rest of it.
const IMAGES_TIMEOUT: Duration = Duration::from_secs(5);

/// What keeps the Node.
pub(crate) struct Keeper {
    config: NodeConfig,
    hands: Arc<Hands>,
    machine: Machine,
    pressures: watch::Receiver<Pressures>,
    /// Why the runtime cannot be used.
    trouble: watch::Receiver<Option<String>>,
    /// Images as they were listed last.
    images: Vec<LocalImage>,
    /// The range that the Node had when it was seen last.
    given: String,
    /// The range that the runtime was told.
    used: String,
}

/// What was said last of the Node, and when.
struct Written {
    at: Time,
    said: Said,
}

/// What is said at once when it changes.
#[derive(Clone, PartialEq)]
struct Said {
    network_is_ready: bool,
    pressures: Pressures,
    trouble: Option<String>,
}

impl Keeper {
    pub fn new(
        config: NodeConfig,
        hands: Arc<Hands>,
        machine: Machine,
        pressures: watch::Receiver<Pressures>,
    ) -> Keeper {
        let (given, used, images) = Default::default();
        let trouble = hands.runtime.trouble();
        Keeper { config, hands, machine, pressures, trouble, images, given, used }
    }

    /// Keeps it for ever.
    pub async fn keep(self) {
        let (made, node) = watch::channel(None);
        let (hands, clock) = (Arc::clone(&self.hands), Arc::clone(&self.config.clock));
        tokio::join!(self.keep_status(made), keep_lease(hands, clock, node));
    }

    async fn keep_status(mut self, made: watch::Sender<Option<Value>>) {
        let mut written: Option<Written> = None;
        let mut moved = self.config.source.moved.clone();
        loop {
            moved.mark_unchanged();
            let now = self.config.clock.now();
            if written.as_ref().is_none_or(|written| !written.said.network_is_ready) || !self.is_connected() {
                self.learn_range().await;
            }
            let said = self.say();
            if written.as_ref().is_none_or(|written| written.said != said || written.at.after(STATUS_EVERY) <= now)
                && let Some(node) = self.write(&said, now).await
            {
                made.send_replace(Some(node));
                written = Some(Written { at: now, said });
            }
            let is_calm = written.as_ref().is_some_and(|written| written.said.network_is_ready) && self.is_connected();
            let pause = if is_calm { LOOK_EVERY } else { RETRY_EVERY };
            let change = async {
                // The range may come with any change; and a change may be missed.
                let heard = moved.changed().await;
                tokio::time::sleep(GATHER).await;
                heard
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                // The senders live as long as the node.
                Ok(()) = self.pressures.changed() => {}
                // Of a runtime that can always be used there is none.
                Ok(()) = self.trouble.changed() => {}
                Ok(()) = change, if !is_calm && written.is_some() => {}
            }
        }
    }

    /// Whether pods get addresses of the range that the node has.
    fn is_connected(&self) -> bool {
        self.given == self.used && self.config.runtime.network_ready()
    }

    fn say(&mut self) -> Said {
        let pressures = self.pressures.borrow_and_update().clone();
        let trouble = self.trouble.borrow_and_update().clone();
        Said { network_is_ready: self.is_connected(), pressures, trouble }
    }

    async fn write(&mut self, said: &Said, now: Time) -> Option<Value> {
        if said.trouble.is_none()
            && let Ok(Ok(images)) = tokio::time::timeout(IMAGES_TIMEOUT, self.hands.images.list()).await
        {
            self.images = images;
        }
        let told = Told {
            images: &self.images,
            pressures: &said.pressures,
            network_is_ready: said.network_is_ready,
            trouble: said.trouble.as_deref(),
        };
        match node_object::register(&self.hands.api, &self.config, &self.machine, &told, now).await {
            Ok(node) => {
                // A Node that was deleted and made again has another range.
                node.text(&["spec", "podCIDR"]).clone_into(&mut self.given);
                Some(node)
            }
            Err(failure) => {
                tracing::warn!(reason = failure.reason, "the Node cannot be written: {}", failure.message);
                None
            }
        }
    }

    /// Looks whether the Node has a range by now, and has the runtime use it.
    async fn learn_range(&mut self) {
        if let Ok(node) = self.hands.api.get(format!("/api/v1/nodes/{}", self.config.name)).await {
            node.text(&["spec", "podCIDR"]).clone_into(&mut self.given);
        }
        if self.given.is_empty() || self.given == self.used {
            return;
        }
        let range = self.given.as_str();
        let used = match range.parse::<Cidr>() {
            Ok(cidr) => self.config.runtime.update_runtime_config(cidr).await.map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        match used {
            Ok(()) => {
                tracing::info!(range, "the pods' addresses");
                self.used.clone_from(&self.given);
            }
            Err(error) => tracing::error!(range, error, "the range of the pods' addresses cannot be used"),
        }
    }
}

/// Renews the Lease for ever, from when there is a Node.
async fn keep_lease(hands: Arc<Hands>, clock: Arc<dyn Clock>, mut node: watch::Receiver<Option<Value>>) {
    while node.wait_for(Option::is_some).await.is_ok() {
        let known = node.borrow().clone().unwrap_or_default();
        if let Err(refused) = node_object::renew(&hands.api, &known, clock.now()).await {
            tracing::warn!(reason = refused.reason, "the lease cannot be renewed: {}", refused.message);
        }
        tokio::time::sleep(RENEW_EVERY).await;
    }
}
