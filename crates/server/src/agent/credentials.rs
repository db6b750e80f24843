//! What an agent keeps of its cluster, below `agent/` in its data directory, for its owner alone: where the server is, its
//! authority, and its own two certificates with their keys.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use clock::Clock;
use http::Uri;
use pki::{Leaf, user_of};

use super::join::{self, JoinError};
use super::{AgentConfig, certificates};
use crate::StartError;

/// What is kept. The keys are secret: no `Debug`.
pub struct Credentials {
    dir: PathBuf,
    /// Where the server is.
    pub server: Uri,
    /// Its authority, PEM.
    pub authority: String,
    client: RwLock<Arc<Leaf>>,
    serving: RwLock<Option<Arc<Leaf>>>,
}

impl Credentials {
    /// What was kept, or what joining brings.
    pub async fn load_or_join(config: &AgentConfig, clock: &Arc<dyn Clock>) -> Result<Credentials, StartError> {
        let dir = config.data_dir.join("agent");
        if let Some(kept) = load(&dir, config, clock)? {
            return Ok(kept);
        }
        let (Some(server), Some(token)) = (&config.server, &config.token) else {
            return Err(JoinError::NothingKept { dir }.into());
        };
        let authority = join::fetch_authority(server, token, clock).await?;
        let client = join::first_certificate(server, &authority, token, &config.role.name, clock).await?;
        pki::write_private(&dir.join("server"), &server.to_string())?;
        pki::write_private(&dir.join("ca.crt"), &authority)?;
        // The last: with it the agent has joined.
        client.store(&dir.join("client.pem"))?;
        tracing::info!(%server, node = config.role.name, "joined");
        let client = RwLock::new(Arc::new(client));
        Ok(Credentials { dir, server: server.clone(), authority, client, serving: RwLock::default() })
    }

    /// The certificate that it comes to the server with.
    pub fn client(&self) -> Arc<Leaf> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The certificate that it serves with, once it has one.
    pub fn serving(&self) -> Option<Arc<Leaf>> {
        self.serving.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps a newer one.
    pub fn renew_client(&self, leaf: Leaf) -> Result<Arc<Leaf>, pki::PkiError> {
        leaf.store(&self.dir.join("client.pem"))?;
        let leaf = Arc::new(leaf);
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&leaf);
        Ok(leaf)
    }

    /// Keeps a newer one.
    pub fn renew_serving(&self, leaf: Leaf) -> Result<(), pki::PkiError> {
        leaf.store(&self.dir.join("serving.pem"))?;
        *self.serving.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(leaf));
        Ok(())
    }
}

/// `None` when nothing usable is kept and a token is at hand to begin anew with.
fn load(dir: &Path, config: &AgentConfig, clock: &Arc<dyn Clock>) -> Result<Option<Credentials>, StartError> {
    let (server, authority) = (pki::read_private(&dir.join("server"))?, pki::read_private(&dir.join("ca.crt"))?);
    let client = Leaf::load(&dir.join("client.pem"))?;
    let (Some(server), Some(authority), Some(client)) = (server, authority, client) else { return Ok(None) };
    let own = user_of(client.der()).and_then(|user| user.node().map(str::to_owned)).unwrap_or_default();
    if own != config.role.name {
        return Err(JoinError::OtherName { dir: dir.to_owned(), kept: own, given: config.role.name.clone() }.into());
    }
    if client.until() <= clock.now() {
        return match config.token {
            Some(_) => Ok(None),
            None => Err(JoinError::Expired { dir: dir.to_owned(), at: client.until().to_rfc3339() }.into()),
        };
    }
    let kept = server.trim().parse().map_err(|_| JoinError::NothingKept { dir: dir.to_owned() })?;
    // The server may have moved; its authority has not.
    let server = config.server.clone().unwrap_or(kept);
    let serving = Leaf::load(&dir.join("serving.pem"))?.filter(|leaf| leaf.until() > clock.now());
    let serving = serving.filter(|leaf| certificates::is_of(leaf, &config.role.name));
    Ok(Some(Credentials {
        dir: dir.to_owned(),
        server,
        authority,
        client: RwLock::new(Arc::new(client)),
        serving: RwLock::new(serving.map(Arc::new)),
    }))
}

#[cfg(test)]
mod tests {
    use clock::{ManualClock, SystemIds};
    use pki::{Pki, PkiConfig, Purpose};
    use stdx::Time;

    use super::super::JoinToken;
    use super::*;

    fn config(name: &str, token: bool, data_dir: &Path) -> AgentConfig {
        let token = token.then(|| {
            let text = format!("abcdef.0123456789abcdef@sha256:{}", "0".repeat(64));
            JoinToken::parse(&text, None).expect("a token")
        });
        AgentConfig {
            server: None,
            token,
            data_dir: data_dir.to_owned(),
            role: crate::NodeRole::named(name),
            listen: ([127, 0, 0, 1], 0).into(),
            address: None,
            version: String::new(),
        }
    }

    #[test]
    fn what_is_kept_is_used_as_long_as_it_fits() {
        let directory = tempfile::tempdir().expect("a directory");
        let dir = directory.path().join("agent");
        let start = Time::parse("2026-06-01T00:00:00Z").expect("a time");
        let manual = Arc::new(ManualClock::at(start));
        let clock: Arc<dyn Clock> = manual.clone();
        let keys = PkiConfig::new(directory.path().join("pki"));
        let pki = Pki::load_or_create(keys, Arc::clone(&clock), Arc::new(SystemIds)).expect("keys");
        let look = |name: &str, token: bool| load(&dir, &config(name, token, directory.path()), &clock);
        assert!(look("a", false).expect("no error").is_none(), "nothing is kept");

        pki::write_private(&dir.join("server"), "https://192.0.2.1:6443/").expect("written");
        pki::write_private(&dir.join("ca.crt"), pki.ca().pem()).expect("written");
        let own = Purpose::client("system:node:a", Some("system:nodes"));
        pki.issue(&own).expect("issued").store(&dir.join("client.pem")).expect("stored");
        let kept = look("a", false).expect("no error").expect("kept");
        assert_eq!(kept.server.host(), Some("192.0.2.1"));
        assert!(kept.serving().is_none());
        let other = look("b", false).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(other.contains("of node \"a\", not of \"b\""), "{other}");

        manual.jump_to(Time::parse("2028-01-01T00:00:00Z").expect("a time"));
        let over = look("a", false).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(over.contains("ended at 2027"), "{over}");
        assert!(look("a", true).expect("no error").is_none(), "it joins anew");
    }
}
