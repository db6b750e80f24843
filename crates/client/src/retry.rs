//! When a server says "later": which answers are worth waiting for, and how long.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};

/// How often one request is sent again (client-go: 10; here a controller's own backoff comes on top).
pub const RETRIES_MAX: u32 = 5;
/// Longest wait that is obeyed: whoever asks for more is asked again by the controller's next turn.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How long to wait before the same request is sent again; `None` when the answer is final. Evictions are never
/// repeated here: their 429 means that a budget forbids it, which is the caller's business.
pub fn wait(path: &str, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    if !is_busy || path.ends_with("/eviction") {
        return None;
    }
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_done_is_tried_again() {
        let check = |path: &str, status: u16, after: Option<&'static str>, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            if let Some(after) = after {
                headers.insert(RETRY_AFTER, after.parse().expect("a header"));
            }
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(wait(path, status, &headers), expected.map(Duration::from_secs), "{path} {status} {after:?}");
        };
        check("/api/v1/pods", 429, Some("1"), Some(1));
        check("/api/v1/pods", 503, Some("2"), Some(2));
        check("/api/v1/pods", 503, Some("86400"), Some(30));
        check("/api/v1/pods", 503, None, None);
        check("/api/v1/pods", 503, Some("Fri, 31 Dec 1999 23:59:59 GMT"), None);
        check("/api/v1/pods", 200, Some("1"), None);
        check("/api/v1/pods", 409, Some("1"), None);
        check("/api/v1/namespaces/a/pods/b/eviction", 429, Some("10"), None);
    }
}
