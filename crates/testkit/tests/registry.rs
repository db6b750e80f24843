//! Images from a real registry, as pods on a real node get them: Debian's docker-registry on this machine, which
//! `hack/tools.sh registry` fetches. As root, with this machine's kernel.

mod machine;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::{SystemClock, SystemIds};
use machine::own::{Own, PODS, fill, run, small_disk};
use machine::wait_for;
use pki::{Pki, PkiConfig, Purpose};
use serde_json::{Value, json};

const PLAIN: &str = "127.0.0.1:5000";
const LOCKED: &str = "127.0.0.1:5001";
const CUT: &str = "127.0.0.1:5002";
/// Not a loopback address, with which plain HTTP would be spoken.
const SECURE: &str = "10.99.99.1:5443";
/// `user` with the password `right`, as `htpasswd -B` writes it.
const HTPASSWD: &str = "user:$2b$05$muPvDpGPnT3o1IjxhasHcueFbBIzAexZ0ahIW15/WFlwoLbpu29i.";
/// How often the connection is cut, and after how many bytes.
const CUTS: usize = 3;
const CUT_BYTES: u64 = 2 << 20;

/// Room for the image of this test twice, as downloaded and unpacked: a program without optimisation is large.
const IMAGES_MIB: u64 = 700;
/// What no program needs, and no packing makes smaller.
const LAYER_BYTES: usize = 24 << 20;

/// A registry; all of a test keep their images in one directory.
struct Registry(Child);

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Option<PathBuf> {
    let path = machine::tools()?.join("bin/docker-registry");
    if !path.is_file() {
        println!("skipped: no docker-registry; `hack/tools.sh registry` fetches it where there is apt-get");
    }
    path.is_file().then_some(path)
}

impl Registry {
    fn start(directory: &Path, address: &str, more: &str) -> Registry {
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\n  delete: {{enabled: true}}\n\
             http:\n  addr: {address}\n{more}",
            directory.join("registry").display()
        );
        let file = directory.join(format!("{}.yml", address.replace(':', "-")));
        fs::write(&file, config).expect("written");
        let log = fs::File::create(file.with_extension("log")).expect("a log");
        let mut command = Command::new(program().expect("a registry"));
        let child =
            command.arg("serve").arg(&file).stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let registry = Registry(child.spawn().expect("a process"));
        wait_for("the registry", || TcpStream::connect(address).ok());
        registry
    }
}

/// One request in plain HTTP: status, headers as they came, body.
fn ask(method: &str, url: &str, content_type: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
    let rest = url.strip_prefix("http://").expect("plain HTTP");
    let (host, path) = rest.split_at(rest.find('/').expect("a path"));
    let mut stream = TcpStream::connect(host).expect("connected");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("asked");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (code, head, answer[end + 4..].to_vec())
}

fn push_blob(repository: &str, digest: &str, bytes: &[u8]) {
    let (code, head, _) = ask("POST", &format!("http://{PLAIN}/v2/{repository}/blobs/uploads/"), "text/plain", b"");
    assert_eq!(code, 202, "{head}");
    let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).expect("a place");
    let url = format!("{location}&digest={digest}");
    let (code, head, body) = ask("PUT", &url, "application/octet-stream", bytes);
    assert_eq!(code, 201, "{head} {}", String::from_utf8_lossy(&body));
}

fn push_manifest(repository: &str, tag: &str, kind: &str, manifest: &[u8]) {
    let url = format!("http://{PLAIN}/v2/{repository}/manifests/{tag}");
    let (code, head, body) = ask("PUT", &url, kind, manifest);
    assert_eq!(code, 201, "{head} {}", String::from_utf8_lossy(&body));
}

/// An image as it was exported: its blobs, and the manifest's digest.
struct Exported {
    blobs: PathBuf,
    manifest: String,
}

impl Exported {
    fn new(own: &Own) -> Exported {
        let (file, layout) = (own.directory.join("box.tar"), own.directory.join("layout"));
        let output = Command::new(machine::program().expect("a program"))
            .args(["image", "export", "setpoint.local/box:v1"])
            .arg(&file)
            .arg("--data-dir")
            .arg(&own.directory)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::create_dir(&layout).expect("a directory");
        run(&["tar", "-xf", file.to_str().expect("a path"), "-C", layout.to_str().expect("a path")]);
        let index: Value =
            serde_json::from_slice(&fs::read(layout.join("index.json")).expect("an index")).expect("JSON");
        let manifest = index["manifests"][0]["digest"].as_str().expect("a digest").to_owned();
        Exported { blobs: layout.join("blobs/sha256"), manifest }
    }

    fn blob(&self, digest: &str) -> Vec<u8> {
        fs::read(self.blobs.join(digest.trim_start_matches("sha256:"))).expect("a blob")
    }

    fn layers(&self) -> Vec<(String, u64)> {
        let manifest: Value = serde_json::from_slice(&self.blob(&self.manifest)).expect("JSON");
        let layer = |layer: &Value| {
            (layer["digest"].as_str().expect("a digest").to_owned(), layer["size"].as_u64().expect("a size"))
        };
        manifest["layers"].as_array().expect("layers").iter().map(layer).collect()
    }

    fn push(&self, repository: &str, tag: &str) {
        for entry in machine::own::entries(&self.blobs) {
            let digest = format!("sha256:{}", entry.file_name().expect("a name").to_string_lossy());
            if digest != self.manifest {
                push_blob(repository, &digest, &fs::read(&entry).expect("a blob"));
            }
        }
        let bytes = self.blob(&self.manifest);
        push_manifest(repository, tag, "application/vnd.oci.image.manifest.v1+json", &bytes);
    }
}

/// A proxy that cuts the first connections which carry much, in the middle.
struct Cutter {
    cuts: AtomicUsize,
    bytes: AtomicU64,
}

impl Cutter {
    fn start() -> Arc<Cutter> {
        let cutter = Arc::new(Cutter { cuts: AtomicUsize::new(0), bytes: AtomicU64::new(0) });
        let listener = TcpListener::bind(CUT).expect("a port");
        let shared = Arc::clone(&cutter);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.carry(client));
            }
        });
        cutter
    }

    fn carry(&self, client: TcpStream) {
        let server = TcpStream::connect(PLAIN).expect("the registry");
        let (mut up_from, mut up_to) = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
        std::thread::spawn(move || std::io::copy(&mut up_from, &mut up_to));
        let (mut from, mut to) = (server, client);
        let (mut buffer, mut carried) = (vec![0; 64 << 10], 0);
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            carried += count as u64;
            self.bytes.fetch_add(count as u64, Ordering::SeqCst);
            let is_cut = carried > CUT_BYTES && self.cuts.load(Ordering::SeqCst) < CUTS;
            if is_cut {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}

fn pod(name: &str, image: &str, secrets: &[&str]) -> Value {
    let secrets: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 0, "imagePullSecrets": secrets, "containers": [{
            "name": "c", "image": image, "imagePullPolicy": "Always", "command": ["/bin/box", "sleep"]}]},
    })
}

fn secret(name: &str, password: &str) -> Value {
    let auths = json!({"auths": {LOCKED: {"auth": STANDARD.encode(format!("user:{password}"))}}});
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": STANDARD.encode(auths.to_string())},
    })
}

/// Waits until the pod is ready; the image's ID in its status.
fn runs(own: &Own, name: &str) -> String {
    let pod = wait_for(&format!("{name} to be ready"), || {
        Some(own.get(&format!("{PODS}/{name}"))).filter(|pod| meta::condition::is_true(pod, "Ready"))
    });
    own.delete(&format!("{PODS}/{name}"), Some(0));
    pod["status"]["containerStatuses"][0]["imageID"].as_str().unwrap_or_default().to_owned()
}

/// What a pod says whose image cannot be had.
const REASONS: [&str; 3] = ["ErrImagePull", "ImagePullBackOff", "RegistryUnavailable"];

/// Waits until the pod says that its image cannot be had, in words that hold all of `words`.
fn fails(own: &Own, name: &str, words: &[&str]) {
    let mut last = Value::Null;
    let is_so = || {
        let waiting = own.get(&format!("{PODS}/{name}"))["status"]["containerStatuses"][0]["state"]["waiting"].clone();
        let reason = waiting["reason"].as_str().unwrap_or_default();
        let message = waiting["message"].as_str().unwrap_or_default().to_owned();
        let is_it = REASONS.contains(&reason) && words.iter().all(|w| message.contains(w));
        last = waiting;
        is_it.then_some(())
    };
    if machine::look_for(machine::PATIENCE, is_so).is_none() {
        panic!("{name}: {words:?} were not said, but {last}");
    }
    println!("{name}: {last}");
}

#[test]
fn pods_get_their_images_from_a_registry() {
    if program().is_none() {
        return;
    }
    let Some(mut own) = Own::new() else { return };
    run(&["ip", "addr", "add", "10.99.99.1/32", "dev", "lo"]);
    let keys = Pki::load_or_create(
        PkiConfig::new(own.directory.join("keys")),
        Arc::new(SystemClock::new()),
        Arc::new(SystemIds),
    );
    let keys = keys.expect("keys");
    let authority = own.directory.join("authority.pem");
    fs::write(&authority, keys.ca().pem()).expect("written");
    // Images are on a disk of their own.
    small_disk(&own.directory.join("images"), IMAGES_MIB);
    own.environment.push(("SSL_CERT_FILE".to_owned(), authority.display().to_string()));
    own.start();
    let image = Exported::new(&own);
    let _plain = Registry::start(&own.directory, PLAIN, "");
    image.push("app", "v1");
    by_tag_and_digest(&own, &image);
    as_a_volume(&own);
    what_is_not_there(&own, &image);
    credentials(&own);
    own_authority(&own, &keys);
    a_line_that_breaks(&own, &image);
    damaged(&own, &image);
    mirrors_of_a_file(&mut own, &image);
    a_full_disk(&own, &image);
    own.stop();
}

/// Forgets the image and all that was fetched for it.
fn forget(own: &Own) {
    let store = own.directory.join("images");
    wait_for("no pod to be left", || own.items(PODS).is_empty().then_some(()));
    wait_for("no sandbox to be left", || own.sandboxes().is_empty().then_some(()));
    for name in ["blobs/sha256", "images", "layers", "partial"] {
        machine::own::entries(&store.join(name)).iter().for_each(|path| {
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        });
    }
}

fn by_tag_and_digest(own: &Own, image: &Exported) {
    forget(own);
    own.apply(PODS, &pod("by-tag", &format!("{PLAIN}/app:v1"), &[]));
    assert_eq!(runs(own, "by-tag"), format!("{PLAIN}/app@{}", image.manifest));
    own.apply(PODS, &pod("by-digest", &format!("{PLAIN}/app@{}", image.manifest), &[]));
    assert_eq!(runs(own, "by-digest"), format!("{PLAIN}/app@{}", image.manifest));
}

/// What an image holds is read by another one's program, and neither written nor executed.
fn as_a_volume(own: &Own) {
    forget(own);
    let app = format!("{PLAIN}/app:v1");
    let with_volume = |name: &str, volume: &str, sub_path: &str, check: &str| {
        let mut pod = pod(name, &app, &[]);
        pod["spec"]["volumes"] = json!([
            {"name": "v", "image": {"reference": volume}},
            {"name": "usr", "hostPath": {"path": "/usr"}},
        ]);
        let container = &mut pod["spec"]["containers"][0];
        container["command"] = json!(["/usr/bin/sh", "-c", format!("{check} && exec sleep 100000")]);
        container["env"] = json!([{"name": "PATH", "value": "/usr/bin"}]);
        container["volumeMounts"] = json!([
            {"name": "v", "mountPath": "/image", "subPath": sub_path},
            {"name": "usr", "mountPath": "/usr", "readOnly": true},
        ]);
        own.apply(PODS, &pod);
    };
    with_volume("whole", &app, "", "cmp /image/bin/box /bin/box && ! touch /image/x && ! /image/bin/box serve 1");
    runs(own, "whole");
    with_volume("part", &app, "bin", "cmp /image/box /bin/box");
    runs(own, "part");
    with_volume("no-volume", &format!("{PLAIN}/app:v2"), "", "true");
    fails(own, "no-volume", &["image of volume \"v\"", "app:v2: not found"]);
    own.delete(&format!("{PODS}/no-volume"), Some(0));
}

fn what_is_not_there(own: &Own, image: &Exported) {
    let nothing = format!("sha256:{}", "0".repeat(64));
    own.apply(PODS, &pod("no-digest", &format!("{PLAIN}/app@{nothing}"), &[]));
    fails(own, "no-digest", &["not found"]);
    own.apply(PODS, &pod("no-tag", &format!("{PLAIN}/app:v2"), &[]));
    fails(own, "no-tag", &["app:v2: not found"]);
    own.apply(PODS, &pod("no-registry", "127.0.0.1:5009/app:v1", &[]));
    fails(own, "no-registry", &["Connection refused"]);
    // An image for another machine.
    let bytes = image.blob(&image.manifest);
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": image.manifest, "size": bytes.len(),
            "platform": {"os": "linux", "architecture": "s390x"}}],
    });
    push_manifest("app", "other", "application/vnd.oci.image.index.v1+json", index.to_string().as_bytes());
    own.apply(PODS, &pod("other-machine", &format!("{PLAIN}/app:other"), &[]));
    fails(own, "other-machine", &["no match for platform in manifest", "linux/s390x"]);
    for name in ["no-digest", "no-tag", "no-registry", "other-machine"] {
        own.delete(&format!("{PODS}/{name}"), Some(0));
    }
}

fn credentials(own: &Own) {
    let file = own.directory.join("htpasswd");
    fs::write(&file, format!("{HTPASSWD}\n")).expect("written");
    let auth = format!("auth:\n  htpasswd: {{realm: test, path: {}}}\n", file.display());
    let _locked = Registry::start(&own.directory, LOCKED, &auth);
    let secrets = "/api/v1/namespaces/default/secrets";
    own.apply(secrets, &secret("right", "right"));
    own.apply(secrets, &secret("wrong", "wrong"));
    let image = format!("{LOCKED}/app:v1");
    own.apply(PODS, &pod("right", &image, &["right"]));
    runs(own, "right");
    own.apply(PODS, &pod("both", &image, &["wrong", "right"]));
    runs(own, "both");
    own.apply(PODS, &pod("wrong", &image, &["wrong"]));
    fails(own, "wrong", &["pull access denied", "401"]);
    own.apply(PODS, &pod("nobody", &image, &[]));
    fails(own, "nobody", &["pull access denied", "401"]);
    // A secret that is not there yet: the pod runs once it is.
    own.apply(PODS, &pod("later", &image, &["later"]));
    fails(own, "later", &["pull access denied", "401"]);
    own.apply(secrets, &secret("later", "right"));
    runs(own, "later");
    // Whoever has no login does not get what somebody else fetched: the policy is Always.
    for name in ["wrong", "nobody"] {
        own.delete(&format!("{PODS}/{name}"), Some(0));
    }
}

fn own_authority(own: &Own, keys: &Pki) {
    let address = SECURE.split(':').next().and_then(|host| host.parse().ok()).expect("an address");
    let leaf = keys.issue(&Purpose::server("registry", Vec::new(), vec![address])).expect("a certificate");
    let (certificate, key) = (own.directory.join("registry.pem"), own.directory.join("registry.key"));
    fs::write(&certificate, leaf.cert_pem()).and_then(|()| fs::write(&key, leaf.key_pem())).expect("written");
    let tls = format!("  tls: {{certificate: {}, key: {}}}\n", certificate.display(), key.display());
    let _secure = Registry::start(&own.directory, SECURE, &tls);
    forget(own);
    own.apply(PODS, &pod("secure", &format!("{SECURE}/app:v1"), &[]));
    runs(own, "secure");
    // Signed by nobody that is known.
    drop(_secure);
    let stranger = PkiConfig::new(own.directory.join("stranger"));
    let stranger = Pki::load_or_create(stranger, Arc::new(SystemClock::new()), Arc::new(SystemIds)).expect("keys");
    let leaf = stranger.issue(&Purpose::server("registry", Vec::new(), vec![address])).expect("a certificate");
    fs::write(&certificate, leaf.cert_pem()).and_then(|()| fs::write(&key, leaf.key_pem())).expect("written");
    let _stranger = Registry::start(&own.directory, SECURE, &tls);
    own.apply(PODS, &pod("stranger", &format!("{SECURE}/app:v1"), &[]));
    // Its authority has the name of the one that is trusted, and another key.
    fails(own, "stranger", &["invalid peer certificate"]);
    own.delete(&format!("{PODS}/stranger"), Some(0));
}

fn a_line_that_breaks(own: &Own, image: &Exported) {
    let cutter = Cutter::start();
    forget(own);
    own.apply(PODS, &pod("cut", &format!("{CUT}/app:v1"), &[]));
    runs(own, "cut");
    let (cuts, bytes) = (cutter.cuts.load(Ordering::SeqCst), cutter.bytes.load(Ordering::SeqCst));
    let whole: u64 = image.layers().iter().map(|(_, size)| size).sum();
    println!("{cuts} connections cut; {bytes} bytes came of a layer of {whole}");
    assert!(cuts >= CUTS, "{cuts}");
    // It went on where it broke off: what came twice is at most what was under way when it was cut.
    assert!(bytes < whole + CUTS as u64 * (1 << 20) + (1 << 20), "{bytes} of {whole}");
}

fn damaged(own: &Own, image: &Exported) {
    let (digest, _) = image.layers().remove(0);
    let hex = digest.trim_start_matches("sha256:");
    let data = own.directory.join("registry/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data");
    let mut bytes = fs::read(&data).expect("a blob");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&data, &bytes).expect("written");
    forget(own);
    own.apply(PODS, &pod("damaged", &format!("{PLAIN}/app:v1"), &[]));
    fails(own, "damaged", &[hex]);
    // What came is not kept: once the registry has the right bytes again, the pod runs.
    bytes[middle] ^= 1;
    fs::write(&data, &bytes).expect("written");
    runs(own, "damaged");
}

/// What `registries.yaml` of the data directory says: the second of two mirrors, by its own authority, login and names.
fn mirrors_of_a_file(own: &mut Own, image: &Exported) {
    let address = SECURE.split(':').next().and_then(|host| host.parse().ok()).expect("an address");
    let keys = PkiConfig::new(own.directory.join("mirror-keys"));
    let keys = Pki::load_or_create(keys, Arc::new(SystemClock::new()), Arc::new(SystemIds)).expect("keys");
    let leaf = keys.issue(&Purpose::server("registry", Vec::new(), vec![address])).expect("a certificate");
    let place = |name: &str| own.directory.join(name);
    fs::write(place("mirror-ca.pem"), keys.ca().pem()).expect("written");
    fs::write(place("mirror.pem"), leaf.cert_pem()).expect("written");
    fs::write(place("mirror.key"), leaf.key_pem()).expect("written");
    let own_leaf = keys.issue(&Purpose::client("node", None)).expect("a certificate");
    fs::write(place("node.pem"), own_leaf.cert_pem()).expect("written");
    fs::write(place("node.key"), own_leaf.key_pem()).expect("written");
    // It asks who is there by a certificate and by a password.
    let more = format!(
        "  tls: {{certificate: {}, key: {}, clientcas: [{}]}}\nauth:\n  htpasswd: {{realm: test, path: {}}}\n",
        place("mirror.pem").display(),
        place("mirror.key").display(),
        place("mirror-ca.pem").display(),
        place("htpasswd").display()
    );
    let _mirror = Registry::start(&own.directory, SECURE, &more);
    let file = format!(
        "mirrors:\n  docker.io:\n    endpoint: [\"http://127.0.0.1:5009\", \"https://{SECURE}\"]\n    \
         rewrite: {{\"^library/(.*)\": \"$1\"}}\nconfigs:\n  \"{SECURE}\":\n    \
         auth: {{username: user, password: right}}\n    tls: {{ca_file: mirror-ca.pem, cert_file: node.pem, key_file: node.key}}\n"
    );
    fs::write(place("registries.yaml"), file).expect("written");
    own.stop();
    own.start();
    forget(own);
    own.apply(PODS, &pod("mirrored", "app:v1", &[]));
    assert_eq!(runs(own, "mirrored"), format!("docker.io/library/app@{}", image.manifest));
    own.apply(PODS, &pod("nowhere", "app:v9", &[]));
    let said =
        ["http://127.0.0.1:5009 said: ", &format!("https://{SECURE} said: "), "https://registry-1.docker.io said: "];
    fails(own, "nowhere", &said);
    own.delete(&format!("{PODS}/nowhere"), Some(0));

    // A file that cannot be used is no file to go on without.
    let bad = own.directory.join("bad.yaml");
    fs::write(&bad, "configs: {a.example: {auth: {pasword: right}}}").expect("written");
    let output = Command::new(machine::program().expect("a program"))
        .args(["image", "pull", "app:v1", "--registries"])
        .arg(&bad)
        .arg("--data-dir")
        .arg(&own.directory)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("configs.\"a.example\".auth: there is no field \"pasword\""),
        "{said}"
    );
}

/// The image with one more layer that has `LAYER_BYTES`.
fn push_big(own: &Own, image: &Exported) {
    let directory = own.directory.join("big");
    fs::create_dir(&directory).expect("a directory");
    let mut number = 1_u64;
    let noise = std::iter::repeat_with(|| {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        number.to_be_bytes()[0]
    });
    let noise: Vec<u8> = noise.take(LAYER_BYTES).collect();
    fs::write(directory.join("noise"), noise).expect("written");
    let tar = own.directory.join("big.tar");
    run(&["tar", "-cf", tar.to_str().expect("a path"), "-C", directory.to_str().expect("a path"), "noise"]);
    let layer = fs::read(&tar).expect("a layer");
    let digest_of = |path: &Path| {
        let said = run(&["sha256sum", path.to_str().expect("a path")]);
        format!("sha256:{}", said.split(' ').next().expect("a digest"))
    };
    let mut manifest: Value = serde_json::from_slice(&image.blob(&image.manifest)).expect("JSON");
    let mut config: Value =
        serde_json::from_slice(&image.blob(manifest["config"]["digest"].as_str().expect("a digest"))).expect("JSON");
    let digest = digest_of(&tar);
    config["rootfs"]["diff_ids"].as_array_mut().expect("layers").push(json!(digest));
    if let Some(history) = config.get_mut("history").and_then(Value::as_array_mut) {
        history.push(json!({"created_by": "a test"}));
    }
    let config = config.to_string();
    let file = own.directory.join("config.json");
    fs::write(&file, &config).expect("written");
    manifest["config"]["digest"] = json!(digest_of(&file));
    manifest["config"]["size"] = json!(config.len());
    manifest["layers"].as_array_mut().expect("layers").push(json!({
        "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": layer.len()}));
    push_blob("app", &digest, &layer);
    push_blob("app", &digest_of(&file), config.as_bytes());
    push_manifest("app", "big", "application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes());
}

/// An image that has no room says so; what runs goes on; with room again, the pod runs.
fn a_full_disk(own: &Own, image: &Exported) {
    push_big(own, image);
    forget(own);
    let goes_on = || own.get(&format!("{PODS}/goes-on"))["status"]["containerStatuses"][0].clone();
    own.apply(PODS, &pod("goes-on", &format!("{PLAIN}/app:v1"), &[]));
    let before = wait_for("the pod to run", || Some(goes_on()).filter(|status| status["ready"] == true));
    let ballast = fill(&own.directory.join("images"), (LAYER_BYTES / 3) as u64);
    own.apply(PODS, &pod("big", &format!("{PLAIN}/app:big"), &[]));
    fails(own, "big", &["no space left on device", "free some of it"]);
    assert_eq!(goes_on(), before);
    fs::remove_file(ballast).expect("removed");
    runs(own, "big");
    assert_eq!(goes_on(), before);
    own.delete(&format!("{PODS}/goes-on"), Some(0));
    wait_for("all pods to go", || own.items(PODS).is_empty().then_some(()));
}
