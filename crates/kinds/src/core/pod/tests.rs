use super::*;
use meta::Time;
use serde_json::{Value, json};

fn texts(faults: &[FieldError]) -> Vec<String> {
    faults.iter().map(ToString::to_string).collect()
}

/// A defaulted pod with these fields of its spec besides one container.
fn pod(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    defaults::pod(&mut pod);
    pod
}

#[track_caller]
fn check(spec: Value, expected: &[&str]) {
    assert_eq!(texts(&validate(&pod(spec))), expected);
}

#[test]
fn specs_read_like_upstream() {
    check(json!({}), &[]);
    check(json!({"containers": []}), &["spec.containers: Required value"]);
    check(
        json!({"restartPolicy": "Sometimes"}),
        &[
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ],
    );
    check(
        json!({"dnsPolicy": "None"}),
        &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    );
    check(
        json!({"activeDeadlineSeconds": 0}),
        &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    );
    check(
        json!({"hostNetwork": true, "containers": [{"name": "c", "image": "i",
            "ports": [{"containerPort": 80, "hostPort": 81}]}]}),
        &["spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is \
           true"],
    );
    check(
        json!({"schedulingGates": [{"name": "a.b/c"}, {"name": "a.b/c"}], "nodeName": "n"}),
        &[
            "spec.schedulingGates[1]: Duplicate value: \"a.b/c\"",
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
        ],
    );
    check(
        json!({"hostAliases": [{"ip": "999.0.0.1", "hostnames": ["ok"]}]}),
        &["spec.hostAliases[0].ip: Invalid value: \"999.0.0.1\": must be a valid IP address, (e.g. 10.9.8.7 or \
           2001:db8::ffff)"],
    );
    check(
        json!({"shareProcessNamespace": true, "hostPID": true}),
        &["spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"],
    );
    check(
        json!({"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "p"}}]}}]}),
        &["spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when \
           serviceAccountName is not set"],
    );
    check(
        json!({"ephemeralContainers": [{"name": "e", "image": "i", "targetContainerName": "x",
            "livenessProbe": {"exec": {"command": ["a"]}}}]}),
        &[
            "spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"",
            "spec.ephemeralContainers[0].livenessProbe: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
        ],
    );
    check(json!({"dnsConfig": {"searches": ["_svc.example.com.", "."], "nameservers": ["10.0.0.1"]}}), &[]);
    check(json!({"hostnameOverride": "a.b", "overhead": {"cpu": "10m"}, "preemptionPolicy": "Never"}), &[]);
}

#[test]
fn containers_read_like_upstream() {
    let one = |container: Value, expected: &[&str]| {
        let mut container = container;
        for (field, value) in [("name", "c"), ("image", "i:1")] {
            crate::fill::absent(&mut container, field, value);
        }
        check(json!({ "containers": [container], "volumes": [{"name": "v", "emptyDir": {}}] }), expected);
    };
    one(json!({"ports": [{"containerPort": 80, "name": "http"}]}), &[]);
    one(json!({"image": ""}), &["spec.containers[0].image: Required value"]);
    one(
        json!({"image": " i "}),
        &["spec.containers[0].image: Invalid value: \" i \": must not have leading or trailing whitespace"],
    );
    one(
        json!({"imagePullPolicy": "Maybe"}),
        &["spec.containers[0].imagePullPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \
           \"IfNotPresent\", \"Never\""],
    );
    one(
        json!({"ports": [{"containerPort": 0}, {"containerPort": 65536, "protocol": "ICMP"}]}),
        &[
            "spec.containers[0].ports[0].containerPort: Required value",
            "spec.containers[0].ports[1].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            "spec.containers[0].ports[1].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \
             \"UDP\"",
        ],
    );
    one(
        json!({"ports": [{"containerPort": 1, "hostPort": 80}, {"containerPort": 2, "hostPort": 80}]}),
        &["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""],
    );
    one(
        json!({"volumeMounts": [{"name": "x", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]}),
        &[
            "spec.containers[0].volumeMounts[0].name: Not found: \"x\"",
            "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
        ],
    );
    one(
        json!({"volumeDevices": [{"name": "v", "devicePath": "/d"}]}),
        &["spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of \
           PersistentVolumeClaim or Ephemeral for block mode"],
    );
    one(
        json!({"livenessProbe": {"successThreshold": 2, "tcpSocket": {"port": "UP"}}}),
        &[
            "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: \"UP\": must contain only alpha-numeric \
             characters (a-z, 0-9), and hyphens (-)",
            "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: \"UP\": must contain at least one letter \
             (a-z)",
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    );
    one(
        json!({"readinessProbe": {}}),
        &["spec.containers[0].readinessProbe: Required value: must specify a handler type"],
    );
    one(
        json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
        &["spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than \
           terminationGracePeriodSeconds (30)"],
    );
    one(
        json!({"restartPolicyRules": [{"action": "Restart"}]}),
        &[
            "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
            "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
        ],
    );
    one(
        json!({"securityContext": {"allowPrivilegeEscalation": false, "privileged": true}}),
        &[
            "spec.containers[0].securityContext: Invalid value: {\"allowPrivilegeEscalation\":false,\"privileged\":true}: \
           cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        ],
    );
}

#[test]
fn init_containers_and_sidecars() {
    let with = |init: Value| json!({ "initContainers": [init] });
    let probe = json!({"exec": {"command": ["true"]}});
    check(with(json!({"name": "i", "image": "i"})), &[]);
    check(with(json!({"name": "i", "image": "i", "restartPolicy": "Always", "readinessProbe": probe})), &[]);
    check(
        with(json!({"name": "i", "image": "i", "livenessProbe": probe})),
        &["spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without \
           restartPolicy=Always"],
    );
    check(with(json!({"name": "c", "image": "i"})), &["spec.initContainers[0].name: Duplicate value: \"c\""]);
    check(
        with(json!({"name": "i", "image": "i", "restartPolicy": "Sometimes"})),
        &["spec.initContainers[0].restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \
           \"Never\", \"OnFailure\""],
    );
}

#[test]
fn only_few_fields_may_change() {
    let old = pod(json!({"activeDeadlineSeconds": 100, "tolerations": [{"key": "a", "operator": "Exists"}]}));
    let check = |change: fn(&mut Value), expected: &[&str]| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        let faults = texts(&validate_update(&new, &old, UpdateOf::Main));
        assert_eq!(faults.len(), expected.len(), "{faults:?}");
        for (fault, start) in faults.iter().zip(expected) {
            assert!(fault.starts_with(start), "{fault}");
        }
    };
    check(|_| {}, &[]);
    check(|spec| spec["containers"][0]["image"] = json!("j:2"), &[]);
    check(|spec| spec["activeDeadlineSeconds"] = json!(50), &[]);
    check(|spec| spec["hostNetwork"] = json!(false), &[]);
    check(
        |spec| spec["tolerations"] = json!([{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]),
        &[],
    );
    check(
        |spec| spec["activeDeadlineSeconds"] = json!(101),
        &["spec.activeDeadlineSeconds: Invalid value: 101: must be less than or equal to previous value"],
    );
    check(
        |spec| _ = spec.remove(&["activeDeadlineSeconds"]),
        &["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"],
    );
    check(
        |spec| spec["tolerations"] = json!([]),
        &["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
    );
    check(
        |spec| spec["containers"] = json!([spec["containers"][0], spec["containers"][0]]),
        &[
            "spec.containers[1].name: Duplicate value: \"c\"",
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ],
    );
    check(
        |spec| spec["nodeName"] = json!("other"),
        &["spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,\
           `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
           tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"],
    );
    check(
        |spec| spec["schedulingGates"] = json!([{"name": "a.b/c"}]),
        &["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'a.b/c'"],
    );
}

#[test]
fn gated_pods_may_be_narrowed() {
    let gates = json!([{"name": "a.b/c"}]);
    let old = pod(json!({"schedulingGates": gates, "nodeSelector": {"a": "1"}}));
    let check = |change: Value, expected: &[&str]| {
        let mut new = old.clone();
        for (field, value) in change.as_object().into_iter().flatten() {
            new["spec"][field] = value.clone();
        }
        assert_eq!(texts(&validate_update(&new, &old, UpdateOf::Main)), expected);
    };
    check(json!({"nodeSelector": {"a": "1", "b": "2"}}), &[]);
    check(json!({"schedulingGates": []}), &[]);
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]});
    let required = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    check(json!({ "affinity": required }), &[]);
    check(
        json!({"nodeSelector": {"a": "2"}}),
        &["spec.nodeSelector: Invalid value: {\"a\":\"2\"}: only additions to spec.nodeSelector are allowed (no \
           mutations or deletions)"],
    );
}

#[test]
fn resizing() {
    let resources = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}});
    let mut old = pod(json!({"containers": [{"name": "c", "image": "i:1", "resources": resources}]}));
    prepare::create(&mut old);
    let check = |change: fn(&mut Value), expected: &[&str]| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        assert_eq!(texts(&validate_update(&new, &old, UpdateOf::Other("resize"))), expected);
    };
    check(|spec| spec["containers"][0]["resources"]["requests"]["cpu"] = json!("1500m"), &[]);
    check(
        |spec| spec["containers"][0]["image"] = json!("j"),
        &["spec: Forbidden: only cpu and memory resources are mutable"],
    );
    check(
        |spec| _ = spec["containers"][0]["resources"]["limits"].remove(&["cpu"]),
        &["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"],
    );
    check(
        |spec| {
            spec["containers"][0]["resources"] = json!({"requests": {"cpu": "2", "memory": "2Gi"},
            "limits": {"cpu": "2", "memory": "2Gi"}})
        },
        &["spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing"],
    );
    check(
        |spec| spec["containers"][0]["name"] = json!("d"),
        &["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"],
    );
}

#[test]
fn ephemeral_containers_are_added_only() {
    let container = |name: &str| json!({"name": name, "image": "i:1"});
    let old = pod(json!({"ephemeralContainers": [container("e")]}));
    let check = |list: Value, expected: &[&str]| {
        let mut new = old.clone();
        new["spec"]["ephemeralContainers"] = list;
        defaults::pod(&mut new);
        let faults = texts(&validate_update(&new, &old, UpdateOf::Other("ephemeralcontainers")));
        assert_eq!(faults, expected);
    };
    check(json!([container("e"), container("f")]), &[]);
    check(
        json!([container("f")]),
        &["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n"],
    );
    check(
        json!([{"name": "e", "image": "j:1"}]),
        &["spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be changed\n  image: \
           \"i:1\" -> \"j:1\"\n"],
    );
}

#[test]
fn statuses() {
    let ended = |code: i64| json!([{"name": "c", "state": {"terminated": {"exitCode": code}}}]);
    let running = json!([{"name": "c", "state": {"running": {}}}]);
    let check = |spec: Value, old_status: Value, new_status: Value, expected: &[&str]| {
        let (mut old, mut new) = (pod(spec.clone()), pod(spec));
        (old["status"], new["status"]) = (old_status, new_status);
        assert_eq!(texts(&validate_update(&new, &old, UpdateOf::Status)), expected);
    };
    let statuses = |list: Value| json!({ "containerStatuses": list });
    check(json!({}), statuses(ended(1)), statuses(running.clone()), &[]);
    check(
        json!({"restartPolicy": "Never"}),
        statuses(ended(1)),
        statuses(running.clone()),
        &["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"],
    );
    check(json!({"restartPolicy": "OnFailure"}), statuses(ended(1)), statuses(running), &[]);
    check(
        json!({}),
        json!({"qosClass": "Burstable"}),
        json!({"qosClass": "Guaranteed"}),
        &["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"],
    );
    check(
        json!({"nodeName": "n"}),
        json!({}),
        json!({"nominatedNodeName": "m"}),
        &["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"],
    );
    check(
        json!({}),
        json!({}),
        json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}),
        &["status.podIPs: Invalid value: [{\"ip\":\"10.0.0.1\"},{\"ip\":\"10.0.0.2\"}]: may specify no more than one \
           IP for each IP family"],
    );
}

#[test]
fn the_table() {
    let now = Time::parse("2026-01-01T01:00:00Z").expect("valid");
    let cells = |pod: &Value| -> Vec<Value> {
        let cell = |column: crate::Column| match column.cell {
            crate::Cell::Of(make) => make(pod, now),
            crate::Cell::JsonPath(_) => Value::Null,
        };
        columns::all().into_iter().map(cell).collect()
    };
    let check = |spec: Value, status: Value, expected: [&str; 3]| {
        let pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
        assert_eq!(cells(&pod)[1..4], expected.map(Value::from));
    };
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let run = json!({"running": {}});
    check(two.clone(), json!({"phase": "Pending"}), ["0/2", "Pending", "0"]);
    check(
        two.clone(),
        json!({"phase": "Running", "containerStatuses": [{"ready": true, "state": run, "restartCount": 6},
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 3,
             "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}}]}),
        ["1/2", "CrashLoopBackOff", "9 (5m ago)"],
    );
    check(
        two.clone(),
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
            {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}, {"ready": true, "state": run}]}),
        ["1/2", "Running", "0"],
    );
    check(
        two.clone(),
        json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}),
        ["0/2", "ExitCode:3", "0"],
    );
    check(
        two.clone(),
        json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"signal": 9, "exitCode": 137}}}]}),
        ["0/2", "Signal:9", "0"],
    );
    let init = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
    check(
        init.clone(),
        json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}},
            {"name": "j", "state": {"running": {}}}]}),
        ["0/1", "Init:1/2", "0"],
    );
    check(
        init,
        json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 2,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
        ["0/1", "Init:CrashLoopBackOff", "2"],
    );
    check(
        json!({"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]}),
        json!({"phase": "Running", "containerStatuses": [{"ready": true, "state": run}],
            "initContainerStatuses": [{"name": "s", "ready": true, "started": true, "state": run}]}),
        ["2/2", "Running", "0"],
    );
    let deleted = json!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": two, "status": {"phase": "Running"}});
    assert_eq!(cells(&deleted)[2], json!("Terminating"));
    let gated = json!({"spec": {"readinessGates": [{"conditionType": "x/y"}]},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"},
            {"type": "x/y", "status": "True"}]}});
    assert_eq!(
        cells(&gated)[2..],
        ["SchedulingGated", "0", "<unknown>", "<none>", "<none>", "<none>", "1/1"].map(Value::from)
    );
}

#[test]
fn warnings_read_like_upstream() {
    let check = |spec: Value, expected: &[&str]| assert_eq!(warnings::of_pod(&pod(spec), None), expected);
    let container = |fields: Value| {
        let mut container = json!({"name": "c", "image": "i:1"});
        for (field, value) in fields.as_object().into_iter().flatten() {
            container[field] = value.clone();
        }
        json!({ "containers": [container] })
    };
    check(json!({}), &[]);
    check(
        container(json!({"env": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"},
            {"name": "b", "value": "x"}, {"name": "b", "value": "$(b):y"}]})),
        &["spec.containers[0].env[1]: hides previous definition of \"a\", which may be dropped when using apply"],
    );
    check(
        container(json!({"ports": [{"containerPort": 80, "name": "p"}, {"containerPort": 80, "name": "p"}]})),
        &[
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[1]: duplicate port name \"p\" with spec.containers[0].ports[0], services and \
             probes that select ports by name will use spec.containers[0].ports[0]",
        ],
    );
    check(
        container(json!({"resources": {"limits": {"memory": "100m"}, "requests": {"memory": "100m"}}})),
        &[
            "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
            "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" is invalid, must be an \
             integer",
        ],
    );
    check(
        json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}, "volumes": [{"name": "g", "gitRepo": {}}]}),
        &[
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        ],
    );
    check(
        json!({"topologySpreadConstraints": [{"topologyKey": "zone"}]}),
        &["spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"],
    );
    check(
        json!({"volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"path": "a"}, {"path": "a/b"}]}}]}),
        &["volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\""],
    );
}

#[test]
fn stopping_takes_as_long_as_it_says() {
    let check = |pod: Value, asked: Option<i64>, seconds: i64| {
        assert_eq!(grace_seconds(&pod, asked), seconds, "{pod} {asked:?}");
    };
    check(json!({"spec": {"nodeName": "n"}}), None, 30);
    check(json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}), None, 5);
    check(json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}), Some(7), 7);
    check(json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 0}}), Some(7), 7);
    check(json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 5}}), Some(-1), 1);
    check(json!({"spec": {"terminationGracePeriodSeconds": 5}}), None, 0);
    check(json!({"spec": {"terminationGracePeriodSeconds": 5}}), Some(7), 0);
    check(json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": -5}}), None, 1);
    check(json!({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}}), Some(7), 0);
}

#[test]
fn convergence() {
    let check = |status: Value, expected: Converged| assert_eq!(health(&json!({ "status": status })), expected);
    let progressing = |text: &str| Converged::Progressing(text.to_owned());
    check(json!({"phase": "Succeeded"}), Converged::Yes);
    check(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), Converged::Yes);
    check(json!({"phase": "Pending"}), progressing("Pending"));
    check(
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}),
        progressing("no room"),
    );
    check(
        json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
        Converged::Failed("ImagePullBackOff".to_owned()),
    );
}
