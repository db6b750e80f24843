//! The range of a node's pods: IPv4.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// A network and the length of its prefix (`10.244.1.0/24`), at most 30.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cidr {
    /// Its first address.
    pub network: Ipv4Addr,
    /// Bits that all addresses share.
    pub prefix: u8,
}

impl Cidr {
    fn size(self) -> u32 {
        1u32.checked_shl(32 - u32::from(self.prefix)).unwrap_or(u32::MAX)
    }

    /// The first address: the bridge's.
    pub fn gateway(self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.network) + 1)
    }

    /// How many pods can have an address: all but network, gateway and broadcast.
    pub fn pod_addresses(self) -> u32 {
        self.size().saturating_sub(3)
    }

    /// The address number `index`, from 0.
    pub fn pod_address(self, index: u32) -> Option<Ipv4Addr> {
        (index < self.pod_addresses()).then(|| Ipv4Addr::from(u32::from(self.network) + 2 + index))
    }

    /// The number of an address.
    pub fn index(self, address: Ipv4Addr) -> Option<u32> {
        let index = u32::from(address).checked_sub(u32::from(self.network) + 2)?;
        (index < self.pod_addresses()).then_some(index)
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Cidr, String> {
        let refuse = || format!("{text:?} is not an IPv4 range such as 10.244.0.0/24, with a prefix of 1 to 30");
        let (network, prefix) = text.split_once('/').ok_or_else(refuse)?;
        let network: Ipv4Addr = network.parse().map_err(|_| refuse())?;
        let prefix: u8 = prefix.parse().map_err(|_| refuse())?;
        if !(1..=30).contains(&prefix) {
            return Err(refuse());
        }
        let mask = u32::MAX << (32 - u32::from(prefix));
        Ok(Cidr { network: Ipv4Addr::from(u32::from(network) & mask), prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, expected) in [
            ("10.1.2.3/24", Some("10.1.2.0/24 10.1.2.1 253")),
            ("10.0.0.0/30", Some("10.0.0.0/30 10.0.0.1 1")),
            ("10.0.0.0/31", None),
            ("10.0.0.0", None),
            ("fd00::/64", None),
        ] {
            let shown = text.parse::<Cidr>().ok().map(|c| format!("{c} {} {}", c.gateway(), c.pod_addresses()));
            assert_eq!(shown.as_deref(), expected, "{text}");
        }
    }
}
