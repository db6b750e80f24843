//! One writer's objects: what was acknowledged of each, and what is in doubt.

use super::shadow::{List, Shadow};

/// Objects of each writer: few, so that each is written often.
const KEYS: usize = 8;

/// The objects of one writer.
pub struct Keys {
    pub all: Vec<Key>,
    /// Counts this writer's writes: each has a value of its own.
    pub value: u64,
    /// Names and revisions of acknowledged writes that no event has been compared with yet.
    pub acknowledged: Vec<(String, u64)>,
}

/// One object.
pub struct Key {
    pub name: String,
    /// Value and revision as last acknowledged or seen; `None` when it is not there.
    pub known: Option<(u64, u64)>,
    /// A write that was sent and not answered: the value it would leave, or nothing for a deletion.
    pub doubt: Option<Option<u64>>,
}

impl Keys {
    /// The objects of writer `number`.
    pub fn new(number: usize) -> Keys {
        let key = |at| Key { name: format!("kill-{number}-{at}"), known: None, doubt: None };
        Keys { all: (0..KEYS).map(key).collect(), value: 0, acknowledged: Vec::new() }
    }

    /// Compares with what the started server shows, and takes that as known.
    pub fn settle(&mut self, list: &List) -> Result<(), String> {
        for key in &mut self.all {
            let found = list.items.get(&key.name).copied();
            if !key.allows(found) {
                let (name, known, doubt) = (&key.name, key.known, key.doubt);
                return Err(format!("{name}: acknowledged {known:?}, in doubt {doubt:?}, found {found:?}"));
            }
            (key.known, key.doubt) = (found, None);
        }
        Ok(())
    }

    /// Every acknowledged write was an event. Returns how many there were.
    pub fn must_be_events(&mut self, shadow: &mut Shadow) -> Result<usize, String> {
        for (name, revision) in &self.acknowledged {
            if !shadow.take(name, *revision) {
                return Err(format!("{name}: no event for the acknowledged write at revision {revision}"));
            }
        }
        let count = self.acknowledged.len();
        self.acknowledged.clear();
        Ok(count)
    }
}

impl Key {
    fn allows(&self, found: Option<(u64, u64)>) -> bool {
        let happened = match (self.doubt, found) {
            (Some(Some(value)), Some((stored, revision))) => {
                stored == value && self.known.is_none_or(|(_, before)| revision > before)
            }
            (Some(None), None) => true,
            _ => false,
        };
        happened || found == self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(known: Option<(u64, u64)>, doubt: Option<Option<u64>>, found: Option<(u64, u64)>, expected: bool) {
        let key = Key { name: String::new(), known, doubt };
        assert_eq!(key.allows(found), expected, "{known:?} {doubt:?} {found:?}");
    }

    #[test]
    fn only_what_was_acknowledged_or_is_in_doubt_is_allowed() {
        check(None, None, None, true);
        check(None, None, Some((1, 5)), false);
        check(Some((1, 5)), None, Some((1, 5)), true);
        check(Some((1, 5)), None, None, false);
        check(Some((1, 5)), None, Some((1, 6)), false);
        check(Some((1, 5)), Some(Some(2)), Some((2, 6)), true);
        check(Some((1, 5)), Some(Some(2)), Some((2, 5)), false);
        check(Some((1, 5)), Some(Some(2)), Some((3, 6)), false);
        check(Some((1, 5)), Some(None), None, true);
        check(Some((1, 5)), Some(None), Some((1, 5)), true);
    }
}
