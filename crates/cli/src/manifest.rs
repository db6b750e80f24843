//! Manifests on disk: files, directories, several documents in one file.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use meta::ObjectExt;
use serde_json::Value;

/// Most files of one directory tree, and the largest file: far above what people write by hand.
const FILES_MAX: usize = 10_000;
const FILE_BYTES_MAX: u64 = 64 << 20;
/// How deep directories are followed.
const DEPTH_MAX: usize = 16;

/// Manifests that cannot be read.
#[derive(Debug)]
pub(crate) struct ManifestError(String);

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ManifestError {}

/// Every object of the files, in the order in which they stand there.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Value>, ManifestError> {
    let mut files = Vec::new();
    let mut objects = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            let read = std::io::stdin().take(FILE_BYTES_MAX).read_to_string(&mut text);
            let failed = |why: String| ManifestError(format!("standard input: {why}"));
            read.map_err(|error| failed(error.to_string()))?;
            objects.extend(documents(&text).map_err(failed)?);
            continue;
        }
        gather(path, DEPTH_MAX, true, &mut files)?;
    }
    for file in &files {
        let failed = |why: String| ManifestError(format!("{}: {why}", file.display()));
        let size = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
        if size > FILE_BYTES_MAX {
            return Err(failed(format!("larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
        objects.extend(documents(&text).map_err(failed)?);
    }
    Ok(objects)
}

fn gather(path: &Path, depth: usize, is_named: bool, files: &mut Vec<PathBuf>) -> Result<(), ManifestError> {
    let failed = |error: std::io::Error| ManifestError(format!("{}: {error}", path.display()));
    if !path.is_dir() {
        let is_manifest = matches!(path.extension().and_then(|e| e.to_str()), Some("yaml" | "yml" | "json"));
        if is_named || is_manifest {
            files.push(path.to_owned());
        }
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if depth == 0 || files.len() >= FILES_MAX {
            return Err(ManifestError(format!("{}: too many files or too deep", path.display())));
        }
        gather(&entry.path(), depth - 1, false, files)?;
    }
    Ok(())
}

/// The objects of one text: YAML documents between lines of `---`, or JSON. Lists are taken apart.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    for document in split(text) {
        let (value, duplicates) = api::yaml::decode(document.as_bytes()).map_err(|error| error.to_string())?;
        if let Some(name) = duplicates.first() {
            return Err(format!("duplicate key: {name}"));
        }
        match value {
            Value::Null => {}
            list if list.text(&["kind"]).ends_with("List") && list.get("items").is_some() => {
                objects.extend(list.items(&["items"]).iter().cloned());
            }
            object => objects.push(object),
        }
    }
    match objects.iter().find(|object| object.gvk().is_none()) {
        Some(object) => Err(format!("an object without apiVersion or kind: {:.60}", object.to_string())),
        None => Ok(objects),
    }
}

fn split(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        let is_mark = line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']));
        if is_mark {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
            document.push('\n');
        }
    }
    let says_something =
        |document: &String| document.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    documents.into_iter().filter(says_something).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let check = |text: &str, names: &[&str]| {
            let found = documents(text).expect("manifests");
            assert_eq!(found.iter().map(|o| o.name().to_owned()).collect::<Vec<_>>(), names, "{text}");
        };
        let one = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
        check(&one("a"), &["a"]);
        check(&format!("---\n{}---\n# nothing\n--- \n{}", one("a"), one("b")), &["a", "b"]);
        check("", &[]);
        check(
            r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}]}"#,
            &["x"],
        );
        assert!(documents("a: 1").is_err());
    }

    #[test]
    fn directories_are_read_in_order() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["b.yaml", "a.yml", "notes.txt", "sub/c.json"] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(
                &path,
                format!("{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"{name}\"}}}}"),
            )
            .expect("written");
        }
        let found = read_all(&[directory.path().to_owned()]).expect("manifests");
        assert_eq!(found.iter().map(|o| o.name().to_owned()).collect::<Vec<_>>(), ["a.yml", "b.yaml", "sub/c.json"]);
        assert!(read_all(&[directory.path().join("absent")]).is_err());
    }
}
