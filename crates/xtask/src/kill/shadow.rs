//! What the watch's events add up to, kept over the server's deaths.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::bench::client::{Client, Connection};

/// Where the objects are.
pub const PATH: &str = "/api/v1/namespaces/default/configmaps";
/// Names of the objects of this test; the server's own are left out.
const PREFIX: &str = "kill-";
/// Written to learn that a watch has caught up.
const MARKER: &str = "kill-marker";

/// A list: value and revision of each object.
pub struct List {
    pub revision: u64,
    pub items: BTreeMap<String, (u64, u64)>,
}

/// The state after all events so far.
#[derive(Default)]
pub struct Shadow {
    items: BTreeMap<String, (u64, u64)>,
    newest: u64,
    seen: usize,
    unmatched: BTreeSet<(String, u64)>,
}

/// A running watch and its shadow.
pub struct Stream {
    shadow: Shadow,
    body: Incoming,
    buffer: BytesMut,
    // The stream ends with its connection.
    _connection: Connection,
}

/// The revision of an object or a list.
pub fn revision_of(object: &Value) -> Result<u64, String> {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| format!("no revision in {object}"))
}

/// Lists the objects of this test.
pub async fn list(connection: &mut Connection) -> Result<List, String> {
    let (code, bytes) = connection.send("GET", PATH, None).await?;
    let tree: Value = serde_json::from_slice(&bytes).map_err(|e| format!("list answered {code}: {e}"))?;
    let mut items = BTreeMap::new();
    for object in tree["items"].as_array().into_iter().flatten() {
        let name = object["metadata"]["name"].as_str().unwrap_or("");
        if name.starts_with(PREFIX) {
            items.insert(name.to_owned(), (value_of(object), revision_of(object)?));
        }
    }
    Ok(List { revision: revision_of(&tree)?, items })
}

fn value_of(object: &Value) -> u64 {
    object["data"]["value"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl Shadow {
    /// How many events there were.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// The newest revision seen.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Forgets one event; `false` when there was none.
    pub fn take(&mut self, name: &str, revision: u64) -> bool {
        self.unmatched.remove(&(name.to_owned(), revision))
    }

    /// Whether the events add up to the list.
    pub fn must_be(&self, list: &List) -> Result<(), String> {
        let odd = self.items.iter().find(|(name, item)| list.items.get(*name) != Some(item));
        let odd = odd.or_else(|| list.items.iter().find(|(name, item)| self.items.get(*name) != Some(item)));
        match odd {
            None => Ok(()),
            Some((name, _)) => {
                Err(format!("{name}: events say {:?}, the list says {:?}", self.items.get(name), list.items.get(name)))
            }
        }
    }

    /// Watches on from the last event; the first time, from what the list showed.
    pub async fn resume(mut self, client: &Client, list: &List) -> Result<Stream, String> {
        if self.newest == 0 {
            (self.newest, self.items) = (list.revision, list.items.clone());
        }
        let mut connection = client.connect().await?;
        let path = format!("{PATH}?watch=true&resourceVersion={}", self.newest);
        let (code, body) = connection.open("GET", &path, None).await?;
        if code != 200 {
            return Err(format!("resuming the watch at {} was answered {code}", self.newest));
        }
        Ok(Stream { shadow: self, body, buffer: BytesMut::new(), _connection: connection })
    }

    fn take_in(&mut self, event: &Value) -> Result<(), String> {
        let (kind, object) = (event["type"].as_str().unwrap_or(""), &event["object"]);
        if kind == "ERROR" {
            return Err(format!("the watch at {} ended with {object}", self.newest));
        }
        let revision = revision_of(object)?;
        if revision <= self.newest {
            return Err(format!("event {revision} came after event {}", self.newest));
        }
        self.newest = revision;
        let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
        if !name.starts_with(PREFIX) {
            return Ok(());
        }
        self.seen += 1;
        let was_there = match kind {
            "DELETED" => self.items.remove(&name).is_some(),
            _ => {
                self.unmatched.insert((name.clone(), revision));
                self.items.insert(name.clone(), (value_of(object), revision)).is_some()
            }
        };
        match was_there == (kind != "ADDED") {
            true => Ok(()),
            false => Err(format!("{name}: {kind} at {revision}, was there before: {was_there}")),
        }
    }
}

impl Stream {
    /// The state so far.
    pub fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    /// The same to change.
    pub fn shadow_mut(&mut self) -> &mut Shadow {
        &mut self.shadow
    }

    /// Reads on until an event is seen that is newer than everything so far.
    pub async fn catch_up(&mut self, connection: &mut Connection) -> Result<(), String> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": MARKER}});
        let (code, bytes) = connection.send("POST", PATH, Some(object.to_string().into())).await?;
        let made: Value = serde_json::from_slice(&bytes).map_err(|e| format!("marker answered {code}: {e}"))?;
        let (revision, name) = (revision_of(&made)?, made["metadata"]["name"].as_str().unwrap_or("").to_owned());
        while self.shadow.newest < revision {
            if !self.read().await? {
                return Err("the watch ended".to_owned());
            }
        }
        // The marker's own life is over before anything else is compared.
        let (code, _) = connection.send("DELETE", &format!("{PATH}/{name}"), None).await?;
        while code == 200 && self.shadow.items.contains_key(&name) {
            if !self.read().await? {
                return Err("the watch ended".to_owned());
            }
        }
        self.shadow.take(&name, revision);
        Ok(())
    }

    /// Reads until the server dies.
    pub async fn record(mut self) -> Result<Shadow, String> {
        while self.read().await? {}
        Ok(self.shadow)
    }

    /// Takes in what has come; `false` at the end. A last line without its end is no event.
    async fn read(&mut self) -> Result<bool, String> {
        let Some(Ok(frame)) = self.body.frame().await else { return Ok(false) };
        self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(&self.buffer[..end]).map_err(|e| e.to_string())?;
            self.buffer.advance(end + 1);
            self.shadow.take_in(&event)?;
        }
        Ok(true)
    }
}
