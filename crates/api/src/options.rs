//! The query of a request, decoded and checked.

use meta::ApiError;
use meta::fields::FieldSelector;
use meta::labels::Selector;
use serde_json::Value;

use meta::ObjectExt;

/// Longest field manager name, as upstream checks it.
const FIELD_MANAGER_MAX: usize = 128;

/// Every option of every verb. Options that a verb does not know are ignored, as upstream does.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Do everything but write.
    pub dry_run: bool,
    /// Owner of the fields written; empty leaves it to the user agent.
    pub field_manager: String,
    /// What to do about unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Server-side apply: take fields from other managers.
    pub force: Option<bool>,
    /// Server-side apply: only where there is no such object (`If-None-Match: *`), so that what was planned as a
    /// creation is one.
    pub must_be_absent: bool,
    /// Options of list, watch and deletecollection (and `resourceVersion` of get).
    pub list: ListOptions,
    /// Options of delete.
    pub delete: DeleteOptions,
}

/// `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Say nothing.
    Ignore,
    /// Say so in warnings.
    #[default]
    Warn,
    /// Refuse.
    Strict,
}

/// Options of reads of a collection.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Only what has these labels.
    pub labels: Selector,
    /// Only what has these fields.
    pub fields: FieldSelector,
    /// As given; empty when not.
    pub resource_version: String,
    /// How to read `resource_version`.
    pub version_match: Option<VersionMatch>,
    /// Most items in one answer; 0 means all.
    pub limit: u64,
    /// The token of the page before; empty for the first page.
    pub continue_token: String,
    /// Watch: send bookmarks.
    pub bookmarks: bool,
    /// Watch: begin with what is there.
    pub send_initial_events: Option<bool>,
    /// Watch: end after this many seconds; 0 leaves it to the server.
    pub timeout_seconds: u64,
}

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// That revision.
    Exact,
    /// That revision or a newer one.
    NotOlderThan,
}

/// Options of delete, from the query or the body.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds until the object is removed by force.
    pub grace_seconds: Option<i64>,
    /// What happens to dependents.
    pub propagation: Option<Propagation>,
    /// What the object must be.
    pub preconditions: Preconditions,
}

/// `propagationPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents stay and lose the owner reference.
    Orphan,
    /// Dependents are deleted after the owner.
    Background,
    /// Dependents are deleted before the owner.
    Foreground,
}

/// What an object must be for a delete to happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its resource version.
    pub resource_version: Option<String>,
}

impl Options {
    /// Reads decoded query pairs. The first of several values counts.
    pub fn from_query(query: &[(String, String)]) -> Result<Options, ApiError> {
        let get = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let text = |name: &str| get(name).unwrap_or("").to_owned();
        let options = Options {
            dry_run: dry_run(query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.as_str()))?,
            field_manager: field_manager(text("fieldManager"))?,
            field_validation: field_validation(get("fieldValidation").unwrap_or(""))?,
            force: get("force").map(is_true),
            must_be_absent: false,
            list: ListOptions {
                labels: Selector::parse(get("labelSelector").unwrap_or("")).map_err(ApiError::bad_request)?,
                fields: FieldSelector::parse(get("fieldSelector").unwrap_or("")).map_err(ApiError::bad_request)?,
                resource_version: text("resourceVersion"),
                version_match: version_match(get("resourceVersionMatch").unwrap_or(""))?,
                limit: number("limit", get("limit"))?,
                continue_token: text("continue"),
                bookmarks: get("allowWatchBookmarks").is_some_and(is_true),
                send_initial_events: get("sendInitialEvents").map(is_true),
                timeout_seconds: number("timeoutSeconds", get("timeoutSeconds"))?,
            },
            delete: DeleteOptions {
                grace_seconds: get("gracePeriodSeconds").map(|n| parse_number("gracePeriodSeconds", n)).transpose()?,
                propagation: propagation(get("propagationPolicy"), get("orphanDependents").map(is_true))?,
                preconditions: Preconditions::default(),
            },
        };
        Ok(options)
    }

    /// Adds what a DeleteOptions body says; it wins over the query.
    pub fn with_delete_body(mut self, body: &Value) -> Result<Options, ApiError> {
        let given = |path: &[&str]| body.at(path).and_then(Value::as_str).map(str::to_owned);
        self.dry_run |= dry_run(body.items(&["dryRun"]).iter().filter_map(Value::as_str))?;
        self.delete.grace_seconds = body.int(&["gracePeriodSeconds"]).or(self.delete.grace_seconds);
        let orphan = body.at(&["orphanDependents"]).and_then(Value::as_bool);
        self.delete.propagation =
            propagation(given(&["propagationPolicy"]).as_deref(), orphan)?.or(self.delete.propagation);
        self.delete.preconditions = Preconditions {
            uid: given(&["preconditions", "uid"]),
            resource_version: given(&["preconditions", "resourceVersion"]),
        };
        Ok(self)
    }
}

/// As `strconv.ParseBool` and upstream's query conversion read it: present without a value means true.
fn is_true(text: &str) -> bool {
    !matches!(text.to_ascii_lowercase().as_str(), "false" | "0")
}

fn number(name: &str, text: Option<&str>) -> Result<u64, ApiError> {
    let number = text.filter(|t| !t.is_empty()).map_or(Ok(0), |t| parse_number(name, t))?;
    // A negative limit or timeout means none, as upstream reads it.
    Ok(u64::try_from(number).unwrap_or(0))
}

fn parse_number(name: &str, text: &str) -> Result<i64, ApiError> {
    text.parse().map_err(|_| ApiError::bad_request(format!("{name}: Invalid value: {text:?}: must be a whole number")))
}

fn dry_run<'a>(mut values: impl Iterator<Item = &'a str>) -> Result<bool, ApiError> {
    match values.next() {
        None | Some("") => Ok(false),
        Some("All") => Ok(true),
        Some(other) => {
            Err(ApiError::bad_request(format!("dryRun: Unsupported value: {other:?}: supported values: \"All\"")))
        }
    }
}

fn field_manager(name: String) -> Result<String, ApiError> {
    if name.len() > FIELD_MANAGER_MAX {
        return Err(ApiError::bad_request(format!(
            "fieldManager: Too long: may not be more than {FIELD_MANAGER_MAX} bytes"
        )));
    }
    if let Some(bad) = name.chars().find(|c| c.is_control()) {
        return Err(ApiError::bad_request(format!(
            "fieldManager: Invalid value: {name:?}: should only contain printable characters, found {bad:?}"
        )));
    }
    Ok(name)
}

fn field_validation(text: &str) -> Result<FieldValidation, ApiError> {
    match text {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => Err(ApiError::bad_request(format!(
            "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \"Strict\", \"Warn\""
        ))),
    }
}

fn version_match(text: &str) -> Result<Option<VersionMatch>, ApiError> {
    match text {
        "" => Ok(None),
        "Exact" => Ok(Some(VersionMatch::Exact)),
        "NotOlderThan" => Ok(Some(VersionMatch::NotOlderThan)),
        other => Err(ApiError::bad_request(format!(
            "resourceVersionMatch: Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
        ))),
    }
}

fn propagation(text: Option<&str>, orphan: Option<bool>) -> Result<Option<Propagation>, ApiError> {
    match (text.filter(|t| !t.is_empty()), orphan) {
        (Some(_), Some(_)) => {
            Err(ApiError::bad_request("orphanDependents and deletionPropagation cannot be both set".to_owned()))
        }
        (Some("Orphan"), _) | (None, Some(true)) => Ok(Some(Propagation::Orphan)),
        (Some("Background"), _) | (None, Some(false)) => Ok(Some(Propagation::Background)),
        (Some("Foreground"), _) => Ok(Some(Propagation::Foreground)),
        (Some(other), _) => Err(ApiError::bad_request(format!(
            "propagationPolicy: Unsupported value: {other:?}: supported values: \"Background\", \"Foreground\", \"Orphan\""
        ))),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Vec<(String, String)> {
        text.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }

    #[test]
    fn options_are_read() {
        let options = Options::from_query(&query("dryRun=All&limit=-5&sendInitialEvents=true&gracePeriodSeconds=0"));
        let options = options.expect("valid");
        assert!(options.dry_run);
        assert_eq!(options.list.limit, 0);
        assert_eq!(options.list.send_initial_events, Some(true));
        assert_eq!(options.delete.grace_seconds, Some(0));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["dryRun=yes", "limit=x", "fieldValidation=strict", "resourceVersionMatch=exact", "propagationPolicy=None"]
        {
            let error = Options::from_query(&query(text)).expect_err(text);
            assert_eq!(error.code, 400, "{text}");
        }
    }
}
