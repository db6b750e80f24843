//! A probe by gRPC's health protocol: one call of `grpc.health.v1.Health/Check`.

use agent::pod::ProbeAnswer;
use bytes::{BufMut, Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use meta::ObjectExt;
use serde_json::Value;
use tokio::net::TcpStream;

use super::{Target, address};

/// An answer is a few bytes.
const ANSWER_BYTES_MAX: usize = 4 * 1024;
/// `HealthCheckResponse.ServingStatus`.
const SERVING: u8 = 1;

/// Performs a `grpc` probe.
pub(super) async fn check(target: &Target<'_>, spec: &Value) -> ProbeAnswer {
    let address = match address(target, spec) {
        Ok(address) => address,
        Err(why) => return ProbeAnswer::Unknown(why),
    };
    match ask(&address, spec.text(&["service"])).await {
        Ok(status) if status == SERVING => ProbeAnswer::Success,
        Ok(status) => {
            let name = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"].get(usize::from(status));
            let name = name.copied().unwrap_or("UNKNOWN");
            ProbeAnswer::Failure(format!("service unhealthy (responded with {name:?})"))
        }
        Err(why) => ProbeAnswer::Failure(why),
    }
}

async fn ask(address: &str, service: &str) -> Result<u8, String> {
    let unreachable = |error: &dyn std::fmt::Display| format!("failed to connect service {address:?}: {error}");
    let stream = TcpStream::connect(address).await.map_err(|error| unreachable(&error))?;
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| unreachable(&error))?;
    let driving = tokio::spawn(connection);
    let request = Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(message(service)))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| format!("service health check failed: {error}"))?;
    let refused = answer.headers().get("grpc-status").cloned();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| format!("service health check failed: {error}"))?;
    let code = body.trailers().and_then(|trailers| trailers.get("grpc-status").cloned()).or(refused);
    driving.abort();
    match code.as_ref().and_then(|code| code.to_str().ok()) {
        Some("0") => Ok(serving_status(&body.to_bytes())),
        Some("12") => Err("server does not implement the grpc health protocol (grpc.health.v1.Health)".to_owned()),
        code => Err(format!("service health check failed: code {}", code.unwrap_or("unknown"))),
    }
}

/// A frame with `HealthCheckRequest { service = 1 }`.
fn message(service: &str) -> Bytes {
    // Names of services are at most 253 bytes here: two bytes of length at most.
    let mut body = BytesMut::new();
    if !service.is_empty() {
        body.put_u8(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            body.put_u8((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        body.put_u8(length as u8);
        body.put_slice(service.as_bytes());
    }
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(body.len()).unwrap_or(0));
    frame.extend_from_slice(&body);
    frame.freeze()
}

/// `status = 1` of the `HealthCheckResponse` in a frame; 0 when it is not there.
fn serving_status(frame: &[u8]) -> u8 {
    match frame.get(5..) {
        Some([0x08, status, ..]) => *status,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        assert_eq!(&message("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(&message("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(serving_status(&[0, 0, 0, 0, 2, 8, 1]), SERVING);
        assert_eq!(serving_status(&[]), 0);
    }
}
