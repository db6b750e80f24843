//! `pods/log`: its options, and which of a container's lives they mean.

use std::time::Duration;

use meta::{ApiError, FieldError, Gvk, ObjectExt, Time};
use serde_json::Value;

use super::Query;

/// Which outputs of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogStream {
    /// Both, in the order in which they came.
    #[default]
    All,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What is wanted of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Goes on until the container ends.
    pub follow: bool,
    /// Of the life before this one.
    pub previous: bool,
    /// A time before each line.
    pub timestamps: bool,
    /// Nothing older.
    pub since: Option<Time>,
    /// Only the last so many lines.
    pub tail_lines: Option<u64>,
    /// Ends after so many bytes.
    pub limit_bytes: Option<u64>,
    /// Of which output.
    pub stream: LogStream,
}

impl LogOptions {
    /// Reads and checks a decoded query; `pod` is the name that errors are about. The container asked for comes with
    /// it, empty if none was.
    pub fn from_query(query: &[(String, String)], pod: &str, now: Time) -> Result<(String, LogOptions), ApiError> {
        let query = Query(query);
        let mut errors = Vec::new();
        let tail = query.int("tailLines")?;
        if let Some(lines) = tail.filter(|lines| *lines < 0) {
            errors.push(FieldError::invalid("tailLines", lines, "must be greater than or equal to 0"));
        }
        let limit = query.int("limitBytes")?;
        if let Some(bytes) = limit.filter(|bytes| *bytes < 1) {
            errors.push(FieldError::invalid("limitBytes", bytes, "must be greater than 0"));
        }
        let since = since(query, now, &mut errors)?;
        let stream = stream(query, tail.is_some(), &mut errors);
        if !errors.is_empty() {
            return Err(ApiError::invalid(&Gvk::new("", "v1", "PodLogOptions").group_kind(), pod, &errors));
        }
        let options = LogOptions {
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            timestamps: query.flag("timestamps"),
            since,
            tail_lines: tail.and_then(|lines| u64::try_from(lines).ok()),
            limit_bytes: limit.and_then(|bytes| u64::try_from(bytes).ok()),
            stream,
        };
        Ok((query.text("container").unwrap_or("").to_owned(), options))
    }
}

fn since(query: Query<'_>, now: Time, errors: &mut Vec<FieldError>) -> Result<Option<Time>, ApiError> {
    let (seconds, text) = (query.int("sinceSeconds")?, query.text("sinceTime").filter(|text| !text.is_empty()));
    let parsed = text.map(|text| {
        let bad = || ApiError::bad_request(format!("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\""));
        Time::parse(text).ok_or_else(bad)
    });
    let time = parsed.transpose()?;
    match (seconds, time) {
        (Some(_), Some(_)) => {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(FieldError::forbidden("", why));
            Ok(None)
        }
        (Some(seconds), None) => match u64::try_from(seconds) {
            Ok(span) if span > 0 => Ok(Some(before(now, span))),
            _ => {
                errors.push(FieldError::invalid("sinceSeconds", seconds, "must be greater than 0"));
                Ok(None)
            }
        },
        (None, time) => Ok(time),
    }
}

/// The time `seconds` before; the beginning of time if there is none.
fn before(now: Time, seconds: u64) -> Time {
    let micros = i64::try_from(Duration::from_secs(seconds).as_micros()).unwrap_or(i64::MAX);
    Time::from_micros(now.as_micros().saturating_sub(micros).max(0))
}

fn stream(query: Query<'_>, has_tail: bool, errors: &mut Vec<FieldError>) -> LogStream {
    let stream = match query.text("stream") {
        None | Some("" | "All") => LogStream::All,
        Some("Stdout") => LogStream::Stdout,
        Some("Stderr") => LogStream::Stderr,
        Some(other) => {
            errors.push(FieldError::not_supported("stream", other, &["All", "Stderr", "Stdout"]));
            LogStream::All
        }
    };
    if stream != LogStream::All && has_tail {
        let why = "`tailLines` and specific `stream` are mutually exclusive for now";
        errors.push(FieldError::forbidden("", why));
    }
    stream
}

/// The runtime's id of the life whose log is meant, without the scheme before it.
pub fn log_container(pod: &Value, container: &str, previous: bool) -> Result<String, ApiError> {
    let refuse =
        |what: String| ApiError::bad_request(format!("container {container:?} in pod {:?} {what}", pod.name()));
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut statuses = lists.iter().flat_map(|list| pod.items(&["status", list]));
    let Some(status) = statuses.find(|status| status.text(&["name"]) == container) else {
        return Err(refuse("is not available".to_owned()));
    };
    let (state, last) = (|name: &str| status.at(&["state", name]), status.at(&["lastState", "terminated"]));
    let last_id = last.map(|last| last.text(&["containerID"])).filter(|id| !id.is_empty());
    let id = if previous {
        let missing = || {
            ApiError::bad_request(format!(
                "previous terminated container {container:?} in pod {:?} not found",
                pod.name()
            ))
        };
        last_id.ok_or_else(missing)?
    } else if state("running").is_some() {
        status.text(&["containerID"])
    } else if let Some(ended) = state("terminated") {
        // The next one may not have started: then the one before is meant.
        let id = Some(ended.text(&["containerID"])).filter(|id| !id.is_empty());
        id.or(last_id).ok_or_else(|| refuse("is terminated".to_owned()))?
    } else if last.is_some() {
        last_id.ok_or_else(|| refuse("is terminated".to_owned()))?
    } else {
        return Err(refuse(waiting(state("waiting"))));
    };
    Ok(id.split_once("://").map_or(id, |(_, id)| id).to_owned())
}

fn waiting(state: Option<&Value>) -> String {
    match state.map(|state| state.text(&["reason"])) {
        Some("ErrImagePull") => "is waiting to start: image can't be pulled".to_owned(),
        Some("ImagePullBackOff") => "is waiting to start: trying and failing to pull image".to_owned(),
        Some(reason) => format!("is waiting to start: {reason}"),
        None => "is waiting to start - no logs yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Time = Time::from_micros(1_000_000_000);

    fn read(query: &[(&str, &str)]) -> Result<LogOptions, ApiError> {
        let query: Vec<(String, String)> = query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        LogOptions::from_query(&query, "p", NOW).map(|(_, options)| options)
    }

    #[test]
    fn options_are_read() {
        let check = |query: &[(&str, &str)], expected: LogOptions| assert_eq!(read(query), Ok(expected), "{query:?}");
        let none = LogOptions::default;
        check(&[], none());
        check(&[("follow", "true"), ("previous", "false")], LogOptions { follow: true, ..none() });
        check(
            &[("timestamps", ""), ("tailLines", "0")],
            LogOptions { timestamps: true, tail_lines: Some(0), ..none() },
        );
        check(&[("sinceSeconds", "10")], LogOptions { since: Some(Time::from_micros(990_000_000)), ..none() });
        check(&[("sinceSeconds", "9999999999")], LogOptions { since: Some(Time::EPOCH), ..none() });
        check(
            &[("sinceTime", "1970-01-01T00:00:01Z")],
            LogOptions { since: Some(Time::from_micros(1_000_000)), ..none() },
        );
        check(
            &[("limitBytes", "7"), ("stream", "Stderr")],
            LogOptions { limit_bytes: Some(7), stream: LogStream::Stderr, ..none() },
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let check = |query: &[(&str, &str)], code: u16, expected: &str| {
            let error = read(query).expect_err("refused");
            assert_eq!((error.code, error.message.as_str()), (code, expected), "{query:?}");
        };
        check(&[("tailLines", "x")], 400, "strconv.ParseInt: parsing \"x\": invalid syntax");
        let about = |what: &str| format!("PodLogOptions \"p\" is invalid: {what}");
        check(&[("tailLines", "-1")], 422, &about("tailLines: Invalid value: -1: must be greater than or equal to 0"));
        check(&[("limitBytes", "0")], 422, &about("limitBytes: Invalid value: 0: must be greater than 0"));
        check(&[("sinceSeconds", "0")], 422, &about("sinceSeconds: Invalid value: 0: must be greater than 0"));
        check(
            &[("stream", "x")],
            422,
            &about("stream: Unsupported value: \"x\": supported values: \"All\", \"Stderr\", \"Stdout\""),
        );
        assert_eq!(read(&[("sinceSeconds", "1"), ("sinceTime", "1970-01-01T00:00:01Z")]).map_err(|e| e.code), Err(422));
        assert_eq!(read(&[("stream", "Stdout"), ("tailLines", "1")]).map_err(|e| e.code), Err(422));
    }

    #[test]
    fn the_life_that_is_meant() {
        let check = |status: Value, previous: bool, expected: Result<&str, &str>| {
            let mut entry = status.clone();
            entry["name"] = json!("c");
            let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [entry]}});
            let found = log_container(&pod, "c", previous).map_err(|error| error.message);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{status}");
        };
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        check(json!({"state": {"running": {}}, "containerID": "setpoint://a"}), false, Ok("a"));
        check(json!({"state": {"terminated": {"containerID": "setpoint://b"}}}), false, Ok("b"));
        let last = json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"containerID": "x://c"}}});
        check(last.clone(), false, Ok("c"));
        check(last, true, Ok("c"));
        let wanting = |what: &str| format!("container \"c\" in pod \"p\" {what}");
        check(waiting("ContainerCreating"), false, Err(&wanting("is waiting to start: ContainerCreating")));
        check(waiting("ErrImagePull"), false, Err(&wanting("is waiting to start: image can't be pulled")));
        check(
            waiting("ImagePullBackOff"),
            false,
            Err(&wanting("is waiting to start: trying and failing to pull image")),
        );
        check(json!({}), false, Err(&wanting("is waiting to start - no logs yet")));
        check(json!({"state": {"terminated": {}}}), false, Err(&wanting("is terminated")));
        let missing = "previous terminated container \"c\" in pod \"p\" not found";
        check(json!({"state": {"running": {}}, "containerID": "x://a"}), true, Err(missing));
        let other = log_container(&json!({"metadata": {"name": "p"}}), "c", false).map_err(|error| error.message);
        assert_eq!(other, Err(wanting("is not available")));
    }
}
