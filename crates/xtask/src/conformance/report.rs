//! What the suite reports: ginkgo's JSON, one entry a test.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// Characters of a failure's first line that are kept.
const LINE_MAX: usize = 200;

/// What became of one test.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `passed`, or ginkgo's word for why not.
    pub state: String,
    /// How long it took.
    pub seconds: f64,
    /// Where it failed, and the first line of the message.
    pub line: String,
}

/// Reads a report: outcomes by the full name of the test. A missing file is no outcomes: the run died.
pub fn read(path: &Path) -> Result<BTreeMap<String, Outcome>, String> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(parse(&serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", path.display()))?)),
        Err(_) => Ok(BTreeMap::new()),
    }
}

fn parse(report: &Value) -> BTreeMap<String, Outcome> {
    let suites = report.as_array().into_iter().flatten();
    let specs = suites.flat_map(|suite| suite["SpecReports"].as_array().into_iter().flatten());
    specs.filter(|spec| spec["LeafNodeType"] == "It").filter_map(outcome).collect()
}

/// A test that was left out by the focus has no outcome; one that skipped itself says why.
fn outcome(spec: &Value) -> Option<(String, Outcome)> {
    let state = spec["State"].as_str()?;
    let message = spec["Failure"]["Message"].as_str().unwrap_or_default();
    if matches!(state, "skipped" | "pending") && message.is_empty() {
        return None;
    }
    let seconds = spec["RunTime"].as_f64().unwrap_or_default() / 1e9;
    let line = if state == "passed" { String::new() } else { failing_line(&spec["Failure"], message) };
    Some((full_name(spec), Outcome { state: state.to_owned(), seconds, line }))
}

fn full_name(spec: &Value) -> String {
    let containers = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let texts = containers.chain([&spec["LeafNodeText"]]).filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join(" ")
}

fn failing_line(failure: &Value, message: &str) -> String {
    let file = failure["Location"]["FileName"].as_str().unwrap_or_default();
    let file = file.rsplit('/').next().unwrap_or_default();
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    // Some messages begin with nothing but a frame; their second line says what it was.
    let said: Vec<&str> = lines.take(2).collect();
    let said: String = said.join(" ").replace('\t', " ").chars().take(LINE_MAX).collect();
    format!("{file}:{}: {said}", failure["Location"]["LineNumber"])
}

#[cfg(test)]
mod checks {
    use super::*;
    use serde_json::json;

    fn check(spec: Value, expected: Option<(&str, &str, f64, &str)>) {
        let parsed = parse(&json!([{ "SpecReports": [spec] }]));
        let got = parsed.iter().next().map(|(n, o)| (n.as_str(), o.state.as_str(), o.seconds, o.line.as_str()));
        assert_eq!(got, expected);
    }

    #[test]
    fn outcomes() {
        let base =
            json!({"LeafNodeType": "It", "ContainerHierarchyTexts": ["[sig-x] A", "b"], "LeafNodeText": "works"});
        let with = |extra: Value| {
            let mut spec = base.clone();
            for (key, value) in extra.as_object().unwrap() {
                spec[key.as_str()] = value.clone();
            }
            spec
        };
        let name = "[sig-x] A b works";
        check(with(json!({"State": "passed", "RunTime": 1_500_000_000u64})), Some((name, "passed", 1.5, "")));
        check(with(json!({"State": "skipped"})), None);
        check(with(json!({"State": "passed", "LeafNodeType": "BeforeSuite"})), None);
        let failure =
            json!({"Message": "boom:\n\n  at once\nlater", "Location": {"FileName": "/a/b.go", "LineNumber": 7}});
        check(
            with(json!({"State": "failed", "RunTime": 0, "Failure": failure})),
            Some((name, "failed", 0.0, "b.go:7: boom: at once")),
        );
        check(
            with(
                json!({"State": "skipped", "Failure": {"Message": "no nodes", "Location": {"FileName": "c.go", "LineNumber": 1}}}),
            ),
            Some((name, "skipped", 0.0, "c.go:1: no nodes")),
        );
    }
}
