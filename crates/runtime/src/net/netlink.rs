//! The handful of rtnetlink requests that are needed, each answered before the next is sent.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use contract::Cidr;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Bytes of an answer that are looked at: one link with all its attributes is below 4 KiB.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// Bytes of a part of a list: the kernel sends at most 32 KiB at once.
const DUMP_BYTES_MAX: usize = 64 << 10;
/// The head of a message, and what stands before the attributes of a route.
const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;
/// By which our routes are known among those of others (`ip route` shows it as `proto 85`; no name is registered for it).
const PROTOCOL: u8 = 85;

const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// A request under construction.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: i32) -> Message {
        let flags = u16::try_from(flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK).unwrap_or(0);
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        // Sequence number and port: one request at a time needs neither.
        bytes.extend([0; 8]);
        Message(bytes)
    }

    fn link(kind: u16, flags: i32, index: u32) -> Message {
        let mut message = Message::new(kind, flags);
        message.link_header(index, 0);
        message
    }

    fn link_header(&mut self, index: u32, up: u32) {
        // family and padding, device type, index, flags, mask of flags to change
        self.0.extend([0; 4]);
        self.0.extend(index.to_ne_bytes());
        self.0.extend(up.to_ne_bytes());
        self.0.extend(up.to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn text(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    /// An attribute that holds attributes, written by `fill`.
    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let start = self.0.len();
        self.attribute(kind, &[]);
        fill(self);
        let length = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        if let Some(place) = self.0.get_mut(start..start + 2) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if let Some(place) = self.0.get_mut(..4) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        self.0
    }
}

fn number(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A connection to the kernel about the network namespace it was opened in.
pub(super) struct Link {
    socket: OwnedFd,
}

impl Link {
    pub(super) fn open() -> io::Result<Link> {
        // Protocol 0 is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Ok(Link { socket })
    }

    /// Sends and waits for the answer: the kernel gives it before the send returns.
    fn ask(&self, message: Message) -> io::Result<Vec<u8>> {
        rustix::net::send(&self.socket, &message.finish(), SendFlags::empty())?;
        let mut found = Vec::new();
        loop {
            let mut bytes = vec![0; ANSWER_BYTES_MAX];
            let (length, _) = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
            bytes.truncate(length);
            let kind = bytes.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
            if kind != Some(libc::NLMSG_ERROR as u16) {
                found = bytes;
                continue;
            }
            return match number(&bytes, 16) {
                Some(0) => Ok(found),
                Some(errno) => Err(io::Error::from_raw_os_error(-errno)),
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
    }

    pub(super) fn index(&self, name: &str) -> io::Result<u32> {
        let mut message = Message::link(libc::RTM_GETLINK, 0, 0);
        message.text(libc::IFLA_IFNAME, name);
        let answer = self.ask(message)?;
        let index = number(&answer, 20).and_then(|index| u32::try_from(index).ok());
        index.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Whether something is plugged in: of a bridge, the other end of one of its ports.
    pub(super) fn has_carrier(&self, name: &str) -> io::Result<bool> {
        let mut message = Message::link(libc::RTM_GETLINK, 0, 0);
        message.text(libc::IFLA_IFNAME, name);
        let flags = number(&self.ask(message)?, 24).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(flags & libc::IFF_LOWER_UP != 0)
    }

    pub(super) fn add_bridge(&self, name: &str) -> io::Result<()> {
        let mut message = Message::link(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, 0);
        message.text(libc::IFLA_IFNAME, name);
        message.nested(libc::IFLA_LINKINFO, |info| info.text(IFLA_INFO_KIND, "bridge"));
        self.ask(message).map(drop)
    }

    /// A pair of interfaces: `host` here, `peer` with the hardware address `hardware` in the namespace.
    pub(super) fn add_pair(
        &self,
        host: &str,
        (peer, hardware): (&str, [u8; 6]),
        netns: BorrowedFd<'_>,
        mtu: u32,
    ) -> io::Result<()> {
        let mut message = Message::link(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, 0);
        message.text(libc::IFLA_IFNAME, host);
        message.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
        message.nested(libc::IFLA_LINKINFO, |info| {
            info.text(IFLA_INFO_KIND, "veth");
            info.nested(IFLA_INFO_DATA, |data| {
                data.nested(VETH_INFO_PEER, |end| {
                    end.link_header(0, 0);
                    end.text(libc::IFLA_IFNAME, peer);
                    end.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
                    end.attribute(libc::IFLA_ADDRESS, &hardware);
                    end.attribute(libc::IFLA_NET_NS_FD, &netns.as_raw_fd().to_ne_bytes());
                });
            });
        });
        self.ask(message).map(drop)
    }

    pub(super) fn set_bridge(&self, index: u32, bridge: u32) -> io::Result<()> {
        let mut message = Message::link(libc::RTM_SETLINK, 0, index);
        message.attribute(libc::IFLA_MASTER, &bridge.to_ne_bytes());
        self.ask(message).map(drop)
    }

    pub(super) fn up(&self, index: u32) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_SETLINK, 0);
        message.link_header(index, libc::IFF_UP.cast_unsigned());
        self.ask(message).map(drop)
    }

    pub(super) fn delete(&self, name: &str) -> io::Result<()> {
        let mut message = Message::link(libc::RTM_DELLINK, 0, 0);
        message.text(libc::IFLA_IFNAME, name);
        self.ask(message).map(drop)
    }

    pub(super) fn add_address(&self, index: u32, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.0.extend([libc::AF_INET as u8, prefix, 0, libc::RT_SCOPE_UNIVERSE]);
        message.0.extend(index.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &address.octets());
        message.attribute(libc::IFA_ADDRESS, &address.octets());
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        message.attribute(libc::IFA_BROADCAST, &(u32::from(address) | !mask).to_be_bytes());
        self.ask(message).map(drop)
    }

    pub(super) fn add_default_route(&self, index: u32, gateway: Ipv4Addr) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        // family, lengths of destination and source, TOS, table, protocol, scope, type, flags
        let table = libc::RT_TABLE_MAIN;
        let header = [libc::AF_INET as u8, 0, 0, 0, table, libc::RTPROT_BOOT, libc::RT_SCOPE_UNIVERSE];
        message.0.extend(header);
        message.0.push(libc::RTN_UNICAST);
        message.0.extend([0; 4]);
        message.attribute(libc::RTA_GATEWAY, &gateway.octets());
        message.attribute(libc::RTA_OIF, &index.to_ne_bytes());
        self.ask(message).map(drop)
    }

    /// A route to a range by way of a neighbour; one to the same range that is there already is replaced.
    pub(super) fn replace_route(&self, range: Cidr, gateway: Ipv4Addr) -> io::Result<()> {
        let message = route(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, range, gateway);
        self.ask(message).map(drop)
    }

    pub(super) fn delete_route(&self, range: Cidr, gateway: Ipv4Addr) -> io::Result<()> {
        self.ask(route(libc::RTM_DELROUTE, 0, range, gateway)).map(drop)
    }

    /// The routes that were made by [`Link::replace_route`].
    pub(super) fn own_routes(&self) -> io::Result<Vec<(Cidr, Ipv4Addr)>> {
        let mut message = Message::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP);
        message.0.extend([libc::AF_INET as u8, 0, 0, 0, 0, 0, 0, 0]);
        message.0.extend([0; 4]);
        rustix::net::send(&self.socket, &message.finish(), SendFlags::empty())?;
        let mut found = Vec::new();
        loop {
            let mut bytes = vec![0; DUMP_BYTES_MAX];
            let (length, _) = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
            bytes.truncate(length);
            let mut rest = &bytes[..];
            while let Some((kind, body, after)) = next_message(rest) {
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(found),
                    libc::NLMSG_ERROR => match number(body, 0) {
                        Some(errno) if errno != 0 => return Err(io::Error::from_raw_os_error(-errno)),
                        _ => {}
                    },
                    _ => found.extend(own_route(body)),
                }
                rest = after;
            }
            if length == 0 {
                return Ok(found);
            }
        }
    }
}

fn route(kind: u16, flags: i32, range: Cidr, gateway: Ipv4Addr) -> Message {
    let mut message = Message::new(kind, flags);
    // family, lengths of destination and source, TOS, table, protocol, scope, type, flags
    let header = [libc::AF_INET as u8, range.prefix, 0, 0, libc::RT_TABLE_MAIN, PROTOCOL, libc::RT_SCOPE_UNIVERSE];
    message.0.extend(header);
    message.0.push(libc::RTN_UNICAST);
    message.0.extend([0; 4]);
    message.attribute(libc::RTA_DST, &range.network.octets());
    message.attribute(libc::RTA_GATEWAY, &gateway.octets());
    message
}

/// The first message of an answer: its kind, its body, and what comes behind it.
fn next_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER_BYTES..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// A route of ours from the body of a message.
fn own_route(body: &[u8]) -> Option<(Cidr, Ipv4Addr)> {
    let (prefix, table, protocol) = (*body.get(1)?, *body.get(4)?, *body.get(5)?);
    if table != libc::RT_TABLE_MAIN || protocol != PROTOCOL {
        return None;
    }
    let (mut network, mut gateway) = (None, None);
    let mut rest = body.get(ROUTE_BYTES..)?;
    while let Some(length) = rest.get(..2).map(|length| usize::from(u16::from_ne_bytes([length[0], length[1]]))) {
        let (kind, value) = (rest.get(2..4)?, rest.get(4..length)?);
        let address = || Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?));
        match u16::from_ne_bytes([kind[0], kind[1]]) {
            libc::RTA_DST => network = address(),
            libc::RTA_GATEWAY => gateway = address(),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some((Cidr { network: network?, prefix }, gateway?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_routes_are_read_back() {
        let (range, gateway): (Cidr, _) = ("10.244.3.0/24".parse().unwrap(), Ipv4Addr::new(192, 0, 2, 3));
        let bytes = route(libc::RTM_NEWROUTE, 0, range, gateway).finish();
        let (kind, body, rest) = next_message(&bytes).unwrap();
        assert_eq!((kind, rest.len()), (libc::RTM_NEWROUTE, 0));
        assert_eq!(own_route(body), Some((range, gateway)));
        let mut others = body.to_vec();
        others[5] = libc::RTPROT_BOOT;
        assert_eq!(own_route(&others), None);
        for cut in 0..body.len() {
            // Whatever is cut off, nothing panics.
            let _ = own_route(&body[..cut]);
            let _ = next_message(&bytes[..cut]);
        }
    }
}
