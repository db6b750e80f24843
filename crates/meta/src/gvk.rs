//! Groups, versions, kinds and resources.

use std::fmt;

/// `apps/v1`; the legacy group is the empty string, written `v1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersion {
    /// API group; empty for the legacy ("core") group.
    pub group: String,
    /// Version inside the group, e.g. `v1`.
    pub version: String,
}

impl GroupVersion {
    /// From its two parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Reads an `apiVersion`; `None` when it has more than one `/` or no version.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split('/').collect::<Vec<_>>()[..] {
            [version] if !version.is_empty() => Some(Self::new("", version)),
            [group, version] if !version.is_empty() => Some(Self::new(group, version)),
            _ => None,
        }
    }
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.version) } else { write!(f, "{}/{}", self.group, self.version) }
    }
}

/// Group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// API group; empty for the legacy group.
    pub group: String,
    /// Version inside the group.
    pub version: String,
    /// CamelCase kind.
    pub kind: String,
}

impl Gvk {
    /// From its three parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// The `apiVersion` of objects of this kind.
    pub fn api_version(&self) -> String {
        GroupVersion::new(&*self.group, &*self.version).to_string()
    }

    /// Without the version.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

/// Group and kind, written `Deployment.apps`, or `Pod` in the legacy group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// API group; empty for the legacy group.
    pub group: String,
    /// CamelCase kind.
    pub kind: String,
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

/// Group, version and resource (the plural in addresses).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvr {
    /// API group; empty for the legacy group.
    pub group: String,
    /// Version inside the group.
    pub version: String,
    /// Lower-case plural, e.g. `deployments`.
    pub resource: String,
}

impl Gvr {
    /// From its three parts.
    pub fn new(group: impl Into<String>, version: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// Without the version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

/// Group and resource, written `deployments.apps`, or `pods` in the legacy group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group; empty for the legacy group.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
}

impl GroupResource {
    /// From its two parts.
    pub fn new(group: impl Into<String>, resource: impl Into<String>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}
