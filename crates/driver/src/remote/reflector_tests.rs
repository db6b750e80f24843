//! The protocol, question by question.

use super::*;
use serde_json::json;

fn object(name: &str, revision: u64) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": revision.to_string()}})
}

fn event(kind: &str, name: &str, revision: u64) -> Answer {
    Answer::Event { kind: kind.to_owned(), object: object(name, revision) }
}

fn end_of_initial_events(revision: u64) -> Answer {
    let metadata =
        json!({"resourceVersion": revision.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}});
    Answer::Event { kind: "BOOKMARK".to_owned(), object: json!({"metadata": metadata}) }
}

fn page(names: &[(&str, u64)], revision: u64, more: Option<&str>) -> Answer {
    let items = names.iter().map(|(name, revision)| object(name, *revision)).collect();
    Answer::Page { items, revision: Revision(revision), more: more.map(str::to_owned) }
}

const FILL: &str =
    "watch=1&allowWatchBookmarks=true&timeoutSeconds=1800&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

/// The next question, shortened: `fill`, `watch REVISION`, `list [CONTINUE]`.
fn asked(reflector: &mut Reflector) -> String {
    match reflector.ask(0) {
        Ask::Watch { query } if query == FILL => "fill".to_owned(),
        Ask::Watch { query } => {
            let revision = query.strip_prefix("watch=1&allowWatchBookmarks=true&timeoutSeconds=1800&resourceVersion=");
            format!("watch {}", revision.expect("a watch from a revision"))
        }
        Ask::List { query } => query.replacen("limit=500", "list", 1).replacen("&continue=", " ", 1),
    }
}

fn followed(revision: u64) -> Reflector {
    let mut reflector = Reflector::default();
    assert_eq!(asked(&mut reflector), "fill");
    assert_eq!(reflector.hear(end_of_initial_events(revision)), Some(Effect::Replace(Vec::new(), Revision(revision))));
    reflector
}

#[test]
fn initial_events_fill_the_copy_and_the_same_stream_goes_on() {
    let mut reflector = Reflector::default();
    assert_eq!(asked(&mut reflector), "fill");
    assert_eq!(reflector.hear(event("ADDED", "a", 3)), None);
    assert_eq!(reflector.hear(event("ADDED", "b", 5)), None);
    let all = vec![object("a", 3), object("b", 5)];
    assert_eq!(reflector.hear(end_of_initial_events(9)), Some(Effect::Replace(all, Revision(9))));
    assert_eq!(reflector.hear(event("MODIFIED", "a", 11)), Some(Effect::Put(object("a", 11), Revision(11))));
    assert_eq!(reflector.hear(event("DELETED", "b", 12)), Some(Effect::Delete(object("b", 12), Revision(12))));
    assert_eq!(reflector.hear(event("BOOKMARK", "", 40)), Some(Effect::Through(Revision(40))));
    assert_eq!(reflector.hear(Answer::Ended), None);
    assert_eq!(reflector.wait(0), Duration::ZERO, "a stream that said something is followed by the next");
    assert_eq!(asked(&mut reflector), "watch 40");
}

#[test]
fn a_server_without_initial_events_is_listed_page_by_page() {
    for code in [400, 422] {
        let mut reflector = Reflector::default();
        assert_eq!(asked(&mut reflector), "fill");
        assert_eq!(reflector.hear(Answer::Refused { code }), None);
        assert_eq!(reflector.wait(0), Duration::ZERO);
        assert_eq!(asked(&mut reflector), "list");
        assert_eq!(reflector.hear(page(&[("a", 3)], 9, Some("x/y="))), None);
        assert_eq!(asked(&mut reflector), "list x%2Fy%3D");
        let all = vec![object("a", 3), object("b", 5)];
        assert_eq!(reflector.hear(page(&[("b", 5)], 9, None)), Some(Effect::Replace(all, Revision(9))));
        assert_eq!(asked(&mut reflector), "watch 9");
    }
}

#[test]
fn what_cannot_be_continued_begins_anew() {
    // As an answer, and as an event of a stream under way.
    let expired = Answer::Event { kind: "ERROR".to_owned(), object: json!({"kind": "Status", "code": 410}) };
    for answer in [Answer::Refused { code: 410 }, expired] {
        let mut reflector = followed(7);
        assert_eq!(asked(&mut reflector), "watch 7");
        assert_eq!(reflector.hear(answer), None);
        assert!(reflector.wait(0) > Duration::ZERO);
        assert_eq!(asked(&mut reflector), "fill");
    }
    // A continue token that has expired: the pages so far are worth nothing.
    let mut reflector = Reflector { lists: true, ..Reflector::default() };
    assert_eq!(asked(&mut reflector), "list");
    reflector.hear(page(&[("a", 3)], 9, Some("x")));
    reflector.hear(Answer::Refused { code: 410 });
    assert_eq!(asked(&mut reflector), "list");
    assert_eq!(reflector.hear(page(&[], 20, None)), Some(Effect::Replace(Vec::new(), Revision(20))));
}

#[test]
fn a_stream_that_breaks_while_filling_is_not_the_whole() {
    let mut reflector = Reflector::default();
    asked(&mut reflector);
    reflector.hear(event("ADDED", "a", 3));
    assert_eq!(reflector.hear(Answer::Ended), None);
    assert_eq!(asked(&mut reflector), "fill");
    assert_eq!(reflector.hear(end_of_initial_events(9)), Some(Effect::Replace(Vec::new(), Revision(9))));
}

#[test]
fn a_lost_server_is_asked_for_the_rest() {
    let mut reflector = followed(7);
    let mut waits = Vec::new();
    for code in [0, 503, 500, 429, 0, 0, 0, 0, 0, 0] {
        assert_eq!(asked(&mut reflector), "watch 7");
        assert_eq!(reflector.hear(Answer::Refused { code }), None);
        waits.push(reflector.wait(0).as_millis());
    }
    assert_eq!(waits, [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000, 5_000, 5_000]);
    assert_eq!(reflector.wait(4_999_999).as_secs(), 9, "dice spread the waits");
    assert_eq!(asked(&mut reflector), "watch 7");
    assert_eq!(reflector.hear(event("ADDED", "a", 8)), Some(Effect::Put(object("a", 8), Revision(8))));
    assert_eq!(reflector.wait(0), Duration::ZERO);
    // A server that ends every stream at once is not asked in a circle.
    asked(&mut reflector);
    reflector.hear(Answer::Ended);
    assert!(reflector.wait(0) > Duration::ZERO);
}

#[test]
fn what_the_server_lacks_is_absent_but_not_once_it_was_there() {
    for code in [403, 404, 405] {
        let mut reflector = Reflector::default();
        asked(&mut reflector);
        assert_eq!(reflector.hear(Answer::Refused { code }), Some(Effect::Absent), "{code}");
        assert!(reflector.wait(0) >= Duration::from_secs(300));
        assert_eq!(asked(&mut reflector), "fill");

        let mut reflector = followed(7);
        asked(&mut reflector);
        assert_eq!(reflector.hear(Answer::Refused { code }), None, "a server that starts may say {code}");
        assert!(reflector.wait(0) < Duration::from_secs(1));
    }
}

#[test]
fn deletions_among_the_initial_events_are_marked() {
    let mut reflector = Reflector::default();
    asked(&mut reflector);
    reflector.hear(event("ADDED", "a", 3));
    reflector.hear(event("DELETED", "a", 4));
    let Some(Effect::Replace(all, _)) = reflector.hear(end_of_initial_events(9)) else { panic!("whole") };
    assert!(all[0].get(GONE).is_none() && all[1].get(GONE).is_some());
}

#[test]
fn a_server_that_does_not_know_initial_events_is_found_out() {
    let mut reflector = Reflector::default();
    asked(&mut reflector);
    reflector.hear(event("ADDED", "a", 3));
    assert!(reflector.is_streaming());
    assert_eq!(reflector.hear(event("BOOKMARK", "", 9)), None);
    assert!(!reflector.is_streaming());
    assert_eq!(asked(&mut reflector), "list");
}
