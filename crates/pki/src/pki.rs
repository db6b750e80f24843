//! Everything together, under one directory.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use clock::{Clock, Ids};
use stdx::Time;

use crate::authority::{self, Authority};
use crate::csr::{self, CsrOrder};
use crate::error::PkiError;
use crate::file;
use crate::leaf::{Leaf, Purpose};
use crate::token_key::TokenKey;

/// Where keys live and what the server is called.
#[derive(Clone, Debug)]
pub struct PkiConfig {
    /// The directory; made when absent.
    pub dir: PathBuf,
    /// Further DNS names of the server (host name, load balancer).
    pub host_names: Vec<String>,
    /// Further addresses of the server.
    pub addresses: Vec<IpAddr>,
    /// Address of the Service `default/kubernetes`.
    pub service_address: IpAddr,
    /// E.g. `cluster.local`.
    pub cluster_domain: String,
}

impl PkiConfig {
    /// The defaults, for keys under `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            host_names: Vec::new(),
            addresses: Vec::new(),
            service_address: IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)),
            cluster_domain: "cluster.local".to_owned(),
        }
    }

    fn server(&self) -> Purpose {
        let own = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned);
        let full = format!("kubernetes.default.svc.{}", self.cluster_domain);
        let dns_names = own.into_iter().chain([full]).chain(self.host_names.iter().cloned()).collect();
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let addresses = loopback.into_iter().chain([self.service_address]).chain(self.addresses.iter().copied());
        Purpose::server("kube-apiserver", dns_names, addresses.collect())
    }
}

/// The certificates this process uses itself.
#[derive(Clone, Debug)]
struct Own {
    server: Arc<Leaf>,
    admin: Arc<Leaf>,
    front_proxy: Arc<Leaf>,
    node_client: Arc<Leaf>,
}

/// As whom the API server comes to a node. The name is kubeadm's; the group is of no use at the API.
pub const NODE_CLIENT: &str = "kube-apiserver-kubelet-client";
/// The group beside it.
pub const NODE_CLIENT_GROUP: &str = "setpoint:kube-apiservers";

/// Keys and certificates of one cluster.
pub struct Pki {
    config: PkiConfig,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    ca: Authority,
    front_proxy_ca: Authority,
    token_key: TokenKey,
    own: RwLock<Own>,
}

impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pki").field("dir", &self.config.dir).field("ca", &self.ca).finish_non_exhaustive()
    }
}

impl Pki {
    /// Reads what is there, makes what is missing, renews what is near its end or no longer fits the configuration.
    pub fn load_or_create(config: PkiConfig, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Result<Self, PkiError> {
        let dir = &config.dir;
        file::make_dir(dir).map_err(|source| PkiError::Write { path: dir.clone(), source })?;
        let now = clock.now();
        let ca = Authority::load_or_create(dir, "ca", "kubernetes-ca", now, &*ids)?;
        let front_proxy_ca = Authority::load_or_create(dir, "front-proxy-ca", "front-proxy-ca", now, &*ids)?;
        let token_key = TokenKey::load_or_create(&dir.join("sa.key"))?;
        let own = load_own(&config, &ca, &front_proxy_ca, now, &*ids)?;
        Ok(Self { config, clock, ids, ca, front_proxy_ca, token_key, own: RwLock::new(own) })
    }

    /// The authority that clients and servers trust.
    pub fn ca(&self) -> &Authority {
        &self.ca
    }

    /// The authority of proxies that speak for others.
    pub fn front_proxy_ca(&self) -> &Authority {
        &self.front_proxy_ca
    }

    /// The server's certificate at the moment.
    pub fn server(&self) -> Arc<Leaf> {
        self.own().server
    }

    /// The administrator's certificate at the moment: `kubernetes-admin` in `system:masters`.
    pub fn admin(&self) -> Arc<Leaf> {
        self.own().admin
    }

    /// The certificate with which this server calls aggregated servers.
    pub fn front_proxy(&self) -> Arc<Leaf> {
        self.own().front_proxy
    }

    /// The certificate with which this server comes to nodes.
    pub fn node_client(&self) -> Arc<Leaf> {
        self.own().node_client
    }

    /// The key of service-account tokens.
    pub fn token_key(&self) -> &TokenKey {
        &self.token_key
    }

    /// Whether the server answers to this name: nobody else may have a certificate to serve by it.
    pub fn serves(&self, name: &str) -> bool {
        self.config.server().dns_names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Whether [`Pki::renew`] would renew something.
    pub fn needs_renewal(&self, now: Time) -> bool {
        let own = self.own();
        [own.server, own.admin, own.front_proxy, own.node_client].iter().any(|leaf| leaf.needs_renewal(now))
    }

    /// Renews what is near its end; true when something was. Connections take up the new certificate when they ask for
    /// [`Pki::server`] again.
    pub fn renew(&self) -> Result<bool, PkiError> {
        let now = self.clock.now();
        if !self.needs_renewal(now) {
            return Ok(false);
        }
        let own = load_own(&self.config, &self.ca, &self.front_proxy_ca, now, &*self.ids)?;
        *self.own.write().unwrap_or_else(PoisonError::into_inner) = own;
        Ok(true)
    }

    /// A new certificate of the cluster's authority; it is not stored.
    pub fn issue(&self, purpose: &Purpose) -> Result<Leaf, PkiError> {
        Leaf::issue(&self.ca, purpose, self.clock.now(), &*self.ids)
    }

    /// Signs an approved request; PEM.
    pub fn sign_csr(&self, order: CsrOrder<'_>) -> Result<String, PkiError> {
        csr::sign(&self.ca, order, self.clock.now(), &*self.ids)
    }

    fn own(&self) -> Own {
        self.own.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn load_own(
    config: &PkiConfig,
    ca: &Authority,
    front_proxy_ca: &Authority,
    now: Time,
    ids: &dyn Ids,
) -> Result<Own, PkiError> {
    let load = |name: &str, authority: &Authority, purpose: &Purpose| {
        let path = config.dir.join(name);
        let stored = authority::read(&path)?.and_then(|text| Leaf::from_pem(&text));
        if let Some(leaf) = stored.filter(|leaf| !leaf.needs_renewal(now) && leaf.serves(authority, purpose)) {
            return Ok(Arc::new(leaf));
        }
        let leaf = Leaf::issue(authority, purpose, now, ids)?;
        authority::write(&path, &leaf.to_pem())?;
        Ok::<_, PkiError>(Arc::new(leaf))
    };
    Ok(Own {
        server: load("apiserver.pem", ca, &config.server())?,
        admin: load("admin.pem", ca, &Purpose::client("kubernetes-admin", Some("system:masters")))?,
        front_proxy: load("front-proxy-client.pem", front_proxy_ca, &Purpose::client("front-proxy-client", None))?,
        node_client: load("node-client.pem", ca, &Purpose::client(NODE_CLIENT, Some(NODE_CLIENT_GROUP)))?,
    })
}

#[cfg(test)]
#[path = "pki_tests.rs"]
mod tests;
