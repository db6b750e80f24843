//! Rules that say what a pod's failure means for its job, and when enough has succeeded.

use std::collections::BTreeSet;

use meta::ObjectExt;
use serde_json::Value;

use super::indexes;
use super::pod::JobPod;

/// What a failure means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts towards the limit.
    Count,
    /// It does not count.
    Ignore,
    /// The index has failed.
    FailIndex,
    /// The job has failed; the sentence says why.
    FailJob(String),
}

/// The verdict of the first rule that the failed pod matches.
pub(super) fn verdict(policy: Option<&Value>, pod: &JobPod) -> Verdict {
    let rules = policy.map_or(&[][..], |policy| policy.items(&["rules"]));
    for (index, rule) in rules.iter().enumerate() {
        let action = rule.text(&["action"]);
        let Some(what) = matched(rule, pod) else { continue };
        return match action {
            "Ignore" => Verdict::Ignore,
            "FailIndex" => Verdict::FailIndex,
            "FailJob" => Verdict::FailJob(format!("{what} matching {action} rule at index {index}")),
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

fn matched(rule: &Value, pod: &JobPod) -> Option<String> {
    let place = format!("{}/{}", pod.target.namespace, pod.target.name);
    if let Some(on) = rule.at(&["onExitCodes"]) {
        let (container, code) = pod.exits.iter().find(|(container, code)| matches_exit(on, container, *code))?;
        return Some(format!("Container {container} for pod {place} failed with exit code {code}"));
    }
    let patterns = rule.items(&["onPodConditions"]);
    let matches = |(type_, status): &&(String, String)| {
        let wanted =
            |p: &Value| if p.text(&["status"]).is_empty() { "True".to_owned() } else { p.text(&["status"]).to_owned() };
        patterns.iter().any(|p| p.text(&["type"]) == type_ && wanted(p) == *status)
    };
    let (type_, _) = pod.conditions.iter().find(matches)?;
    Some(format!("Pod {place} has condition {type_}"))
}

fn matches_exit(on: &Value, container: &str, code: i64) -> bool {
    let named = on.text(&["containerName"]);
    let listed = on.items(&["values"]).iter().any(|value| value.as_i64() == Some(code));
    code != 0 && (named.is_empty() || named == container) && (on.text(&["operator"]) == "In") == listed
}

/// The sentence of the first rule of a success policy that holds.
pub(super) fn success(policy: Option<&Value>, completions: i64, succeeded: &BTreeSet<i64>) -> Option<String> {
    let rules = policy.map_or(&[][..], |policy| policy.items(&["rules"]));
    let holds = |rule: &Value| {
        let count = rule.int(&["succeededCount"]);
        match rule.at(&["succeededIndexes"]).and_then(Value::as_str) {
            Some(text) => {
                let required = indexes::parse(text, completions);
                let reached = required.intersection(succeeded).count();
                reached >= count.and_then(|count| usize::try_from(count).ok()).unwrap_or(required.len())
            }
            None => count.is_some_and(|count| i64::try_from(succeeded.len()).unwrap_or(i64::MAX) >= count),
        }
    };
    rules.iter().position(holds).map(|index| format!("Matched rules at index {index}"))
}
