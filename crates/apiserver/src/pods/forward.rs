//! `pods/portforward`: connections to ports of a pod, through SPDY, as such (older programs) or within a WebSocket
//! (kubectl).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use client::Body;
use contract::Connection;
use http::Response;
use meta::{ApiError, ObjectExt};
use spdy::{CHUNK_BYTES, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{Asked, IDLE_TIMEOUT, id_of};
use crate::nodes::{NodeHand, PodId};
use crate::upgrade;
use crate::websocket::{ByteSocket, Handshake};

/// What the streams of SPDY mean.
const PROTOCOL: &str = "portforward.k8s.io";
/// The same within a WebSocket, as kubectl speaks it.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// Streams that were opened and not yet looked at.
const OPENED_MAX: usize = 16;
/// Connections that wait for the second of their two streams.
const HALVES_MAX: usize = 256;

/// Answers by changing to a WebSocket or to SPDY.
pub async fn answer(asked: &Asked<'_>) -> Result<Response<Body>, ApiError> {
    let pod = asked.pod().await?;
    let node = pod.text(&["spec", "nodeName"]);
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", pod.name())));
    }
    let target = Target { hand: asked.app.hand(node)?, pod: id_of(&pod) };
    let stopping = asked.app.stopping.subscribe();
    if let Some(handshake) = upgrade::Handshake::of(asked.http, &[PROTOCOL]).transpose()? {
        let (place, response) = (asked.place()?, handshake.response());
        tokio::spawn(async move {
            if let Some(connection) = handshake.connection().await {
                tunnel(connection, target, stopping).await;
            }
            drop(place);
        });
        return Ok(response);
    }
    let handshake = Handshake::of(asked.http, &[TUNNEL])?;
    let (place, response) = (asked.place()?, handshake.response());
    tokio::spawn(async move {
        if let Some(socket) = handshake.socket().await {
            tunnel(ByteSocket::new(socket), target, stopping).await;
        }
        drop(place);
    });
    Ok(response)
}

/// Where connections go.
#[derive(Clone)]
struct Target {
    hand: Arc<dyn NodeHand>,
    pod: PodId,
}

/// Carries connections until the client has gone.
async fn tunnel(connection: impl AsyncRead + AsyncWrite, target: Target, mut stopping: watch::Receiver<bool>) {
    let (opened, streams) = mpsc::channel(OPENED_MAX);
    let ended = tokio::select! {
        ended = spdy::carry(connection, opened) => ended,
        () = pair_up(streams, target) => Ok(()),
        _ = stopping.wait_for(|stopping| *stopping) => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a tunnel to a pod ended");
    }
}

/// The streams of one connection that are there.
#[derive(Default)]
struct Halves {
    error: Option<Stream>,
    data: Option<Stream>,
}

/// Two streams with the same request make a connection: one for its bytes, one for what goes wrong.
async fn pair_up(mut streams: mpsc::Receiver<Stream>, target: Target) {
    let mut halves: BTreeMap<String, Halves> = BTreeMap::new();
    // Dropped with this future: then its connections end.
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = streams.recv() => stream,
            Some(_) = connections.join_next() => continue,
            // Nothing was opened for hours and nothing is open.
            () = tokio::time::sleep(IDLE_TIMEOUT), if connections.is_empty() => None,
        };
        let Some(stream) = stream else { return };
        let header = |name: &str| stream.headers.get(name).cloned().unwrap_or_default();
        let (request, port, kind) = (header("requestid"), header("port").parse().unwrap_or(0), header("streamtype"));
        if port == 0 || !matches!(kind.as_str(), "error" | "data") || halves.len() >= HALVES_MAX {
            continue;
        }
        let half = halves.entry(request.clone()).or_default();
        *(if kind == "error" { &mut half.error } else { &mut half.data }) = Some(stream);
        if half.error.is_some()
            && half.data.is_some()
            && let Some(Halves { error: Some(error), data: Some(data) }) = halves.remove(&request)
        {
            connections.spawn(forward(target.clone(), port, error, data));
        }
    }
}

/// Carries one connection.
async fn forward(target: Target, port: u16, mut error: Stream, data: Stream) {
    match target.hand.forward(&target.pod, port).await {
        Ok(connection) => {
            copy(connection, data).await;
            error.output.finish().await;
        }
        Err(refused) => {
            let PodId { name, uid, .. } = &target.pod;
            let text = format!("error forwarding port {port} to pod {name}, uid {uid}: {}", refused.message());
            // The client may have gone meanwhile.
            let _ = error.output.send(text.into()).await;
            error.output.finish().await;
            data.output.finish().await;
        }
    }
}

/// Both ways, until both have ended or the client gives up.
async fn copy(connection: Box<dyn Connection>, stream: Stream) {
    let (mut from_pod, mut to_pod) = tokio::io::split(connection);
    let Stream { mut input, mut output, .. } = stream;
    let given_up = output.given_up();
    let inward = async {
        while let Some(bytes) = input.recv().await {
            if to_pod.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // The pod may still have something to say.
        let _ = to_pod.shutdown().await;
    };
    let outward = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match from_pod.read(&mut buffer).await {
                Ok(count) if count > 0 => {
                    if output.send(Bytes::copy_from_slice(&buffer[..count])).await.is_err() {
                        return;
                    }
                }
                _ => return output.finish().await,
            }
        }
    };
    tokio::select! {
        _ = async { tokio::join!(inward, outward) } => {}
        () = given_up => {}
    }
}
