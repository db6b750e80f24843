//! Why a pod cannot go to a node: upstream's plugins and sentences.

use std::borrow::Cow;
use std::fmt;

/// A plugin that can reject a node; its events are what can help (see [`crate::queue`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// Cordoned nodes.
    NodeUnschedulable,
    /// `spec.nodeName`, and nodes that are not there.
    NodeName,
    /// Taints.
    TaintToleration,
    /// Node selector and required node affinity.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// Resources and the number of pods.
    NodeResourcesFit,
    /// Claims that only one pod may use.
    VolumeRestrictions,
    /// Claims and volumes.
    VolumeBinding,
    /// Spreading.
    PodTopologySpread,
    /// Affinity between pods.
    InterPodAffinity,
}

impl Plugin {
    /// All of them.
    pub const EACH: [Plugin; 10] = [
        Plugin::NodeUnschedulable,
        Plugin::NodeName,
        Plugin::TaintToleration,
        Plugin::NodeAffinity,
        Plugin::NodePorts,
        Plugin::NodeResourcesFit,
        Plugin::VolumeRestrictions,
        Plugin::VolumeBinding,
        Plugin::PodTopologySpread,
        Plugin::InterPodAffinity,
    ];
}

/// A set of plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plugins(u16);

impl Plugins {
    /// Every plugin: what a pod waits for when nobody knows.
    pub const ALL: Plugins = Plugins(u16::MAX);

    /// Adds one.
    pub fn insert(&mut self, plugin: Plugin) {
        self.0 |= 1 << plugin as u16;
    }

    /// Whether it is in the set.
    pub fn has(self, plugin: Plugin) -> bool {
        self.0 & (1 << plugin as u16) != 0
    }

    /// Whether any of `plugins` is in the set.
    pub fn has_any(self, plugins: &[Plugin]) -> bool {
        plugins.iter().any(|plugin| self.has(*plugin))
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Why one node is out of the question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Cordoned.
    Cordoned,
    /// Another node was asked for by name.
    NodeName,
    /// A taint that nothing tolerates.
    Taint {
        /// Its key.
        key: Box<str>,
        /// Its value.
        value: Box<str>,
    },
    /// Selector or required affinity.
    NodeAffinity,
    /// A host port is taken.
    Ports,
    /// As many pods as it may have.
    TooManyPods,
    /// Not enough of a resource is free; `never` when even the empty node has too little.
    Insufficient {
        /// The resource.
        resource: Cow<'static, str>,
        /// Whether removing pods cannot help.
        never: bool,
    },
    /// Another pod uses a claim that only one may use.
    ReadWriteOncePod,
    /// A bound volume cannot be reached from there.
    VolumeAffinity,
    /// No volume for a claim there.
    NoVolume,
    /// Too uneven.
    Spread,
    /// A label that spreading needs is missing.
    SpreadLabel,
    /// Required pods are not near.
    PodAffinity,
    /// Pods to be kept away from are near.
    PodAntiAffinity,
    /// Pods near want this one to be kept away.
    ExistingAntiAffinity,
}

impl Reason {
    /// Who says so.
    pub fn plugin(&self) -> Plugin {
        match self {
            Reason::Cordoned => Plugin::NodeUnschedulable,
            Reason::NodeName => Plugin::NodeName,
            Reason::Taint { .. } => Plugin::TaintToleration,
            Reason::NodeAffinity => Plugin::NodeAffinity,
            Reason::Ports => Plugin::NodePorts,
            Reason::TooManyPods | Reason::Insufficient { .. } => Plugin::NodeResourcesFit,
            Reason::ReadWriteOncePod => Plugin::VolumeRestrictions,
            Reason::VolumeAffinity | Reason::NoVolume => Plugin::VolumeBinding,
            Reason::Spread | Reason::SpreadLabel => Plugin::PodTopologySpread,
            Reason::PodAffinity | Reason::PodAntiAffinity | Reason::ExistingAntiAffinity => Plugin::InterPodAffinity,
        }
    }

    /// Whether removing pods from the node could help.
    pub fn is_resolvable(&self) -> bool {
        matches!(
            self,
            Reason::Ports
                | Reason::TooManyPods
                | Reason::Insufficient { never: false, .. }
                | Reason::ReadWriteOncePod
                | Reason::Spread
                | Reason::PodAntiAffinity
                | Reason::ExistingAntiAffinity
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Reason::Taint { key, value } => return write!(f, "node(s) had untolerated taint {{{key}: {value}}}"),
            Reason::Insufficient { resource, .. } => return write!(f, "Insufficient {resource}"),
            Reason::Cordoned => "node(s) were unschedulable",
            Reason::NodeName => "node(s) didn't match the requested node name",
            Reason::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Reason::Ports => "node(s) didn't have free ports for the requested pod ports",
            Reason::TooManyPods => "Too many pods",
            Reason::ReadWriteOncePod => {
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            }
            Reason::VolumeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Reason::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Reason::Spread => "node(s) didn't match pod topology spread constraints",
            Reason::SpreadLabel => "node(s) didn't match pod topology spread constraints (missing required label)",
            Reason::PodAffinity => "node(s) didn't match pod affinity rules",
            Reason::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Reason::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
        };
        f.write_str(text)
    }
}
