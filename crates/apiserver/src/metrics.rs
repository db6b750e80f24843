//! `metrics.k8s.io`: what nodes and pods use, asked of the nodes when somebody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{Answer, Body, ListAnswer, Payload, Request, Target};
use meta::{ApiError, GroupResource, Gvr, ObjectExt};
use serde_json::{Value, json};
use store::{Entry, Revision};
use tokio::task::JoinSet;

use crate::app::App;
use crate::nodes::{NodeUsage, Used};
use crate::shell;

/// The group of these kinds.
pub const GROUP: &str = "metrics.k8s.io";
/// How long a node may take to measure: it may have to look twice, a second apart.
const NODE_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers GET of one and of all. The pods and nodes are those that the same request would get or list.
pub async fn answer(app: &Arc<App>, request: &Request) -> Result<Answer, ApiError> {
    let measured = &request.target.kind;
    let core = app.catalog().resource(&Gvr::new("", "v1", &*measured.plural)).cloned();
    let kind = core.ok_or_else(|| ApiError::internal("the measured kind is not served"))?;
    let asked = Request {
        user: Arc::clone(&request.user),
        verb: request.verb,
        target: Target { kind, ..request.target.clone() },
        options: request.options.clone(),
        body: Payload::default(),
        agent: String::new(),
    };
    let (entries, list) = match shell::run(app, &asked).await?.body {
        Body::Entry(entry) => (vec![entry], None),
        Body::List(list) => (list.entries.clone(), Some((list.revision, list.page))),
        _ => return Err(ApiError::internal("the measured objects cannot be read")),
    };
    let objects: Vec<Value> = entries.iter().filter_map(|entry| serde_json::from_slice(&entry.value).ok()).collect();
    let is_pods = &*measured.kind == "PodMetrics";
    let used = ask_nodes(app, &objects, is_pods).await;
    let shown = objects.iter().filter_map(|object| if is_pods { pod(object, &used) } else { node(object, &used) });
    let mut shown = shown.map(|tree| entry(&tree));
    let body = match list {
        Some((revision, page)) => {
            let entries = shown.collect();
            Body::List(Box::new(ListAnswer { kind: Arc::clone(measured), revision, entries, page }))
        }
        None => {
            let resource = GroupResource::new(GROUP, measured.kind.to_lowercase());
            Body::Entry(shown.next().ok_or_else(|| ApiError::not_found(&resource, &request.target.name))?)
        }
    };
    Ok(Answer { code: 200, body, warnings: Vec::new() })
}

/// All nodes that matter, at the same time. A node that does not answer has nothing to show.
async fn ask_nodes(app: &Arc<App>, objects: &[Value], is_pods: bool) -> BTreeMap<String, NodeUsage> {
    let name = |object: &Value| if is_pods { object.text(&["spec", "nodeName"]) } else { object.name() }.to_owned();
    let names: BTreeSet<String> = objects.iter().map(name).collect();
    let mut asked = JoinSet::new();
    for name in names {
        let Ok(hand) = app.hand(&name) else { continue };
        asked.spawn(async move { (name, tokio::time::timeout(NODE_TIMEOUT, hand.usage()).await) });
    }
    let answers = asked.join_all().await;
    answers.into_iter().filter_map(|(name, answer)| Some((name, answer.ok()?.ok()?))).collect()
}

fn node(node: &Value, used: &BTreeMap<String, NodeUsage>) -> Option<Value> {
    let usage = used.get(node.name())?;
    let mut tree = head("NodeMetrics", node, usage);
    tree["usage"] = quantities(&usage.node);
    Some(tree)
}

fn pod(pod: &Value, used: &BTreeMap<String, NodeUsage>) -> Option<Value> {
    let usage = used.get(pod.text(&["spec", "nodeName"]))?;
    // A pod that the node has made itself is known there by the hash of its manifest.
    let uid = pod.annotation(admit::pod_refs::MIRROR_ANNOTATION).unwrap_or(pod.uid());
    let containers = usage.pods.get(uid).filter(|containers| !containers.is_empty())?;
    let mut tree = head("PodMetrics", pod, usage);
    tree["containers"] =
        containers.iter().map(|(name, used)| json!({"name": name, "usage": quantities(used)})).collect();
    Some(tree)
}

fn head(kind: &str, object: &Value, usage: &NodeUsage) -> Value {
    let at = usage.at.to_rfc3339();
    let mut tree = json!({
        "kind": kind, "apiVersion": format!("{GROUP}/v1beta1"),
        "metadata": {"name": object.name(), "creationTimestamp": at},
        "timestamp": at, "window": meta::duration::format(i64::try_from(usage.window.as_nanos()).unwrap_or(i64::MAX)),
    });
    if !object.namespace().is_empty() {
        tree.put(&["metadata", "namespace"], object.namespace());
    }
    if let Some(labels) = object.at(&["metadata", "labels"]) {
        tree.put(&["metadata", "labels"], labels.clone());
    }
    tree
}

/// In the units that upstream's server writes.
fn quantities(used: &Used) -> Value {
    let cpu = if used.cpu_nanos == 0 { "0".to_owned() } else { format!("{}n", used.cpu_nanos) };
    json!({"cpu": cpu, "memory": format!("{}Ki", used.memory_bytes / 1024)})
}

fn entry(tree: &Value) -> Arc<Entry> {
    let bytes = serde_json::to_vec(tree).unwrap_or_default();
    Arc::new(Entry::new(bytes.into(), bytes::Bytes::new(), Revision(0), Revision(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_were_measured_are_shown() {
        let used = Used { cpu_nanos: 1_500_000, memory_bytes: 3 * 1024 * 1024 };
        let usage = NodeUsage {
            at: meta::Time::EPOCH,
            window: Duration::from_secs(15),
            node: used.clone(),
            pods: BTreeMap::from([("u".to_owned(), BTreeMap::from([("c".to_owned(), used)]))]),
        };
        let all = BTreeMap::from([("n".to_owned(), usage)]);
        let object =
            |uid: &str| json!({"metadata": {"name": "p", "namespace": "a", "uid": uid}, "spec": {"nodeName": "n"}});
        let shown = pod(&object("u"), &all).expect("measured");
        assert_eq!(shown["containers"], json!([{"name": "c", "usage": {"cpu": "1500000n", "memory": "3072Ki"}}]));
        assert_eq!((&shown["window"], &shown["metadata"]["namespace"]), (&json!("15s"), &json!("a")));
        assert_eq!(pod(&object("other"), &all), None);
        assert_eq!(node(&json!({"metadata": {"name": "x"}}), &all), None);
    }
}
