//! Columns of the table form and what their cells are made of: ages, container lists, selectors.

use meta::labels::Selector;
use meta::{ObjectExt, Time};
use serde_json::{Map, Value};

use crate::def::Text;
use crate::{Cell, Column};

/// What a cell shows where there is nothing to show.
pub const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";

impl Column {
    /// A column shown always, whose cells are made from the whole object.
    pub fn new(
        name: impl Into<Text>,
        kind: &'static str,
        description: &'static str,
        cell: fn(&Value, Time) -> Value,
    ) -> Self {
        Self {
            name: name.into(),
            kind: kind.into(),
            format: "".into(),
            description: description.into(),
            priority: 0,
            cell: Cell::Of(cell),
        }
    }

    /// Shown only with `-o wide`.
    pub fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

/// The object's name: the first column of every table.
pub fn name() -> Column {
    let mut column = Column::new("Name", "string", "Name of the object.", |object, _| object.name().into());
    column.format = "name".into();
    column
}

/// Time since creation.
pub fn age() -> Column {
    Column::new("Age", "string", "Time since the object was created.", |object, now| age_of(object, now).into())
}

/// When it was created, as a date: what upstream shows for kinds without a table of their own.
pub fn created_at() -> Column {
    Column::new("Created At", "date", "When the object was created.", |object, _| {
        object.text(&["metadata", "creationTimestamp"]).into()
    })
}

/// Time since creation as text.
pub fn age_of(object: &Value, now: Time) -> String {
    since(object.text(&["metadata", "creationTimestamp"]), now)
}

/// Time from an RFC 3339 stamp to `now`; `<unknown>` when there is no stamp.
pub fn since(stamp: &str, now: Time) -> String {
    match Time::parse(stamp) {
        Some(then) => span(then, now),
        None => UNKNOWN.to_owned(),
    }
}

/// Time from `now` to an RFC 3339 stamp; `<unknown>` when there is no stamp.
pub fn until(stamp: &str, now: Time) -> String {
    match Time::parse(stamp) {
        Some(then) => span(now, then),
        None => UNKNOWN.to_owned(),
    }
}

/// The time between two instants in at most two units; clocks that are two seconds apart are forgiven.
pub fn span(from: Time, to: Time) -> String {
    let micros = to.as_micros().saturating_sub(from.as_micros());
    // Whole seconds toward zero, as the units below are whole too.
    let seconds = micros / 1_000_000;
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..=119 => format!("{seconds}s"),
        _ => long_span(seconds),
    }
}

fn long_span(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if minutes < 10 {
        two_units(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two_units(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 192 {
        two_units(days, "d", hours % 24, "h")
    } else if days < 730 {
        format!("{days}d")
    } else if days < 2920 {
        two_units(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", days / 365)
    }
}

fn two_units(big: i64, big_unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
}

/// Wide columns with the names and images of the containers in the pod spec that `cell` reads.
pub fn containers(names: fn(&Value, Time) -> Value, images: fn(&Value, Time) -> Value) -> [Column; 2] {
    [
        Column::new("Containers", "string", "Names of each container in the template.", names).wide(),
        Column::new("Images", "string", "Images referenced by each container in the template.", images).wide(),
    ]
}

/// One field of each item, joined with commas.
pub fn joined(items: &[Value], field: &str) -> Value {
    items.iter().map(|item| item.text(&[field])).collect::<Vec<_>>().join(",").into()
}

/// A map of labels as `a=b,c=d`; `<none>` when empty.
pub fn label_text(labels: Option<&Map<String, Value>>) -> String {
    let pair = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or(""));
    or_none(labels.into_iter().flatten().map(pair).collect::<Vec<_>>().join(","))
}

/// A `metav1.LabelSelector` in its text form; `<none>` when empty, `<error>` when malformed.
pub fn selector_text(selector: Option<&Value>) -> String {
    match Selector::from_label_selector(selector) {
        Ok(selector) => or_none(selector.to_string()),
        Err(_) => "<error>".to_owned(),
    }
}

/// The text, or `<none>` when it is empty.
pub fn or_none(text: impl Into<String>) -> String {
    let text = text.into();
    if text.is_empty() { NONE.to_owned() } else { text }
}

/// The number under a chain of field names; 0 when absent.
pub fn number(object: &Value, path: &[&str]) -> Value {
    object.int(path).unwrap_or(0).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn spans_read_like_upstream() {
        let check = |seconds: i64, text: &str| {
            assert_eq!(span(Time::from_secs(1_000_000_000), Time::from_secs(1_000_000_000 + seconds)), text);
        };
        let (minute, hour, day) = (60, 3600, 86_400);
        check(-2, "<invalid>");
        check(-1, "0s");
        check(0, "0s");
        check(119, "119s");
        check(2 * minute, "2m");
        check(9 * minute + 59, "9m59s");
        check(10 * minute + 1, "10m");
        check(179 * minute, "179m");
        check(3 * hour, "3h");
        check(7 * hour + 59 * minute, "7h59m");
        check(47 * hour, "47h");
        check(2 * day, "2d");
        check(7 * day + 23 * hour, "7d23h");
        check(8 * day, "8d");
        check(729 * day, "729d");
        check(730 * day, "2y");
        check(731 * day, "2y1d");
        check(8 * 365 * day + day, "8y");
    }

    #[test]
    fn cells() {
        let object = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}});
        let now = Time::parse("2026-01-01T00:05:00Z").expect("valid");
        assert_eq!(age_of(&object, now), "5m");
        assert_eq!(age_of(&json!({}), now), "<unknown>");
        assert_eq!(label_text(json!({"a": "b", "c": "d"}).as_object()), "a=b,c=d");
        assert_eq!(label_text(None), "<none>");
        assert_eq!(selector_text(Some(&json!({"matchLabels": {"a": "b"}}))), "a=b");
        assert_eq!(joined(&[json!({"name": "a"}), json!({"name": "b"})], "name"), json!("a,b"));
    }
}
