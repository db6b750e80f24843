//! Raw bytes on a connection of streams (SPDY/3.1): what `port-forward`, `exec` and `attach` of older programs speak.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

/// Virtual time, far beyond every limit: only a connection that never ends is one.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}

/// Whatever comes, the connection ends when its peer has gone, and whoever serves a stream sees its end.
pub fn spdy_raw(data: &[u8]) {
    runtime().block_on(async {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (opened, mut streams) = mpsc::channel(1);
        let carrying = tokio::spawn(spdy::carry(theirs, opened));
        let serving = tokio::spawn(async move {
            while let Some(mut stream) = streams.recv().await {
                tokio::spawn(async move {
                    while let Some(bytes) = stream.input.recv().await {
                        if stream.output.send(bytes).await.is_err() {
                            return;
                        }
                    }
                    stream.output.finish().await;
                });
            }
        });
        let (mut read, mut write) = tokio::io::split(ours);
        let reading = tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
        // The connection may have ended before the bytes do.
        let _ = write.write_all(data).await;
        let _ = write.shutdown().await;
        let ended = tokio::time::timeout(PATIENCE, carrying).await;
        let _ = ended.expect("the connection never ends").expect("no panic in the connection");
        serving.await.expect("no panic in a stream");
        let _ = reading.await.expect("no panic");
    });
}

/// What our own client says: two streams, bytes on both, their ends.
pub fn spdy_seeds() -> Vec<Vec<u8>> {
    let headers = |kind: &str, port: &str| {
        BTreeMap::from(
            [("streamtype", kind), ("port", port), ("requestid", "0")].map(|(k, v)| (k.to_owned(), v.to_owned())),
        )
    };
    let said = runtime().block_on(async {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        let (streams, carrying) = spdy::dial(ours, vec![headers("error", "80"), headers("data", "80")]);
        let carrying = tokio::spawn(carrying);
        for mut stream in streams {
            let _ = stream.output.send(bytes::Bytes::from_static(b"GET / HTTP/1.0\r\n\r\n")).await;
            stream.output.finish().await;
        }
        let mut said = vec![0; 64 * 1024];
        let mut length = 0;
        while let Ok(Ok(more)) = tokio::time::timeout(Duration::from_secs(1), theirs.read(&mut said[length..])).await {
            if more == 0 {
                break;
            }
            length += more;
        }
        carrying.abort();
        said.truncate(length);
        said
    });
    vec![said, b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01".to_vec()]
}
