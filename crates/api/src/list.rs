//! GET of an object and of a collection: revisions, selectors, pages.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kinds::KindDef;
use meta::fields::FieldSelector;
use meta::labels::Selector;
use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};
use store::{Entry, Revision, Snapshot};
use view::Facts;

use crate::write::tree_at;
use crate::{Answer, Body, Request, Target, VersionMatch, World, update};

/// Longest continue token read: a token holds a key of at most 317 bytes.
const TOKEN_BYTES_MAX: usize = 2_048;

/// Answers GET of one object.
pub(crate) fn get(world: World<'_>, request: &Request) -> Result<Answer, ApiError> {
    wait_not_needed(world, parse_version(&request.options.list.resource_version)?)?;
    let entry = update::stored(world, request)?;
    let kind = &request.target.kind;
    let body = match kind.conversion.is_none() && kind.custom.is_none() {
        true => Body::Entry(entry),
        false => Body::Tree(tree_at(kind, &entry)?),
    };
    Ok(Answer { code: 200, body, warnings: Vec::new() })
}

/// A collection as it is sent: the entries of one revision, still as stored.
pub struct ListAnswer {
    /// The kind at the version asked for.
    pub kind: Arc<KindDef>,
    /// The revision that the list shows.
    pub revision: Revision,
    /// The page's entries.
    pub entries: Vec<Arc<Entry>>,
    /// What comes after it.
    pub page: Page,
}

/// Where a list goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Token for the next page; empty on the last.
    pub continue_token: String,
    /// How many items are left, where that is known without looking at them.
    pub remaining: Option<u64>,
}

/// Answers GET of a collection. A revision other than the snapshot's must be fetched by the shell first: see
/// [`exact_revision`].
pub(crate) fn list(world: World<'_>, request: &Request) -> Result<Answer, ApiError> {
    let options = &request.options.list;
    let matcher = Matcher::of(request)?;
    let token = ContinueToken::parse(&options.continue_token)?;
    let start = token.as_ref().map_or(String::new(), |token| token.start.clone());
    if !start.is_empty() && !start.starts_with(&request.target.prefix()) {
        return Err(ApiError::bad_request("continue key is not valid: it belongs to another collection"));
    }
    if token.is_none() {
        wait_not_needed(world, parse_version(&options.resource_version)?)?;
    }
    let limit = usize::try_from(options.limit).unwrap_or(usize::MAX);
    let (entries, page) = page(world.snapshot, request, &matcher, &start, limit);
    let kind = Arc::clone(&request.target.kind);
    let answer = ListAnswer { kind, revision: world.snapshot.revision(), entries, page };
    Ok(Answer { code: 200, body: Body::List(Box::new(answer)), warnings: Vec::new() })
}

fn page(
    snapshot: &Snapshot,
    request: &Request,
    matcher: &Matcher,
    start: &str,
    limit: usize,
) -> (Vec<Arc<Entry>>, Page) {
    let target = &request.target;
    let mut entries = Vec::new();
    let mut items = matching(snapshot, target, matcher, start);
    let mut last = None;
    for (item, entry) in items.by_ref() {
        if limit > 0 && entries.len() == limit {
            let token = ContinueToken { revision: Some(snapshot.revision()), start: after(last.unwrap_or(item)) };
            let remaining = matcher.is_everything().then(|| 1 + items.count() as u64);
            return (entries, Page { continue_token: token.encode(), remaining });
        }
        entries.push(Arc::clone(entry));
        last = Some(item);
    }
    (entries, Page::default())
}

/// The smallest name after `item`.
fn after(item: &str) -> String {
    format!("{item}\0")
}

/// The revision that a list must show exactly, if it asks for one: of its continue token or by
/// `resourceVersionMatch=Exact` (or a limit with a revision, which means the same).
pub fn exact_revision(request: &Request) -> Result<Option<Revision>, ApiError> {
    let options = &request.options.list;
    if let Some(token) = ContinueToken::parse(&options.continue_token)? {
        return Ok(token.revision);
    }
    let asked = parse_version(&options.resource_version)?.filter(|revision| revision.0 > 0);
    let exact =
        options.version_match == Some(VersionMatch::Exact) || (options.version_match.is_none() && options.limit > 0);
    Ok(asked.filter(|_| exact))
}

/// The error for a list whose revision is compacted away. With a token comes one that goes on at the newest
/// revision, inconsistently, for clients that prefer that.
pub fn expired(request: &Request) -> ApiError {
    let Ok(Some(token)) = ContinueToken::parse(&request.options.list.continue_token) else {
        return ApiError::expired("The resourceVersion for the provided list is too old.");
    };
    let fresh = ContinueToken { revision: None, ..token }.encode();
    let message = "The provided continue parameter is too old to display a consistent list result. You can start a new \
        list without the continue parameter, or use the continue token in this response to retrieve the remainder of \
        the results. Continuing with the provided token results in an inconsistent list - objects that were created, \
        modified, or deleted between the time the first chunk was returned and now may show up in the list.";
    ApiError::expired(message).with_continue(fresh)
}

/// Reads a revision; empty means none.
pub(crate) fn parse_version(text: &str) -> Result<Option<Revision>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<u64>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
    let number = number.ok_or_else(|| {
        ApiError::bad_request(format!("Invalid value: {text:?}: resourceVersion must be a whole number"))
    })?;
    Ok(Some(Revision(number)))
}

/// A revision that is not there yet: nobody but this store makes revisions, so waiting would be in vain.
pub(crate) fn wait_not_needed(world: World<'_>, asked: Option<Revision>) -> Result<(), ApiError> {
    let current = world.snapshot.revision();
    match asked {
        Some(asked) if asked > current => {
            let message = format!("Too large resource version: {asked}, current: {current}");
            let mut error = ApiError::new(504, meta::Reason::Timeout, message.clone());
            error = error.with_cause("ResourceVersionTooLarge", message, "");
            error.details.get_or_insert_default().retry_after_seconds = 1;
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Where a list goes on, as clients carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision of the pages before; `None` goes on at the newest.
    pub revision: Option<Revision>,
    /// First name of the next page.
    pub start: String,
}

impl ContinueToken {
    /// Upstream's form: base64 of JSON.
    pub fn encode(&self) -> String {
        let revision = self.revision.map_or(-1, |r| i64::try_from(r.0).unwrap_or(i64::MAX));
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.start});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    /// Reads a token; empty means none.
    pub fn parse(text: &str) -> Result<Option<ContinueToken>, ApiError> {
        if text.is_empty() {
            return Ok(None);
        }
        let bad = || ApiError::bad_request("continue key is not valid: the token is not one that this server gave");
        if text.len() > TOKEN_BYTES_MAX {
            return Err(bad());
        }
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| bad())?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        let start = token.text(&["start"]).to_owned();
        let revision = token.int(&["rv"]).ok_or_else(bad)?;
        if token.text(&["v"]) != "meta.k8s.io/v1" || start.is_empty() || revision == 0 {
            return Err(bad());
        }
        Ok(Some(ContinueToken { revision: u64::try_from(revision).ok().map(Revision), start }))
    }
}

/// The selectors of a request, ready to be asked about entries.
pub struct Matcher {
    labels: Selector,
    fields: FieldSelector,
    kind: Arc<KindDef>,
    /// The one object that the request can mean (`metadata.name=x`, or a watch of a name).
    name: Option<String>,
}

impl Matcher {
    pub(crate) fn of(request: &Request) -> Result<Matcher, ApiError> {
        let (kind, options) = (&request.target.kind, &request.options.list);
        for requirement in &options.fields.requirements {
            let known = matches!(requirement.field.as_str(), "metadata.name" | "metadata.namespace")
                || kind.selectable.iter().any(|s| s.label == requirement.field);
            if !known {
                return Err(ApiError::bad_request(format!("field label not supported: {}", requirement.field)));
            }
        }
        let name = match request.target.name.as_str() {
            "" => options.fields.exact("metadata.name").map(str::to_owned),
            name => Some(name.to_owned()),
        };
        Ok(Matcher { labels: options.labels.clone(), fields: options.fields.clone(), kind: Arc::clone(kind), name })
    }

    /// Whether nothing is selected away.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.requirements.is_empty() && self.name.is_none()
    }

    /// Whether the selectors match the stored object.
    pub fn matches(&self, entry: &Entry) -> bool {
        if self.is_everything() {
            return true;
        }
        let facts = entry.memo(Facts::read);
        let named = self.name.as_deref().is_none_or(|name| *facts.meta.name == *name);
        named && self.labels.matches(&facts.meta.labels) && self.fields_match(entry, &facts)
    }

    fn fields_match(&self, entry: &Entry, facts: &Facts) -> bool {
        if self.fields.requirements.is_empty() {
            return true;
        }
        let selectable = entry.memo(|value| Selectable::read(&self.kind, value));
        self.fields.matches(|field| match field {
            "metadata.name" => &facts.meta.name,
            "metadata.namespace" => &facts.meta.namespace,
            other => selectable.get(&self.kind, other),
        })
    }
}

/// The values of an object's selectable fields, in the order of the declaration; kept beside the entry so that a
/// thousand watches of one node's pods decode a pod once.
struct Selectable {
    version: Box<str>,
    values: Vec<Box<str>>,
}

impl Selectable {
    fn read(kind: &KindDef, value: &[u8]) -> Selectable {
        let mut tree: Value = meta::stored::read(value).unwrap_or_default();
        if let Some(conversion) = &kind.conversion {
            (conversion.from_hub)(&mut tree);
        }
        let values = kind.selectable.iter().map(|field| (field.read)(&tree, &field.label).into()).collect();
        Selectable { version: kind.version.as_ref().into(), values }
    }

    fn get<'s>(&'s self, kind: &KindDef, label: &str) -> &'s str {
        // Versions of one stored kind may differ in selectable fields; the first reader's version was remembered.
        if *self.version != *kind.version {
            return "";
        }
        let at = kind.selectable.iter().position(|field| field.label == label);
        at.and_then(|at| self.values.get(at)).map_or("", |value| value)
    }
}

/// The items of the target that match, in order, from `start` on.
pub(crate) fn matching<'s>(
    snapshot: &'s Snapshot,
    target: &Target,
    matcher: &'s Matcher,
    start: &str,
) -> impl Iterator<Item = (&'s Arc<str>, &'s Arc<Entry>)> {
    let collection = target.kind.collection();
    snapshot.range_owned(&collection, target.prefix(), start.to_owned()).filter(|(_, entry)| matcher.matches(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_and_garbage_is_refused() {
        let token = ContinueToken { revision: Some(Revision(7)), start: "default/web\0".into() };
        assert_eq!(ContinueToken::parse(&token.encode()).expect("ours"), Some(token));
        for garbage in ["x", "e30", "!!!", &"A".repeat(5_000)] {
            assert_eq!(ContinueToken::parse(garbage).expect_err("garbage").code, 400, "{garbage}");
        }
    }

    #[test]
    fn versions_are_numbers() {
        for bad in ["-1", "1.0", "x", "99999999999999999999", "+1"] {
            assert_eq!(parse_version(bad).expect_err(bad).code, 400);
        }
        assert_eq!(parse_version("01").expect("a number"), Some(Revision(1)));
    }
}
