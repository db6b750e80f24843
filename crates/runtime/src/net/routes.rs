//! Routes to ranges behind neighbours. Ours carry a protocol number of their own, so that what is not wanted any more is
//! told from what others have set.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use super::netlink::Link;
use contract::Cidr;

/// A route that cannot be made, and why: its gateway is no neighbour, most likely.
#[derive(Debug)]
pub struct RouteFailure {
    /// Where it would lead.
    pub range: Cidr,
    /// By way of whom.
    pub gateway: Ipv4Addr,
    /// Why not.
    pub error: io::Error,
}

/// Makes these routes and takes away those that were made here before and are not among them. The error: the routes
/// that there are cannot be read.
pub fn set_routes(wanted: &BTreeMap<Cidr, Ipv4Addr>) -> io::Result<Vec<RouteFailure>> {
    let link = Link::open()?;
    let present: BTreeMap<Cidr, Ipv4Addr> = link.own_routes()?.into_iter().collect();
    let mut failures = Vec::new();
    for (range, gateway) in &present {
        // One that leads elsewhere now is replaced, not removed first.
        if !wanted.contains_key(range)
            && let Err(error) = link.delete_route(*range, *gateway)
        {
            failures.push(RouteFailure { range: *range, gateway: *gateway, error });
        }
    }
    for (range, gateway) in wanted {
        if present.get(range) != Some(gateway)
            && let Err(error) = link.replace_route(*range, *gateway)
        {
            failures.push(RouteFailure { range: *range, gateway: *gateway, error });
        }
    }
    Ok(failures)
}
