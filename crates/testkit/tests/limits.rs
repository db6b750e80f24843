//! Limits, one below and one above, on a real server: upstream's codes and sentences.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use testkit::{RealAnswer, RealServer, config_map, listen_for_complaints};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const MIB: usize = 1 << 20;

/// A server on a directory that lives as long as it.
async fn server() -> (tempfile::TempDir, RealServer) {
    listen_for_complaints();
    let data = tempfile::tempdir().expect("a directory");
    let server = RealServer::start(data.path()).await;
    (data, server)
}

/// What was refused: code, reason, and all that is said about it.
fn refused(answer: &RealAnswer, code: u16, reason: &str, says: &str) {
    let said = answer.body.to_string();
    assert_eq!((answer.code, answer.body["reason"].as_str()), (code, Some(reason)), "{said:.500}");
    assert!(said.contains(says), "{says:?} in {said:.500}");
}

fn text(length: usize) -> String {
    "x".repeat(length)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies() {
    let (_data, server) = server().await;
    let padded = |name: &str, bytes: usize| {
        let mut body = config_map(name, "1").to_string();
        body.push_str(&" ".repeat(bytes - body.len()));
        body
    };
    let largest = 3 * MIB;
    assert_eq!(server.ask(Method::POST, CONFIG_MAPS, JSON, padded("fits", largest)).await.code, 201);
    let answer = server.ask(Method::POST, CONFIG_MAPS, JSON, padded("above", largest + 1)).await;
    refused(&answer, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
    // More than sockets hold: who listens only at the end is told as well.
    let answer = server.ask(Method::POST, CONFIG_MAPS, JSON, padded("above", 4 * largest)).await;
    refused(&answer, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
    assert_eq!(server.get(&format!("{CONFIG_MAPS}/above")).await.code, 404);
    // What is accepted as a body may still be too large for the store.
    let mut large = config_map("large", &text(MIB - 100));
    large["metadata"]["annotations"] = json!({"a": text(250 * 1024)});
    large["metadata"]["labels"] = json!({});
    assert_eq!(server.post(CONFIG_MAPS, &large).await.code, 201);
    server.is_well().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches() {
    let (_data, server) = server().await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 201);
    let at = format!("{CONFIG_MAPS}/a");
    let patch = |operations: Vec<Value>| {
        let (server, at) = (&server, &at);
        async move { server.ask(Method::PATCH, at, "application/json-patch+json", json!(operations).to_string()).await }
    };
    let test = json!({"op": "test", "path": "/data/value", "value": "1"});
    assert_eq!(patch(vec![test.clone(); 10_000]).await.code, 200);
    let says = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    refused(&patch(vec![test; 10_001]).await, 413, "RequestEntityTooLarge", says);
    // Each copy doubles: 2^n bytes after n operations.
    let mut doubling = vec![json!({"op": "add", "path": "/x", "value": [text(1_000)]})];
    doubling.extend((0..40).map(|_| json!({"op": "copy", "from": "/x", "path": "/x/-"})));
    let answer = patch(doubling).await;
    assert!((400..500).contains(&answer.code), "{:.500}", answer.body);
    server.is_well().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_metadata() {
    let (_data, server) = server().await;
    let with = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    let labelled = |name: &str, key: String, value: String| with(json!({"name": name, "labels": {key: value}}));
    let prefix = |length: usize| {
        let labels = vec![text(60); 4].join(".");
        format!("{labels}.{}", text(length - labels.len() - 1))
    };
    let name = |length: usize| with(json!({"name": text(length)}));
    let annotated = |name: &str, bytes: usize| with(json!({"name": name, "annotations": {"a": text(bytes - 1)}}));
    let rows: Vec<(Value, Value, &str, &str)> = vec![
        (name(253), name(254), "metadata.name", "must be no more than 253"),
        (
            labelled("b", text(63), "v".into()),
            labelled("c", text(64), "v".into()),
            "metadata.labels",
            "must be no more than 63",
        ),
        (
            labelled("d", "k".into(), text(63)),
            labelled("e", "k".into(), text(64)),
            "metadata.labels",
            "must be no more than 63",
        ),
        (
            labelled("f", format!("{}/k", prefix(253)), "v".into()),
            labelled("g", format!("{}/k", prefix(254)), "v".into()),
            "metadata.labels",
            "must be no more than 253",
        ),
        (
            annotated("h", 256 * 1024),
            annotated("i", 256 * 1024 + 1),
            "metadata.annotations",
            "may not be more than 262144 bytes",
        ),
    ];
    for (fits, above, field, says) in rows {
        let answer = server.post(CONFIG_MAPS, &fits).await;
        assert_eq!(answer.code, 201, "{field}: {:.500}", answer.body);
        let answer = server.post(CONFIG_MAPS, &above).await;
        refused(&answer, 422, "Invalid", says);
        assert_eq!(answer.body["details"]["causes"][0]["field"], field, "{:.500}", answer.body);
    }
    let namespace =
        |length: usize| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": text(length)}});
    assert_eq!(server.post("/api/v1/namespaces", &namespace(63)).await.code, 201);
    refused(&server.post("/api/v1/namespaces", &namespace(64)).await, 422, "Invalid", "must be no more than 63");
    // A long prefix is cut so that the name fits wherever names are labels.
    let generated = server.post(CONFIG_MAPS, &with(json!({"generateName": text(253)}))).await;
    assert_eq!(generated.code, 201, "{:.500}", generated.body);
    assert_eq!(generated.body["metadata"]["name"].as_str().map(str::len), Some(63));
    server.is_well().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_config_maps_and_secrets() {
    let (_data, server) = server().await;
    let config = |name: &str, bytes: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": text(bytes - 1), "b": "x"}});
    assert_eq!(server.post(CONFIG_MAPS, &config("fits", MIB)).await.code, 201);
    let answer = server.post(CONFIG_MAPS, &config("above", MIB + 1)).await;
    refused(&answer, 422, "Invalid", "Too long: may not be more than 1048576 bytes");
    let secrets = "/api/v1/namespaces/default/secrets";
    // Three bytes of data are four of base64.
    let secret = |name: &str, more: &str| {
        let bulk = "QUFB".repeat(MIB / 3);
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"a": bulk, "b": more}})
    };
    assert_eq!(server.post(secrets, &secret("fits", "QQ==")).await.code, 201);
    let answer = server.post(secrets, &secret("above", "QUE=")).await;
    refused(&answer, 422, "Invalid", "Too long: may not be more than 1048576 bytes");
    assert_eq!(answer.body["details"]["causes"][0]["field"], "data");
    server.is_well().await;
    server.stop().await;
}

/// An object of a kind that takes anything, nested `levels` deep in all.
fn nested(name: &str, levels: usize) -> String {
    let (open, close) = ("{\"a\":".repeat(levels - 2), "}".repeat(levels - 2));
    format!(
        "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Foo\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"a\":{open}1{close}}}}}"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nesting() {
    let (_data, server) = server().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    });
    assert_eq!(server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.code, 201);
    let foos = "/apis/example.com/v1/foos";
    while server.get(foos).await.code == 404 {
        tokio::task::yield_now().await;
    }
    // 490: the record of the owners of the deepest field is nested a few levels deeper than the field.
    for levels in [127, 128, 129, 490] {
        let (name, at) = (format!("f{levels}"), format!("{foos}/f{levels}"));
        let answer = server.ask(Method::POST, foos, JSON, nested(&name, levels)).await;
        assert_eq!(answer.code, 201, "{levels}: {:.300}", answer.body);
        for (content_type, patch) in [
            ("application/merge-patch+json", r#"{"metadata":{"labels":{"a":"b"}}}"#.to_owned()),
            ("application/json-patch+json", r#"[{"op":"add","path":"/metadata/labels/c","value":"d"}]"#.to_owned()),
            (
                "application/apply-patch+yaml",
                r#"{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"labels":{"e":"f"}}}"#.to_owned(),
            ),
        ] {
            let answer = server.ask(Method::PATCH, &format!("{at}?fieldManager=x"), content_type, patch).await;
            assert_eq!(answer.code, 200, "{levels} {content_type}: {:.300}", answer.body);
        }
        let answer = server.ask(Method::GET, &at, JSON, Bytes::new()).await;
        assert_eq!(answer.code, 200);
        let table = http::Request::get(foos).header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
        assert_eq!(server.send(table.body(Bytes::new()).expect("a request")).await.code, 200);
        assert_eq!(server.ask(Method::DELETE, &at, JSON, Bytes::new()).await.code, 200);
    }
    for levels in [501, 9_999, 10_001, 400_000] {
        let answer = server.ask(Method::POST, foos, JSON, nested("deep", levels)).await;
        refused(&answer, 400, "BadRequest", "exceeded max depth");
        let answer = server.ask(Method::POST, foos, "application/yaml", nested("deep", levels)).await;
        assert_eq!(answer.code, 400, "{:.300}", answer.body);
    }
    server.is_well().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn managers() {
    let (_data, server) = server().await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("a", "1")).await.code, 201);
    let mut newest = Value::Null;
    for at in 0..14 {
        let patch = json!({"data": {format!("k{at}"): "v"}}).to_string();
        let path = format!("{CONFIG_MAPS}/a?fieldManager=m{at}");
        newest = server.ask(Method::PATCH, &path, "application/merge-patch+json", patch).await.body;
    }
    let managers = newest["metadata"]["managedFields"].as_array().expect("managers");
    let updaters = managers.iter().filter(|manager| manager["operation"] == "Update").count();
    assert_eq!(updaters, 10, "{managers:?}");
    assert!(managers.iter().any(|manager| manager["manager"] == "ancient-changes"));
    let too_long = format!("{CONFIG_MAPS}/a?fieldManager={}", text(129));
    let answer = server.ask(Method::PATCH, &too_long, "application/merge-patch+json", "{}").await;
    assert!(matches!(answer.code, 400 | 422), "{}", answer.body);
    let fits = format!("{CONFIG_MAPS}/a?fieldManager={}", text(128));
    assert_eq!(server.ask(Method::PATCH, &fits, "application/merge-patch+json", "{}").await.code, 200);
    server.is_well().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_and_headers() {
    let (_data, server) = server().await;
    for at in 0..5 {
        assert_eq!(server.post(CONFIG_MAPS, &config_map(&format!("c{at}"), "1")).await.code, 201);
    }
    let page = server.get(&format!("{CONFIG_MAPS}?limit=2")).await.body;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
    let token = page["metadata"]["continue"].as_str().expect("a token");
    // A token of one collection is none of another.
    let other = server.get(&format!("/api/v1/namespaces/kube-system/configmaps?limit=2&continue={token}")).await;
    refused(&other, 400, "BadRequest", "continue key is not valid");
    let all = server.get(&format!("{CONFIG_MAPS}?limit=9223372036854775807")).await.body;
    assert!(all["metadata"]["continue"].is_null());
    let headed = |bytes: usize| {
        let request = http::Request::get("/readyz").header("x-filler", text(bytes));
        request.body(Bytes::new()).expect("a request")
    };
    assert_eq!(server.send(headed(60 * 1024)).await.code, 200);
    assert_eq!(server.send(headed(80 * 1024)).await.code, 431);
    server.is_well().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers() {
    let (_data, server) = server().await;
    let with = |bytes: usize| {
        let request = http::Request::get("/version").header("x-long", text(bytes)).body(Bytes::new());
        server.send(request.expect("a request"))
    };
    assert_eq!(with(60 * 1024).await.code, 200);
    assert_eq!(with(65 * 1024).await.code, 431);
    server.is_well().await;
    server.stop().await;
}

/// Owners that nobody can read do not replace those that there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_that_make_no_sense() {
    let (_data, server) = server().await;
    assert_eq!(server.post(CONFIG_MAPS, &config_map("owned", "1")).await.code, 201);
    let at = format!("{CONFIG_MAPS}/owned");
    let managers = |body: &Value| -> Vec<String> {
        let entries = body["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries.iter().map(|entry| entry["manager"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let before = managers(&server.get(&at).await.body);
    assert_eq!(before, ["test"]);
    let entry = |more: Value| {
        let mut entry = json!({"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}}});
        more.as_object().expect("fields").iter().for_each(|(field, value)| entry[field] = value.clone());
        entry
    };
    for wrong in [
        json!({"operation": "Frob"}),
        json!({"apiVersion": ""}),
        json!({"fieldsType": "FieldsV2"}),
        json!({"fieldsType": ""}),
        json!({"fieldsV1": {"k:{": {}}}),
        json!({"fieldsV1": "garbage"}),
        json!({"fieldsV1": [1]}),
    ] {
        let patch = json!({"metadata": {"managedFields": [entry(wrong.clone())]}}).to_string();
        let answer = server.ask(Method::PATCH, &at, "application/merge-patch+json", patch).await;
        assert_eq!(answer.code, 200, "{wrong}: {:.500}", answer.body);
        assert_eq!(managers(&answer.body), before, "{wrong}");
    }
    server.is_well().await;
    server.stop().await;
}
