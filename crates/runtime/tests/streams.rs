//! Exec, attach, terminals, logs, the network.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

mod rig;

use std::time::Duration;

use contract::{ContainerRuntime, Error, ExecSpec, Session, TerminalSize};
use rig::{PATIENCE, Rig, skip};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn read_all(session: &mut Session) -> String {
    let mut text = Vec::new();
    session.stdout.as_mut().unwrap().read_to_end(&mut text).await.unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

fn command(words: &[&str]) -> Vec<String> {
    std::iter::once("/bin/box").chain(words.iter().copied()).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_in_a_container() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("exec").await;
    let id = rig.start(&sandbox.id, &rig.spec("main", &["term", "0"])).await;
    let output =
        rig.runtime.exec_sync(&id, &command(&["echo", "out", "err", "bad", "exit", "3"]), PATIENCE).await.unwrap();
    assert_eq!((output.exit_code, &output.stdout[..], &output.stderr[..]), (3, &b"out\n"[..], &b"bad\n"[..]));
    let many = rig.runtime.exec_sync(&id, &command(&["spam", "20000"]), PATIENCE).await.unwrap();
    assert_eq!(many.stdout.len(), 20_000 * 12);
    let Err(Error::Start { message, exit_code }) = rig.runtime.exec_sync(&id, &["gone".to_owned()], PATIENCE).await
    else {
        panic!("a missing program ran");
    };
    assert_eq!(exit_code, 127);
    assert!(message.ends_with("exec: \"gone\": executable file not found in $PATH"), "{message}");
    // The time limit takes the descendants along, and only those.
    let late = rig.runtime.exec_sync(&id, &command(&["fork", "stubborn"]), Duration::from_millis(100)).await;
    assert!(matches!(late, Err(Error::Timeout { limit_ms: 100, .. })), "{late:?}");
    let living = || rig::leftovers(&rig.config).into_iter().filter(|what| what.starts_with("process")).count();
    let wait = async {
        // The shim and the first process.
        while living() != 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap();
    // Standard input, and its end.
    let spec = ExecSpec { command: command(&["cat", "exit", "5"]), stdin: true, stdout: true, ..ExecSpec::default() };
    let mut session = rig.runtime.exec(&id, &spec).await.unwrap();
    let mut stdin = session.stdin.take().unwrap();
    stdin.write_all(b"to and fro").await.unwrap();
    drop(stdin);
    assert_eq!(read_all(&mut session).await, "to and fro");
    assert_eq!(session.exit.await.unwrap().unwrap(), 5);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminals() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("tty").await;
    let mut spec = rig.spec("main", &["tty", "await-size", "133", "cat"]);
    (spec.tty, spec.stdin) = (true, true);
    let id = rig.start(&sandbox.id, &spec).await;
    rig.printed(&id, "tty=1").await;
    let mut attached = rig.runtime.attach(&id, true).await.unwrap();
    attached.resize.as_ref().unwrap().send(TerminalSize { width: 133, height: 43 }).await.unwrap();
    rig.printed(&id, "size=133x43").await;
    attached.stdin.as_mut().unwrap().write_all(b"typed\n\x04").await.unwrap();
    let text = read_all(&mut attached).await;
    assert!(text.contains("typed\r\n"), "{text:?}");
    assert_eq!(attached.exit.await.unwrap().unwrap(), 0);

    let id = rig.start(&sandbox.id, &rig.spec("plain", &["term", "0"])).await;
    let exec = ExecSpec {
        command: command(&["tty", "await-size", "90"]),
        tty: true,
        stdin: true,
        stdout: true,
        stderr: false,
    };
    let mut session = rig.runtime.exec(&id, &exec).await.unwrap();
    session.resize.as_ref().unwrap().send(TerminalSize { width: 90, height: 20 }).await.unwrap();
    assert!(read_all(&mut session).await.contains("size=90x20"));
    assert_eq!(session.exit.await.unwrap().unwrap(), 0);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attaching() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("attach").await;
    let mut spec = rig.spec("main", &["cat", "exit", "9"]);
    (spec.stdin, spec.stdin_once) = (true, true);
    let id = rig.start(&sandbox.id, &spec).await;
    let mut session = rig.runtime.attach(&id, true).await.unwrap();
    let mut stdin = session.stdin.take().unwrap();
    stdin.write_all(b"for the log\n").await.unwrap();
    drop(stdin);
    assert_eq!(read_all(&mut session).await, "for the log\n");
    assert_eq!(session.exit.await.unwrap().unwrap(), 9);
    assert_eq!(rig::output(&rig.ended(&id).await), "for the log\n");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_rotated() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let sandbox = rig.sandbox("logs").await;
    let mut spec = rig.spec("main", &["spam", "5000"]);
    (spec.log.file_bytes_max, spec.log.files_max) = (64 << 10, 3);
    let (status, _) = rig.run(&sandbox.id, &spec).await;
    let dir = status.log_path.parent().unwrap();
    let mut names: Vec<String> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(names[0], "0.log");
    let all: String =
        names[1..].iter().chain(&names[..1]).map(|name| std::fs::read_to_string(dir.join(name)).unwrap()).collect();
    assert!(all.ends_with("stdout F line 004999\n"));
    // No line was lost between the files.
    let numbers: Vec<u32> = all.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_the_host_and_one_another() {
    if skip() {
        return;
    }
    let rig = Rig::new().await;
    let (server, client) = (rig.sandbox("server").await, rig.sandbox("client").await);
    assert_ne!(server.ips, client.ips);
    let id = rig.start(&server.id, &rig.spec("main", &["serve", "8080"])).await;
    rig.printed(&id, "ready").await;
    let address = format!("{}:8080", server.ips[0]);
    let mut text = String::new();
    tokio::net::TcpStream::connect(&address).await.unwrap().read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello\n");
    let mut forwarded = rig.runtime.port_forward(&server.id, 8080).await.unwrap();
    let mut text = String::new();
    forwarded.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello\n");
    assert!(rig.runtime.port_forward(&server.id, 8081).await.is_err());
    let gateway = rig.config.network.as_ref().unwrap().pod_cidr.unwrap().gateway();
    let listener = tokio::net::TcpListener::bind((gateway, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let answer = tokio::spawn(async move { listener.accept().await.unwrap().0.write_all(b"from the host\n").await });
    let pod = server.ips[0].to_string();
    let gateway = gateway.to_string();
    let words = ["dial", &pod, "8080", "dial", &gateway, &port];
    let (_, printed) = rig.run(&client.id, &rig.spec("main", &words)).await;
    assert_eq!(printed, "hello\nfrom the host\n");
    answer.await.unwrap().unwrap();
    // The address goes back, and is not given to the next at once.
    rig.runtime.remove_sandbox(&client.id).await.unwrap();
    assert!(![&server.ips, &client.ips].contains(&&rig.sandbox("next").await.ips));
    rig.close().await;
}
