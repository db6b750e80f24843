//! DefaultTolerationSeconds: a pod outlives trouble of its node for five minutes.

use meta::{ApiError, ObjectExt};
use serde_json::{Value, json};

use crate::admission::{Case, Effects};

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The mutating half.
pub fn mutate(case: &Case<'_>, new: &mut Value, _effects: &mut Effects) -> Result<(), ApiError> {
    if !case.is_for_pods() {
        return Ok(());
    }
    let own = new.items(&["spec", "tolerations"]);
    let tolerates = |taint: &str| own.iter().any(|toleration| covers(toleration, taint));
    let missing: Vec<&str> = TAINTS.into_iter().filter(|taint| !tolerates(taint)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut tolerations = own.to_vec();
    tolerations.extend(
        missing.into_iter().map(
            |taint| json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS}),
        ),
    );
    new.put(&["spec", "tolerations"], tolerations);
    Ok(())
}

fn covers(toleration: &Value, taint: &str) -> bool {
    let (key, effect) = (toleration.text(&["key"]), toleration.text(&["effect"]));
    (key.is_empty() || key == taint) && (effect.is_empty() || effect == "NoExecute")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, create};
    use super::*;

    #[test]
    fn own_tolerations_stay() {
        let check = |own: Value, added: usize| {
            let count = own.as_array().map_or(0, Vec::len);
            let (scene, asked, mut pod) =
                (Scene::new(&[]), create("", "pods", "d", "p"), json!({"spec": {"tolerations": own}}));
            mutate(&scene.case(&asked, None), &mut pod, &mut Effects::default()).expect("admitted");
            assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(count + added));
        };
        check(json!([]), 2);
        check(json!([{"operator": "Exists"}]), 0);
        check(json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoExecute"}]), 1);
        check(json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoSchedule"}]), 2);
    }
}
