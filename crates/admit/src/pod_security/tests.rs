use serde_json::json;

use super::*;
use crate::pod_refs::CONTAINER_LISTS;

fn refusal(standard: &str, pod: &Value) -> String {
    let level = if standard == "baseline" { Level::Baseline } else { Level::Restricted };
    details(&evaluate(LevelVersion { level, version: Version::Latest }, pod))
}

fn pod(context: Value, container: Value) -> Value {
    json!({"spec": {"securityContext": context, "containers": [{"name": "a", "securityContext": container}]}})
}

fn hardened() -> Value {
    pod(
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}),
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}),
    )
}

#[test]
fn a_hardened_pod_fits_and_a_plain_one_only_baseline() {
    assert_eq!(refusal("restricted", &hardened()), "");
    let plain = pod(json!({}), json!({}));
    assert_eq!(refusal("baseline", &plain), "");
    assert_eq!(
        refusal("restricted", &plain),
        "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \
         \"Localhost\")"
    );
}

#[test]
fn baseline_refuses_in_upstreams_words() {
    let check = |pod: Value, expected: &str| assert_eq!(refusal("baseline", &pod), expected);
    check(
        pod(json!({}), json!({"privileged": true})),
        "privileged (container \"a\" must not set securityContext.privileged=true)",
    );
    check(
        pod(json!({}), json!({"capabilities": {"add": ["NET_RAW", "KILL"]}})),
        "non-default capabilities (container \"a\" must not include \"NET_RAW\" in securityContext.capabilities.add)",
    );
    check(json!({"spec": {"hostNetwork": true, "hostPID": true}}), "host namespaces (hostNetwork=true, hostPID=true)");
    check(
        json!({"spec": {"volumes": [{"name": "v", "hostPath": {}}, {"name": "w", "hostPath": {}}]}}),
        "hostPath volumes (volumes \"v\", \"w\")",
    );
    check(
        json!({"spec": {"containers": [{"name": "a", "ports": [{"hostPort": 80}, {"hostPort": 81}]}]}}),
        "hostPort (container \"a\" uses hostPorts 80, 81)",
    );
    check(
        pod(json!({"seLinuxOptions": {"type": "spc_t"}}), json!({"seLinuxOptions": {"user": "u"}})),
        "seLinuxOptions (pod and container \"a\" set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may \
         not be set)",
    );
    check(
        pod(json!({"seccompProfile": {"type": "Unconfined"}}), json!({})),
        "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
    );
    check(pod(json!({"sysctls": [{"name": "kernel.msgmax"}]}), json!({})), "forbidden sysctls (kernel.msgmax)");
    check(
        json!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}},
               "spec": {"containers": [{"name": "a"}]}}),
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
         \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")",
    );
}

#[test]
fn no_kind_of_container_is_forgotten() {
    for list in CONTAINER_LISTS {
        let pod = json!({"spec": {list: [{"name": "a", "securityContext": {"privileged": true}}]}});
        assert!(refusal("baseline", &pod).starts_with("privileged"), "{list}");
    }
}

#[test]
fn restricted_replaces_what_it_tightens() {
    let mut pod = hardened();
    pod["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]);
    assert_eq!(
        refusal("restricted", &pod),
        "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")"
    );
}

#[test]
fn versions_count() {
    let pod = pod(json!({"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), json!({}));
    let at = |version| evaluate(LevelVersion { level: Level::Baseline, version }, &pod).is_empty();
    assert!(at(Version::Latest));
    assert!(at(Version::Minor(32)));
    assert!(!at(Version::Minor(31)));
}

#[test]
fn labels_make_the_policy() {
    let check = |labels: Value, expected: &str, errors: usize| {
        let (policy, found) = Policy::of_labels(labels.as_object());
        let Policy { enforce, audit, warn } = policy;
        assert_eq!((format!("{enforce} {audit} {warn}").as_str(), found.len()), (expected, errors), "{labels}");
    };
    let label = |key: &str| format!("pod-security.kubernetes.io/{key}");
    check(json!({}), "privileged:latest privileged:latest privileged:latest", 0);
    check(json!({label("enforce"): "baseline"}), "baseline:latest privileged:latest baseline:latest", 0);
    check(
        json!({label("enforce"): "baseline", label("enforce-version"): "v1.24", label("warn"): "restricted"}),
        "baseline:v1.24 privileged:latest restricted:latest",
        0,
    );
    check(json!({label("enforce"): "strict"}), "restricted:latest privileged:latest privileged:latest", 1);
    check(
        json!({label("enforce"): "baseline", label("enforce-version"): "v1.01"}),
        "baseline:latest privileged:latest baseline:latest",
        1,
    );
}
