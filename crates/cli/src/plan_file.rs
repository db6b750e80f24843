//! A plan that is kept: what was wished, what would happen, and for which cluster. Secret values stay out of it; they are
//! read from the manifests again, which must not have changed.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use kinds::Catalog;
use meta::ObjectExt;
use planner::{Plan, Reference};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::api::Api;
use crate::inventory::Inventory;
use crate::manifest;
use crate::planning::{Stopped, Wish, placed};
use crate::report::CommandError;

const KIND: &str = "PlanFile";
/// Far above any plan that a server makes.
const BYTES_MAX: u64 = 256 << 20;
const SALT_BYTES: usize = 16;

/// The file's content.
pub(crate) struct PlanFile(Value);

impl PlanFile {
    /// A plan to be kept.
    pub async fn of(api: &Api, wish: &Wish, plan: &Plan, files: &[PathBuf]) -> Result<PlanFile, CommandError> {
        let mut salt = [0u8; SALT_BYTES];
        clock::Ids::fill(&clock::SystemIds, &mut salt);
        let salt = hex(&salt);
        let objects: Vec<Value> = wish.objects.iter().map(|object| kept(object, &salt)).collect();
        let sources: Vec<PathBuf> = files.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
        let body = json!({
            "cluster": cluster(api).await?, "salt": salt, "sources": sources, "objects": objects,
            "deletions": wish.deletions, "force": wish.force, "replace": wish.replace,
            "inventory": wish.inventory, "plan": plan,
        });
        let checksum = checksum(&body);
        Ok(PlanFile(json!({"apiVersion": planner::API_VERSION, "kind": KIND, "checksum": checksum, "body": body})))
    }

    /// Writes it, readable by its owner only; an existing file is replaced.
    pub fn write(&self, path: &Path) -> Result<(), CommandError> {
        let beside = path.with_extension("tmp");
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        std::io::Write::write_all(&mut file, serde_json::to_string_pretty(&self.0)?.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        Ok(())
    }

    /// Reads one that nobody has edited.
    pub fn read(path: &Path) -> Result<PlanFile, CommandError> {
        let stopped = |why: &str| Stopped(format!("{}: {why}; nothing was written", path.display()));
        let size = std::fs::metadata(path).map_err(|error| stopped(&error.to_string()))?.len();
        if size > BYTES_MAX {
            return Err(stopped("it is too large for a plan").into());
        }
        let text = std::fs::read_to_string(path).map_err(|error| stopped(&error.to_string()))?;
        let file: Value = serde_json::from_str(&text).map_err(|error| stopped(&format!("it is no plan: {error}")))?;
        if file.text(&["kind"]) != KIND {
            return Err(stopped("it is no plan").into());
        }
        if file.text(&["apiVersion"]) != planner::API_VERSION {
            let why = format!("it was made by another version ({}); plan again", file.text(&["apiVersion"]));
            return Err(stopped(&why).into());
        }
        if file.text(&["checksum"]) != checksum(&file["body"]) {
            return Err(stopped("it was edited; plan again").into());
        }
        Ok(PlanFile(file))
    }

    /// What it wishes and what it planned, on the cluster that it was made for.
    pub async fn open(&self, api: &Api) -> Result<(Wish, Plan), CommandError> {
        let body = &self.0["body"];
        if body.text(&["cluster"]) != cluster(api).await? {
            return Err(Stopped("the plan was made for another cluster; nothing was written".to_owned()).into());
        }
        let planned: Option<Inventory> = serde_json::from_value(body["inventory"].clone())?;
        let inventory = match planned {
            Some(planned) => Some(planned.unmoved(api).await?),
            None => None,
        };
        let objects = self.objects()?;
        let deletions: Vec<Reference> = serde_json::from_value(body["deletions"].clone())?;
        let (force, replace) = (body.flag(&["force"]), body.flag(&["replace"]));
        let plan = serde_json::from_value(body["plan"].clone())?;
        Ok((Wish { objects, updates: Vec::new(), deletions, force, replace, inventory }, plan))
    }

    /// The objects, with the secret values of the manifests.
    fn objects(&self) -> Result<Vec<Value>, CommandError> {
        let body = &self.0["body"];
        let is_left_out = |object: &Value| object.get("digest").is_some();
        let kept = body.items(&["objects"]);
        if !kept.iter().any(is_left_out) {
            return Ok(kept.to_vec());
        }
        let sources: Vec<PathBuf> = serde_json::from_value(body["sources"].clone())?;
        let read = manifest::read_all(&sources)?;
        let salt = body.text(&["salt"]);
        let whole = |object: &Value| -> Result<Value, CommandError> {
            if !is_left_out(object) {
                return Ok(object.clone());
            }
            let same = |candidate: &&Value| digest(candidate, salt) == object.text(&["digest"]);
            let gone = || {
                let about: Reference = serde_json::from_value(object["object"].clone()).unwrap_or_default();
                let title = planner::text::title(&about);
                Stopped(format!("the manifest of {title} has changed since the plan was made; nothing was written"))
            };
            Ok(read.iter().find(same).ok_or_else(gone)?.clone())
        };
        kept.iter().map(whole).collect()
    }
}

/// An object as it is kept: one with secrets by its salted digest only.
fn kept(object: &Value, salt: &str) -> Value {
    let kind = object.gvk().and_then(|gvk| Catalog::built_in().kind(&gvk).cloned());
    if kind.is_some_and(|kind| !kind.secret_fields.is_empty()) {
        return json!({"object": placed(object), "digest": digest(object, salt)});
    }
    object.clone()
}

fn digest(object: &Value, salt: &str) -> String {
    hex(&Sha256::digest(format!("{salt}{object}")))
}

fn checksum(body: &Value) -> String {
    hex(&Sha256::digest(body.to_string()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What tells clusters apart: the identity of the namespace that every cluster has.
async fn cluster(api: &Api) -> Result<String, CommandError> {
    Ok(api.get("/api/v1/namespaces/kube-system").await?.uid().to_owned())
}
