use super::*;
use serde_json::json;

fn example() -> Value {
    let mut job: Value = serde_json::from_str(def().example).expect("example is JSON");
    job["metadata"]["uid"] = json!("u-1");
    default(&mut job);
    prepare_create(&mut job);
    job
}

fn texts(faults: &[FieldError]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_and_labels() {
    let job = example();
    let spec = &job["spec"];
    assert_eq!((&spec["completions"], &spec["parallelism"], &spec["backoffLimit"]), (&json!(1), &json!(1), &json!(6)));
    assert_eq!(spec["podReplacementPolicy"], "TerminatingOrFailed");
    let labels = json!({"job-name": "pi", "batch.kubernetes.io/job-name": "pi", "controller-uid": "u-1",
        "batch.kubernetes.io/controller-uid": "u-1"});
    assert_eq!(spec["template"]["metadata"]["labels"], labels);
    assert_eq!(job["metadata"]["labels"], labels);
    assert_eq!(spec["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}));
    assert_eq!(validate(&job), []);
    let mut again = job.clone();
    default(&mut again);
    assert_eq!(again, job);
    let mut parallel = json!({"spec": {"parallelism": 3, "backoffLimitPerIndex": 1}});
    default(&mut parallel);
    assert_eq!(parallel["spec"].get("completions"), None);
    assert_eq!(parallel["spec"]["backoffLimit"], i32::MAX);
}

#[track_caller]
fn check(change: fn(&mut Value), expected: &[&str]) {
    let mut job = example();
    change(&mut job["spec"]);
    assert_eq!(texts(&validate(&job)), expected);
}

#[test]
fn specs_read_like_upstream() {
    check(
        |spec| spec["parallelism"] = json!(-1),
        &["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
    );
    check(
        |spec| spec["template"]["spec"]["restartPolicy"] = json!("Always"),
        &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
    );
    check(
        |spec| {
            spec["completionMode"] = json!("Indexed");
            _ = spec.remove(&["completions"]);
        },
        &["spec.completions: Required value: when completion mode is Indexed"],
    );
    check(
        |spec| spec["backoffLimitPerIndex"] = json!(1),
        &["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
    );
    check(
        |spec| spec["managedBy"] = json!("nobody"),
        &["spec.managedBy: Invalid value: \"nobody\": must be a domain-prefixed path (such as \"acme.io/foo\")"],
    );
    check(
        |spec| spec["selector"] = json!({"matchLabels": {"a": "b"}}),
        &[
            "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` not auto-generated",
            "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u-1\",\
             \"batch.kubernetes.io/job-name\":\"pi\",\"controller-uid\":\"u-1\",\"job-name\":\"pi\"}: `selector` does \
             not match template `labels`",
        ],
    );
    check(
        |spec| _ = spec["template"]["metadata"]["labels"].remove(&["job-name"]),
        &["spec.template.metadata.labels[job-name]: Required value: must be 'pi'"],
    );
}

#[test]
fn policies_read_like_upstream() {
    fn with(spec: &mut Value, rule: Value) {
        spec["podFailurePolicy"] = json!({ "rules": [rule] });
        spec["podReplacementPolicy"] = json!("Failed");
    }
    check(|spec| with(spec, json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 42]}})), &[]);
    check(
        |spec| {
            with(spec, json!({"action": "", "onExitCodes": {"operator": "", "values": [3, 0], "containerName": "x"}}))
        },
        &[
            "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \
             \"Ignore\"]",
            "spec.podFailurePolicy.rules[0].onExitCodes.operator: Required value: valid values: [\"In\" \"NotIn\"]",
            "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the \
             container or initContainer names in the pod template",
            "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0]: must be ordered",
        ],
    );
    check(
        |spec| {
            spec["completionMode"] = json!("Indexed");
            spec["completions"] = json!(5);
            spec["successPolicy"] = json!({"rules": [{"succeededIndexes": "0-2", "succeededCount": 4}, {}]});
        },
        &[
            "spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number \
             of indexes in the specified succeededIndexes field)",
            "spec.successPolicy.rules[1]: Required value: at least one of succeededCount or succeededIndexes must be \
             specified",
        ],
    );
}

#[test]
fn little_may_change() {
    let run = |old: Value, change: fn(&mut Value), expected: &[&str]| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        let fields: Vec<String> = validate_update(&new, &old, UpdateOf::Main)
            .into_iter()
            .map(|f| format!("{}: {}", f.field, f.detail))
            .collect();
        assert_eq!(fields, expected);
    };
    let mut suspended = example();
    suspended["spec"]["suspend"] = json!(true);
    run(example(), |spec| spec["parallelism"] = json!(7), &[]);
    run(example(), |spec| spec["suspend"] = json!(true), &[]);
    run(example(), |spec| spec["completions"] = json!(7), &["spec.completions: field is immutable"]);
    let image = |spec: &mut Value| spec["template"]["spec"]["containers"][0]["image"] = json!("x:1");
    run(example(), image, &["spec.template: field is immutable"]);
    let selector = |spec: &mut Value| spec["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
    run(example(), selector, &["spec.template: field is immutable"]);
    run(suspended.clone(), selector, &[]);
    run(
        suspended.clone(),
        |spec| spec["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}}),
        &[],
    );
    run(suspended, image, &["spec.template.spec: field is immutable"]);
    let mut indexed = example();
    indexed["spec"]["completionMode"] = json!("Indexed");
    run(
        indexed.clone(),
        |spec| spec["completions"] = json!(3),
        &["spec.completions: can only be modified in tandem with spec.parallelism"],
    );
    run(indexed, |spec| (spec["completions"], spec["parallelism"]) = (json!(3), json!(3)), &[]);
}

#[test]
fn statuses_read_like_upstream() {
    let condition = |kinds: &[&str]| -> Value {
        kinds.iter().map(|kind| json!({"type": kind, "status": "True"})).collect::<Vec<_>>().into()
    };
    let run = |old: Value, new: Value, expected: &[&str]| {
        let job = |status: Value| {
            let mut job = example();
            job["status"] = status;
            job
        };
        let faults: Vec<String> = validate_update(&job(new), &job(old), UpdateOf::Status)
            .into_iter()
            .map(|f| format!("{}: {}", f.field, f.detail))
            .collect();
        assert_eq!(faults, expected);
    };
    let start = "2026-01-01T00:00:00Z";
    run(
        json!({"startTime": start}),
        json!({"startTime": start, "completionTime": "2026-01-01T00:01:00Z", "succeeded": 1,
            "conditions": condition(&["SuccessCriteriaMet", "Complete"])}),
        &[],
    );
    run(
        json!({}),
        json!({"active": 1, "conditions": condition(&["Complete"])}),
        &[
            "status.conditions: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.completionTime: completionTime is required for Complete jobs",
            "status.active: active>0 is invalid for finished job",
            "status.startTime: startTime is required for finished job",
        ],
    );
    run(
        json!({"startTime": start, "failed": 2, "conditions": condition(&["FailureTarget", "Failed"])}),
        json!({"startTime": start, "failed": 1}),
        &[
            "status.conditions: cannot disable the terminal Failed=True condition",
            "status.conditions: cannot disable the terminal FailureTarget=True condition",
            "status.failed: cannot decrease the failed counter",
        ],
    );
    run(
        json!({"startTime": start}),
        json!({"startTime": "2026-01-02T00:00:00Z"}),
        &["status.startTime: field is immutable for unsuspended job once set"],
    );
    run(
        json!({}),
        json!({"completedIndexes": "0"}),
        &["status.completedIndexes: cannot set non-empty completedIndexes when non-indexed completion mode"],
    );
}

#[test]
fn the_table() {
    let now = Time::parse("2026-01-01T00:05:00Z").expect("valid");
    let check = |job: Value, expected: (&str, &str, &str)| {
        assert_eq!((state(&job), completions(&job).as_str(), duration(&job, now).as_str()), expected);
    };
    check(json!({"spec": {"completions": 3}, "status": {"succeeded": 1}}), ("Running", "1/3", ""));
    check(
        json!({"spec": {"parallelism": 2}, "status": {"startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Complete", "status": "True"}], "completionTime": "2026-01-01T00:02:10Z"}}),
        ("Complete", "0/1 of 2", "2m10s"),
    );
    check(
        json!({"spec": {"parallelism": 1}, "status": {"startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Suspended", "status": "True"}]}}),
        ("Suspended", "0/1", "5m"),
    );
}
