//! `cargo xtask floors`: the law of `floors.toml`. A crate uses only crates of lower floors, and below the dashed
//! line only the outside crates that its floor names.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One floor, lowest first.
#[derive(Debug, Default, PartialEq)]
struct Floor {
    name: String,
    below: bool,
    crates: Vec<String>,
    outside: Vec<String>,
}

/// One dependency of a workspace crate on another crate, tests' own aside.
struct Use {
    from: String,
    to: String,
    /// The crate used is one of the workspace.
    inside: bool,
}

/// Checks the workspace; the error lists every breach.
pub fn run() -> Result<(), String> {
    let root = root();
    let table = root.join("floors.toml");
    let text = std::fs::read_to_string(&table).map_err(|e| format!("read {}: {e}", table.display()))?;
    let breaches = breaches(&parse(&text)?, &uses(&root)?);
    if breaches.is_empty() { Ok(()) } else { Err(breaches.join("\n")) }
}

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_path_buf()
}

/// Reads the table: `[[floor]]` sections of single-line entries, whose values are written as in JSON.
fn parse(text: &str) -> Result<Vec<Floor>, String> {
    let mut floors: Vec<Floor> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line == "[[floor]]" {
            floors.push(Floor::default());
            continue;
        }
        let refuse = || format!("floors.toml: cannot read {line:?}");
        let (key, value) = line.split_once('=').ok_or_else(refuse)?;
        let value: Value = serde_json::from_str(value.trim()).map_err(|_| refuse())?;
        let texts = || value.as_array().into_iter().flatten().filter_map(Value::as_str).map(ToOwned::to_owned);
        let floor = floors.last_mut().ok_or_else(refuse)?;
        match key.trim() {
            "name" => floor.name = value.as_str().unwrap_or("").to_owned(),
            "below" => floor.below = value == true,
            "crates" => floor.crates = texts().collect(),
            "outside" => floor.outside = texts().collect(),
            _ => return Err(refuse()),
        }
    }
    Ok(floors)
}

fn uses(root: &Path) -> Result<Vec<Use>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = Command::new(cargo).args(arguments).current_dir(root).output();
    let output = output.map_err(|e| format!("run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.flat_map(uses_of).collect())
}

fn uses_of(package: &Value) -> Vec<Use> {
    let from = package["name"].as_str().unwrap_or("");
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    let real = dependencies.filter(|dependency| dependency["kind"] != "dev");
    let to_use = |dependency: &Value| Use {
        from: from.to_owned(),
        to: dependency["name"].as_str().unwrap_or("").to_owned(),
        inside: dependency["path"].is_string(),
    };
    real.map(to_use).collect()
}

fn breaches(floors: &[Floor], uses: &[Use]) -> Vec<String> {
    let level = |name: &str| floors.iter().position(|floor| floor.crates.iter().any(|c| c == name));
    let mut found = Vec::new();
    for Use { from, to, inside } in uses {
        let Some(own) = level(from) else {
            found.push(format!("{from} stands on no floor"));
            continue;
        };
        let floor = &floors[own];
        match (inside, level(to)) {
            (true, Some(other)) if other >= own => {
                found.push(format!("{from} ({}) uses {to} ({}), which is not lower", floor.name, floors[other].name));
            }
            (true, None) => found.push(format!("{from} uses {to}, which stands on no floor")),
            (false, _) if floor.below && !floor.outside.contains(to) => {
                found.push(format!("{from} ({}) uses {to}, which its floor does not name", floor.name));
            }
            _ => {}
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_has_one_floor() {
        let text = std::fs::read_to_string(root().join("floors.toml")).expect("the table");
        let mut crates: Vec<String> = parse(&text).expect("reads").into_iter().flat_map(|f| f.crates).collect();
        crates.sort();
        let count = crates.len();
        crates.dedup();
        assert_eq!(crates.len(), count);
        assert!(crates.contains(&"schema".to_owned()));
    }

    #[test]
    fn the_house_stands() {
        assert_eq!(run(), Ok(()));
    }

    #[test]
    fn breaches_are_found() {
        let text = "# floors\n[[floor]]\nname = \"low\"\nbelow = true\ncrates = [\"a\"]\noutside = [\"serde\"]\n\
                    [[floor]]\nname = \"high\"\nbelow = false\ncrates = [\"b\", \"c\"]\noutside = []\n";
        let floors = parse(text).expect("reads");
        let check = |from: &str, to: &str, inside: bool, expected: &[&str]| {
            let used = Use { from: from.to_owned(), to: to.to_owned(), inside };
            assert_eq!(breaches(&floors, &[used]), expected);
        };
        check("b", "a", true, &[]);
        check("a", "serde", false, &[]);
        check("b", "tokio", false, &[]);
        check("a", "b", true, &["a (low) uses b (high), which is not lower"]);
        check("b", "c", true, &["b (high) uses c (high), which is not lower"]);
        check("a", "tokio", false, &["a (low) uses tokio, which its floor does not name"]);
        check("d", "a", true, &["d stands on no floor"]);
        assert!(parse("crates = []").is_err());
    }
}
