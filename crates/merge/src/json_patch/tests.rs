use super::*;
use crate::PatchErrorKind;
use serde_json::json;

fn patched(doc: Value, patch: Value) -> Result<Value, PatchError> {
    let mut doc = doc;
    apply(&mut doc, &patch, &Limits::default()).map(|()| doc)
}

#[test]
fn operations_change_the_document() {
    let check = |doc: Value, patch: Value, expected: Value| assert_eq!(patched(doc, patch).expect("applies"), expected);
    check(json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": [1]}]), json!({"a": 1, "b": [1]}));
    check(json!({"a": [1, 3]}), json!([{"op": "add", "path": "/a/1", "value": 2}]), json!({"a": [1, 2, 3]}));
    check(json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]}));
    check(json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]}));
    check(json!({"a": {"b/c": 1}}), json!([{"op": "remove", "path": "/a/b~1c"}]), json!({"a": {}}));
    check(json!({"~1": 1}), json!([{"op": "replace", "path": "/~01", "value": 2}]), json!({"~1": 2}));
    check(json!({"a": {}}), json!([{"op": "replace", "path": "/a/new", "value": 2}]), json!({"a": {"new": 2}}));
    check(json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1}));
    check(json!({"a": [1]}), json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": [1], "b": [1]}));
    check(json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1}]), json!({"a": 1}));
    check(json!({"a": 1}), json!([{"op": "test", "path": "/b", "value": null}]), json!({"a": 1}));
    check(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 2}}]), json!({"b": 2}));
    check(json!({"a": 1}), json!([{"op": "add", "path": "/b"}]), json!({"a": 1, "b": null}));
    check(json!({"a": 1}), json!(null), json!({"a": 1}));
}

#[test]
fn refusals_read_like_upstream() {
    let check = |patch: Value, kind: PatchErrorKind, detail: &str| {
        let doc = json!({"spec": {"replicas": 1}, "list": [1]});
        let error = patched(doc, patch).expect_err("refused");
        assert_eq!((error.kind, error.detail.as_str()), (kind, detail));
    };
    let bad = PatchErrorKind::Unprocessable;
    check(
        json!([{"op": "replace", "path": "/spec/a/b", "value": 1}]),
        bad,
        "replace operation does not apply: doc is missing path: /spec/a/b: missing value",
    );
    check(
        json!([{"op": "add", "path": "/spec/a/b", "value": 1}]),
        bad,
        "add operation does not apply: doc is missing path: \"/spec/a/b\": missing value",
    );
    check(
        json!([{"op": "remove", "path": "/spec/x"}]),
        bad,
        "error in remove for path: '/spec/x': Unable to remove nonexistent key: x: missing value",
    );
    check(
        json!([{"op": "replace", "path": "/list/7", "value": 1}]),
        bad,
        "replace operation does not apply: doc is missing key: /list/7: missing value",
    );
    check(
        json!([{"op": "test", "path": "/spec/replicas", "value": 2}]),
        bad,
        "testing value /spec/replicas failed: test failed",
    );
    check(
        json!([{"op": "add", "path": "/list/5", "value": 2}]),
        bad,
        "error in add for path: '/list/5': Unable to access invalid index: 5: invalid index referenced",
    );
    check(json!([{"op": "frob", "path": "/a"}]), bad, "Unexpected kind: frob");
    check(json!([{"op": "add"}]), bad, "add operation failed to decode path: missing value");
    check(json!([{"op": "replace", "path": "", "value": 1}]), bad, "replace operation value must be object or array");
    let malformed = PatchErrorKind::Malformed;
    check(
        json!({"op": "add"}),
        malformed,
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    );
    check(
        json!([{"op": 1}]),
        malformed,
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
    );
}

#[test]
fn the_answer_hides_the_detail() {
    let error = patched(json!({}), json!([{"op": "remove", "path": "/x"}])).expect_err("refused");
    let answer = meta::ApiError::from(error);
    assert_eq!((answer.code, answer.reason), (422, Some(meta::Reason::Invalid)));
    assert_eq!(answer.message, "the server rejected our request due to an error in our request");
}

#[test]
fn too_many_operations_are_refused() {
    let operation = json!({"op": "test", "path": "/a", "value": 1});
    let check = |count: usize, fits: bool| {
        let patch = Value::Array(vec![operation.clone(); count]);
        assert_eq!(patched(json!({"a": 1}), patch).is_ok(), fits, "{count} operations");
    };
    check(10_000, true);
    check(10_001, false);
    let error = patched(json!({"a": 1}), Value::Array(vec![operation; 10_001])).expect_err("refused");
    let answer = meta::ApiError::from(error);
    assert_eq!(answer.code, 413);
    assert_eq!(
        answer.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn copies_cannot_grow_without_bound() {
    let copy = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let doc = json!({"a": ["x".repeat(1000)]});
    let error = patched(doc, Value::Array(vec![copy; 40])).expect_err("doubles each time");
    assert!(error.detail.contains("exceeding the limit 3145728") || error.detail.contains("nested deeper"));
    let wide = json!({"op": "copy", "from": "/a", "path": "/b/-"});
    let doc = json!({"a": "x".repeat(1000), "b": []});
    assert!(patched(doc.clone(), Value::Array(vec![wide.clone(); 3000])).is_ok());
    assert!(patched(doc, Value::Array(vec![wide; 3200])).is_err());
}

#[test]
fn nesting_is_bounded() {
    let nest = json!({"op": "copy", "from": "/a", "path": "/a/b"});
    let depth = meta::stored::DEPTH_MAX;
    // The object and its field are levels of their own.
    assert!(patched(json!({"a": {}}), Value::Array(vec![nest.clone(); depth - 2])).is_ok());
    let error = patched(json!({"a": {}}), Value::Array(vec![nest; depth + 1])).err().map(|error| error.detail);
    assert_eq!(error, Some(format!("the result is nested deeper than {depth} levels")));
}

#[test]
fn work_on_long_lists_is_bounded() {
    let limits = Limits { work: 1000, ..Limits::default() };
    let insert = json!({"op": "add", "path": "/a/0", "value": 1});
    let mut doc = json!({"a": vec![0; 300]});
    let error = apply(&mut doc, &Value::Array(vec![insert; 10]), &limits).expect_err("too much");
    assert_eq!(error.kind, PatchErrorKind::TooLarge);
}
