//! A probe by a request: any answer from 200 to 399 is a success.

use agent::pod::ProbeAnswer;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use meta::ObjectExt;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::{Target, address, trust};

/// How much of an answer is looked at: upstream's limit.
const BODY_BYTES_MAX: usize = 10 * 1024;

/// Performs an `httpGet`.
pub(super) async fn get(target: &Target<'_>, spec: &Value) -> ProbeAnswer {
    let address = match address(target, spec) {
        Ok(address) => address,
        Err(why) => return ProbeAnswer::Unknown(why),
    };
    let is_secure = spec.text(&["scheme"]) == "HTTPS";
    let url = format!("{}://{address}{}", if is_secure { "https" } else { "http" }, path(spec));
    let told = |error: String| ProbeAnswer::Failure(format!("Get \"{url}\": {error}"));
    let stream = match TcpStream::connect(&address).await {
        Ok(stream) => stream,
        Err(error) => return told(format!("dial tcp {address}: {error}")),
    };
    let status = match is_secure {
        true => match trust::secure(stream).await {
            Ok(stream) => ask(stream, &address, spec).await,
            Err(error) => Err(error.to_string()),
        },
        false => ask(stream, &address, spec).await,
    };
    match status {
        Ok(code) if (200..400).contains(&code) => ProbeAnswer::Success,
        Ok(code) => ProbeAnswer::Failure(format!("HTTP probe failed with statuscode: {code}")),
        Err(error) => told(error),
    }
}

fn path(spec: &Value) -> String {
    match spec.text(&["path"]) {
        "" => "/".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    }
}

async fn ask<S>(stream: S, address: &str, spec: &Value) -> Result<u16, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    let driving = tokio::spawn(connection);
    let answer = sender.send_request(request(address, spec)?).await.map_err(|error| text(&error))?;
    let code = answer.status().as_u16();
    // The body is read so that the server sees its answer taken; what it says does not matter.
    let _ = Limited::new(answer.into_body(), BODY_BYTES_MAX).collect().await;
    driving.abort();
    Ok(code)
}

fn request(address: &str, spec: &Value) -> Result<Request<Empty<Bytes>>, String> {
    let headers = spec.items(&["httpHeaders"]);
    let own = |name: &str| headers.iter().any(|header| header.text(&["name"]).eq_ignore_ascii_case(name));
    let mut builder = Request::get(path(spec));
    for (name, value) in [("host", address), ("user-agent", "kube-probe/1.37"), ("accept", "*/*")] {
        if !own(name) {
            builder = builder.header(name, value);
        }
    }
    for header in headers {
        builder = builder.header(header.text(&["name"]), header.text(&["value"]));
    }
    builder.header("connection", "close").body(Empty::new()).map_err(|error| error.to_string())
}
