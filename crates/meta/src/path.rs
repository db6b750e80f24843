//! Where in an object a value stands, as validation errors write it.

use std::fmt;

/// A path built on the stack while validation descends: `spec.containers[0].ports[http]`.
///
/// Each step borrows its parent, so descending allocates nothing; text is made only for an error.
#[derive(Clone, Copy)]
pub struct FieldPath<'a> {
    parent: Option<&'a FieldPath<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> FieldPath<'a> {
    /// The object itself.
    pub const ROOT: FieldPath<'static> = FieldPath { parent: None, step: Step::Root };

    /// A field of the object at this path.
    pub fn field(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), step: Step::Field(name) }
    }

    /// An item of the list at this path.
    pub fn index(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath { parent: Some(self), step: Step::Index(index) }
    }

    /// An entry of the map at this path.
    pub fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if self.parent.is_some_and(|p| !matches!(p.step, Step::Root)) => write!(f, ".{name}"),
            Step::Field(name) => f.write_str(name),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_like_upstream() {
        let root = FieldPath::ROOT;
        let (spec, labels) = (root.field("spec"), root.field("metadata"));
        let containers = spec.field("containers");
        assert_eq!(containers.index(3).field("image").to_string(), "spec.containers[3].image");
        assert_eq!(labels.field("labels").key("a/b").to_string(), "metadata.labels[a/b]");
    }
}
