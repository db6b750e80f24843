//! An autoscaler as a row of a table.

use meta::ObjectExt;
use serde_json::Value;

use crate::{Column, column};

/// Metrics that a table shows at most.
const SHOWN_MAX: usize = 2;

/// The columns of both versions; `targets` is a cell made by [`targets`].
pub(super) fn columns(targets: fn(&Value, meta::Time) -> Value) -> Vec<Column> {
    vec![
        column::name(),
        Column::new("Reference", "string", "What is scaled.", |object, _| {
            let target = &object["spec"]["scaleTargetRef"];
            format!("{}/{}", target.text(&["kind"]), target.text(&["name"])).into()
        }),
        Column::new("Targets", "string", "What is measured, and what it should be.", targets),
        Column::new("MinPods", "string", "The fewest pods.", |object, _| {
            object.int(&["spec", "minReplicas"]).map_or("<unset>".into(), |number| number.to_string().into())
        }),
        Column::new("MaxPods", "string", "The most pods.", |object, _| {
            column::number(object, &["spec", "maxReplicas"])
        }),
        Column::new("Replicas", "string", "Pods now.", |object, _| {
            column::number(object, &["status", "currentReplicas"])
        }),
        column::age(),
    ]
}

/// `cpu: 50%/80%` for each metric of version 2, the first two of them.
pub(super) fn targets(metrics: &[Value], current: &[Value]) -> String {
    if metrics.is_empty() {
        return column::NONE.to_owned();
    }
    let texts = metrics.iter().enumerate().map(|(index, metric)| target(metric, current.get(index)));
    let shown = texts.take(SHOWN_MAX).collect::<Vec<_>>().join(", ");
    match metrics.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

fn target(metric: &Value, current: Option<&Value>) -> String {
    let kind = metric.text(&["type"]);
    let Some((_, field)) = super::metric::SOURCES.iter().find(|(name, _)| *name == kind) else {
        return "<unknown type>".to_owned();
    };
    let (wanted, source) = (&metric[field]["target"], &metric[field]);
    let now = current.map_or(&Value::Null, |current| &current[field]["current"]);
    let text = |value: &Value, field: &str| match &value[field] {
        Value::String(amount) => amount.clone(),
        Value::Number(share) => format!("{share}%"),
        _ => "<unknown>".to_owned(),
    };
    let average = !wanted["averageValue"].is_null();
    match kind {
        "Resource" | "ContainerResource" => {
            let part = if average { "averageValue" } else { "averageUtilization" };
            let goal = if wanted[part].is_null() { "<auto>".to_owned() } else { text(wanted, part) };
            format!("{}: {}/{goal}", source.text(&["name"]), text(now, part))
        }
        "Pods" => format!("{}/{}", text(now, "averageValue"), text(wanted, "averageValue")),
        _ if average => format!("{}/{} (avg)", text(now, "averageValue"), text(wanted, "averageValue")),
        _ => format!("{}/{}", text(now, "value"), text(wanted, "value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells() {
        let metric = |share: i64| {
            json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": share}}})
        };
        let current = json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 50}}});
        assert_eq!(targets(&[metric(80)], &[current]), "cpu: 50%/80%");
        assert_eq!(targets(&[metric(80)], &[]), "cpu: <unknown>/80%");
        assert_eq!(targets(&[], &[]), "<none>");
        let external = json!({"type": "External", "external": {"target": {"type": "Value", "value": "10"}}});
        assert_eq!(targets(&[external, metric(1), metric(2)], &[]), "<unknown>/10, cpu: <unknown>/1% + 1 more...");
    }
}
