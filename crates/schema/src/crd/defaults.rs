//! Defaults must themselves be valid, and hold no field that would be pruned.

use meta::{FieldError, FieldPath};

use crate::{Schema, Shape, prune, validate};

/// Checks the defaults of a schema and of what it holds.
pub(super) fn check(schema: &Schema, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let at = path.field("default");
        let mut pruned = default.clone();
        prune::prune(schema, &mut pruned);
        if pruned != *default {
            errors.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
        }
        errors.extend(validate::check(schema, default, &at));
    }
    match &schema.shape {
        Shape::List { items, .. } => check(items.get(), &path.field("items"), errors),
        Shape::Struct(body) => {
            let properties = path.field("properties");
            let own = |schema: &Schema| schema.body().is_none_or(|body| body.name.is_none());
            for (name, field) in body.fields.iter().filter(|(_, field)| own(field.schema.get())) {
                check(field.schema.get(), &properties.key(name), errors);
            }
        }
        _ => {}
    }
}
