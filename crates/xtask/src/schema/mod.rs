//! `cargo xtask schema`: joins the published OpenAPI definitions with what only the Go sources say (protobuf
//! numbers, pointers, zero values, defaults) into one diffable facts file, without prose.

mod facts;
mod go;
mod proto;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Where the sources are and where the facts go.
#[derive(clap::Args)]
pub struct Args {
    /// The published definitions (JSON, with the x-kubernetes extensions).
    #[arg(long, value_name = "FILE")]
    definitions: PathBuf,
    /// Roots of the Go modules k8s.io/{api,apimachinery,apiextensions-apiserver,kube-aggregator}, each unpacked.
    #[arg(long, value_name = "DIR", required = true, num_args = 1..)]
    protos: Vec<PathBuf>,
    /// The facts file to write.
    #[arg(long, value_name = "FILE", default_value = "crates/schema/facts/v1.37.facts")]
    out: PathBuf,
}

/// Generates the facts file.
pub fn run(args: &Args) -> Result<(), String> {
    let definitions = read_definitions(&args.definitions)?;
    let packages = read_packages(&args.protos)?;
    let text = facts::render(&definitions, &packages)?;
    if let Some(dir) = args.out.parent() {
        fs::create_dir_all(dir).map_err(|e| format!("create {}: {e}", dir.display()))?;
    }
    fs::write(&args.out, &text).map_err(|e| format!("write {}: {e}", args.out.display()))?;
    println!("{}: {} lines, {} bytes", args.out.display(), text.lines().count(), text.len());
    Ok(())
}

/// Types by published name.
type Definitions = BTreeMap<String, Value>;

/// Go packages by the published prefix of their types, e.g. `io.k8s.api.apps.v1`.
type Packages = BTreeMap<String, go::Package>;

fn read_definitions(path: &Path) -> Result<Definitions, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("read {}: {e}", path.display()))?;
    let json: Value = serde_json::from_str(&text).map_err(|e| format!("parse {}: {e}", path.display()))?;
    let found = json.get("$defs").or_else(|| json.get("definitions")).and_then(Value::as_object);
    let map = found.ok_or_else(|| format!("{}: no definitions in it", path.display()))?;
    Ok(map.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn read_packages(roots: &[PathBuf]) -> Result<Packages, String> {
    let mut packages = Packages::new();
    for root in roots {
        for file in find(root, "generated.proto")? {
            let text = fs::read_to_string(&file).map_err(|e| format!("read {}: {e}", file.display()))?;
            let messages = proto::parse(&text);
            let dir = file.parent().unwrap_or(root);
            let package = go::read_package(dir)?;
            proto::cross_check(&messages, &package)?;
            packages.insert(messages.published_prefix(), package);
        }
    }
    Ok(packages)
}

fn find(root: &Path, name: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).map_err(|e| format!("read {}: {e}", dir.display()))? {
            let path = entry.map_err(|e| format!("read {}: {e}", dir.display()))?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().is_some_and(|n| n == name) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
