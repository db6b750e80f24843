//! Which form an answer takes: the `Accept` header, read leniently and answered with JSON.

use api::{Representation, RowObject};
use meta::ApiError;

/// Longest header looked at, and most alternatives in it.
const ACCEPT_BYTES_MAX: usize = 4_096;

/// The representation that `Accept` asks for; the first alternative that can be served wins. `is_stored`: the kind has
/// objects to be shown as rows or by their metadata, which reviews have not. Protobuf is never sent: every client that
/// asks for it lists JSON too.
pub fn representation(accept: &str, include_object: &str, is_stored: bool) -> Result<Representation, ApiError> {
    if accept.len() > ACCEPT_BYTES_MAX {
        return Err(ApiError::bad_request("the Accept header is too long"));
    }
    if accept.trim().is_empty() {
        return Ok(Representation::Object);
    }
    let found = accept
        .split(',')
        .filter_map(|alternative| read(alternative, include_object))
        .find(|form| is_stored || *form == Representation::Object);
    found.ok_or_else(|| ApiError::not_acceptable(&["application/json"]))
}

fn read(alternative: &str, include_object: &str) -> Option<Representation> {
    let mut parts = alternative.split(';').map(str::trim);
    let media_type = parts.next()?;
    if !matches!(media_type, "application/json" | "*/*" | "application/*") {
        return None;
    }
    let mut form = None;
    let mut group_version = ("", "");
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "as" => form = Some(value),
            "g" => group_version.0 = value,
            "v" => group_version.1 = value,
            _ => {}
        }
    }
    match (form, group_version) {
        (None, _) => Some(Representation::Object),
        (Some("Table"), ("meta.k8s.io", "v1")) => Some(Representation::Table(row_object(include_object))),
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), ("meta.k8s.io", "v1")) => {
            Some(Representation::Metadata)
        }
        _ => None,
    }
}

fn row_object(include_object: &str) -> RowObject {
    match include_object {
        "None" => RowObject::None,
        "Object" => RowObject::Object,
        _ => RowObject::Metadata,
    }
}

/// Whether `Accept` asks for the aggregated discovery document; the version it names.
pub fn wants_aggregated_discovery(accept: &str) -> bool {
    let has = |alternative: &str, part: &str| alternative.split(';').any(|p| p.trim() == part);
    accept.split(',').any(|alternative| {
        has(alternative, "as=APIGroupDiscoveryList")
            && has(alternative, "g=apidiscovery.k8s.io")
            && has(alternative, "v=v2")
            && alternative.trim_start().starts_with("application/json")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_servable_alternative_wins() {
        let check = |accept: &str, form: Option<Representation>| {
            assert_eq!(representation(accept, "", true).ok(), form, "{accept}")
        };
        check("", Some(Representation::Object));
        check("*/*", Some(Representation::Object));
        check("application/vnd.kubernetes.protobuf, application/json", Some(Representation::Object));
        check("application/vnd.kubernetes.protobuf", None);
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some(Representation::Table(RowObject::Metadata)),
        );
        check("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Some(Representation::Object));
        check("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(Representation::Metadata));
        check("text/html", None);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(representation(table, "", false).expect_err("a review is no table").code, 406);
        let either = format!("{table},application/json");
        assert_eq!(representation(&either, "", false).ok(), Some(Representation::Object));
    }
}
