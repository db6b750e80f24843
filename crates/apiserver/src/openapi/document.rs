//! Whole documents, written piece by piece: a document as a tree would take many times its size.

use kinds::{Catalog, KindDef};
use meta::GroupVersion;
use serde_json::{Value, json};

use super::definitions::{self, Version};
use super::{gnostic, paths};

/// The title of every document.
const TITLE: &str = "Kubernetes";

fn info() -> Value {
    json!({"title": TITLE, "version": "v1.37.0"})
}

/// The v3 document of one group version, as JSON.
pub fn v3(catalog: &Catalog, gv: &GroupVersion) -> Vec<u8> {
    let kinds = || catalog.in_version(gv).map(|kind| &**kind);
    let mut json = Json::new(&json!({"openapi": "3.0.0", "info": info()}));
    json.open("paths");
    kinds().for_each(|kind| paths::each(catalog, kind, Version::V3, |path, item| json.put(path, &item)));
    json.close();
    json.open("components");
    json.open("schemas");
    definitions::each(catalog, kinds(), Version::V3, |name, definition| json.put(name, &definition));
    json.close();
    json.close();
    json.finish()
}

/// The v2 document of everything, as JSON.
pub fn v2_json(catalog: &Catalog) -> Vec<u8> {
    let mut json = Json::new(&json!({"swagger": "2.0", "info": info()}));
    json.open("paths");
    all(catalog).for_each(|kind| paths::each(catalog, kind, Version::V2, |path, item| json.put(path, &item)));
    json.close();
    json.open("definitions");
    definitions::each(catalog, all(catalog), Version::V2, |name, definition| json.put(name, &definition));
    json.close();
    json.finish()
}

/// The v2 document of everything, as protobuf.
pub fn v2_protobuf(catalog: &Catalog) -> Vec<u8> {
    let mut document = gnostic::Document::new(&json!({"swagger": "2.0", "info": info()}));
    all(catalog).for_each(|kind| paths::each(catalog, kind, Version::V2, |path, item| document.path(path, &item)));
    definitions::each(catalog, all(catalog), Version::V2, |name, definition| document.definition(name, &definition));
    document.finish()
}

fn all(catalog: &Catalog) -> impl Iterator<Item = &KindDef> {
    catalog.iter().map(|kind| &**kind)
}

/// An object in the making, its members written as they come.
struct Json {
    bytes: Vec<u8>,
    is_first: bool,
}

impl Json {
    fn new(head: &Value) -> Json {
        let mut json = Json { bytes: vec![b'{'], is_first: true };
        head.as_object().into_iter().flatten().for_each(|(key, value)| json.put(key, value));
        json
    }

    fn key(&mut self, key: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.bytes.push(b',');
        }
        self.write(&Value::from(key));
        self.bytes.push(b':');
    }

    fn write(&mut self, value: &Value) {
        // Writing a tree to memory cannot fail.
        let _ = serde_json::to_writer(&mut self.bytes, value);
    }

    fn put(&mut self, key: &str, value: &Value) {
        self.key(key);
        self.write(value);
    }

    fn open(&mut self, key: &str) {
        self.key(key);
        self.bytes.push(b'{');
        self.is_first = true;
    }

    fn close(&mut self) {
        self.bytes.push(b'}');
        self.is_first = false;
    }

    fn finish(mut self) -> Vec<u8> {
        self.close();
        self.bytes.shrink_to_fit();
        self.bytes
    }
}
