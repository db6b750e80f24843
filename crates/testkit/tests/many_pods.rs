//! Many pods at once on one node: all become ready, and all go. `SETPOINT_PODS` says how many (30). As root, with this
//! machine's kernel.

mod machine;

use std::time::Duration;

use machine::own::{DEPLOYMENTS, Own, PODS};
use machine::{leaks, wait_long_for};
use serde_json::json;

const PODS_USUAL: usize = 30;
/// A node's range has this many addresses for pods.
const PODS_MOST: usize = 250;
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn many_pods_come_and_go_at_once() {
    let Some(mut own) = Own::new() else { return };
    let given = std::env::var("SETPOINT_PODS").ok().and_then(|text| text.parse().ok());
    let count = given.unwrap_or(PODS_USUAL).min(PODS_MOST);
    own.options = ["--max-pods", "250"].map(str::to_owned).to_vec();
    own.start();
    let labels = json!({"app": "many"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"},
        "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [{
                "name": "c", "image": "setpoint.local/box:v1", "args": ["sleep"]}]}}},
    });
    let begun = machine::now();
    own.apply(DEPLOYMENTS, &deployment);
    let pods =
        wait_long_for("all pods to be ready", PATIENCE, || Some(own.ready("many")).filter(|pods| pods.len() == count));
    println!("{count} pods ready after {} ms", begun.elapsed().as_millis());
    let mut addresses: Vec<&str> = pods.iter().filter_map(|pod| pod["status"]["podIP"].as_str()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), count, "every pod has an address of its own");
    let restarts = |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64();
    assert!(pods.iter().all(|pod| restarts(pod) == Some(0)));
    println!("the server: {:?}", leaks::held(own.pid()));
    let begun = machine::now();
    own.delete(&format!("{DEPLOYMENTS}/many"), None);
    wait_long_for("all pods to go", PATIENCE, || own.items(PODS).is_empty().then_some(()));
    let mut left = Vec::new();
    let is_clean = || {
        left = leaks::left(&own);
        left.is_empty().then_some(())
    };
    assert!(machine::look_for(PATIENCE, is_clean).is_some(), "left behind:\n{}", left.join("\n"));
    println!("{count} pods gone after {} ms", begun.elapsed().as_millis());
}
