//! A small HTTP/2 client: one connection, one request at a time, as a busy controller has it.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::ServerName;
use serde_json::Value;
use tls::{ClientConfig, Trust};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Knows where the server is and who we are.
#[derive(Clone, Default)]
pub struct Client {
    address: String,
    tls: Option<Arc<ClientConfig>>,
}

/// One connection.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    address: String,
}

impl Client {
    /// Reads the first entry of a kubeconfig.
    pub fn from_kubeconfig(path: &Path, address: &str) -> Result<Client, String> {
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let config: Value = serde_saphyr::from_str(&text).map_err(|e| e.to_string())?;
        let pem = |value: &Value| STANDARD.decode(value.as_str().unwrap_or("")).map_err(|e| e.to_string());
        let ca = pem(&config["clusters"][0]["cluster"]["certificate-authority-data"])?;
        let user = &config["users"][0]["user"];
        let (cert, key) = (pem(&user["client-certificate-data"])?, pem(&user["client-key-data"])?);
        let roots = tls::certificates(&ca).and_then(tls::authorities)?;
        let identity = (tls::certificates(&cert)?, tls::private_key(&key)?);
        let tls = tls::client(Trust::Authorities(roots), Some(identity), &[b"h2"])?;
        Ok(Client { address: address.to_owned(), tls: Some(Arc::new(tls)) })
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Connection, String> {
        let tls = self.tls.clone().ok_or("not configured")?;
        let socket = TcpStream::connect(&self.address).await.map_err(|e| e.to_string())?;
        socket.set_nodelay(true).map_err(|e| e.to_string())?;
        let name = ServerName::try_from("localhost").map_err(|e| e.to_string())?;
        let stream = TlsConnector::from(tls).connect(name, socket).await.map_err(|e| e.to_string())?;
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(16 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|e| e.to_string())?;
        tokio::spawn(connection);
        Ok(Connection { sender, address: self.address.clone() })
    }
}

impl Connection {
    /// Sends a request and returns the status and the body as it streams in.
    pub async fn open(&mut self, method: &str, path: &str, body: Option<Bytes>) -> Result<(u16, Incoming), String> {
        let media_type = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header("content-type", media_type)
            .header("user-agent", "bench")
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|e| e.to_string())?;
        self.sender.ready().await.map_err(|e| e.to_string())?;
        let response = self.sender.send_request(request).await.map_err(|e| e.to_string())?;
        Ok((response.status().as_u16(), response.into_body()))
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&mut self, method: &str, path: &str, body: Option<Bytes>) -> Result<(u16, Bytes), String> {
        let (status, body) = self.open(method, path, body).await?;
        let bytes = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
        Ok((status, bytes))
    }
}
