//! Who the process runs as, by the image's `/etc/passwd` and `/etc/group`.

use std::fs::File;
use std::io::Read;

use super::{Failure, Outcome};
use contract::User;

/// Bytes read of each file: an image may bring anything.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The numbers a process runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
    pub(super) home: String,
}

/// Looks `user` up in the files of the current root.
pub(super) fn resolve(user: &User) -> Outcome<Identity> {
    resolve_in(user, &read("/etc/passwd"), &read("/etc/group"))
}

/// A file that is missing or unreadable is empty: numbers need no files.
fn read(path: &str) -> String {
    let mut bytes = Vec::new();
    // A FIFO in its place would block for ever.
    let regular = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    if regular && let Ok(file) = File::open(path) {
        let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

struct Account<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

fn accounts(passwd: &str) -> impl Iterator<Item = Account<'_>> {
    passwd.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
        Some(Account { name, uid: uid.parse().ok()?, gid: gid.parse().ok()?, home })
    })
}

/// Name, number and members of each group.
fn groups(text: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, ref rest @ ..] = fields[..] else { return None };
        Some((name, gid.parse().ok()?, rest.first().copied().unwrap_or("")))
    })
}

fn resolve_in(user: &User, passwd: &str, group: &str) -> Outcome<Identity> {
    let (name, group_name) = match user.user.split_once(':') {
        Some((name, group)) => (name, Some(group)),
        None => (user.user.as_str(), None),
    };
    let number: Option<u32> = if name.is_empty() { Some(0) } else { name.parse().ok() };
    let account = accounts(passwd).find(|account| match number {
        Some(uid) => account.uid == uid,
        None => account.name == name,
    });
    let missing = || Failure::new(format!("unable to find user {name}: no matching entries in passwd file"));
    let uid = number.or(account.as_ref().map(|account| account.uid)).ok_or_else(missing)?;
    let gid = match (user.run_as_group, group_name) {
        (Some(gid), _) => gid,
        (None, Some(text)) => group_number(text, group)?,
        (None, None) => account.as_ref().map_or(0, |account| account.gid),
    };
    let mut all = vec![gid];
    all.extend(&user.supplemental_groups);
    if let (Some(account), false) = (&account, user.strict_groups) {
        let member = |members: &str| members.split(',').any(|member| member == account.name);
        all.extend(groups(group).filter(|(_, _, members)| member(members)).map(|(_, gid, _)| gid));
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|gid| seen.insert(*gid));
    let home = account.map(|account| account.home).filter(|home| !home.is_empty()).unwrap_or("/");
    Ok(Identity { uid, gid, groups: all, home: home.to_owned() })
}

fn group_number(text: &str, group: &str) -> Outcome<u32> {
    let missing = || Failure::new(format!("unable to find group {text}: no matching entries in group file"));
    text.parse()
        .ok()
        .or_else(|| groups(group).find(|(name, _, _)| *name == text).map(|found| found.1))
        .ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34::/srv:/bin/false\nbroken\n";
    const GROUP: &str = "root:x:0:\nwww:x:34:\nlogs:x:50:web,other\n";

    #[test]
    fn users_and_groups() {
        for (text, gid, strict, expected) in [
            ("", None, false, Some((0, 0, vec![0], "/root"))),
            ("web", None, false, Some((33, 34, vec![34, 7, 50], "/srv"))),
            ("web", None, true, Some((33, 34, vec![34, 7], "/srv"))),
            ("33:logs", None, false, Some((33, 50, vec![50, 7], "/srv"))),
            ("4000", None, false, Some((4000, 0, vec![0, 7], "/"))),
            ("4000", Some(9), false, Some((4000, 9, vec![9, 7], "/"))),
            ("nobody", None, false, None),
            ("web:nogroup", None, false, None),
        ] {
            let user = User {
                user: text.to_owned(),
                run_as_group: gid,
                supplemental_groups: if text.is_empty() { vec![] } else { vec![7] },
                strict_groups: strict,
            };
            let found = resolve_in(&user, PASSWD, GROUP).ok();
            let expected =
                expected.map(|(uid, gid, groups, home)| Identity { uid, gid, groups, home: home.to_owned() });
            assert_eq!(found, expected, "{text}");
        }
    }
}
