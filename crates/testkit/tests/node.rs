//! A node with real containers: as root, with this machine's kernel.

mod machine;

use machine::{Server, binary, is_alone, processes, wait_for};
use serde_json::Value;

#[test]
fn containers_run_heal_outlive_the_server_and_go() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = Server::start(&binary, directory.path());
    // A number of seconds that no other process on this machine sleeps for.
    let seconds = format!("{}", 900_000 + std::process::id());
    let words = ["/bin/box", "sleep", seconds.as_str()];
    let manifest = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 2\n  selector: {{matchLabels: {{app: web}}}}\n  \
         template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      terminationGracePeriodSeconds: 5\n      containers:\n      \
         - {{name: c, image: 'setpoint.local/box:v1', args: [sleep, '{seconds}']}}\n"
    );
    let file = directory.path().join("web.yaml");
    std::fs::write(&file, manifest).expect("written");
    let path = file.to_str().expect("a path");
    wait_for("the API", || server.kubectl(&["apply", "--server-side", "-f", path]));
    wait_for("two ready pods", || (server.ready_pods().len() == 2).then_some(()));
    let before = processes(&words);
    assert_eq!(before.len(), 2);

    // One process is lost: it comes back.
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(before[0]).expect("a number")).expect("a process"),
        rustix::process::Signal::KILL,
    )
    .expect("killed");
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0);
    wait_for("the lost one to come back", || {
        let pods = server.ready_pods();
        (pods.len() == 2 && pods.iter().map(restarts).sum::<i64>() == 1).then_some(())
    });

    // The server is lost: its successor takes over the same processes.
    let before = processes(&words);
    assert_eq!(before.len(), 2);
    server.kill();
    assert_eq!(processes(&words), before);
    let server = Server::start(&binary, directory.path());
    wait_for("the API again", || server.kubectl(&["get", "--raw", "/readyz"]));
    wait_for("two ready pods", || (server.ready_pods().len() == 2).then_some(()));
    assert_eq!(processes(&words), before);

    // Deleted, nothing is left.
    server.kubectl(&["delete", "deployment", "web", "--wait=false"]).expect("deleted");
    wait_for("the pods to go", || server.pods().is_empty().then_some(()));
    wait_for("the processes to go", || processes(&words).is_empty().then_some(()));
    wait_for("the directories to go", || {
        let left = std::fs::read_dir(directory.path().join("node/pods")).into_iter().flatten().count();
        let sandboxes = std::fs::read_dir(directory.path().join("runtime/sandboxes")).into_iter().flatten().count();
        (left + sandboxes == 0).then_some(())
    });
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    assert!(!mounts.contains(directory.path().to_str().expect("a path")));
}
