//! Routes to the pods of other nodes, where these are neighbours on one network: made from the ConfigMap that says where
//! the pods of every node are, and taken away with it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::Transport;
use clock::Ids;
use contract::Cidr;
use driver::remote::watch_one;
use http::Request;
use meta::ObjectExt;
use serde_json::Value;
use tokio::sync::Notify;

const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const NAME: &str = "node-routes";
/// Most bytes of the answer: an object is at most 1.5 MiB.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How often the routes are looked at though nothing is known to have changed: somebody else may take them away.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// Keeps the routes of the node `name`, for ever.
pub async fn keep_routes(name: String, transport: Arc<dyn Transport>, ids: Arc<dyn Ids>, address: IpAddr) {
    let changed = Arc::new(Notify::new());
    let told = Arc::clone(&changed);
    let watching = watch_one(Arc::clone(&transport), ids, MAPS.to_owned(), NAME.to_owned(), move || told.notify_one());
    let keeping = async {
        loop {
            let pause = match look(&transport).await {
                Some(map) => {
                    let wanted = wanted(&map, &name, address);
                    let done = tokio::task::spawn_blocking(move || runtime::set_routes(&wanted)).await;
                    tell(done.unwrap_or_else(|error| Err(std::io::Error::other(error))));
                    LOOK_EVERY
                }
                None => RETRY_EVERY,
            };
            // A change rings; one that is missed is found by looking.
            let _ = tokio::time::timeout(pause, changed.notified()).await;
        }
    };
    tokio::join!(watching, keeping);
}

/// What the ConfigMap says; nothing yet when it is not there. `None`: no answer, so nothing is known.
async fn look(transport: &Arc<dyn Transport>) -> Option<Value> {
    let request =
        Request::get(format!("{MAPS}/{NAME}")).header("accept", "application/json").body(Bytes::new()).ok()?;
    let answer = transport.call(request).await.ok()?;
    let status = answer.status().as_u16();
    let bytes = client::read_all(answer.into_body(), ANSWER_BYTES_MAX).await.ok()?;
    match status {
        200 => serde_json::from_slice(&bytes).ok(),
        404 => Some(Value::Null),
        _ => None,
    }
}

/// The routes of a node: to every other node's range, by way of that node.
fn wanted(map: &Value, name: &str, own: IpAddr) -> BTreeMap<Cidr, Ipv4Addr> {
    let others = map.map(&["data"]).into_iter().flatten().filter(|(node, _)| *node != name);
    let route = |text: &str| -> Option<(Cidr, Ipv4Addr)> {
        let (range, address) = text.split_once(' ')?;
        let (range, address): (Cidr, Ipv4Addr) = (range.parse().ok()?, address.parse().ok()?);
        // Nodes of one machine share its address, and its bridges are neighbours already.
        (IpAddr::V4(address) != own).then_some((range, address))
    };
    others.filter_map(|(_, value)| route(value.as_str()?)).collect()
}

fn tell(done: std::io::Result<Vec<runtime::RouteFailure>>) {
    match done {
        Ok(failures) => {
            for failure in failures {
                tracing::warn!(range = %failure.range, gateway = %failure.gateway, error = %failure.error,
                    "there is no route to the pods of that node: it is no neighbour on this network");
            }
        }
        Err(error) => tracing::warn!(%error, "routes cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn routes_lead_to_the_others() {
        let map = json!({"data": {"a": "10.244.0.0/24 192.0.2.1", "b": "10.244.1.0/24 192.0.2.2", "c": "x",
            "twin": "10.244.2.0/24 192.0.2.1"}});
        let found = wanted(&map, "a", IpAddr::from([192, 0, 2, 1]));
        let shown: Vec<String> = found.iter().map(|(range, gateway)| format!("{range} {gateway}")).collect();
        assert_eq!(shown, ["10.244.1.0/24 192.0.2.2"]);
        assert!(wanted(&Value::Null, "a", IpAddr::from([192, 0, 2, 1])).is_empty());
    }
}
