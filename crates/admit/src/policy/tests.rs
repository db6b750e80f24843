use super::*;
use crate::plugins::testing::{Scene, create};

fn policy(change: Value) -> Value {
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "pol"}, "spec": {"matchConstraints": {"resourceRules": rules}},
    });
    for (key, value) in change.as_object().expect("an object") {
        policy["spec"][key] = value.clone();
    }
    policy
}

fn binding(actions: Value) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
           "metadata": {"name": "bind"}, "spec": {"policyName": "pol", "validationActions": actions}})
}

fn outcome(policy: Value, actions: Value) -> Result<Effects, ApiError> {
    let scene = Scene::new(&[policy, binding(actions)]);
    let asked = create("", "pods", "d", "p");
    let new = json!({"metadata": {"name": "p"}, "spec": {"replicas": 7}});
    let mut effects = Effects::default();
    validate(&scene.case(&asked, None), Some(&new), &mut effects).map(|()| effects)
}

const PREFIX: &str = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'pol' with binding 'bind' denied request: ";

fn denied(change: Value, why: &str) {
    let error = outcome(policy(change), json!(["Deny"])).unwrap_err();
    assert_eq!(error.message, format!("{PREFIX}{why}"));
}

#[test]
fn refusals_read_like_upstream() {
    let validation = |extra: Value| {
        let mut validation = json!({"expression": "object.spec.replicas <= 5"});
        for (key, value) in extra.as_object().expect("an object") {
            validation[key] = value.clone();
        }
        json!({"validations": [validation]})
    };
    denied(validation(json!({})), "failed expression: object.spec.replicas <= 5");
    denied(validation(json!({"message": "too many"})), "too many");
    denied(validation(json!({"messageExpression": "'got ' + string(object.spec.replicas)"})), "got 7");
    let error = outcome(policy(validation(json!({"reason": "Forbidden"}))), json!(["Deny"])).unwrap_err();
    assert_eq!((error.code, error.reason), (403, Some(Reason::Forbidden)));
    let error = outcome(policy(validation(json!({}))), json!(["Deny"])).unwrap_err();
    assert_eq!((error.code, error.reason), (422, Some(Reason::Invalid)));
}

#[test]
fn failures_follow_the_policy() {
    let broken = json!({"validations": [{"expression": "object.absent == 1"}]});
    denied(broken.clone(), "expression 'object.absent == 1' resulted in error: no such key: absent");
    let mut open = broken;
    open["failurePolicy"] = json!("Ignore");
    assert!(outcome(policy(open), json!(["Deny"])).is_ok());
}

#[test]
fn variables_are_made_when_they_are_read() {
    let spec = |expression: &str| {
        json!({
            "variables": [
                {"name": "replicas", "expression": "object.spec.replicas"},
                {"name": "double", "expression": "variables.replicas * 2"},
                {"name": "bad", "expression": "object.absent"},
            ],
            "validations": [{"expression": expression}],
        })
    };
    assert!(outcome(policy(spec("variables.double == 14")), json!(["Deny"])).is_ok());
    assert!(outcome(policy(spec("true || variables.bad == 1")), json!(["Deny"])).is_ok());
    denied(
        spec("variables.bad == 1"),
        "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: no such key: \
         absent",
    );
}

#[test]
fn actions_decide_what_a_failure_does() {
    let never = || policy(json!({"validations": [{"expression": "false"}]}));
    let effects = outcome(never(), json!(["Warn", "Audit"])).expect("not denied");
    let warning = "Validation failed for ValidatingAdmissionPolicy 'pol' with binding 'bind': failed expression: false";
    assert_eq!(effects.warnings, [warning]);
    let noted = &effects.audit["validation.policy.admission.k8s.io/validation_failure"];
    assert!(noted.contains("\"policy\":\"pol\""), "{noted}");
}

#[test]
fn conditions_requests_and_annotations() {
    let spec = json!({
        "matchConditions": [{"name": "not-bob", "expression": "request.userInfo.username != 'bob'"}],
        "validations": [{"expression": "request.operation == 'CREATE' && oldObject == null && request.namespace == 'd'"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'replicas ' + string(object.spec.replicas)"}],
    });
    let effects = outcome(policy(spec), json!(["Deny"])).expect("allowed");
    assert_eq!(effects.audit["pol/k"], "replicas 7");
    let other = json!({
        "matchConditions": [{"name": "bob", "expression": "request.userInfo.username == 'bob'"}],
        "validations": [{"expression": "false"}],
    });
    assert!(outcome(policy(other), json!(["Deny"])).is_ok());
}

#[test]
fn an_unknown_parameter_kind_refuses() {
    let scene_policy =
        policy(json!({"paramKind": {"apiVersion": "x/v1", "kind": "Y"}, "validations": [{"expression": "true"}]}));
    let mut bound = binding(json!(["Deny"]));
    bound["spec"]["paramRef"] = json!({"name": "n"});
    let (scene, asked) = (Scene::new(&[scene_policy, bound]), create("", "pods", "d", "p"));
    let error = validate(&scene.case(&asked, None), Some(&json!({})), &mut Effects::default()).unwrap_err();
    let why = "failed to configure binding: failed to find resource referenced by paramKind: 'x/v1, Kind=Y'";
    assert_eq!(error.message, format!("{PREFIX}{why}"));
}
