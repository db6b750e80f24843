//! Bridges that a node of another data directory has left on this machine: one with the range that a node has now
//! would take the packets to its pods.

use std::fs;
use std::io;

use contract::Cidr;

use super::delete;
use super::netlink::Link;

/// What names of nodes' bridges begin with.
pub const BRIDGE_PREFIX: &str = "spt-";

/// Removes bridges of other nodes that have this range and no pods. One that has pods stays, and is complained of.
pub(crate) fn remove_leftovers(own: &str, range: Cidr) -> io::Result<()> {
    let routes = fs::read_to_string("/proc/net/route")?;
    for bridge in others(&routes, own, range) {
        if !Link::open()?.has_carrier(bridge)? {
            delete(bridge)?;
            tracing::info!(bridge, %range, "a bridge without pods that an earlier node has left is removed");
        } else {
            tracing::warn!(bridge, %range, "another node of this machine has pods in the same range: \
                the servers need a --cluster-cidr each");
        }
    }
    Ok(())
}

/// The bridges of other nodes that packets to the range leave by; `routes` is `/proc/net/route`.
fn others<'r>(routes: &'r str, own: &str, range: Cidr) -> Vec<&'r str> {
    let is_ours = |name: &str| name.starts_with(BRIDGE_PREFIX) && name != own;
    let network = format!("{:08X}", u32::from_ne_bytes(range.network.octets()));
    let to_range = |line: &'r str| {
        let mut fields = line.split_whitespace();
        let (name, destination) = (fields.next()?, fields.next()?);
        (is_ours(name) && destination == network).then_some(name)
    };
    routes.lines().filter_map(to_range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn bridges_with_the_same_range() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
                      eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n\
                      spt-own\t0000F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n\
                      spt-old\t0000F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n\
                      spt-far\t0001F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n\
                      br0\t0000F40A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n";
        let check = |own: &str, range: &str, expected: &[&str]| {
            assert_eq!(others(routes, own, range.parse().expect("a range")), expected, "{own} {range}");
        };
        check("spt-own", "10.244.0.0/24", &["spt-old"]);
        check("spt-own", "10.244.1.0/24", &["spt-far"]);
        check("spt-own", "10.244.2.0/24", &[]);
        check("spt-new", "10.244.0.0/24", &["spt-own", "spt-old"]);
    }
}
