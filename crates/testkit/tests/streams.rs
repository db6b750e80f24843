//! Streams of pods on a real node, asked for by kubectl: as root, with this machine's kernel.

mod machine;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use machine::{Server, binary, is_alone, processes, wait_for};

/// Sessions that are cut off at the same time.
const CUT: usize = 50;

/// The machine's own programs, in an image that has hardly any.
fn pod(name: &str, script: &str, rest: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 0\n  restartPolicy: Never\n  \
         volumes: [{{name: usr, hostPath: {{path: /usr}}}}]\n  containers:\n  \
         - {{name: c, image: 'setpoint.local/box:v1', command: [/usr/bin/sh, -c, '{script}'], {rest}\n     \
           env: [{{name: PATH, value: '/usr/bin'}}], volumeMounts: [{{name: usr, mountPath: /usr, readOnly: true}}]}}\n---\n"
    )
}

fn manifest() -> String {
    let many = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); echo line $i of many; done; sleep 100000";
    pod("quiet", "echo one; echo two >&2; sleep 100000", "")
        + &pod("many", many, "")
        + &pod("reads", "while read x; do echo got $x; done; echo end", "stdin: true, stdinOnce: true,")
        + "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  terminationGracePeriodSeconds: 0\n  containers:\n  \
           - {name: c, image: 'setpoint.local/box:v1', args: [serve, '8080']}\n"
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(server: &Server, words: &[&str], input: &[u8]) -> Output {
    finish(server.command(words), input)
}

fn finish(mut command: Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl runs");
    let mut stdin = child.stdin.take().expect("its input");
    let input = input.to_vec();
    // Who takes no input may close it.
    let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("kubectl ends");
    writing.join().expect("written");
    output
}

/// A kubectl that goes on.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(server: &Server, words: &[&str]) -> Running {
        let mut command = server.command(words);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("runs");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Running { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kubectl_reaches_into_containers() {
    let (Some(binary), true) = (binary(), is_alone()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(&binary, directory.path());
    let file = directory.path().join("pods.yaml");
    std::fs::write(&file, manifest()).expect("written");
    let path = file.to_str().expect("a path");
    wait_for("the API", || server.kubectl(&["apply", "--server-side", "-f", path]));
    wait_for("the pods", || (server.ready_pods().len() == 4).then_some(()));
    logs(&server);
    commands(&server);
    attachments(&server);
    ports(&server);
    pages(&server);
    usage(&server);
    what_is_cut_off_leaves_nothing(&server);
    wait_for("the pods to go", || server.kubectl(&["delete", "pods", "--all", "--force"]));
}

fn logs(server: &Server) {
    let check = |words: &[&str], expected: &str| {
        let output = run(server, words, b"");
        assert_eq!(text(&output.stdout), expected, "{words:?}: {}", text(&output.stderr));
    };
    check(&["logs", "quiet"], "one\ntwo\n");
    check(&["logs", "quiet", "--tail=1"], "two\n");
    check(&["logs", "quiet", "--limit-bytes=5"], "one\nt");
    check(&["logs", "quiet", "--since=1000h", "-c", "c"], "one\ntwo\n");
    check(&["get", "--raw", "/api/v1/namespaces/default/pods/quiet/log?stream=Stderr"], "two\n");
    let fails = |words: &[&str], expected: &str| {
        let output = run(server, words, b"");
        assert!(!output.status.success() && text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    };
    fails(&["logs", "quiet", "--previous"], "previous terminated container \"c\" in pod \"quiet\" not found");
    fails(&["logs", "none"], "pods \"none\" not found");
    fails(
        &["get", "--raw", "/api/v1/namespaces/default/pods/quiet/log?container=x"],
        "container x is not valid for pod quiet",
    );
    // 200,000 lines with their prefixes are more than one file: following goes on through those that are put aside.
    let mut following = Running::start(server, &["logs", "-f", "many"]);
    for number in 1..=200_000 {
        assert_eq!(following.line(), format!("line {number} of many\n"));
    }
    drop(following);
    check(&["logs", "many", "--tail=2"], "line 199999 of many\nline 200000 of many\n");
}

fn commands(server: &Server) {
    let large: Vec<u8> = (0..2_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect();
    for protocol in ["true", "false"] {
        // The second time over SPDY.
        let run = |words: &[&str], input: &[u8]| {
            let mut command = server.command(words);
            command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", protocol);
            finish(command, input)
        };
        let output = run(&["exec", "quiet", "--", "sh", "-c", "echo out; echo err >&2; exit 3"], b"");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "out\n".to_owned()), "{protocol}");
        assert!(text(&output.stderr).starts_with("err\n"), "{protocol}: {}", text(&output.stderr));
        let output = run(&["exec", "-i", "quiet", "--", "cat"], &large);
        assert_eq!(output.status.code(), Some(0), "{protocol}: {}", text(&output.stderr));
        assert!(output.stdout == large, "{protocol}: {} bytes came back", output.stdout.len());
        let output = run(&["exec", "quiet", "--", "no-such-program"], b"");
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains("exec: \"no-such-program\": executable file not found in $PATH"), "{protocol}: {said}");
        // What goes on in the background does not hold the end up.
        let output = run(&["exec", "quiet", "--", "sh", "-c", "sleep 1000 & echo done"], b"");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "done\n".to_owned()), "{protocol}");
    }
    let here = tempfile::tempdir().expect("a directory");
    let (there, back) = (here.path().join("there"), here.path().join("back"));
    std::fs::write(&there, &large).expect("written");
    let [there_path, back_path] = [&there, &back].map(|path| path.to_str().expect("a path"));
    for words in [["cp", there_path, "quiet:/copy"], ["cp", "quiet:/copy", back_path]] {
        let output = run(server, &words, b"");
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    }
    assert!(std::fs::read(&back).expect("copied") == large);
}

fn attachments(server: &Server) {
    let output = run(server, &["attach", "-i", "reads"], b"this\nand that\n");
    assert_eq!(text(&output.stdout), "got this\ngot and that\nend\n", "{}", text(&output.stderr));
    wait_for("the end of what was read", || {
        let phase = server.kubectl(&["get", "pod", "reads", "-o", "jsonpath={.status.phase}"])?;
        (phase == "Succeeded").then_some(())
    });
}

fn ports(server: &Server) {
    for protocol in ["true", "false"] {
        let mut command = server.command(&["port-forward", "pod/web", ":8080", "--address=127.0.0.1"]);
        command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", protocol);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("runs");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut running = Running { child, lines };
        let said = running.line();
        let address = said.split_whitespace().nth(2).expect("an address").to_owned();
        let getting: Vec<_> = (0..10)
            .map(|_| {
                let address = address.clone();
                std::thread::spawn(move || {
                    let mut stream = std::net::TcpStream::connect(address).expect("connected");
                    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("asked");
                    let mut page = Vec::new();
                    std::io::Read::read_to_end(&mut stream, &mut page).expect("answered");
                    text(&page)
                })
            })
            .collect();
        for page in getting {
            let page = page.join().expect("a page");
            assert!(page.starts_with("HTTP/1.1 200") && page.contains("web"), "{protocol}: {page}");
        }
    }
}

/// The same server through the API's own paths.
fn pages(server: &Server) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80, \
                   targetPort: 8080}]}\n";
    std::fs::write(file.path(), service).expect("written");
    server.kubectl(&["label", "pod", "web", "app=web"]).expect("labelled");
    server.kubectl(&["apply", "-f", file.path().to_str().expect("a path")]).expect("made");
    for path in
        ["pods/web:8080/proxy/", "pods/http:web:8080/proxy/?c=d", "services/web/proxy/", "services/web:80/proxy/"]
    {
        let path = format!("/api/v1/namespaces/default/{path}");
        let page = wait_for("a page", || server.kubectl(&["get", "--raw", &path]));
        assert!(page.starts_with("web"), "{path}: {page}");
    }
    let refused = run(server, &["get", "--raw", "/api/v1/namespaces/default/pods/web:9/proxy/"], b"");
    assert!(text(&refused.stderr).contains("error trying to reach service"), "{}", text(&refused.stderr));
}

fn usage(server: &Server) {
    let pods = wait_for("what pods use", || server.kubectl(&["top", "pods", "--no-headers"]));
    assert!(pods.lines().any(|line| line.starts_with("web ") && line.contains("Mi")), "{pods}");
    let nodes = server.kubectl(&["top", "nodes", "--no-headers"]).expect("what nodes use");
    assert!(nodes.starts_with("test-node ") && nodes.contains('%'), "{nodes}");
}

fn what_is_cut_off_leaves_nothing(server: &Server) {
    let seconds = format!("{}", 800_000 + std::process::id());
    let words = ["/usr/bin/sleep", seconds.as_str()];
    let sessions: Vec<Running> = (0..CUT)
        .map(|_| Running::start(server, &["exec", "-i", "quiet", "--", "/usr/bin/sleep", seconds.as_str()]))
        .collect();
    wait_for("all to run", || (processes(&words).len() == CUT).then_some(()));
    drop(sessions);
    wait_for("none to be left", || processes(&words).is_empty().then_some(()));
    // One that took no input while much was sent.
    let mut stuffed = Running::start(server, &["exec", "-i", "quiet", "--", "/usr/bin/sleep", seconds.as_str()]);
    wait_for("it to run", || (processes(&words).len() == 1).then_some(()));
    let mut stdin = stuffed.child.stdin.take().expect("its input");
    let writing = std::thread::spawn(move || drop(stdin.write_all(&vec![0; 1 << 20])));
    drop(stuffed);
    writing.join().expect("cut off");
    wait_for("it to be gone", || processes(&words).is_empty().then_some(()));
}
