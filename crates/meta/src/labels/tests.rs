//! What selectors accept, refuse, match and print.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn set(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn the_text_form_is_read_and_printed() {
    let check = |text: &str, printed: &str| assert_eq!(Selector::parse(text).unwrap().to_string(), printed, "{text:?}");
    for text in ["x=a,y=b,z=c", "", "x!=a,y=b", "x=", "x= ", "x=,z= ", "x= ,z= ", "x>1", "x<1", "!x", "x", "a.b/c"] {
        check(text, &text.replace(' ', ""));
    }
    check("x==a", "x=a");
    check("z=1, a=2", "a=2,z=1");
    check(" x ,! y ", "x,!y");
    check("x in (c,a,b)", "x in (a,b,c)");
    check("x notin ()", "x notin ()");
    check("x in (,)", "x in ()");
    check("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()");
    check("in in (in),notin notin (notin)", "in in (in),notin notin (notin)");
    check("x in (a,)", "x in (,a)");
    check("x = in", "x=in");
    check("a\0=b", "a=b");
    check("a,b\0\0=b", "a,b");
}

#[test]
fn bad_text_is_refused_in_upstreams_words() {
    let check = |text: &str, sentence: &str| {
        let error = Selector::parse(text).unwrap_err();
        assert!(error.starts_with(sentence), "{text:?}: {error}");
    };
    check(",", "found ',', expected: !, identifier, or 'end of string'");
    check("x,", "found '', expected: identifier after ','");
    check("x=a,,y", "found ',', expected: identifier after ','");
    check("x=a b", "found 'b', expected: ',' or 'end of string'");
    check("x==a==b", "found '==', expected: ',' or 'end of string'");
    check("!x=a", "found '=', expected: ',' or 'end of string'");
    check("!", "unable to parse requirement: found '', expected: identifier");
    check("x a", "unable to parse requirement: found 'a', expected: in, notin, =, ==, !=, gt, lt");
    check("x in a", "unable to parse requirement: found 'a' expected: '('");
    check("x in (", "unable to parse requirement: found '', expected: ',', ')' or identifier");
    check("x in (a", "unable to parse requirement: found '', expected: ',' or ')'");
    check("x in (a,", "unable to parse requirement: found '', expected: ',', or identifier");
    check("x=(", "unable to parse requirement: found '(', expected: identifier");
    check(
        "a*=b",
        "unable to parse requirement: <nil>: Invalid value: \"a*\": name part must consist of alphanumeric characters",
    );
    check(
        "x=b*",
        "unable to parse requirement: values[0][x]: Invalid value: \"b*\": a valid label must be an empty string or",
    );
    check(
        "x>a",
        "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be an \
         integer",
    );
}

#[test]
fn selectors_match() {
    let check = |text: &str, labels: &[(&str, &str)], expected: bool| {
        assert_eq!(Selector::parse(text).unwrap().matches(&set(labels)), expected, "{text:?} {labels:?}");
    };
    check("", &[("x", "y")], true);
    check("x=y", &[("x", "y")], true);
    check("x=y,z=w", &[("x", "y"), ("z", "w")], true);
    check("x!=y,z!=w", &[("x", "z"), ("z", "a")], true);
    check("x!=y", &[], true);
    check("notin=in", &[("notin", "in")], true);
    check("x", &[("x", "z")], true);
    check("!x", &[("y", "z")], true);
    check("!x", &[("x", "z")], false);
    check("x in (a,b)", &[("x", "b")], true);
    check("x in (a,b)", &[("x", "c")], false);
    check("x in ()", &[("x", "")], true);
    check("x notin (a,b)", &[("x", "a")], false);
    check("x notin (a,b)", &[], true);
    check("x>1", &[("x", "2")], true);
    check("x>1", &[("x", "1")], false);
    check("x<7", &[("x", "-3")], true);
    check("x<7", &[("x", "seven")], false);
    check("x<7", &[], false);
    assert!(!Selector::nothing().matches(&set(&[("x", "y")])));
    assert!(Selector::everything().matches(&None::<&BTreeMap<String, String>>));
}

#[test]
fn the_object_form_is_read() {
    let read = |selector: Value| Selector::from_label_selector(Some(&selector));
    assert_eq!(Selector::from_label_selector(None), Ok(Selector::nothing()));
    assert_eq!(read(Value::Null), Ok(Selector::nothing()));
    assert!(read(json!({})).unwrap().is_everything());
    let full = json!({"matchLabels": {"foo": "bar"}, "matchExpressions": [
        {"key": "baz", "operator": "In", "values": ["qux", "norf"]},
        {"key": "one", "operator": "In", "values": ["a"]},
        {"key": "not", "operator": "NotIn", "values": ["a"]},
        {"key": "here", "operator": "Exists"},
        {"key": "gone", "operator": "DoesNotExist", "values": []},
    ]});
    assert_eq!(read(full).unwrap().to_string(), "baz in (norf,qux),foo=bar,!gone,here,not notin (a),one in (a)");
    let check = |expression: Value, sentence: &str| {
        assert_eq!(read(json!({"matchExpressions": [expression]})), Err(sentence.to_owned()));
    };
    check(json!({"key": "a", "operator": "Gt", "values": ["1"]}), "\"Gt\" is not a valid label selector operator");
    check(
        json!({"key": "a", "operator": "In"}),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
    );
    check(
        json!({"key": "a", "operator": "Exists", "values": ["b"]}),
        "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist",
    );
}

#[test]
fn the_object_form_is_validated() {
    let check = |selector: Value, expected: &[&str]| {
        let errors = Selector::validate(&selector, &FieldPath::ROOT.field("spec").field("selector"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, start) in texts.iter().zip(expected) {
            assert!(text.starts_with(start), "{text}");
        }
    };
    check(Value::Null, &[]);
    check(json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}), &[]);
    check(json!({"matchLabels": {"a b": "c"}}), &["spec.selector.matchLabels: Invalid value: \"a b\": name part must"]);
    check(json!({"matchLabels": {"a": "b c"}}), &["spec.selector.matchLabels: Invalid value: \"b c\": a valid label"]);
    check(
        json!({"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "", "operator": "Foo"},
            {"key": "c", "operator": "Exists", "values": ["d e"]}]}),
        &[
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is",
            "spec.selector.matchExpressions[1].operator: Invalid value: \"Foo\": not a valid selector operator",
            "spec.selector.matchExpressions[1].key: Invalid value: \"\": name part must be non-empty",
            "spec.selector.matchExpressions[1].key: Invalid value: \"\": name part must consist of",
            "spec.selector.matchExpressions[2].values: Forbidden: may not be specified when `operator` is",
            "spec.selector.matchExpressions[2].values[0]: Invalid value: \"d e\": a valid label must be",
        ],
    );
}

#[test]
fn plain_maps_are_conjunctions() {
    let pairs = json!({"b": "2", "a": "1"});
    let selector = Selector::from_map(pairs.as_object().unwrap());
    assert_eq!(selector.to_string(), "a=1,b=2");
    assert!(selector.matches(&set(&[("a", "1"), ("b", "2"), ("c", "3")])));
    assert!(!selector.matches(&set(&[("a", "1")])));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-c!=<>(), \tin\x00é/*]{0,24}") {
        if let Ok(selector) = Selector::parse(&text) {
            prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
