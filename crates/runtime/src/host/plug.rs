//! Sandboxes that lose their interface. The kernel tells when an interface goes; a sandbox without one is shown without
//! an address, which makes whoever runs pods make it anew. When the bridge goes, it is made again and all interfaces
//! are put back on it.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use tokio::io::unix::AsyncFd;

use super::sandbox::Sandbox;
use super::{Inner, Runtime};
use crate::net::{self, links};
use crate::sys;
use contract::EventKind;

impl Runtime {
    /// Begins to listen. Before anything is adopted or made, so that nothing is missed.
    pub(super) fn watch_plugs(&self) -> io::Result<()> {
        if self.inner.config.network.is_none() {
            return Ok(());
        }
        let socket = sys::register(links::subscribe()?)?;
        tokio::spawn(listen(Arc::downgrade(&self.inner), socket));
        Ok(())
    }

    /// Looks whether the sandbox still has its interface, and says so when it has none.
    pub(super) fn check_plug(&self, sandbox: &Sandbox) {
        if sandbox.record.net.is_none() || !sandbox.view().is_connected() {
            return;
        }
        match net::exists(&sandbox.record.host_interface()) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(sandbox = sandbox.record.id, %error, "cannot ask for the interface of a sandbox");
                return;
            }
        }
        // While it stops, its shim takes the interface away itself.
        let was_connected = sandbox.change(|view| view.ready && !std::mem::replace(&mut view.unplugged, true));
        if was_connected {
            self.publish(sandbox, EventKind::SandboxUnplugged);
        }
    }

    /// Looks at all of them: some notices were lost.
    fn check_all_plugs(&self) {
        self.list().iter().for_each(|sandbox| self.check_plug(sandbox));
    }

    /// Makes the bridge again, and puts on it what was on it.
    fn mend_bridge(&self) {
        let (Some(network), Some(range)) = (&self.inner.config.network, self.range()) else { return };
        if net::exists(&network.bridge).unwrap_or(true) {
            return;
        }
        tracing::warn!(bridge = network.bridge, "the bridge of the pods is gone; making it again");
        if let Err(error) = net::ensure_bridge(network, range) {
            tracing::error!(bridge = network.bridge, %error, "the bridge of the pods cannot be made again");
        }
        self.join_bridge();
    }

    /// Puts every sandbox's interface on the bridge, where it usually is already.
    pub(super) fn join_bridge(&self) {
        let Some(network) = &self.inner.config.network else { return };
        let connected = self.list().into_iter().filter(|sandbox| sandbox.record.net.is_some());
        let connected = connected.filter(|sandbox| sandbox.view().is_connected());
        let interfaces: Vec<String> = connected.map(|sandbox| sandbox.record.host_interface()).collect();
        if let Err(error) = net::join_bridge(network, &interfaces) {
            tracing::error!(bridge = network.bridge, %error, "pods cannot be put back on the bridge");
        }
    }

    fn lost(&self, names: &[String]) {
        let bridge = self.inner.config.network.as_ref().map(|network| network.bridge.as_str());
        if names.iter().any(|name| bridge == Some(name)) {
            self.mend_bridge();
        }
        let known = self.list();
        for sandbox in known.iter().filter(|sandbox| names.contains(&sandbox.record.host_interface())) {
            self.check_plug(sandbox);
        }
    }
}

/// Until the runtime is closed or the kernel tells nothing any more.
async fn listen(runtime: Weak<Inner>, socket: AsyncFd<OwnedFd>) {
    loop {
        let Ok(mut guard) = socket.readable().await else { return };
        let Ok(read) = guard.try_io(|socket| links::read_gone(socket.get_ref())) else { continue };
        let Some(runtime) = runtime.upgrade().map(|inner| Runtime { inner }) else { return };
        match read {
            Ok(Some(names)) => runtime.lost(&names),
            Ok(None) => {
                runtime.mend_bridge();
                runtime.check_all_plugs();
            }
            Err(error) => {
                tracing::error!(%error, "the kernel tells nothing of interfaces any more; lost ones go unnoticed");
                return;
            }
        }
    }
}
