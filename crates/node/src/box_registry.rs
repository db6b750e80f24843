//! A registry of one image, on a loopback address, for as long as a runtime fetches the built-in image: the one way
//! into a runtime's store that CRI has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use oci::{Digest, Images};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

/// No such host exists: names below it are ours.
const HOST: &str = "setpoint.local/";
/// Connections at a time: a runtime opens a few.
const CONNECTIONS_MAX: usize = 16;
/// Of a manifest.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Pieces of a blob between the disk and the runtime.
const PIECES_MAX: usize = 4;
const PIECE_BYTES: usize = 64 << 10;
const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const BLOB: &str = "application/octet-stream";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Whether a name is one of ours.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with(HOST)
}

/// A name without the address of this machine that one of ours was fetched from.
pub(crate) fn plain(name: &str) -> &str {
    let own = name.split_once('/').filter(|(host, rest)| {
        host.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback()) && is_ours(rest)
    });
    own.map_or(name, |(_, rest)| rest)
}

/// What there is to fetch, by digest or tag.
type Shelf = BTreeMap<String, (Digest, &'static str)>;

/// Serves until it is dropped.
pub(crate) struct BoxRegistry {
    address: SocketAddr,
    serving: AbortHandle,
}

impl BoxRegistry {
    /// Serves the built-in image of `images`.
    pub async fn open(images: &Images) -> io::Result<BoxRegistry> {
        let own = images.clone();
        let shelf = tokio::task::spawn_blocking(move || shelf(&own)).await.map_err(io::Error::other)??;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(serve(listener, Arc::new(shelf), images.clone())).abort_handle();
        Ok(BoxRegistry { address, serving })
    }

    /// The name by which a runtime finds the image here.
    pub fn reference(&self) -> String {
        format!("{}/{}", self.address, oci::BOX_IMAGE)
    }
}

impl Drop for BoxRegistry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The blobs of the image, and nothing else that the store has.
fn shelf(images: &Images) -> io::Result<Shelf> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, oci::BOX_IMAGE);
    let image = images.get(oci::BOX_IMAGE).map_err(io::Error::other)?.ok_or_else(missing)?;
    let file = images.open_blob(&image.digest)?.ok_or_else(missing)?;
    let mut text = Vec::new();
    file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text)?;
    let manifest: Value = serde_json::from_slice(&text)?;
    let tag = oci::BOX_IMAGE.rsplit(':').next().unwrap_or_default().to_owned();
    let mut shelf =
        Shelf::from([(tag, (image.digest.clone(), MANIFEST)), (image.digest.to_string(), (image.digest, MANIFEST))]);
    let layers = manifest["layers"].as_array().into_iter().flatten();
    for blob in layers.chain([&manifest["config"]]) {
        if let Some(digest) = blob["digest"].as_str().and_then(Digest::parse) {
            shelf.insert(digest.to_string(), (digest, BLOB));
        }
    }
    Ok(shelf)
}

async fn serve(listener: TcpListener, shelf: Arc<Shelf>, images: Images) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropped with this task: then its connections end.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (shelf, images) = (Arc::clone(&shelf), images.clone());
        connections.spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                let answer = answer(request.method(), request.uri().path(), &shelf, &images);
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            let served =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            if let Err(error) = served {
                tracing::debug!(%error, "a runtime that fetches an image hung up");
            }
            drop(place);
        });
    }
}

type Text = Either<Full<Bytes>, Blob>;

fn answer(method: &Method, path: &str, shelf: &Shelf, images: &Images) -> Response<Text> {
    let empty = |status: StatusCode| {
        let mut response = Response::new(Either::Left(Full::new(Bytes::new())));
        *response.status_mut() = status;
        response
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return empty(StatusCode::METHOD_NOT_ALLOWED);
    }
    if path.trim_end_matches('/') == "/v2" {
        return empty(StatusCode::OK);
    }
    let asked = path.rsplit('/').next().unwrap_or_default();
    let Some((digest, kind)) = shelf.get(asked) else { return empty(StatusCode::NOT_FOUND) };
    let Ok(Some(file)) = images.open_blob(digest) else { return empty(StatusCode::NOT_FOUND) };
    let length = file.metadata().map_or(0, |found| found.len());
    let body =
        if *method == Method::HEAD { Either::Left(Full::new(Bytes::new())) } else { Either::Right(Blob::of(file)) };
    let built = Response::builder()
        .header(CONTENT_TYPE, *kind)
        .header(CONTENT_LENGTH, length)
        .header(DIGEST, digest.as_str())
        .body(body);
    built.unwrap_or_else(|_| empty(StatusCode::INTERNAL_SERVER_ERROR))
}

/// A file as it is read.
struct Blob(mpsc::Receiver<io::Result<Bytes>>);

impl Blob {
    fn of(mut file: File) -> Blob {
        let (pieces, taken) = mpsc::channel(PIECES_MAX);
        tokio::task::spawn_blocking(move || {
            let mut buffer = vec![0; PIECE_BYTES];
            loop {
                let piece = match file.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(count) => Ok(Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default())),
                    Err(error) => Err(error),
                };
                let is_last = piece.is_err();
                if pieces.blocking_send(piece).is_err() || is_last {
                    return;
                }
            }
        });
        Blob(taken)
    }
}

impl Body for Blob {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_fetched_from_here_gets_its_own_name() {
        let check = |name: &str, expected: &str| assert_eq!(plain(name), expected);
        check("127.0.0.1:4711/setpoint.local/box:v1", "setpoint.local/box:v1");
        check("[::1]:4711/setpoint.local/box:v1", "setpoint.local/box:v1");
        check("192.0.2.1:4711/setpoint.local/box:v1", "192.0.2.1:4711/setpoint.local/box:v1");
        check("127.0.0.1:5000/app:v1", "127.0.0.1:5000/app:v1");
        check("docker.io/library/nginx:1", "docker.io/library/nginx:1");
    }
}
