//! Addresses in use: a file each, named by the address, that holds the interface's name. One plugin at a time.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use contract::Cidr;

use crate::net;

/// The file whose lock is held while anything is looked at.
const LOCK: &str = "lock";
/// The address given last: what was given back rests as long as possible.
const LAST: &str = "last";

/// The addresses of a node, locked until it is dropped.
pub(super) struct Ledger {
    directory: PathBuf,
    _lock: File,
}

/// Whether this machine has the interface: where that cannot be found out, it may.
pub(super) fn has_interface(name: &str) -> bool {
    net::exists(name).unwrap_or(true)
}

impl Ledger {
    pub fn open(directory: &Path) -> io::Result<Ledger> {
        fs::create_dir_all(directory)?;
        let lock = File::options().create(true).truncate(false).write(true).open(directory.join(LOCK))?;
        lock.lock()?;
        Ok(Ledger { directory: directory.to_owned(), _lock: lock })
    }

    /// Addresses and the interfaces that have them.
    fn taken(&self) -> io::Result<Vec<(Ipv4Addr, String)>> {
        let mut taken = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let address = entry.file_name().to_str().and_then(|name| name.parse::<Ipv4Addr>().ok());
            if let Some(address) = address {
                taken.push((address, fs::read_to_string(entry.path())?.trim().to_owned()));
            }
        }
        Ok(taken)
    }

    /// An address for an interface: the one that it has, or the next free one; `None` when all are taken.
    pub fn take(&self, range: Cidr, interface: &str) -> io::Result<Option<Ipv4Addr>> {
        self.take_where(range, interface, has_interface)
    }

    fn take_where(
        &self,
        range: Cidr,
        interface: &str,
        is_there: impl Fn(&str) -> bool,
    ) -> io::Result<Option<Ipv4Addr>> {
        let mut taken = self.taken()?;
        if let Some((address, _)) = taken.iter().find(|(_, holder)| holder == interface) {
            return Ok(Some(*address));
        }
        // Whose interface is gone was never told to go: the machine was started again.
        for (address, _) in taken.extract_if(.., |(_, holder)| !is_there(holder)) {
            fs::remove_file(self.directory.join(address.to_string()))?;
        }
        let last = fs::read_to_string(self.directory.join(LAST)).ok().and_then(|text| text.trim().parse().ok());
        let is_taken = |address: Ipv4Addr| taken.iter().any(|(other, _)| *other == address);
        let Some(address) = net::allocate(range, last, is_taken) else { return Ok(None) };
        for (name, text) in [(address.to_string(), interface.to_owned()), (LAST.to_owned(), address.to_string())] {
            let whole = self.directory.join("new.tmp");
            fs::write(&whole, text)?;
            fs::rename(&whole, self.directory.join(name))?;
        }
        Ok(Some(address))
    }

    /// Whether an interface has an address.
    pub fn holds(&self, interface: &str) -> io::Result<bool> {
        Ok(self.taken()?.iter().any(|(_, holder)| holder == interface))
    }

    /// Frees what an interface had.
    pub fn give_back(&self, interface: &str) -> io::Result<()> {
        for (address, _) in self.taken()?.iter().filter(|(_, holder)| holder == interface) {
            fs::remove_file(self.directory.join(address.to_string()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_given_once_and_given_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let range: Cidr = "10.0.0.0/29".parse().expect("a range");
        let ledger = Ledger::open(directory.path()).expect("a ledger");
        let take = |name: &str| {
            let address = ledger.take_where(range, name, |holder| holder != "lost").expect("looked");
            address.map(|address| address.octets()[3])
        };
        assert_eq!([take("a"), take("b"), take("a")], [Some(2), Some(3), Some(2)]);
        ledger.give_back("a").expect("given back");
        assert!(!ledger.holds("a").expect("looked") && ledger.holds("b").expect("looked"));
        assert_eq!([take("lost"), take("c"), take("d")], [Some(4), Some(5), Some(6)]);
        // Full, but for what was given back and what was lost.
        assert_eq!([take("e"), take("f"), take("g")], [Some(2), Some(4), None]);
    }
}
