//! Defaulting by schema: what is absent takes its declared default.

use serde_json::Value;

use crate::conform::is_zero;
use crate::{Field, Schema, Shape, Zero};

/// Fills in declared defaults, also below defaults just filled in. A null where none is allowed counts as absent.
/// Idempotent.
pub fn apply(schema: &Schema, value: &mut Value) {
    match (&schema.shape, value) {
        (Shape::Struct(body), Value::Object(map)) => {
            for (name, field) in &body.fields {
                if let Some(default) = wanted(field)
                    && map.get(&**name).is_none_or(|v| v.is_null() && !field.schema.get().nullable)
                {
                    map.insert(name.to_string(), default.clone());
                }
                if let Some(value) = map.get_mut(&**name) {
                    apply(field.schema.get(), value);
                }
            }
            if let Some(additional) = &body.additional {
                let others = map.iter_mut().filter(|(name, _)| !body.fields.contains_key(name.as_str()));
                others.for_each(|(_, value)| entry(additional.get(), value));
            }
        }
        (Shape::Map { values, .. }, Value::Object(map)) => {
            map.values_mut().for_each(|value| entry(values.get(), value));
        }
        (Shape::List { items, .. }, Value::Array(list)) => {
            list.iter_mut().for_each(|value| entry(items.get(), value));
        }
        _ => {}
    }
}

/// The default of the use, or else of the type; none where the default is what absent means anyway.
fn wanted(field: &Field) -> Option<&Value> {
    let default = field.default.as_ref().or_else(|| field.schema.get().default.as_ref());
    default.filter(|default| !(field.zero == Zero::Omit && is_zero(default)))
}

fn entry(schema: &Schema, value: &mut Value) {
    if let Some(default) = schema.default.as_ref().filter(|_| value.is_null() && !schema.nullable) {
        *value = default.clone();
    }
    apply(schema, value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin;

    #[test]
    fn built_in_defaults_are_filled_in_where_absent_means_something_else() {
        let container = builtin("io.k8s.api.core.v1.Container").expect("known");
        let mut value = json!({"ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]});
        apply(container, &mut value);
        let expected = json!([{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]);
        assert_eq!(value["ports"], expected);
        let pod = builtin("io.k8s.api.core.v1.PodSpec").expect("known");
        let mut value = json!({"imagePullSecrets": [{}]});
        apply(pod, &mut value);
        assert_eq!(value, json!({"imagePullSecrets": [{}]}));
    }
}
