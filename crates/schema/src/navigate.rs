//! Finding one's way in a schema: by field, item, or a dotted path.

use crate::{Field, ListKind, Schema, Shape, Struct};

impl Schema {
    /// The known fields, when this is a struct.
    pub fn body(&self) -> Option<&Struct> {
        match &self.shape {
            Shape::Struct(body) => Some(body),
            _ => None,
        }
    }

    /// A known field of a struct.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.body()?.fields.get(name)
    }

    /// The schema of a list's items.
    pub fn items(&self) -> Option<&Schema> {
        match &self.shape {
            Shape::List { items, .. } => Some(items.get()),
            _ => None,
        }
    }

    /// The schema of the values under free keys: a map's, or a struct's beside its known fields.
    pub fn values(&self) -> Option<&Schema> {
        match &self.shape {
            Shape::Map { values, .. } => Some(values.get()),
            Shape::Struct(body) => body.additional.as_ref().map(crate::Link::get),
            _ => None,
        }
    }

    /// How two lists of this schema merge; `None` when this is not a list.
    pub fn list_kind(&self) -> Option<&ListKind> {
        match &self.shape {
            Shape::List { kind, .. } => Some(kind),
            _ => None,
        }
    }

    /// Whether appliers own a map or struct as a whole.
    pub fn is_atomic_map(&self) -> bool {
        match &self.shape {
            Shape::Map { atomic, .. } => *atomic,
            Shape::Struct(body) => body.atomic,
            _ => false,
        }
    }

    /// The schema of the value under `key`, be it a known field or a free key.
    pub fn member(&self, key: &str) -> Option<&Schema> {
        match self.field(key) {
            Some(field) => Some(field.schema.get()),
            None => self.values(),
        }
    }

    /// The schema at a chain of names; lists are passed through (`spec.containers.image` needs no index).
    pub fn at<'s>(&'s self, path: &[&str]) -> Option<&'s Schema> {
        path.iter().try_fold(self, |schema, name| schema.through_lists().member(name))
    }

    /// The schema itself, or of the items when it is a list (of lists).
    pub fn through_lists(&self) -> &Schema {
        let mut schema = self;
        while let Some(items) = schema.items() {
            schema = items;
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use crate::{Shape, builtin};

    #[test]
    fn finds_the_way_through_structs_lists_and_maps() {
        let pod = builtin("io.k8s.api.core.v1.Pod").expect("known");
        let found = |path: &[&str]| pod.at(path).map(|s| std::mem::discriminant(&s.shape));
        let string = found(&["kind"]);
        assert!(string.is_some());
        assert_eq!(found(&["spec", "containers", "image"]), string);
        assert_eq!(found(&["metadata", "labels", "any/key"]), string);
        assert_eq!(found(&["spec", "nothing"]), None);
        let limits = pod.at(&["spec", "containers", "resources", "limits", "cpu"]).expect("known");
        assert!(matches!(limits.shape, Shape::Quantity));
    }
}
