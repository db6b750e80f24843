//! What network interfaces have carried: the kernel's counters.

use std::collections::BTreeMap;
use std::fs;

/// Counters of one interface, from its own side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub rx_bytes: u64,
    pub rx_errors: u64,
    pub tx_bytes: u64,
    pub tx_errors: u64,
}

impl Traffic {
    /// From the other end of a pair: what was sent here was received there.
    pub fn seen_from_other_end(self) -> Traffic {
        Traffic {
            rx_bytes: self.tx_bytes,
            rx_errors: self.tx_errors,
            tx_bytes: self.rx_bytes,
            tx_errors: self.rx_errors,
        }
    }
}

/// All interfaces of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    all: BTreeMap<String, Traffic>,
    default: Option<String>,
}

impl Links {
    /// As they are now.
    pub fn read() -> Links {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Links { all: counters(&text("/proc/net/dev")), default: default_interface(&text("/proc/net/route")) }
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<Traffic> {
        self.all.get(name).copied()
    }

    /// The one that leads everywhere, if one does.
    pub fn default(&self) -> Option<&str> {
        self.default.as_deref().filter(|name| self.all.contains_key(*name))
    }

    /// Those that carry the machine's own traffic.
    pub fn own(&self) -> impl Iterator<Item = (&str, Traffic)> {
        self.all.iter().map(|(name, traffic)| (name.as_str(), *traffic)).filter(|(name, _)| is_own(name))
    }
}

/// Neither loopback nor the end of a pair whose other end is in a container.
fn is_own(name: &str) -> bool {
    let is_end = |rest: &str| rest.len() == 12 && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
    name != "lo" && !name.starts_with("veth") && !name.strip_prefix("sp").is_some_and(is_end)
}

/// Of `/proc/net/dev`: two lines of titles, then `name:` and eight numbers each for what came and what went: bytes,
/// packets, errors, and more.
fn counters(text: &str) -> BTreeMap<String, Traffic> {
    let line = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().map_while(|number| number.parse().ok()).collect();
        let number = |at: usize| numbers.get(at).copied();
        let traffic =
            Traffic { rx_bytes: number(0)?, rx_errors: number(2)?, tx_bytes: number(8)?, tx_errors: number(10)? };
        Some((name.trim().to_owned(), traffic))
    };
    text.lines().skip(2).filter_map(line).collect()
}

/// Of `/proc/net/route`: interface, destination and gateway in front, the mask eighth, the metric seventh.
fn default_interface(text: &str) -> Option<String> {
    let route = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_default = *words.get(1)? == "00000000" && *words.get(7)? == "00000000";
        is_default.then(|| Some((words.get(6)?.parse::<u64>().ok()?, (*words.first()?).to_owned())))?
    };
    text.lines().skip(1).filter_map(route).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n\
                    lo:     100       1    0    0    0     0          0         0      100       1    0    0 0 0 0 0\n  \
                    eth0: 1234       5    6    7    0     0          0         0     4321      50   60    0 0 0 0 0\n\
                    sp0123456789ab:    1       0    2    0    0     0          0         0        3       0    4    0 0 0 0 0\n\
                    broken: 1 2\n";
        let eth0 = Traffic { rx_bytes: 1234, rx_errors: 6, tx_bytes: 4321, tx_errors: 60 };
        let links = Links { all: counters(text), default: Some("eth0".to_owned()) };
        assert_eq!(links.own().collect::<Vec<_>>(), [("eth0", eth0)]);
        let pod = links.get("sp0123456789ab").map(Traffic::seen_from_other_end);
        assert_eq!(pod, Some(Traffic { rx_bytes: 3, rx_errors: 4, tx_bytes: 1, tx_errors: 2 }));
        assert_eq!((links.get("broken"), links.default()), (None, Some("eth0")));

        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                      br0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                      wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
                      eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
        assert_eq!(default_interface(routes).as_deref(), Some("eth0"));
        assert_eq!(default_interface("Iface\n"), None);
    }
}
