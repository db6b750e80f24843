//! What is fuzzed: each target takes arbitrary bytes and panics when a promise is broken.
//!
//! Two programs use the list: `fuzz/` (outside the workspace) drives it with libFuzzer, and the ordinary test
//! `tests/replay.rs` replays every input that ever broke something and a few random ones. A promise that holds for
//! valid input only is checked behind the decoder; what the decoder refuses is an uninteresting input, not a fault.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::missing_panics_doc, reason = "a broken promise panics")]

mod address;
mod apply;
mod cel;
mod certificates;
mod connection;
mod custom;
mod dice;
mod documents;
mod patches;
mod selectors;
mod streams;
mod text;
mod tokens;
mod wal;

pub use dice::Dice;

/// One thing that is fuzzed.
pub struct Target {
    /// Its name, and that of its directory under `fuzz/regressions`.
    pub name: &'static str,
    /// Judges one input.
    pub run: fn(&[u8]),
    /// Inputs to start from, made from the project's own examples.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets, sorted by name.
pub static TARGETS: &[Target] = &[
    Target { name: "cel_parse_eval", run: cel::parse_eval, seeds: cel::seeds },
    Target { name: "continue_token", run: text::continue_token, seeds: text::continue_token_seeds },
    Target { name: "crd_structural", run: custom::structural, seeds: custom::seeds },
    Target { name: "cron", run: text::cron, seeds: text::cron_seeds },
    Target { name: "duration", run: text::duration, seeds: text::duration_seeds },
    Target { name: "field_selector", run: selectors::field_selector, seeds: selectors::field_selector_seeds },
    Target { name: "http_raw", run: connection::http_raw, seeds: connection::seeds },
    Target { name: "json_decode_roundtrip", run: documents::json, seeds: documents::json_seeds },
    Target { name: "json_patch", run: patches::json_patch, seeds: patches::json_patch_seeds },
    Target { name: "jwt_verify", run: tokens::jwt_verify, seeds: tokens::seeds },
    Target { name: "kubeconfig_merge", run: certificates::kubeconfig_merge, seeds: certificates::kubeconfig_seeds },
    Target { name: "label_selector", run: selectors::label_selector, seeds: selectors::label_selector_seeds },
    Target { name: "list_options", run: address::list_options, seeds: address::list_options_seeds },
    Target { name: "managed_fields", run: apply::managed_fields, seeds: apply::managed_fields_seeds },
    Target { name: "merge_patch", run: patches::merge_patch, seeds: patches::merge_patch_seeds },
    Target { name: "protobuf_decode", run: documents::protobuf, seeds: documents::protobuf_seeds },
    Target { name: "quantity", run: text::quantity, seeds: text::quantity_seeds },
    Target { name: "selector_match", run: selectors::selector_match, seeds: selectors::selector_match_seeds },
    Target { name: "spdy_raw", run: streams::spdy_raw, seeds: streams::spdy_seeds },
    Target { name: "ssa_merge", run: apply::ssa_merge, seeds: apply::ssa_merge_seeds },
    Target { name: "strategic_merge", run: patches::strategic_merge, seeds: patches::strategic_merge_seeds },
    Target { name: "time", run: text::time, seeds: text::time_seeds },
    Target { name: "url_to_attributes", run: address::url, seeds: address::url_seeds },
    Target { name: "wal_replay", run: wal::replay, seeds: wal::seeds },
    Target { name: "x509_csr_subject", run: certificates::subject, seeds: certificates::subject_seeds },
    Target { name: "yaml_decode", run: documents::yaml, seeds: documents::yaml_seeds },
];

/// A target by name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The input as text, where it is text.
fn text_of(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// The input's lines, each a document of its own: where a target needs several.
fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|byte| *byte == b'\n')
}

/// Texts as inputs.
fn inputs(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The built-in kinds with an example: what seeds and schemas are taken from.
fn examples() -> impl Iterator<Item = (std::sync::Arc<kinds::KindDef>, serde_json::Value)> {
    let kinds = kinds::built_in().into_iter();
    kinds.filter_map(|kind| Some((kind.clone(), serde_json::from_str(kind.example).ok()?)))
}

/// The example of a kind, one line.
fn example(kind: &str) -> Vec<u8> {
    let found = examples().find(|(def, _)| def.kind == kind);
    found.map(|(_, tree)| tree.to_string().into_bytes()).unwrap_or_default()
}
