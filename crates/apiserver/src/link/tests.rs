use std::collections::BTreeMap;

use bytes::Bytes;
use meta::Time;
use tokio::sync::oneshot;

use super::*;
use crate::nodes::Used;

/// A hand that echoes.
struct Echo;

fn pod() -> PodId {
    PodId { namespace: "a".to_owned(), name: "p".to_owned(), uid: "u".to_owned() }
}

impl NodeHand for Echo {
    fn log<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> NodeAnswer<'a, LogText> {
        Box::pin(async move {
            let (pieces, text) = mpsc::channel(2);
            let lines = format!("{id} {:?} {}", options.tail_lines, options.follow);
            pieces.try_send(Bytes::from(lines)).map_err(|error| NodeError::Internal(error.to_string()))?;
            Ok(text)
        })
    }

    fn exec<'a>(&'a self, pod: &'a PodId, container: &'a str, spec: &'a ExecSpec) -> NodeAnswer<'a, Session> {
        Box::pin(async move {
            if spec.command.is_empty() {
                return Err(NodeError::NotFound(format!("{}/{} {container}", pod.namespace, pod.name)));
            }
            let (near, far) = tokio::io::duplex(1024);
            let (mut reader, mut writer) = tokio::io::split(far);
            let (sender, exit) = oneshot::channel();
            tokio::spawn(async move {
                // Says what it hears, and how much that was when there is no more.
                let count = tokio::io::copy(&mut reader, &mut writer).await.expect("copied");
                let _ = sender.send(Ok(i32::try_from(count).expect("a number")));
            });
            let (stdout, stdin) = tokio::io::split(near);
            Ok(Session {
                stdin: Some(Box::pin(stdin)),
                stdout: Some(Box::pin(stdout)),
                stderr: None,
                resize: None,
                exit,
            })
        })
    }

    fn attach<'a>(&'a self, _: &'a PodId, _: &'a str, _: bool) -> NodeAnswer<'a, Session> {
        Box::pin(async { Err(NodeError::BadRequest("not here".to_owned())) })
    }

    fn usage(&self) -> NodeAnswer<'_, NodeUsage> {
        Box::pin(async { Ok(usage()) })
    }

    /// Some pages are longer than they may be.
    fn page(&self, page: Page) -> NodeAnswer<'_, Bytes> {
        Box::pin(async move {
            Ok(match page {
                Page::Health => Bytes::new(),
                Page::Pods => Bytes::from(vec![b'x'; PAGE_BYTES_MAX + 1]),
                _ => Bytes::from(vec![b'x'; PAGE_BYTES_MAX]),
            })
        })
    }

    fn forward<'a>(&'a self, _: &'a PodId, port: u16) -> NodeAnswer<'a, Box<dyn Connection>> {
        Box::pin(async move {
            let (near, mut far) = tokio::io::duplex(1024);
            tokio::spawn(async move {
                far.write_all(port.to_string().as_bytes()).await.expect("written");
            });
            Ok(Box::new(near) as Box<dyn Connection>)
        })
    }
}

fn usage() -> NodeUsage {
    let used = Used { cpu_nanos: 3, memory_bytes: 4 };
    NodeUsage {
        at: Time::from_micros(7),
        window: Duration::from_nanos(9),
        node: Used { cpu_nanos: 1, memory_bytes: 2 },
        pods: BTreeMap::from([("u".to_owned(), BTreeMap::from([("c".to_owned(), used)]))]),
    }
}

/// A node whose connections end in an [`Echo`].
fn remote() -> RemoteNode {
    let dial: Dial = Arc::new(|| {
        Box::pin(async {
            let (near, far) = tokio::io::duplex(4096);
            tokio::spawn(async move {
                let _ = answer(&Echo, Box::pin(far)).await;
            });
            Ok(Box::pin(near) as Secured)
        })
    });
    RemoteNode::new("n", dial)
}

#[tokio::test]
async fn logs_come_in_pieces_and_end() {
    let options = LogOptions { tail_lines: Some(3), follow: true, ..LogOptions::default() };
    let mut text = remote().log("id", &options).await.expect("a log");
    assert_eq!(text.recv().await.expect("a piece"), "id Some(3) true");
    assert_eq!(text.recv().await, None);
}

#[tokio::test]
async fn a_process_is_carried_both_ways_to_its_exit() {
    let spec = ExecSpec { command: vec!["x".to_owned()], stdin: true, stdout: true, ..ExecSpec::default() };
    let mut session = remote().exec(&pod(), "c", &spec).await.expect("a session");
    assert!(session.stderr.is_none() && session.resize.is_none());
    let mut stdin = session.stdin.take().expect("input");
    let said = vec![7; 200_000];
    let writing = tokio::spawn(async move {
        stdin.write_all(&said).await.expect("written");
        stdin.shutdown().await.expect("ended");
    });
    let mut heard = Vec::new();
    session.stdout.take().expect("output").take(200_000).read_to_end(&mut heard).await.expect("read");
    writing.await.expect("written");
    assert_eq!(heard, vec![7; 200_000]);
}

#[tokio::test]
async fn errors_usage_and_ports_come_through() {
    let node = remote();
    let refused = node.exec(&pod(), "c", &ExecSpec::default()).await.err();
    assert_eq!(refused, Some(NodeError::NotFound("a/p c".to_owned())));
    let refused = node.attach(&pod(), "c", true).await.err();
    assert_eq!(refused, Some(NodeError::BadRequest("not here".to_owned())));
    assert_eq!(node.usage().await, Ok(usage()));
    let mut port = node.forward(&pod(), 80).await.expect("a connection");
    let mut text = [0; 2];
    port.read_exact(&mut text).await.expect("read");
    assert_eq!(&text, b"80");
}

#[tokio::test]
async fn pages_come_whole_or_not_at_all() {
    let node = remote();
    assert_eq!(node.page(Page::Health).await, Ok(Bytes::new()));
    assert_eq!(node.page(Page::Summary).await.map(|page| page.len()), Ok(PAGE_BYTES_MAX));
    let refused = node.page(Page::Pods).await.expect_err("too long");
    assert_eq!(refused.message(), "node \"n\": its page is too long");
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_named() {
    let dial: Dial = Arc::new(|| Box::pin(async { Err(std::io::Error::other("refused")) }));
    let error = RemoteNode::new("n", dial).usage().await.expect_err("no connection");
    assert_eq!(error.message(), "error dialing backend: node \"n\": refused");
}

#[tokio::test]
async fn garbage_is_refused() {
    for bytes in [&b"x\n"[..], b"{\"ask\":\"nothing\"}\n", &[b'a'; 300_000]] {
        let (mut near, far) = tokio::io::duplex(400_000);
        near.write_all(bytes).await.expect("written");
        assert!(answer(&Echo, Box::pin(far)).await.is_err());
    }
    let mut long = &[1, 0xff, 0xff, 0xff, 0xff][..];
    assert!(frame::read(&mut long).await.is_err());
    let mut unknown = &[9, 0, 0, 0, 0][..];
    assert!(frame::read(&mut unknown).await.is_err());
}
