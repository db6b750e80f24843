//! Pod networks: a bridge on the host, and for every sandbox a pair of interfaces, an address of the node's range
//! and a default route. IPv4. Nothing of it is kept anywhere but in the kernel and in the sandbox's record.
//!
//! Not here: masquerade, Services, host ports and policies. They are rules of the packet filter, which belong to
//! whoever writes all of those rules; [`enable_forwarding`] is what they need from this side.

mod leftovers;
pub(crate) mod links;
mod netlink;
mod routes;

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use contract::Cidr;
pub use leftovers::BRIDGE_PREFIX;
pub(crate) use leftovers::remove_leftovers;
use netlink::Link;
pub use routes::{RouteFailure, set_routes};

use crate::record::NetRecord;

/// How the node connects its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Name of the bridge, up to 15 bytes; made when missing.
    pub bridge: String,
    /// The node's range. Its first address is the bridge's, and the gateway of all pods. Absent: told later, by
    /// [`contract::ContainerRuntime::update_runtime_config`]; until then pods on the pod network are refused.
    pub pod_cidr: Option<Cidr>,
    /// Of the pods' interfaces; 1500 unless the pod network is itself carried by a tunnel.
    pub mtu: u32,
    /// Forward packets between pods and elsewhere (`net.ipv4.ip_forward`).
    pub forward: bool,
}

/// The name of the interface within a pod.
const POD_INTERFACE: &str = "eth0";

/// Makes the bridge with its address, or completes one that is there.
pub(crate) fn ensure_bridge(config: &NetworkConfig, range: Cidr) -> io::Result<()> {
    let link = Link::open()?;
    ignore_existing(link.add_bridge(&config.bridge))?;
    let index = link.index(&config.bridge)?;
    ignore_existing(link.add_address(index, range.gateway(), range.prefix))?;
    link.up(index)?;
    if config.forward { enable_forwarding() } else { Ok(()) }
}

/// Lets the host forward packets: what traffic between nodes and to the outside needs.
fn enable_forwarding() -> io::Result<()> {
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")
}

/// Removes the bridge; for a node that leaves for good.
pub fn remove_bridge(name: &str) -> io::Result<()> {
    delete(name)
}

/// Puts interfaces on the bridge; one that is gone is left out.
pub(crate) fn join_bridge(config: &NetworkConfig, interfaces: &[String]) -> io::Result<()> {
    let link = Link::open()?;
    let bridge = link.index(&config.bridge)?;
    for name in interfaces {
        match link.index(name).and_then(|index| link.set_bridge(index, bridge)) {
            Err(e) if e.raw_os_error() != Some(libc::ENODEV) => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Whether the current namespace has an interface of that name.
pub(crate) fn exists(name: &str) -> io::Result<bool> {
    match Link::open()?.index(name) {
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(false),
        other => other.map(|_| true),
    }
}

/// Joins the namespace `netns` to the bridge. `within` runs a function inside that namespace.
pub(crate) fn connect(
    record: &NetRecord,
    host_interface: &str,
    netns: BorrowedFd<'_>,
    within: impl FnOnce(&dyn Fn() -> io::Result<()>) -> io::Result<()>,
) -> io::Result<()> {
    let link = Link::open()?;
    link.add_pair(host_interface, (POD_INTERFACE, hardware_address(record.address)), netns.as_fd(), record.mtu)?;
    let index = link.index(host_interface)?;
    link.set_bridge(index, link.index(&record.bridge)?)?;
    link.up(index)?;
    within(&|| configure(record))
}

/// A hardware address that follows from the pod's address. Neighbours remember which one belonged to an address for up
/// to half a minute; a pod that gets the address of one that has just gone would not be reached for as long.
fn hardware_address(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    // Locally administered.
    [0x0a, 0x58, a, b, c, d]
}

/// The pod's end: address, default route.
fn configure(record: &NetRecord) -> io::Result<()> {
    let link = Link::open()?;
    let index = link.index(POD_INTERFACE)?;
    link.add_address(index, record.address, record.prefix)?;
    link.up(index)?;
    link.add_default_route(index, record.gateway)
}

/// Sets the loopback interface of the current namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    let link = Link::open()?;
    link.up(link.index("lo")?)
}

/// Deletes an interface, and with it its other end; one that is gone is no error.
pub(crate) fn delete(name: &str) -> io::Result<()> {
    match Link::open()?.delete(name) {
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => Ok(()),
        other => other,
    }
}

fn ignore_existing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other,
    }
}

/// The next free address after `last`, wrapping round: what was given back rests as long as possible.
pub(crate) fn allocate(range: Cidr, last: Option<Ipv4Addr>, taken: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
    let hosts = range.pod_addresses();
    let start = last.and_then(|last| range.index(last)).map_or(0, |index| (index + 1) % hosts.max(1));
    (0..hosts).filter_map(|step| range.pod_address((start + step) % hosts)).find(|address| !taken(*address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_rest_before_they_come_again() {
        let range: Cidr = "10.0.0.0/29".parse().expect("a range");
        let address = |last: u8| Ipv4Addr::new(10, 0, 0, last);
        for (last, taken, expected) in [
            (None, vec![], Some(address(2))),
            (Some(address(2)), vec![], Some(address(3))),
            (Some(address(6)), vec![address(2)], Some(address(3))),
            (Some(address(3)), vec![address(4), address(5), address(6)], Some(address(2))),
            (None, (2..7).map(address).collect(), None),
        ] {
            assert_eq!(allocate(range, last, |a| taken.contains(&a)), expected, "{last:?} {taken:?}");
        }
    }
}
