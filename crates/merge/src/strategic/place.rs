//! Where in the schema a strategic merge stands, and what it declares about a field.

use meta::ObjectExt as _;
use schema::{Field, Link, Schema, Shape};
use serde_json::Value;

use crate::PatchError;

/// Maps with `patchStrategy: replace`, of which there is one: the selector of a disruption budget.
const REPLACED: [(&str, &str); 1] = [("PodDisruptionBudgetSpec", "selector")];

#[derive(Clone, Copy)]
pub(crate) enum Place<'s> {
    /// A value of a known type, with the type's short name for messages.
    Known(&'s Schema, &'s str),
    /// Anything goes; everything merges as plain JSON.
    Free,
}

/// A field and its strategy.
pub(crate) struct Found<'s> {
    /// The field's value.
    pub place: Place<'s>,
    /// The list merges instead of being replaced.
    pub merge: bool,
    /// The key by which items of a list of maps are matched.
    pub merge_key: Option<&'s str>,
    /// The map is replaced instead of merged.
    pub replace: bool,
    /// Patches of the map, or of the list's items, say which fields to keep.
    pub retain_keys: bool,
}

impl<'s> Place<'s> {
    pub(crate) fn root(schema: &'s Schema, kind: &'s str) -> Self {
        Place::Known(schema, kind)
    }

    pub(crate) fn field(self, key: &str) -> Result<Found<'s>, PatchError> {
        let Place::Known(schema, name) = self else { return Ok(plain(Place::Free)) };
        match &schema.shape {
            Shape::Map { values, .. } => Ok(plain(Place::at(values))),
            Shape::Struct(shape) => match (shape.fields.get(key), &shape.additional) {
                (Some(field), _) => Ok(declared(field, name, key)),
                (None, Some(values)) => Ok(plain(Place::at(values))),
                (None, None) if shape.preserve_unknown => Ok(plain(Place::Free)),
                (None, None) => Err(PatchError::unclassified(format!(
                    "unable to find api field in struct {name} for the json field {key:?}"
                ))),
            },
            _ => Ok(plain(Place::Free)),
        }
    }

    /// The items of the list at this place.
    pub(crate) fn items(self) -> Self {
        match self {
            Place::Known(Schema { shape: Shape::List { items, .. }, .. }, _) => Place::at(items),
            _ => Place::Free,
        }
    }

    fn at(link: &'s Link) -> Self {
        let name = match link {
            Link::Named(name) => name.rsplit('.').next().unwrap_or_default(),
            Link::Inline(_) => "",
        };
        Place::Known(link.get(), name)
    }
}

fn plain(place: Place<'_>) -> Found<'_> {
    Found { place, merge: false, merge_key: None, replace: false, retain_keys: false }
}

fn declared<'s>(field: &'s Field, owner: &str, key: &str) -> Found<'s> {
    Found {
        place: Place::at(&field.schema),
        merge: field.merge_list,
        merge_key: field.merge_key.as_deref(),
        replace: REPLACED.contains(&(owner, key)),
        retain_keys: field.retain_keys,
    }
}

/// The text by which an item of a list is matched: its merge key's value, or itself.
pub(crate) fn identity(item: &Value, merge_key: Option<&str>) -> Option<String> {
    match merge_key {
        Some(key) => item.at(&[key]).map(Value::to_string),
        None => Some(item.to_string()),
    }
}
