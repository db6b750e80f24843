//! Revisions: which template was when.

use super::facts::{Desired, Set};
use super::rollout::REVISION;

/// Earlier revisions of a template that came back, separated by commas.
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Upstream's bound of the history: about 400 undos of one template.
const HISTORY_CHARS_MAX: usize = 2_000;
/// Annotations of a Deployment that mean the Deployment itself.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    super::rollout::DESIRED,
    "deployment.kubernetes.io/max-replicas",
    "deprecated.deployment.rollback.to",
];

/// A ReplicaSet has the annotations of its Deployment, the change cause above all.
pub(super) fn copy_annotations(desired: &Desired, set: &mut Set) {
    let copied = desired.annotations.iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    copied.for_each(|(key, value)| {
        set.annotations.insert(key.clone(), value.clone());
    });
}

/// Makes `next` the ReplicaSet's revision unless it has a newer one, and keeps the one it had in its history.
pub(super) fn raise_revision(set: &mut Set, next: i64) {
    let current = set.annotations.get(REVISION).cloned();
    let number = current.as_ref().map_or(0, |text| text.parse().unwrap_or(0));
    if number >= next {
        return;
    }
    set.annotations.insert(REVISION.to_owned(), next.to_string());
    if let Some(current) = current {
        let history = set.annotations.entry(HISTORY.to_owned()).or_default();
        *history = with_revision(history, &current);
    }
}

/// The history with one more revision, without its oldest ones where it would grow too long.
fn with_revision(history: &str, revision: &str) -> String {
    let mut kept = history;
    while !kept.is_empty() && kept.len() + 1 + revision.len() > HISTORY_CHARS_MAX {
        kept = kept.split_once(',').map_or("", |(_, rest)| rest);
    }
    if kept.is_empty() { revision.to_owned() } else { format!("{kept},{revision}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_that_comes_back_keeps_its_old_revisions() {
        let mut set = Set::default();
        let check = |set: &mut Set, next: i64, revision: &str, history: Option<&str>| {
            raise_revision(set, next);
            assert_eq!(set.annotations.get(REVISION).map(String::as_str), Some(revision));
            assert_eq!(set.annotations.get(HISTORY).map(String::as_str), history);
        };
        check(&mut set, 1, "1", None);
        check(&mut set, 1, "1", None);
        check(&mut set, 3, "3", Some("1"));
        check(&mut set, 5, "5", Some("1,3"));
        check(&mut set, 4, "5", Some("1,3"));
    }

    #[test]
    fn the_history_is_bounded() {
        let long = (1..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let kept = with_revision(&long, "1000");
        assert!(kept.len() <= HISTORY_CHARS_MAX && kept.ends_with(",999,1000"));
    }
}
