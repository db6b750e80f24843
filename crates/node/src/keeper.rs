//! The task that keeps the Node: registers it, renews its Lease, writes its status now and then and when the node runs
//! short of something, and tells the runtime the range of the pods' addresses when the cluster has given the node one.

use std::sync::Arc;
use std::time::Duration;

use agent::pressure::Pressures;
use contract::Cidr;
use meta::{ObjectExt, Time};
use serde_json::Value;
use tokio::sync::watch;

use crate::machine::Machine;
use crate::node_object::{RENEW_EVERY, STATUS_EVERY, Told};
use crate::perform::Hands;
use crate::{NodeConfig, node_object};

/// How long to wait before something that failed is tried again, and at most for a range of addresses.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How long changes are gathered before the Node is looked at for a range: anything may have changed.
const GATHER: Duration = Duration::from_millis(50);
/// A lease that was renewed later than this is not renewed again: whoever waits for a range wakes often.
const RENEW_AFTER: Duration = Duration::from_secs(5);

/// What keeps the Node.
pub(crate) struct Keeper {
    config: NodeConfig,
    hands: Arc<Hands>,
    machine: Machine,
    pressures: watch::Receiver<Pressures>,
    /// The range that the Node had when it was seen last.
    given: String,
    /// The range that the runtime was told.
    used: String,
    /// When the lease was renewed, by the time that never goes back.
    renewed: Option<Duration>,
}

/// The Node as it was written last, and what was said.
struct Written {
    at: Time,
    node: Value,
    network_is_ready: bool,
    pressures: Pressures,
}

impl Keeper {
    pub fn new(
        config: NodeConfig,
        hands: Arc<Hands>,
        machine: Machine,
        pressures: watch::Receiver<Pressures>,
    ) -> Keeper {
        let (given, used, renewed) = Default::default();
        Keeper { config, hands, machine, pressures, given, used, renewed }
    }

    /// Keeps it for ever.
    pub async fn keep(mut self) {
        let mut written: Option<Written> = None;
        let mut moved = self.config.source.moved.clone();
        loop {
            moved.mark_unchanged();
            let now = self.config.clock.now();
            let pressures = self.pressures.borrow_and_update().clone();
            if written.as_ref().is_none_or(|written| !written.network_is_ready) || !self.is_connected() {
                self.learn_range().await;
            }
            if written.as_ref().is_none_or(|written| self.is_due(written, &pressures, now)) {
                written = self.write(pressures, now).await.or(written);
            }
            if let Some(written) = &written {
                self.renew(&written.node, now).await;
            }
            let is_calm = written.as_ref().is_some_and(|written| written.network_is_ready) && self.is_connected();
            let pause = if is_calm { RENEW_EVERY } else { RETRY_EVERY };
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
                Ok(()) = change, if !is_calm && written.is_some() => {}
            }
        }
    }

    /// Whether pods get addresses of the range that the node has.
    fn is_connected(&self) -> bool {
        self.given == self.used && self.config.runtime.network_ready()
    }

    fn is_due(&self, written: &Written, pressures: &Pressures, now: Time) -> bool {
        written.network_is_ready != self.is_connected()
            || written.pressures != *pressures
            || written.at.after(STATUS_EVERY) <= now
    }

    async fn write(&mut self, pressures: Pressures, now: Time) -> Option<Written> {
        let images = self.hands.images.list().await.unwrap_or_default();
        let network_is_ready = self.is_connected();
        let told = Told { images: &images, pressures: &pressures, network_is_ready };
        match node_object::register(&self.hands.api, &self.config, &self.machine, &told, now).await {
            Ok(node) => {
                // A Node that was deleted and made again has another range.
                node.text(&["spec", "podCIDR"]).clone_into(&mut self.given);
                Some(Written { at: now, node, network_is_ready, pressures })
            }
            Err(failure) => {
                tracing::warn!(reason = failure.reason, "the Node cannot be written: {}", failure.message);
                None
            }
        }
    }

    async fn renew(&mut self, node: &Value, now: Time) {
        let begun = self.config.clock.monotonic();
        if self.renewed.is_some_and(|at| begun.saturating_sub(at) < RENEW_AFTER) {
            return;
        }
        match node_object::renew(&self.hands.api, node, now).await {
            Ok(()) => self.renewed = Some(begun),
            Err(refused) => {
                tracing::warn!(reason = refused.reason, "the lease cannot be renewed: {}", refused.message);
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
