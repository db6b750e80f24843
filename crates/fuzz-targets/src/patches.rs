//! The three patches of documents.

use merge::{json_merge, json_patch, strategic};
use schema::{Mode, json};
use serde_json::Value;

use crate::{example, examples, inputs, lines};

/// The first two lines as documents.
fn pair(data: &[u8]) -> Option<(Value, Value)> {
    let mut documents = lines(data).map(|line| json::decode(line).map(|decoded| decoded.value));
    Some((documents.next()?.ok()?, documents.next()?.ok()?))
}

/// A patch adds no more than it may, in size and in depth.
pub fn json_patch(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    let limits = json_patch::Limits { copied_bytes: 1 << 16, work: 1 << 18, ..json_patch::Limits::default() };
    let mut patched = document.clone();
    if json_patch::apply(&mut patched, &patch, &limits).is_err() {
        return;
    }
    let bound = document.to_string().len() + patch.to_string().len() + limits.copied_bytes;
    assert!(patched.to_string().len() <= bound + 64, "{} bytes of at most {bound}", patched.to_string().len());
    assert!(depth(&patched) <= depth(&document).max(limits.depth));
    let mut again = document;
    json_patch::apply(&mut again, &patch, &limits).expect("as before");
    assert_eq!(again, patched);
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

pub fn json_patch_seeds() -> Vec<Vec<u8>> {
    let mut seeds = inputs(&[
        "{\"a\":[1,2,{\"b\":null}]}\n[{\"op\":\"add\",\"path\":\"/a/-\",\"value\":{\"x\":1}},{\"op\":\"remove\",\"path\":\"/a/0\"}]",
        "{\"a\":{}}\n[{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a/b\"},{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a/c\"}]",
        "{\"a\":{\"b\":{}}}\n[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/a/b\"}]",
        "{\"a~/b\":1}\n[{\"op\":\"test\",\"path\":\"/a~0~1b\",\"value\":1},{\"op\":\"replace\",\"path\":\"/a~2\"}]",
        "[]\n[{\"op\":\"add\",\"path\":\"/4294967296\",\"value\":1},{\"op\":\"add\",\"path\":\"/-1\",\"value\":1}]",
    ]);
    seeds.push(
        [example("Deployment"), b"\n[{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":5}]".to_vec()].concat(),
    );
    seeds
}

/// What a merge patch has said once it need not say again.
pub fn merge_patch(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    let mut once = document;
    if json_merge::apply(&mut once, &patch).is_err() {
        return;
    }
    // Twice: a list that takes the place of a map keeps its nulls the first time, as upstream has it.
    json_merge::apply(&mut once, &patch).expect("again");
    let mut thrice = once.clone();
    json_merge::apply(&mut thrice, &patch).expect("and again");
    assert_eq!(thrice, once);
}

pub fn merge_patch_seeds() -> Vec<Vec<u8>> {
    let mut seeds = inputs(&[
        "{\"a\":{\"x\":1}}\n{\"a\":[{\"b\":null}]}",
        "{\"a\":1}\n{\"a\":{\"b\":null,\"c\":{\"d\":null}}}",
        "{\"a\":[1,2]}\n{\"a\":null,\"b\":{}}",
        "[]\n{\"a\":1}",
    ]);
    seeds.push([example("Deployment"), b"\n{\"spec\":{\"template\":null}}".to_vec()].concat());
    seeds
}

/// The first document's kind chooses the schema. What comes of the patch is decoded or refused.
pub fn strategic_merge(data: &[u8]) {
    let Some((document, patch)) = pair(data) else { return };
    let kind = document["kind"].as_str().unwrap_or("Pod");
    let built_in = kinds::built_in();
    let Some(kind) = built_in.iter().find(|def| def.kind == kind) else { return };
    let schema = kind.schema.get();
    let Ok(patched) = strategic::apply(schema, document, &patch) else { return };
    let _ = schema::conform_as(schema, patched, Mode::Whole);
}

pub fn strategic_merge_seeds() -> Vec<Vec<u8>> {
    let patches = [
        "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"main\",\"image\":\"b\",\"ports\":[{\"containerPort\":80}]}]}}}}",
        "{\"spec\":{\"containers\":[{\"$patch\":\"delete\",\"name\":\"main\"}],\"$setElementOrder/containers\":[{\"name\":\"x\"}]}}",
        "{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"a\"],\"finalizers\":[\"b\"],\"labels\":{\"$patch\":\"replace\",\"a\":\"b\"}}}",
        "{\"spec\":{\"$retainKeys\":[\"strategy\"],\"strategy\":{\"type\":\"Recreate\"}}}",
    ];
    let kinds = ["Deployment", "Pod", "Service", "ServiceAccount"];
    let documents: Vec<Vec<u8>> = kinds.iter().map(|kind| example(kind)).collect();
    let pairs = documents.iter().flat_map(|document| patches.iter().map(move |patch| (document, patch)));
    let mut seeds: Vec<Vec<u8>> =
        pairs.map(|(document, patch)| [document, &b"\n"[..], patch.as_bytes()].concat()).collect();
    seeds.extend(examples().map(|(_, tree)| format!("{tree}\n{tree}").into_bytes()));
    seeds
}
