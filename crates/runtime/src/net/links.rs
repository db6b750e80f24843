//! What the kernel tells of interfaces that are gone.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

/// Bytes of one notice that are looked at: one link with all its attributes is below 4 KiB.
const NOTICE_BYTES_MAX: usize = 16 << 10;
/// The group of changes of links.
const GROUP_LINK: u32 = 1;

/// Subscribes to changes of the interfaces of the current network namespace. The descriptor does not block.
pub(crate) fn subscribe() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, GROUP_LINK))?;
    Ok(socket)
}

/// The names of interfaces that one notice calls gone. Whether they are still gone must be asked: a notice is only a
/// reason to look. `None` when notices were lost, because they came faster than they were read.
pub(crate) fn read_gone(socket: &OwnedFd) -> io::Result<Option<Vec<String>>> {
    let mut bytes = vec![0; NOTICE_BYTES_MAX];
    match rustix::net::recv(socket, &mut bytes[..], RecvFlags::empty()) {
        Ok((length, _)) => Ok(Some(gone_in(bytes.get(..length).unwrap_or_default()))),
        Err(rustix::io::Errno::NOBUFS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn gone_in(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    // Length, type, flags, sequence number, port; then the link's own header of 16 bytes and its attributes.
    while let (Some(length), Some(kind)) = (number32(bytes, 0), number16(bytes, 4)) {
        let message = bytes.get(..length).unwrap_or(bytes);
        if kind == libc::RTM_DELLINK {
            names.extend(name_in(message.get(32..).unwrap_or_default()));
        }
        bytes = bytes.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
    }
    names
}

fn name_in(mut attributes: &[u8]) -> Option<String> {
    while let (Some(length), Some(kind)) = (number16(attributes, 0), number16(attributes, 2)) {
        let length = usize::from(length);
        if kind == libc::IFLA_IFNAME {
            let text = attributes.get(4..length)?.split(|byte| *byte == 0).next()?;
            return std::str::from_utf8(text).ok().map(str::to_owned);
        }
        attributes = attributes.get(length.max(4).next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn number32(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, name: &str) -> Vec<u8> {
        let mut attributes = attribute(libc::IFLA_MTU, &1500_u32.to_ne_bytes());
        attributes.extend(attribute(libc::IFLA_IFNAME, format!("{name}\0").as_bytes()));
        let length = u32::try_from(32 + attributes.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(32, 0);
        bytes.extend(attributes);
        bytes
    }

    #[test]
    fn notices_are_read() {
        let both = [message(libc::RTM_NEWLINK, "one"), message(libc::RTM_DELLINK, "two")].concat();
        let check = |bytes: &[u8], expected: &[&str]| assert_eq!(gone_in(bytes), expected, "{bytes:?}");
        check(&[], &[]);
        check(&both, &["two"]);
        check(&both[..both.len() - 8], &[]);
        check(&message(libc::RTM_DELLINK, "sp0123456789ab"), &["sp0123456789ab"]);
        // Lengths that lie lead nowhere.
        check(&[0; 64], &[]);
        check(&[255; 64], &[]);
    }
}
