//! Is it alive, is it ready, what is it: what anybody may ask.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use client::Body;
use http::Response;
use serde_json::json;

use crate::app::App;
use crate::respond::{full, tree_response, typed_response};

/// Answers `/healthz`, `/livez`, `/readyz` (with upstream's `/name` and `?verbose`), `/version` and `/metrics`.
pub fn response(app: &Arc<App>, path: &str, query: &str) -> Option<Response<Body>> {
    let path = path.trim_end_matches('/');
    match path {
        "/version" => Some(version(app)),
        "/metrics" => Some(typed_response(200, "text/plain; version=0.0.4", full(metrics(app)))),
        _ => {
            let (probe, check) = path.strip_prefix('/')?.split_once('/').unwrap_or((&path[1..], ""));
            let checks = checks(app, probe)?;
            let verbose = query.split('&').any(|pair| pair == "verbose" || pair.starts_with("verbose="));
            health(probe, &checks, check, verbose)
        }
    }
}

/// The checks of a probe, by name; `None` for what is no probe.
fn checks(app: &App, probe: &str) -> Option<Vec<(&'static str, bool)>> {
    let alive = [("ping", true), ("log", true), ("etcd", true)];
    match probe {
        "healthz" | "livez" => Some(alive.to_vec()),
        "readyz" => {
            let mut all = alive.to_vec();
            all.push(("informer-sync", app.is_ready()));
            all.push(("shutdown", !*app.stopping.borrow()));
            Some(all)
        }
        _ => None,
    }
}

fn health(probe: &str, checks: &[(&str, bool)], only: &str, verbose: bool) -> Option<Response<Body>> {
    if !only.is_empty() {
        let (_, ok) = checks.iter().find(|(name, _)| *name == only)?;
        let (code, text) = if *ok { (200, "ok") } else { (500, "internal server error: not ok") };
        return Some(typed_response(code, "text/plain; charset=utf-8", full(text)));
    }
    let healthy = checks.iter().all(|(_, ok)| *ok);
    if healthy && !verbose {
        return Some(typed_response(200, "text/plain; charset=utf-8", full("ok")));
    }
    let mut text: String = checks
        .iter()
        .map(|(name, ok)| if *ok { format!("[+]{name} ok\n") } else { format!("[-]{name} failed: reason withheld\n") })
        .collect();
    text.push_str(&format!("{probe} check {}\n", if healthy { "passed" } else { "failed" }));
    Some(typed_response(if healthy { 200 } else { 500 }, "text/plain; charset=utf-8", full(text)))
}

fn version(app: &App) -> Response<Body> {
    let mut numbers = app.git_version.trim_start_matches('v').split(['.', '+', '-']);
    let mut next = || numbers.next().unwrap_or("0").to_owned();
    let (major, minor) = (next(), next());
    tree_response(
        200,
        &json!({
            "major": major, "minor": minor, "gitVersion": app.git_version, "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
            "emulationMajor": major, "emulationMinor": minor, "minCompatibilityMajor": major, "minCompatibilityMinor": minor,
        }),
    )
}

/// Prometheus text. Few series, bounded labels: one line a collection at most.
fn metrics(app: &App) -> String {
    let snapshot = app.snapshot();
    let mut text = String::new();
    text.push_str("# HELP setpoint_store_revision Newest visible revision.\n# TYPE setpoint_store_revision counter\n");
    text.push_str(&format!("setpoint_store_revision {}\n", snapshot.revision()));
    text.push_str("# HELP apiserver_resource_objects Objects by resource.\n# TYPE apiserver_resource_objects gauge\n");
    for collection in snapshot.collections() {
        let (group, resource) = collection.split_once('/').unwrap_or(("", collection));
        let group = if group == "core" { "" } else { group };
        let count = snapshot.count(collection);
        text.push_str(&format!("apiserver_resource_objects{{group=\"{group}\",resource=\"{resource}\"}} {count}\n"));
    }
    text.push_str("# HELP apiserver_current_inflight_requests Requests being carried out.\n");
    text.push_str("# TYPE apiserver_current_inflight_requests gauge\n");
    for (kind, max, places) in [
        ("readOnly", crate::app::READS_IN_FLIGHT_MAX, &app.reads),
        ("mutating", crate::app::WRITES_IN_FLIGHT_MAX, &app.writes),
    ] {
        let busy = max.saturating_sub(places.available_permits());
        text.push_str(&format!("apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {busy}\n"));
    }
    text.push_str(
        "# HELP setpoint_field_fight_rounds_total Writes that took a field back from another manager, in a fight.\n",
    );
    text.push_str("# TYPE setpoint_field_fight_rounds_total counter\n");
    text.push_str(&format!("setpoint_field_fight_rounds_total {}\n", app.fights.load(Ordering::Relaxed)));
    text
}
