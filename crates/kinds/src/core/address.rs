//! IP addresses in the fields of Services and endpoints.

use std::net::IpAddr;

use meta::name;

use crate::check::{At, Faults, named};

/// An address of either family.
pub(crate) fn check_ip(at: &At, faults: &mut Faults) {
    named(at, name::ip, faults);
}

/// Not an address that means "here", "nowhere" or "this link": traffic sent to such an endpoint would reach the
/// sending node itself.
pub(crate) fn check_not_special(at: &At, faults: &mut Faults) {
    let Ok(ip) = at.text().parse::<IpAddr>() else {
        faults.push(at.invalid_as(at.text(), "must be a valid IP address"));
        return;
    };
    if ip.is_unspecified() {
        faults.push(at.invalid(format!("may not be unspecified ({})", at.text())));
    }
    if ip.is_loopback() {
        faults.push(at.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    }
    if is_link_local(ip) {
        faults.push(at.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
    }
    if is_link_local_multicast(ip) {
        faults.push(at.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"));
    }
}

/// Whether the text is an IPv6 address.
pub(crate) fn is_ipv6(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6())
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn special_addresses() {
        let check = |ip: &str, expected: usize| {
            let mut faults = Faults::new();
            check_not_special(&At::root(&json!(ip)), &mut faults);
            assert_eq!(faults.len(), expected, "{ip} {faults:?}");
        };
        for ip in ["10.0.0.1", "2001:db8::1", "224.0.1.1"] {
            check(ip, 0);
        }
        for ip in ["0.0.0.0", "::", "127.0.0.1", "::1", "169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "x"] {
            check(ip, 1);
        }
    }
}
