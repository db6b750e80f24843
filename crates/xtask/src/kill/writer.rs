//! One client that writes as fast as it is answered, until it is answered no more.

use bytes::Bytes;
use clock::{Ids, SeededIds};
use serde_json::{Value, json};

use super::keys::{Key, Keys};
use super::shadow::{PATH, revision_of};
use crate::bench::client::Connection;

/// One write in so many deletes.
const DELETE_ONE_IN: u64 = 8;

/// Writes until the connection breaks; what was sent last is then in doubt.
pub async fn write_until_killed(mut connection: Connection, mut keys: Keys, seed: u64) -> Result<Keys, String> {
    let dice = SeededIds::new(seed);
    loop {
        let count = keys.all.len() as u64;
        let at = usize::try_from(dice.number() % count).unwrap_or(0);
        keys.value += 1;
        let value = keys.value;
        let Some(key) = keys.all.get_mut(at) else { return Ok(keys) };
        let deletes = key.known.is_some() && dice.number().is_multiple_of(DELETE_ONE_IN);
        let sent = if deletes { None } else { Some(value) };
        let (method, path) = match (key.known, deletes) {
            (_, true) => ("DELETE", format!("{PATH}/{}", key.name)),
            (None, _) => ("POST", PATH.to_owned()),
            (Some(_), _) => ("PUT", format!("{PATH}/{}", key.name)),
        };
        let body = sent.map(|value| body(&key.name, value));
        let Ok((code, answer)) = connection.send(method, &path, body).await else {
            key.doubt = Some(sent);
            return Ok(keys);
        };
        let acknowledged = acknowledge(key, code, &answer, sent)?;
        keys.acknowledged.extend(acknowledged);
    }
}

fn acknowledge(key: &mut Key, code: u16, answer: &[u8], sent: Option<u64>) -> Result<Option<(String, u64)>, String> {
    let tree: Value = serde_json::from_slice(answer).map_err(|e| e.to_string())?;
    if !(200..300).contains(&code) {
        return Err(format!("{}: answered {code}: {tree}", key.name));
    }
    let Some(value) = sent else {
        key.known = None;
        return Ok(None);
    };
    let revision = revision_of(&tree)?;
    if let Some((_, before)) = key.known
        && revision <= before
    {
        return Err(format!("{}: written at revision {revision} after {before}", key.name));
    }
    key.known = Some((value, revision));
    Ok(Some((key.name.clone(), revision)))
}

/// An object of about a kilobyte, so that frames of the log span blocks of the medium.
fn body(name: &str, value: u64) -> Bytes {
    let padding = "x".repeat(usize::try_from(value % 1500).unwrap_or(0));
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"value": value.to_string(), "padding": padding},
    });
    object.to_string().into()
}
