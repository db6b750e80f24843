//! A node that looks after its machine: pods of manifests, and what happens when something runs short. As root, with
//! this machine's kernel.

mod machine;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use machine::own::{Own, PODS};
use machine::{Server, binary, is_alone, processes, wait_for};
use meta::{ObjectExt, condition};
use rustix::fs::statfs;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};

/// The kernel's number of a file system in memory.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// The nodes of these tests would have the same range of addresses.
static ALONE: Mutex<()> = Mutex::new(());

fn pod(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  restartPolicy: Never\n  \
         terminationGracePeriodSeconds: 1\n{spec}"
    )
}

/// A container that runs `words`.
fn container(words: &str, more: &str) -> String {
    format!("  containers:\n  - {{name: c, image: 'setpoint.local/box:v1', args: [{words}]{more}}}\n")
}

/// Bound by hand: no scheduler keeps it away from a node that is short of something.
fn bound(name: &str, spec: &str) -> String {
    pod(name, &format!("  nodeName: test-node\n{spec}"))
}

fn apply(server: &Server, directory: &Path, manifests: &[String]) {
    let file = directory.join("apply.yaml");
    std::fs::write(&file, manifests.join("---\n")).expect("written");
    let path = file.to_str().expect("a path");
    wait_for("the API", || server.kubectl(&["apply", "--server-side", "-f", path]));
}

fn get(server: &Server, words: &[&str]) -> Option<Value> {
    serde_json::from_str(&server.kubectl(&[&["get", "-o", "json"], words].concat())?).ok()
}

/// The pod once it was evicted: its message, and whether it was a disruption.
fn evicted(server: &Server, name: &str) -> (String, bool) {
    let pod = wait_for(&format!("the eviction of {name}"), || {
        get(server, &["pod", name]).filter(|pod| pod.text(&["status", "reason"]) == "Evicted")
    });
    assert_eq!(pod.text(&["status", "phase"]), "Failed");
    let disruption = condition::find(&pod, "DisruptionTarget");
    let is_disruption = disruption.is_some_and(|one| one.text(&["reason"]) == "TerminationByKubelet");
    (pod.text(&["status", "message"]).to_owned(), is_disruption)
}

fn is_running(server: &Server, name: &str) -> Option<Value> {
    get(server, &["pod", name]).filter(|pod| condition::is_true(pod, "Ready"))
}

#[test]
fn pods_of_manifests_run_by_themselves_and_are_mirrored() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    let manifests = directory.path().join("manifests");
    std::fs::create_dir_all(&manifests).expect("made");
    let seconds = format!("{}", 910_000 + std::process::id());
    let words = ["/bin/box", "sleep", seconds.as_str()];
    let write = |file: &str, text: &str| std::fs::write(manifests.join(file), text).expect("written");
    let ordinary = |label: &str| {
        pod("web", &container(&format!("sleep, '{seconds}'"), "")).replace("app: web", &format!("app: {label}"))
    };
    write("web.yaml", &ordinary("first"));
    write("bad.yaml", "kind: [");
    let mut server = Server::start(&binary, directory.path());
    let mirror = wait_for("the mirror", || is_running(&server, "web-test-node"));
    let hash = mirror.annotation("kubernetes.io/config.hash").expect("a hash");
    assert_eq!(mirror.annotation("kubernetes.io/config.mirror"), Some(hash));
    assert_eq!(mirror.annotation("kubernetes.io/config.source"), Some("file"));
    let owner = &mirror["metadata"]["ownerReferences"][0];
    assert_eq!((owner.text(&["kind"]), owner.text(&["name"])), ("Node", "test-node"));
    let before = processes(&words);
    assert_eq!(before.len(), 1);
    wait_for("an event about the bad file", || {
        let events = get(&server, &["events"])?;
        events.items(&["items"]).iter().any(|event| event.text(&["reason"]) == "FailedValidation").then_some(())
    });
    let said =
        wait_for("a command in it", || server.kubectl(&["exec", "web-test-node", "--", "/bin/box", "echo", "here"]));
    assert_eq!(said, "here\n");

    // Its mirror deleted, it goes on and is mirrored again.
    server.kubectl(&["delete", "pod", "web-test-node", "--wait=false"]).expect("deleted");
    let again =
        wait_for("another mirror", || is_running(&server, "web-test-node").filter(|again| again.uid() != mirror.uid()));
    assert_eq!((again.annotation("kubernetes.io/config.hash"), processes(&words)), (Some(hash), before.clone()));

    // The server lost, it is taken over.
    server.kill();
    let server = Server::start(&binary, directory.path());
    let found = wait_for("the mirror after a restart", || is_running(&server, "web-test-node"));
    assert_eq!((found.uid(), processes(&words)), (again.uid(), before.clone()));

    // Another content is another pod.
    write("web.yaml", &ordinary("second"));
    let changed = wait_for("the changed pod", || {
        is_running(&server, "web-test-node").filter(|pod| pod.label("app") == Some("second"))
    });
    assert_ne!(changed.annotation("kubernetes.io/config.hash"), Some(hash));
    let after = wait_for("one process", || Some(processes(&words)).filter(|found| found.len() == 1));
    assert_ne!(after, before);

    std::fs::remove_file(manifests.join("web.yaml")).expect("removed");
    wait_for("the mirror to go", || server.pods().is_empty().then_some(()));
    wait_for("the process to go", || processes(&words).is_empty().then_some(()));
}

#[test]
fn short_of_memory_pods_are_refused_and_go_but_for_those_that_matter() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    let manifests = directory.path().join("manifests");
    std::fs::create_dir_all(&manifests).expect("made");
    std::fs::write(manifests.join("static.yaml"), pod("kept", &container("sleep", ""))).expect("written");
    // No machine has as much: the node is short of memory for ever.
    let options = [
        "--eviction-hard",
        "",
        "--eviction-soft",
        "memory.available<1000Ti",
        "--eviction-soft-grace-period",
        "memory.available=1s",
    ];
    let server = Server::start_with(&binary, directory.path(), &options);
    wait_for("the condition and its taint", || {
        let node = get(&server, &["node", "test-node"])?;
        let taints = node.items(&["spec", "taints"]);
        let is_tainted = taints.iter().any(|taint| taint.text(&["key"]) == "node.kubernetes.io/memory-pressure");
        (condition::is_true(&node, "MemoryPressure") && is_tainted).then_some(())
    });
    let asks = ", resources: {requests: {memory: 1Mi}}";
    let all = [
        bound("refused", &container("sleep", "")),
        bound("goes", &container("sleep", asks)),
        bound("vital", &format!("  priorityClassName: system-node-critical\n{}", container("sleep", ""))),
    ];
    apply(&server, directory.path(), &all);
    let (message, _) = evicted(&server, "refused");
    assert_eq!(message, "Pod was rejected: The node had condition: [MemoryPressure]. ");
    let (message, is_disruption) = evicted(&server, "goes");
    assert!(
        message.starts_with("The node was low on resource: memory. Threshold quantity: 1000Ti, available: "),
        "{message}"
    );
    assert!(is_disruption);
    wait_for("what matters to run", || is_running(&server, "vital").and(is_running(&server, "kept-test-node")));
    let reasons = wait_for("events", || {
        let events = get(&server, &["events"])?;
        let reasons: Vec<String> = events.items(&["items"]).iter().map(|e| e.text(&["reason"]).to_owned()).collect();
        ["EvictionThresholdMet", "Evicted"]
            .iter()
            .all(|one| reasons.iter().any(|found| found == one))
            .then_some(reasons)
    });
    assert!(!reasons.is_empty());
}

#[test]
fn short_of_disk_room_is_made_and_who_has_written_most_goes() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().expect("a directory");
    // The built-in image is the program, kept as a layer and as a blob.
    let program = std::fs::metadata(&binary).expect("a program").len() >> 20;
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).expect("made");
    let size = std::ffi::CString::new(format!("size={}m", 5 * program + 600)).expect("text");
    mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), size.as_c_str()).expect("mounted");
    let _unmounts = Unmounts(&disk);
    let threshold = format!("{}Mi", 2 * program + 150);
    let hard = format!("nodefs.available<{threshold}");
    let options = [
        "--eviction-hard",
        hard.as_str(),
        "--eviction-pressure-transition-period",
        "1s",
        "--minimum-image-ttl-duration",
        "0s",
    ];
    let server = Server::start_with(&binary, &disk, &options);
    wait_for("the node", || get(&server, &["node", "test-node"]));
    let unused = image_without_layers(directory.path(), "example.com/unused:v1");
    let image = |words: &[&str]| {
        let mut command = Command::new(&binary);
        command.arg("image").args(words).arg("--data-dir").arg(&disk);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    image(&["import", unused.to_str().expect("a path")]);
    assert!(image(&["ls"]).contains("example.com/unused:v1"));

    let volume = |limit: &str| format!("  volumes: [{{name: v, emptyDir: {{{limit}}}}}]\n");
    let at = ", volumeMounts: [{name: v, mountPath: /v}]";
    let all = [
        bound("calm", &container("sleep", "")),
        bound("big-volume", &(volume("sizeLimit: 10Mi") + &container("fill, /v/file, '20'", at))),
        bound("big-root", &container("fill, /file, '20'", ", resources: {limits: {ephemeral-storage: 10Mi}}")),
    ];
    apply(&server, directory.path(), &all);
    let breach = |message: &str| (message.to_owned(), false);
    let said = "Usage of EmptyDir volume \"v\" exceeds the limit \"10Mi\". ";
    assert_eq!(evicted(&server, "big-volume"), breach(said));
    let said = "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi. ";
    assert_eq!(evicted(&server, "big-root"), breach(said));
    assert!(image(&["ls"]).contains("example.com/unused:v1"), "there was room so far");

    let free =
        rustix::fs::statvfs(&disk).map(|found| found.f_bavail.saturating_mul(found.f_frsize) >> 20).expect("found");
    let hog = container(&format!("fill, /v/file, '{}'", free.saturating_sub(20)), at);
    apply(&server, directory.path(), &[bound("hog", &(volume("") + &hog))]);
    let (message, is_disruption) = evicted(&server, "hog");
    let said = format!("The node was low on resource: ephemeral-storage. Threshold quantity: {threshold}, available: ");
    assert!(message.starts_with(&said), "{message}");
    assert!(is_disruption);
    assert!(!image(&["ls"]).contains("example.com/unused:v1"), "images go before pods");
    assert!(image(&["ls"]).contains("setpoint.local/box:v1"));
    wait_for("the condition to be over", || {
        get(&server, &["node", "test-node"]).filter(|node| condition::status(node, "DiskPressure") == "False")
    });
    assert!(is_running(&server, "calm").is_some());
    server.kubectl(&["delete", "pod", "--all", "--wait=false"]).expect("deleted");
    wait_for("the pods to go", || server.pods().is_empty().then_some(()));
}

#[test]
fn the_kernel_tells_when_processes_wait_for_memory() {
    if !Path::new("/proc/pressure/memory").exists() {
        return println!("skipped: this kernel does not count who waits for memory");
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut own) = Own::new() else { return };
    // Of what is written to memory nobody waits for a disk.
    if statfs(&own.directory).is_ok_and(|found| found.f_type == TMPFS_MAGIC) {
        return println!("skipped: the directory for temporary files is in memory");
    }
    own.environment.push(("SETPOINT_LOG".to_owned(), "node=debug".to_owned()));
    own.start();
    // In little memory, what is written has to wait for the disk before more can be.
    let write = "write() { while :; do dd if=/dev/zero of=$1 bs=1M count=64 conv=notrunc 2>/dev/null; done; }; \
                 write /v/a & write /v/b";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writes"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "usr", "hostPath": {"path": "/usr"}}, {"name": "v", "emptyDir": {}}],
            "containers": [{
                "name": "c", "image": "setpoint.local/box:v1", "command": ["/usr/bin/sh", "-c", write],
                "env": [{"name": "PATH", "value": "/usr/bin"}], "resources": {"limits": {"memory": "16Mi"}},
                "volumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": true}, {"name": "v", "mountPath": "/v"}],
            }],
        },
    });
    own.apply(PODS, &pod);
    wait_for("the kernel to say so", || own.has_said("the kernel says that memory is short").then_some(()));
    own.delete(&format!("{PODS}/writes"), Some(0));
    wait_for("the pod to go", || own.items(PODS).is_empty().then_some(()));
}

/// What `docker save` makes, unpacked, of an image that has nothing in it.
fn image_without_layers(directory: &Path, name: &str) -> PathBuf {
    let root = directory.join("image");
    std::fs::create_dir(&root).expect("made");
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({
        "architecture": architecture, "os": "linux", "config": {"Cmd": ["/x"]},
        "rootfs": {"type": "layers", "diff_ids": []},
    });
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": []}]);
    std::fs::write(root.join("config.json"), config.to_string()).expect("written");
    std::fs::write(root.join("manifest.json"), manifest.to_string()).expect("written");
    root
}

/// Takes the disk away at the end, whatever happened on it.
struct Unmounts<'p>(&'p Path);

impl Drop for Unmounts<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}
