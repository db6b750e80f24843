//! One request, as the machine sees it: who, what, where, with which options and body.

use std::sync::Arc;

use admit::{Attributes, UserInfo};
use kinds::KindDef;
use store::Key;

use crate::{Options, Payload};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// Make an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object.
    Patch,
    /// Remove an object.
    Delete,
    /// Remove what a selector matches.
    DeleteCollection,
}

impl Verb {
    /// As authorisation and discovery write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// Whether the verb may change state.
    pub fn is_write(self) -> bool {
        !matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

/// What it is asked of.
#[derive(Clone)]
pub struct Target {
    /// The kind at the version of the address.
    pub kind: Arc<KindDef>,
    /// Empty for cluster-scoped kinds and for all namespaces.
    pub namespace: String,
    /// Empty for the collection.
    pub name: String,
    /// `status`, `scale`, ... or empty.
    pub subresource: String,
}

impl Target {
    /// Where the object is stored.
    pub fn key(&self) -> Key {
        self.key_of(&self.namespace, &self.name)
    }

    /// Where an object of this kind is stored.
    pub fn key_of(&self, namespace: &str, name: &str) -> Key {
        match self.kind.is_namespaced() {
            true => Key::new(self.kind.collection(), format!("{namespace}/{name}")),
            false => Key::new(self.kind.collection(), name),
        }
    }

    /// The prefix of the items that the address covers: a namespace (with its slash) or all.
    pub fn prefix(&self) -> String {
        if self.kind.is_namespaced() && !self.namespace.is_empty() {
            format!("{}/", self.namespace)
        } else {
            String::new()
        }
    }
}

/// One request. Authentication and authorisation are done.
#[derive(Clone)]
pub struct Request {
    /// Who asks.
    pub user: Arc<UserInfo>,
    /// What is asked.
    pub verb: Verb,
    /// Of what.
    pub target: Target,
    /// The query, decoded and checked.
    pub options: Options,
    /// The body; empty for reads.
    pub body: Payload,
    /// First word of the user agent: the field manager of requests that name none.
    pub agent: String,
}

impl Request {
    /// What authorisation and admission see.
    pub fn attributes(&self) -> Attributes {
        let (kind, list) = (&self.target.kind, &self.options.list);
        Attributes {
            user: Arc::clone(&self.user),
            verb: self.verb.as_str().to_owned(),
            group: kind.group.to_string(),
            version: kind.version.to_string(),
            resource: kind.plural.to_string(),
            subresource: self.target.subresource.clone(),
            namespace: self.target.namespace.clone(),
            name: self.target.name.clone(),
            path: String::new(),
            field_selector: (!list.fields.requirements.is_empty()).then(|| list.fields.clone()),
        }
    }

    /// Who owns the fields that this request writes.
    pub fn manager(&self) -> &str {
        if self.options.field_manager.is_empty() { &self.agent } else { &self.options.field_manager }
    }
}
