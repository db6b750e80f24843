//! Faults that unmodified clients found: each has a test here.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use testkit::Cluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    });
    for (field, value) in spec.as_object().expect("a map") {
        object["spec"][field] = value.clone();
    }
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_get_addresses_and_node_ports_of_their_own() {
    let cluster = std::sync::Arc::new(Cluster::api().await);
    let mut writers = tokio::task::JoinSet::new();
    for at in 0..30 {
        let cluster = std::sync::Arc::clone(&cluster);
        writers.spawn(async move {
            let kind = if at % 2 == 0 { "ClusterIP" } else { "NodePort" };
            cluster.create(&service(&format!("s{at}"), json!({"type": kind}))).await
        });
    }
    let made = writers.join_all().await;
    let addresses: BTreeSet<&str> = made.iter().filter_map(|s| s["spec"]["clusterIP"].as_str()).collect();
    assert_eq!(addresses.len(), 30);
    let ports: BTreeSet<i64> = made.iter().filter_map(|s| s["spec"]["ports"][0]["nodePort"].as_i64()).collect();
    assert_eq!(ports.len(), 15);
    assert!(ports.iter().all(|port| (30_000..=32_767).contains(port)));
    assert!(
        made.iter().all(|s| s["spec"]["ipFamilies"] == json!(["IPv4"]) && s["spec"]["ipFamilyPolicy"] == "SingleStack")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_may_ask_for_what_nobody_has() {
    let cluster = Cluster::api().await;
    cluster
        .create(&service(
            "a",
            json!({"clusterIP": "10.96.0.7", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]}),
        ))
        .await;
    let refused = |spec: Value| async {
        let answer = cluster.post(SERVICES, &service("b", spec)).await;
        (answer.code, answer.body["message"].as_str().unwrap_or("").to_owned())
    };
    let (code, message) = refused(json!({"clusterIP": "10.96.0.7"})).await;
    assert_eq!(code, 422);
    assert!(message.contains("failed to allocate IP 10.96.0.7: provided IP is already allocated"), "{message}");
    let (_, message) = refused(json!({"clusterIP": "192.0.2.1"})).await;
    assert!(message.contains("is not in the valid range. The range of valid IPs is 10.96.0.0/12"), "{message}");
    let (_, message) = refused(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]})).await;
    assert!(
        message.contains("spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated"),
        "{message}"
    );
    let (_, message) = refused(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]})).await;
    assert!(
        message.contains("provided port is not in the valid range. The range of valid ports is 30000-32767"),
        "{message}"
    );
    assert_eq!(cluster.delete(&format!("{SERVICES}/a")).await.code, 200);
    cluster.create(&service("b", json!({"clusterIP": "10.96.0.7"}))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_keeps_its_address_until_its_type_has_none() {
    let cluster = Cluster::api().await;
    let first = cluster.create(&service("a", json!({}))).await["spec"]["clusterIP"].clone();
    let path = format!("{SERVICES}/a");
    let again = cluster.put(&path, &service("a", json!({"type": "NodePort"}))).await.body;
    assert_eq!(again["spec"]["clusterIP"], first);
    assert!(again["spec"]["ports"][0]["nodePort"].is_i64());
    let named = json!({"spec": {"type": "ExternalName", "externalName": "a.example", "ports": null}});
    let answer = cluster.send(Method::PATCH, &path, "application/merge-patch+json", &named).await;
    assert_eq!((answer.code, &answer.body["spec"]["clusterIP"]), (200, &Value::Null), "{}", answer.body);
    let headless = cluster.create(&service("b", json!({"clusterIP": "None"}))).await;
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_no_node_runs_goes_at_once() {
    let cluster = Cluster::api().await;
    cluster.create(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}})).await;
    cluster
        .create(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }))
        .await;
    let path = "/api/v1/namespaces/default/pods/p";
    assert_eq!(cluster.delete(&format!("{path}?gracePeriodSeconds=1")).await.code, 200);
    assert_eq!(cluster.get(path).await.code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_request_says_who_asked_and_can_be_approved() {
    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let cluster = Cluster::api().await;
    let made = cluster
        .create(&json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "c"},
            "spec": {
                "signerName": "example.com/signer", "usages": ["client auth"], "username": "somebody else",
                "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQgotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K",
            },
        }))
        .await;
    assert_eq!(made["spec"]["username"], "admin");
    assert_eq!(made["spec"]["groups"], json!(["system:masters", "system:authenticated"]));
    let mut approved = made.clone();
    approved["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]});
    let answer = cluster.put(&format!("{REQUESTS}/c/approval"), &approved).await;
    assert_eq!(
        (answer.code, &answer.body["status"]["conditions"][0]["type"]),
        (200, &json!("Approved")),
        "{}",
        answer.body
    );
    let stored = cluster.get(&format!("{REQUESTS}/c")).await.body;
    assert_eq!(stored["status"]["conditions"][0]["status"], "True");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn component_statuses_can_be_read() {
    let cluster = Cluster::api().await;
    let all = cluster.get("/api/v1/componentstatuses").await;
    assert_eq!((all.code, all.body["items"].as_array().map(Vec::len)), (200, Some(3)));
    let one = cluster.get("/api/v1/componentstatuses/scheduler").await;
    assert_eq!(one.body["conditions"][0]["status"], "True");
    assert_eq!(cluster.get("/api/v1/componentstatuses/none").await.code, 404);
}
