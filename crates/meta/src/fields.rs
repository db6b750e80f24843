//! Field selectors: `metadata.name=web,status.phase!=Running`.

/// One requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The field's label, e.g. `spec.nodeName`.
    pub field: String,
    /// True for `=` and `==`, false for `!=`.
    pub equals: bool,
    /// The value compared with, unescaped.
    pub value: String,
}

/// A conjunction of requirements; empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// All must hold.
    pub requirements: Vec<Requirement>,
}

impl FieldSelector {
    /// Reads the text form with upstream's escapes (`\\`, `\,`, `\=`). The error is upstream's sentence.
    pub fn parse(_text: &str) -> Result<Self, String> {
        todo!()
    }

    /// Whether every requirement holds, given each field's value.
    pub fn matches<'v>(&self, value_of: impl Fn(&str) -> &'v str) -> bool {
        self.requirements.iter().all(|r| (value_of(&r.field) == r.value) == r.equals)
    }

    /// The value that the selector pins `field` to, if it does (`metadata.name=x` makes a list a get).
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equals && r.field == field).map(|r| r.value.as_str())
    }
}
