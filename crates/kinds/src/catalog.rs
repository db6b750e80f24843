//! All kinds served at a moment: the built-in ones and those from CustomResourceDefinitions.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use meta::{GroupKind, GroupResource, GroupVersion, Gvk, Gvr};

use crate::{KindDef, priority};

/// An immutable table of kinds; a change of a CustomResourceDefinition makes a new one.
#[derive(Clone, Default)]
pub struct Catalog {
    by_resource: BTreeMap<Gvr, Arc<KindDef>>,
    by_kind: BTreeMap<Gvk, Arc<KindDef>>,
    by_collection: BTreeMap<Arc<str>, Arc<KindDef>>,
    groups: Vec<Group>,
}

/// A group and its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name; empty for the legacy group.
    pub name: String,
    /// Its versions, the preferred one first; never empty.
    pub versions: Vec<String>,
}

impl Group {
    /// The version that clients take when they have no reason for another.
    pub fn preferred(&self) -> GroupVersion {
        let version = self.versions.first().map_or("", String::as_str);
        GroupVersion::new(&*self.name, version)
    }
}

impl Catalog {
    /// A table of these kinds; of two with the same resource or the same kind the first stays.
    pub fn new(defs: impl IntoIterator<Item = Arc<KindDef>>) -> Self {
        let mut catalog = Self::default();
        for def in defs {
            catalog.add(def);
        }
        catalog.groups = groups(catalog.by_resource.values());
        catalog
    }

    /// The built-in kinds alone. Declared once a process: a copy shares the declarations.
    pub fn built_in() -> Self {
        static TABLE: LazyLock<Catalog> = LazyLock::new(|| Catalog::new(crate::built_in()));
        TABLE.clone()
    }

    /// The built-in kinds of this table and these custom ones in place of the custom ones it had. Built-in kinds
    /// cannot be replaced.
    pub fn with_custom(&self, defs: impl IntoIterator<Item = Arc<KindDef>>) -> Self {
        let own = self.by_kind.values().filter(|def| def.custom.is_none()).cloned().collect::<Vec<_>>();
        Self::new(own.into_iter().chain(defs))
    }

    fn add(&mut self, def: Arc<KindDef>) {
        let (gvr, gvk) = (def.gvr(), def.gvk());
        if self.by_resource.contains_key(&gvr) || self.by_kind.contains_key(&gvk) {
            return;
        }
        if !def.is_served() {
            self.by_kind.insert(gvk, def);
            return;
        }
        if def.is_stored() && def.conversion.is_none() {
            self.by_collection.entry(def.collection()).or_insert_with(|| Arc::clone(&def));
        }
        self.by_kind.insert(gvk, Arc::clone(&def));
        self.by_resource.insert(gvr, def);
    }

    /// By address.
    pub fn resource(&self, gvr: &Gvr) -> Option<&Arc<KindDef>> {
        self.by_resource.get(gvr)
    }

    /// By kind, those included that are only spoken at subresources.
    pub fn kind(&self, gvk: &Gvk) -> Option<&Arc<KindDef>> {
        self.by_kind.get(gvk)
    }

    /// By the store's collection: the definition in whose form the objects are stored.
    pub fn collection(&self, collection: &str) -> Option<&Arc<KindDef>> {
        self.by_collection.get(collection)
    }

    /// All collections of the store, sorted.
    pub fn collections(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_collection.keys()
    }

    /// All kinds with an address of their own, by group, version and plural.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<KindDef>> {
        self.by_resource.values()
    }

    /// The groups in the order of discovery, the legacy group first.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// One group.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The kinds of one group and version, by plural.
    pub fn in_version(&self, gv: &GroupVersion) -> impl Iterator<Item = &Arc<KindDef>> {
        let from = Gvr::new(&*gv.group, &*gv.version, "");
        let gv = gv.clone();
        self.by_resource
            .range(from..)
            .take_while(move |(gvr, _)| gvr.group == gv.group && gvr.version == gv.version)
            .map(|(_, def)| def)
    }

    /// A kind in the most preferred version that has it.
    pub fn preferred_kind(&self, kind: &GroupKind) -> Option<&Arc<KindDef>> {
        let versions = &self.group(&kind.group)?.versions;
        versions.iter().find_map(|version| self.by_kind.get(&Gvk::new(&*kind.group, &**version, &*kind.kind)))
    }

    /// A resource in the most preferred version that has it.
    pub fn preferred_resource(&self, resource: &GroupResource) -> Option<&Arc<KindDef>> {
        let versions = &self.group(&resource.group)?.versions;
        let gvr = |version: &str| Gvr::new(&*resource.group, version, &*resource.resource);
        versions.iter().find_map(|version| self.by_resource.get(&gvr(version)))
    }

    /// What a person typed: plural, singular, short name or kind in any case, alone (`deploy`), with a group
    /// (`deployments.apps`, `events.events.k8s.io`) or with version and group (`deployments.v1.apps`). Full names
    /// win over short names, earlier groups over later ones.
    pub fn find(&self, typed: &str) -> Option<&Arc<KindDef>> {
        let typed = typed.to_ascii_lowercase();
        self.find_where(&typed, |_| true).or_else(|| {
            let (word, rest) = typed.split_once('.')?;
            self.find_where(word, |def| def.group == rest).or_else(|| {
                let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
                self.find_where(word, |def| def.version == version && def.group == group)
            })
        })
    }

    fn find_where(&self, word: &str, admitted: impl Fn(&KindDef) -> bool) -> Option<&Arc<KindDef>> {
        let candidates = || self.in_preference().filter(|def| def.is_readable() && admitted(def));
        candidates().find(|def| def.is_called(word)).or_else(|| candidates().find(|def| def.is_short_for(word)))
    }

    fn in_preference(&self) -> impl Iterator<Item = &Arc<KindDef>> {
        self.groups
            .iter()
            .flat_map(|group| group.versions.iter().map(move |version| GroupVersion::new(&*group.name, &**version)))
            .flat_map(|gv| self.in_version(&gv).collect::<Vec<_>>())
    }
}

impl KindDef {
    /// Whether the kind has an address of its own; otherwise it is only spoken at subresources.
    pub fn is_served(&self) -> bool {
        !self.plural.is_empty()
    }

    /// Whether objects of this kind are kept.
    pub fn is_stored(&self) -> bool {
        !self.virtual_only
    }

    /// Whether there is something to get, so that people name it.
    fn is_readable(&self) -> bool {
        self.verbs.is_empty() || self.verbs.contains(&"get")
    }

    fn is_called(&self, word: &str) -> bool {
        self.plural == word || self.singular == word || self.kind.eq_ignore_ascii_case(word)
    }

    fn is_short_for(&self, word: &str) -> bool {
        self.short_names.iter().any(|short| short == word)
    }
}

fn groups<'d>(defs: impl Iterator<Item = &'d Arc<KindDef>>) -> Vec<Group> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for def in defs {
        let versions = found.entry(&def.group).or_default();
        if !versions.iter().any(|version| **version == *def.version) {
            versions.push(def.version.to_string());
        }
    }
    let mut groups: Vec<Group> = found
        .into_iter()
        .map(|(name, mut versions)| {
            versions.sort_by(|a, b| priority::by_version(a, b));
            Group { name: name.to_owned(), versions }
        })
        .collect();
    groups.sort_by(|a, b| priority::by_group(&a.name, &b.name));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let hidden = KindDef::new("autoscaling", "v1", "Scale", "scales").never_stored();
        let defs = [
            KindDef::new("", "v1", "Event", "events").short("ev"),
            KindDef::new("apps", "v1", "Deployment", "deployments").short("deploy"),
            KindDef::new("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers").short("hpa"),
            KindDef::new("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers").short("hpa"),
            KindDef::new("events.k8s.io", "v1", "Event", "events").short("ev"),
            hidden,
        ];
        Catalog::new(defs.map(Arc::new))
    }

    #[test]
    fn finds_what_people_type() {
        let catalog = catalog();
        let check = |typed: &str, expected: Option<&str>| {
            let found = catalog.find(typed).map(|def| def.gvk().to_string());
            assert_eq!(found.as_deref(), expected, "{typed}");
        };
        check("ev", Some("v1, Kind=Event"));
        check("events.events.k8s.io", Some("events.k8s.io/v1, Kind=Event"));
        check("Deployment", Some("apps/v1, Kind=Deployment"));
        check("deploy.v1.apps", Some("apps/v1, Kind=Deployment"));
        check("events.v1", Some("v1, Kind=Event"));
        check("hpa", Some("autoscaling/v2, Kind=HorizontalPodAutoscaler"));
        check("hpa.v1.autoscaling", Some("autoscaling/v1, Kind=HorizontalPodAutoscaler"));
        check("scales", None);
        check("nothing", None);
    }

    #[test]
    fn groups_list_the_preferred_version_first() {
        let catalog = catalog();
        let names: Vec<_> = catalog.groups().iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["", "apps", "events.k8s.io", "autoscaling"]);
        let preferred = catalog.group("autoscaling").map(Group::preferred);
        assert_eq!(preferred, Some(GroupVersion::new("autoscaling", "v2")));
    }

    #[test]
    fn custom_kinds_come_and_go_and_never_replace_built_in_ones() {
        let custom = |group: &'static str, kind: &'static str, plural: &'static str| {
            let mut def = KindDef::new(group, "v1", kind, plural);
            def.custom = Some("x".into());
            Arc::new(def)
        };
        let first = catalog().with_custom([custom("a.io", "Foo", "foos"), custom("apps", "Deployment", "deployments")]);
        assert!(first.find("foos").is_some());
        assert!(first.find("deploy").is_some_and(|def| def.custom.is_none()));
        let second = first.with_custom([custom("a.io", "Bar", "bars")]);
        assert!(second.find("foos").is_none() && second.find("bar").is_some());
        assert!(second.collection("a.io/bars").is_some());
        assert!(second.kind(&Gvk::new("autoscaling", "v1", "Scale")).is_some());
    }
}
