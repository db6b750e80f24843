//! A whole server in a test: the real API, controllers and driver on a store in memory, without sockets.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::missing_panics_doc, reason = "only tests use it")]

mod real;

use std::sync::Arc;
use std::time::Duration;

use admit::UserInfo;
use admit::tokens::TokenConfig;
use admit::user::MASTERS;
use apiserver::{App, AppConfig, Identity, InProcess};
use bytes::Bytes;
use client::{Body, Transport};
use clock::{Clock, Ids, SystemClock, SystemIds};
use driver::{DriverConfig, SchedulerConfig, Source};
use http::{Method, Request};
use http_body_util::BodyExt;
use pki::{Pki, PkiConfig};
use serde_json::{Value, json};
use store::{Mem, Store};
use tokio::sync::watch;

pub use real::{RealAnswer, RealServer, complaints, listen_for_complaints};

/// How long a wait may take before the test fails. Long: nothing here measures time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server under test.
pub struct Cluster {
    /// The API.
    pub app: Arc<App>,
    /// Its store.
    pub store: Arc<Mem>,
    transport: InProcess,
    stop: watch::Sender<bool>,
    _keys: tempfile::TempDir,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub code: u16,
    /// The body.
    pub body: Value,
    /// `Warning` headers.
    pub warnings: Vec<String>,
}

impl Cluster {
    /// The API alone, with the namespaces that always exist.
    pub async fn api() -> Cluster {
        Cluster::api_through(|store| store).await
    }

    /// The same, whose API reaches the store through something.
    pub async fn api_through(wrap: impl FnOnce(Arc<Mem>) -> Arc<dyn Store>) -> Cluster {
        let keys = tempfile::tempdir().expect("a directory");
        let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock::new()), Arc::new(SystemIds));
        let pki = Pki::load_or_create(PkiConfig::new(keys.path()), Arc::clone(&clock), Arc::clone(&ids)).expect("keys");
        let public = pki.token_key().keys();
        let store = Arc::new(Mem::default());
        let issuer = "https://kubernetes.default.svc".to_owned();
        let identity = Identity {
            tokens: TokenConfig { issuer: issuer.clone(), audiences: vec![issuer], ..TokenConfig::default() },
            signer: Arc::new(Signer(pki)),
            key_set: public.to_jwks(),
            verifier: Arc::new(public),
        };
        let shared = wrap(store.clone());
        let app = App::new(AppConfig { store: shared, clock, ids, identity, git_version: "v1.37.0".to_owned() });
        app.become_ready();
        let transport = InProcess::new(Arc::clone(&app), UserInfo::new("admin", [MASTERS]).authenticated());
        let cluster = Cluster { app, store, transport, stop: watch::Sender::new(false), _keys: keys };
        for object in admit::bootstrap::objects() {
            cluster.create(&object).await;
        }
        cluster
    }

    /// The API with all controllers and simulated nodes.
    pub async fn with_controllers(nodes: usize) -> Cluster {
        let cluster = Cluster::api().await;
        for index in 0..nodes {
            cluster.create(&agent::node_object(index)).await;
        }
        let mut brains = controllers::all();
        brains.extend(agent::simulated());
        let (app, store): (_, Arc<dyn Store>) = (Arc::clone(&cluster.app), cluster.store.clone());
        let config = DriverConfig {
            source: Source::own(store, cluster.app.moved()),
            clock: Arc::new(SystemClock::new()),
            controllers: brains,
            transport: Box::new(move |name| {
                let user = UserInfo::new(format!("system:{name}"), [MASTERS]).authenticated();
                Arc::new(InProcess::new(Arc::clone(&app), user))
            }),
        };
        tokio::spawn(driver::run(config, cluster.stop.subscribe()));
        cluster
    }

    /// The same with the scheduler: pods find their nodes and run.
    pub async fn whole(nodes: usize) -> Cluster {
        let cluster = Cluster::with_controllers(nodes).await;
        let user = UserInfo::new("system:kube-scheduler", [MASTERS]).authenticated();
        let store: Arc<dyn Store> = cluster.store.clone();
        let config = SchedulerConfig {
            source: Source::own(store, cluster.app.moved()),
            clock: Arc::new(SystemClock::new()),
            transport: Arc::new(InProcess::new(Arc::clone(&cluster.app), user)),
        };
        tokio::spawn(driver::run_scheduler(config, cluster.stop.subscribe()));
        cluster
    }

    /// Sends any request.
    pub async fn send(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Answer {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let response = self.open(method, path, content_type, bytes).await;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        Answer { code, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), warnings }
    }

    /// Sends a request and leaves the body to be read.
    pub async fn open(&self, method: Method, path: &str, content_type: &str, body: Bytes) -> http::Response<Body> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .header("user-agent", "test")
            .body(body)
            .expect("a request");
        self.transport.call(request).await.expect("an answer")
    }

    /// GET of what is no JSON.
    pub async fn text(&self, path: &str) -> String {
        let response = self.open(Method::GET, path, "text/plain", Bytes::new()).await;
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends a request as it is; the code of the answer.
    pub async fn raw(&self, request: Request<Bytes>) -> u16 {
        self.transport.call(request).await.expect("an answer").status().as_u16()
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", &Value::Null).await
    }

    /// POST.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", body).await
    }

    /// PUT.
    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, "application/json", body).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", &Value::Null).await
    }

    /// Server-side apply.
    pub async fn apply(&self, path: &str, manager: &str, body: &Value) -> Answer {
        let path = format!("{path}?fieldManager={manager}");
        self.send(Method::PATCH, &path, "application/apply-patch+yaml", body).await
    }

    /// Creates an object by its own kind and namespace.
    pub async fn create(&self, object: &Value) -> Value {
        let gvk = meta::ObjectExt::gvk(object).expect("a kind");
        let kind = self.app.catalog().kind(&gvk).expect("a served kind").clone();
        let root =
            if kind.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/{}", kind.group, kind.version) };
        let path = match meta::ObjectExt::namespace(object) {
            "" => format!("{root}/{}", kind.plural),
            namespace => format!("{root}/namespaces/{namespace}/{}", kind.plural),
        };
        let answer = self.post(&path, object).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        answer.body
    }

    /// Waits until the object at `path` satisfies `is_so`, looking whenever the store moves.
    pub async fn wait(&self, path: &str, is_so: impl Fn(&Answer) -> bool) -> Answer {
        let mut moved = self.app.moved();
        tokio::time::timeout(PATIENCE, async {
            loop {
                moved.mark_unchanged();
                let answer = self.get(path).await;
                if is_so(&answer) {
                    return answer;
                }
                moved.changed().await.expect("the store lives");
            }
        })
        .await
        .unwrap_or_else(|_| panic!("{path} did not come to be so"))
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.store.snapshot().revision().0
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

struct Signer(Pki);

impl admit::tokens::TokenSigner for Signer {
    fn algorithm(&self) -> &str {
        self.0.token_key().algorithm()
    }
    fn key_id(&self) -> &str {
        self.0.token_key().key_id()
    }
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        self.0.token_key().sign(message)
    }
}

/// A ConfigMap.
pub fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"value": value},
    })
}

/// A Deployment.
pub fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example/app:1"}]},
            },
        },
    })
}
