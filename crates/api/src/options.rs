//! The query of a request, decoded and checked.

use meta::fields::FieldSelector;
use meta::labels::Selector;
use meta::{ApiError, FieldError, GroupKind, ObjectExt};
use serde_json::Value;

use crate::Verb;

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
    /// What is wrong with those of writes.
    pub faults: Vec<FieldError>,
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
    /// `resourceVersionMatch` that is none.
    pub unknown_match: Option<String>,
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
    /// What is wrong with them.
    pub faults: Vec<FieldError>,
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
    /// Reads decoded query pairs. The first of several values counts. What can be read but is not allowed is refused
    /// by [`Options::check`], when it is known which verb they are options of.
    ///
    /// # Errors
    /// 400 for what cannot be read.
    pub fn from_query(query: &[(String, String)]) -> Result<Options, ApiError> {
        let get = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let text = |name: &str| get(name).unwrap_or("").to_owned();
        let mut faults = faults_of_manager(&text("fieldManager"));
        let dry_runs = query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.as_str());
        let dry_run = dry_run(dry_runs, &mut faults);
        let field_validation = field_validation(get("fieldValidation").unwrap_or(""), &mut faults);
        let (version_match, unknown_match) = version_match(get("resourceVersionMatch").unwrap_or(""));
        let mut of_delete = Vec::new();
        let orphan = get("orphanDependents").map(is_true);
        let propagation = propagation(get("propagationPolicy"), orphan, &mut of_delete);
        Ok(Options {
            dry_run,
            field_manager: text("fieldManager"),
            field_validation,
            force: get("force").map(is_true),
            must_be_absent: false,
            list: ListOptions {
                labels: Selector::parse(get("labelSelector").unwrap_or("")).map_err(ApiError::bad_request)?,
                fields: FieldSelector::parse(get("fieldSelector").unwrap_or("")).map_err(ApiError::bad_request)?,
                resource_version: text("resourceVersion"),
                version_match,
                limit: number("limit", get("limit"))?,
                continue_token: text("continue"),
                bookmarks: get("allowWatchBookmarks").is_some_and(is_true),
                send_initial_events: get("sendInitialEvents").map(is_true),
                timeout_seconds: number("timeoutSeconds", get("timeoutSeconds"))?,
                unknown_match,
            },
            delete: DeleteOptions {
                grace_seconds: get("gracePeriodSeconds").map(|n| parse_number("gracePeriodSeconds", n)).transpose()?,
                propagation,
                preconditions: Preconditions::default(),
                faults: of_delete,
            },
            faults,
        })
    }

    /// Adds what a DeleteOptions body says; it wins over the query.
    ///
    /// # Errors
    /// 422 for what neither may say.
    pub fn with_delete_body(mut self, body: &Value) -> Result<Options, ApiError> {
        let given = |path: &[&str]| body.at(path).and_then(Value::as_str).map(str::to_owned);
        let mut faults = std::mem::take(&mut self.delete.faults);
        let orphan = body.at(&["orphanDependents"]).and_then(Value::as_bool);
        let propagation = propagation(given(&["propagationPolicy"]).as_deref(), orphan, &mut faults);
        self.dry_run |= dry_run(body.items(&["dryRun"]).iter().filter_map(Value::as_str), &mut faults);
        faults.extend(self.faults.iter().filter(|fault| fault.field == "dryRun").cloned());
        refuse("DeleteOptions", &faults)?;
        self.delete.grace_seconds = body.int(&["gracePeriodSeconds"]).or(self.delete.grace_seconds);
        self.delete.propagation = propagation.or(self.delete.propagation);
        self.delete.preconditions = Preconditions {
            uid: given(&["preconditions", "uid"]),
            resource_version: given(&["preconditions", "resourceVersion"]),
        };
        Ok(self)
    }

    /// Whether a request of this verb may have these options. Those of a delete may also stand in its body and are
    /// checked with it.
    ///
    /// # Errors
    /// 422 with a cause for each fault, as upstream's `Validate…Options`.
    pub fn check(&self, verb: Verb, is_apply: bool) -> Result<(), ApiError> {
        match verb {
            Verb::Get | Verb::Delete => Ok(()),
            Verb::List | Verb::DeleteCollection => refuse("ListOptions", &self.list.faults_of_list()),
            Verb::Watch => refuse("ListOptions", &self.list.faults_of_watch()),
            Verb::Create => refuse("CreateOptions", &self.faults),
            Verb::Update => refuse("UpdateOptions", &self.faults),
            Verb::Patch => {
                let own = self.fault_of_patch(is_apply);
                refuse("PatchOptions", &own.into_iter().chain(self.faults.iter().cloned()).collect::<Vec<_>>())
            }
        }
    }

    fn fault_of_patch(&self, is_apply: bool) -> Option<FieldError> {
        match (is_apply, self.force) {
            (true, _) if self.field_manager.is_empty() => {
                Some(FieldError::required("fieldManager", "is required for apply patch"))
            }
            (false, Some(_)) => Some(FieldError::forbidden("force", "may not be specified for non-apply patch")),
            _ => None,
        }
    }
}

impl ListOptions {
    /// The word as given.
    fn match_word(&self) -> Option<&str> {
        match self.version_match {
            Some(VersionMatch::Exact) => Some("Exact"),
            Some(VersionMatch::NotOlderThan) => Some("NotOlderThan"),
            None => self.unknown_match.as_deref(),
        }
    }

    fn faults_of_list(&self) -> Vec<FieldError> {
        let mut faults = Vec::new();
        if let Some(word) = self.match_word() {
            if self.resource_version.is_empty() {
                faults.push(of_match("resourceVersionMatch is forbidden unless resourceVersion is provided"));
            }
            faults.extend(self.fault_of_continue());
            if self.unknown_match.is_some() {
                let known = ["Exact", "NotOlderThan", ""];
                faults.push(FieldError::not_supported("resourceVersionMatch", word, &known));
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                faults.push(of_match("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
            }
        }
        if self.send_initial_events.is_some() {
            faults.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        faults
    }

    fn faults_of_watch(&self) -> Vec<FieldError> {
        let mut faults = Vec::new();
        let fits = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !fits {
            faults.push(of_match("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if let Some(word) = self.match_word() {
            if self.send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                faults.push(of_match(why));
            }
            if !fits {
                faults.push(FieldError::not_supported("resourceVersionMatch", word, &["NotOlderThan"]));
            }
            faults.extend(self.fault_of_continue());
        }
        faults
    }

    fn fault_of_continue(&self) -> Option<FieldError> {
        let given = !self.continue_token.is_empty();
        given.then(|| of_match("resourceVersionMatch is forbidden when continue is provided"))
    }
}

fn of_match(why: &str) -> FieldError {
    FieldError::forbidden("resourceVersionMatch", why)
}

/// 422 for options of a kind, if anything is wrong with them.
fn refuse(kind: &'static str, faults: &[FieldError]) -> Result<(), ApiError> {
    if faults.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&GroupKind { group: "meta.k8s.io".into(), kind: kind.into() }, "", faults))
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

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, faults: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|value| *value != "All") {
        faults.push(FieldError::not_supported("dryRun", values.clone(), &["All"]));
    }
    !values.is_empty()
}

fn faults_of_manager(name: &str) -> Vec<FieldError> {
    let too_long = name.len() > FIELD_MANAGER_MAX;
    let too_long = too_long.then(|| FieldError::too_long("fieldManager", FIELD_MANAGER_MAX));
    let bad = name.char_indices().filter(|(_, c)| c.is_control() || (c.is_whitespace() && *c != ' '));
    let bad = bad.map(|(at, c)| {
        let why = format!("invalid character U+{:04X} (at position {at})", c as u32);
        FieldError::invalid("fieldManager", name, why)
    });
    too_long.into_iter().chain(bad).collect()
}

fn field_validation(text: &str, faults: &mut Vec<FieldError>) -> FieldValidation {
    match text {
        "" | "Warn" => FieldValidation::Warn,
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        other => {
            let known = ["", "Ignore", "Strict", "Warn"];
            faults.push(FieldError::not_supported("fieldValidation", other, &known));
            FieldValidation::Strict
        }
    }
}

/// The match, or the word that is none.
fn version_match(text: &str) -> (Option<VersionMatch>, Option<String>) {
    match text {
        "" => (None, None),
        "Exact" => (Some(VersionMatch::Exact), None),
        "NotOlderThan" => (Some(VersionMatch::NotOlderThan), None),
        other => (None, Some(other.to_owned())),
    }
}

fn propagation(text: Option<&str>, orphan: Option<bool>, faults: &mut Vec<FieldError>) -> Option<Propagation> {
    if let (Some(text), Some(_)) = (text, orphan) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        faults.push(FieldError::invalid("propagationPolicy", text, why));
    }
    match (text, orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some(other), _) => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            faults.push(FieldError::not_supported("propagationPolicy", other, &known));
            None
        }
        (None, None) => None,
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
    fn what_cannot_be_read_is_a_bad_request() {
        for text in ["limit=x", "timeoutSeconds=1.5", "labelSelector=a==b==c"] {
            let error = Options::from_query(&query(text)).expect_err(text);
            assert_eq!(error.code, 400, "{text}");
        }
    }

    /// The message, with `|` before each cause's field.
    fn refused(text: &str, verb: Verb, is_apply: bool) -> String {
        let options = Options::from_query(&query(text)).expect("it can be read");
        let outcome = match verb {
            Verb::Delete => options.with_delete_body(&Value::Null).map(drop),
            _ => options.check(verb, is_apply),
        };
        match outcome {
            Ok(()) => String::new(),
            Err(error) => {
                assert_eq!(error.code, 422, "{text}");
                let causes = error.details.map(|details| details.causes).unwrap_or_default();
                let fields: String = causes.iter().map(|cause| format!("|{}", cause.field)).collect();
                format!("{}{fields}", error.message)
            }
        }
    }

    #[test]
    fn what_is_not_allowed_is_invalid_with_causes() {
        let check = |text: &str, verb, expected: &str| assert_eq!(refused(text, verb, false), expected, "{text}");
        check("fieldValidation=Strict&dryRun=All&fieldManager=me", Verb::Create, "");
        check("fieldValidation=strict", Verb::List, "");
        check(
            "fieldValidation=strict",
            Verb::Create,
            "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"strict\": \
             supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"|fieldValidation",
        );
        check(
            "dryRun=yes&dryRun=All",
            Verb::Update,
            "UpdateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"yes\",\"All\"]: \
             supported values: \"All\"|dryRun",
        );
        check(
            "fieldManager=a\u{7}b&force=true",
            Verb::Patch,
            "PatchOptions.meta.k8s.io \"\" is invalid: [force: Forbidden: may not be specified for non-apply patch, \
             fieldManager: Invalid value: \"a\\u0007b\": invalid character U+0007 (at position 1)]|force|fieldManager",
        );
        check(
            "propagationPolicy=None&orphanDependents=true&dryRun=x",
            Verb::Delete,
            "DeleteOptions.meta.k8s.io \"\" is invalid: [propagationPolicy: Invalid value: \"None\": orphanDependents and \
             deletionPropagation cannot be both set, propagationPolicy: Unsupported value: \"None\": supported values: \
             \"Foreground\", \"Background\", \"Orphan\", \"nil\", dryRun: Unsupported value: [\"x\"]: supported values: \
             \"All\"]|propagationPolicy|propagationPolicy|dryRun",
        );
        check(
            "resourceVersionMatch=exact",
            Verb::List,
            "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden \
             unless resourceVersion is provided, resourceVersionMatch: Unsupported value: \"exact\": supported values: \
             \"Exact\", \"NotOlderThan\", \"\"]|resourceVersionMatch|resourceVersionMatch",
        );
        check(
            "sendInitialEvents=true",
            Verb::Watch,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting \
             resourceVersionMatch to NotOlderThan|resourceVersionMatch",
        );
        check("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", Verb::Watch, "");
        let manager =
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
        assert_eq!(refused("force=true", Verb::Patch, true), format!("{manager}|fieldManager"));
    }
}
