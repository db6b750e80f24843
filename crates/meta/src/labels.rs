//! Label selectors: the text form of queries and the object form of specs, one matcher.

use serde_json::{Map, Value};

use crate::{FieldError, FieldPath};

/// A conjunction of requirements. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
    /// A selector that matches nothing at all (a nil `LabelSelector`).
    nothing: bool,
}

/// One requirement on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// How the label's value is compared.
    pub operator: Operator,
    /// The values compared with, sorted.
    pub values: Vec<String>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key in (a,b)`, `key = a`.
    In,
    /// `key notin (a,b)`, `key != a`: an absent label matches.
    NotIn,
    /// `key`.
    Exists,
    /// `!key`.
    DoesNotExist,
    /// `key > 5` (text form only).
    GreaterThan,
    /// `key < 5` (text form only).
    LessThan,
}

/// What a selector is matched against.
pub trait Labels {
    /// The value of the label `key`, if there is one.
    fn get(&self, key: &str) -> Option<&str>;
}

impl Labels for Map<String, Value> {
    fn get(&self, key: &str) -> Option<&str> {
        Map::get(self, key).and_then(Value::as_str)
    }
}

impl Labels for std::collections::BTreeMap<String, String> {
    fn get(&self, key: &str) -> Option<&str> {
        std::collections::BTreeMap::get(self, key).map(String::as_str)
    }
}

impl<L: Labels> Labels for Option<&L> {
    fn get(&self, key: &str) -> Option<&str> {
        self.and_then(|labels| labels.get(key))
    }
}

impl Selector {
    /// Matches everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Matches nothing.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Reads the text form (`a=b,c in (d,e),!f`). The error is upstream's sentence.
    pub fn parse(_text: &str) -> Result<Self, String> {
        todo!()
    }

    /// Reads `metav1.LabelSelector`: absent (or null) matches nothing, `{}` everything.
    /// The error names the first bad requirement.
    pub fn from_label_selector(_selector: Option<&Value>) -> Result<Self, String> {
        todo!()
    }

    /// Every pair of a plain map must be equal (`spec.selector` of a ReplicationController or Service).
    pub fn from_map(_pairs: &Map<String, Value>) -> Self {
        todo!()
    }

    /// Checks a `metav1.LabelSelector` at `path`.
    pub fn validate(_selector: &Value, _path: &FieldPath<'_>) -> Vec<FieldError> {
        todo!()
    }

    /// Whether `labels` satisfy every requirement.
    pub fn matches(&self, _labels: &impl Labels) -> bool {
        todo!()
    }

    /// Whether the selector has no requirement and so matches everything.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }
}

impl std::fmt::Display for Selector {
    /// The text form, as `scale.status.selector` shows it (`a=b,c in (d,e)`).
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        todo!()
    }
}
