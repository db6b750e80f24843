//! The set and its algebra. Operations take the set by value and change it in place, so that untouched subtrees
//! are neither copied nor visited.

use std::collections::BTreeMap;
use std::fmt;

use super::{PathElement, print_path};

/// A path from the root of an object; empty is the object itself.
pub type Path = Vec<PathElement>;

/// A set of fields.
///
/// Every node is a member or has members below it, so equal sets are equal trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    pub(crate) nodes: BTreeMap<PathElement, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) member: bool,
    pub(crate) below: FieldSet,
}

impl Node {
    /// A member with nothing below it.
    pub(crate) fn member() -> Node {
        Node { member: true, below: FieldSet::new() }
    }

    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of these paths of plain field names (`&["metadata", "name"]`).
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::new();
        for path in paths {
            let path: Path = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.nodes.values().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Adds a path. The empty path is never a member.
    pub fn insert(&mut self, path: &[PathElement]) {
        self.graft(path, Node::member());
    }

    /// Adds a path and what stands below it. At the empty path only what is below counts.
    pub(crate) fn graft(&mut self, path: &[PathElement], node: Node) {
        let Some((last, parents)) = path.split_last() else {
            self.nodes = std::mem::take(self).union(node.below).nodes;
            return;
        };
        let mut set = self;
        for step in parents {
            set = &mut set.nodes.entry(step.clone()).or_default().below;
        }
        let place = set.nodes.entry(last.clone()).or_default();
        place.member |= node.member;
        place.below = std::mem::take(&mut place.below).union(node.below);
    }

    /// Whether the path is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let parent = parents.iter().try_fold(self, |set, step| set.nodes.get(step).map(|node| &node.below));
        parent.and_then(|set| set.nodes.get(last)).is_some_and(|node| node.member)
    }

    /// Members of either set.
    pub fn union(mut self, other: Self) -> Self {
        if self.nodes.is_empty() {
            return other;
        }
        for (step, theirs) in other.nodes {
            let node = self.nodes.entry(step).or_default();
            node.member |= theirs.member;
            node.below = std::mem::take(&mut node.below).union(theirs.below);
        }
        self
    }

    /// Members of both sets.
    pub fn intersection(mut self, other: &Self) -> Self {
        self.nodes.retain(|step, node| match other.nodes.get(step) {
            None => false,
            Some(theirs) => {
                node.member &= theirs.member;
                node.below = std::mem::take(&mut node.below).intersection(&theirs.below);
                !node.is_empty()
            }
        });
        self
    }

    /// Members of this set that are not members of `other`.
    pub fn difference(self, other: &Self) -> Self {
        self.without(other, false)
    }

    /// Members of this set that neither are members of `other` nor stand below one.
    pub fn recursive_difference(self, other: &Self) -> Self {
        self.without(other, true)
    }

    fn without(mut self, other: &Self, recursive: bool) -> Self {
        if other.is_empty() {
            return self;
        }
        self.nodes.retain(|step, node| match other.nodes.get(step) {
            None => true,
            Some(theirs) if theirs.member && recursive => false,
            Some(theirs) => {
                node.member &= !theirs.member;
                node.below = std::mem::take(&mut node.below).without(&theirs.below, recursive);
                !node.is_empty()
            }
        });
        self
    }

    /// Whether every member is a member of `other` too.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.nodes.iter().all(|(step, node)| match other.nodes.get(step) {
            None => false,
            Some(theirs) => (!node.member || theirs.member) && node.below.is_subset(&theirs.below),
        })
    }

    /// Calls `visit` for every member: at each level first the members, then what stands below.
    pub fn for_each(&self, visit: &mut impl FnMut(&[PathElement])) {
        self.walk(&mut Vec::new(), visit);
    }

    fn walk(&self, path: &mut Path, visit: &mut impl FnMut(&[PathElement])) {
        for step in self.nodes.iter().filter(|(_, node)| node.member).map(|(step, _)| step) {
            path.push(step.clone());
            visit(path);
            path.pop();
        }
        for (step, node) in self.nodes.iter().filter(|(_, node)| !node.below.is_empty()) {
            path.push(step.clone());
            node.below.walk(path, visit);
            path.pop();
        }
    }

    /// All members.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.for_each(&mut |path| paths.push(path.to_vec()));
        paths
    }
}

/// One path a line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.paths().iter().map(|path| print_path(path)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::new();
        paths.into_iter().for_each(|path| set.insert(&path));
        set
    }
}
