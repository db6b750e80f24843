//! Defaults of pods and of everything that has a pod template. Idempotent.

use meta::{ObjectExt, Quantity};
use serde_json::{Map, Value, json};

use super::image::default_pull_policy;
use crate::fill;

/// The lists of containers in a pod spec, in the order upstream visits them.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// 0644 in decimal: the mode of projected files.
const FILE_MODE: i64 = 0o644;
/// One hour, in seconds: life of a projected service account token.
const TOKEN_SECONDS: i64 = 3600;

/// Defaults of a pod: those of its spec and those that only pods get.
pub fn pod(pod: &mut Value) {
    if let Some(spec) = fill::made(pod, "spec") {
        pod_spec(spec);
        pod_only(spec);
    }
    if let Some(status) = fill::child(pod, "status") {
        status_ips(status);
    }
}

/// Defaults of a pod template (`spec.template` and the like).
pub fn template(template: &mut Value) {
    if let Some(spec) = fill::made(template, "spec") {
        pod_spec(spec);
    }
}

fn pod_spec(spec: &mut Value) {
    service_account(spec);
    fill::zero(spec, "dnsPolicy", "ClusterFirst");
    fill::zero(spec, "restartPolicy", "Always");
    fill::absent(spec, "securityContext", Map::new());
    fill::absent(spec, "terminationGracePeriodSeconds", 30);
    fill::zero(spec, "schedulerName", "default-scheduler");
    fill::items(spec, "volumes").for_each(volume);
    for list in CONTAINER_LISTS {
        fill::items(spec, list).for_each(container);
    }
    round_list(spec.get_mut("overhead"));
    round_requirements(spec);
}

/// The old and the new name of one field; the new one wins.
fn service_account(spec: &mut Value) {
    let old = spec.text(&["serviceAccount"]).to_owned();
    fill::zero(spec, "serviceAccountName", old);
    let name = spec.text(&["serviceAccountName"]).to_owned();
    if name.is_empty() {
        spec.remove(&["serviceAccountName"]);
        spec.remove(&["serviceAccount"]);
    } else {
        spec.put(&["serviceAccount"], name);
    }
}

fn container(container: &mut Value) {
    let policy = default_pull_policy(container.text(&["image"]));
    fill::zero(container, "imagePullPolicy", policy);
    fill::zero(container, "terminationMessagePath", "/dev/termination-log");
    fill::zero(container, "terminationMessagePolicy", "File");
    fill::absent(container, "resources", Map::new());
    fill::items(container, "ports").for_each(|port| fill::zero(port, "protocol", "TCP"));
    fill::items(container, "env").for_each(env);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = fill::child(container, probe) {
            self::probe(value);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(get) = fill::descend(container, &["lifecycle", hook, "httpGet"]) {
            http_get(get);
        }
    }
    round_requirements(container);
}

fn env(env: &mut Value) {
    if let Some(field) = fill::descend(env, &["valueFrom", "fieldRef"]) {
        fill::zero(field, "apiVersion", "v1");
    }
    if let Some(field) = fill::descend(env, &["valueFrom", "resourceFieldRef"]) {
        fill::absent(field, "divisor", "0");
    }
    if let Some(file) = fill::descend(env, &["valueFrom", "fileKeyRef"]) {
        fill::absent(file, "optional", false);
    }
}

fn probe(probe: &mut Value) {
    fill::zero(probe, "timeoutSeconds", 1);
    fill::zero(probe, "periodSeconds", 10);
    fill::zero(probe, "successThreshold", 1);
    fill::zero(probe, "failureThreshold", 3);
    if let Some(get) = fill::child(probe, "httpGet") {
        http_get(get);
    }
    if let Some(grpc) = fill::child(probe, "grpc") {
        fill::absent(grpc, "service", "");
    }
}

fn http_get(get: &mut Value) {
    fill::zero(get, "path", "/");
    fill::zero(get, "scheme", "HTTP");
}

/// A volume that names no source is an empty directory.
pub(crate) fn volume(volume: &mut Value) {
    let named = volume.as_object().is_some_and(|map| map.iter().any(|(key, v)| key != "name" && !v.is_null()));
    if !named {
        fill::absent(volume, "emptyDir", Map::new());
    }
    for mode in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = fill::child(volume, mode) {
            fill::absent(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = fill::child(volume, "downwardAPI") {
        fill::items(source, "items").for_each(downward_file);
    }
    if let Some(source) = fill::child(volume, "projected") {
        fill::items(source, "sources").for_each(projection);
    }
    disks(volume);
    if let Some(image) = fill::child(volume, "image") {
        let policy = default_pull_policy(image.text(&["reference"]));
        fill::zero(image, "pullPolicy", policy);
    }
    if let Some(claim) = fill::descend(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
        claim_spec(claim);
    }
}

/// Sources of volumes on disks: what their drivers were once told by default.
fn disks(volume: &mut Value) {
    if let Some(path) = fill::child(volume, "hostPath") {
        fill::absent(path, "type", "");
    }
    if let Some(iscsi) = fill::child(volume, "iscsi") {
        fill::zero(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = fill::child(volume, "rbd") {
        fill::zero(rbd, "pool", "rbd");
        fill::zero(rbd, "user", "admin");
        fill::zero(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = fill::child(volume, "azureDisk") {
        fill::absent(disk, "cachingMode", "ReadWrite");
        fill::absent(disk, "fsType", "ext4");
        fill::absent(disk, "readOnly", false);
        fill::absent(disk, "kind", "Shared");
    }
    if let Some(disk) = fill::child(volume, "scaleIO") {
        fill::zero(disk, "storageMode", "ThinProvisioned");
        fill::zero(disk, "fsType", "xfs");
    }
}

/// The spec of a claim made from a template.
pub(crate) fn claim_spec(spec: &mut Value) {
    fill::absent(spec, "volumeMode", "Filesystem");
    round_requirements(spec);
}

fn downward_file(file: &mut Value) {
    if let Some(field) = fill::child(file, "fieldRef") {
        fill::zero(field, "apiVersion", "v1");
    }
    if let Some(field) = fill::child(file, "resourceFieldRef") {
        fill::absent(field, "divisor", "0");
    }
}

fn projection(source: &mut Value) {
    if let Some(token) = fill::child(source, "serviceAccountToken") {
        fill::absent(token, "expirationSeconds", TOKEN_SECONDS);
    }
    if let Some(downward) = fill::child(source, "downwardAPI") {
        fill::items(downward, "items").for_each(downward_file);
    }
}

/// Quantities are kept to thousandths; finer ones are rounded up.
fn round_requirements(holder: &mut Value) {
    for list in ["limits", "requests"] {
        round_list(fill::child(holder, "resources").and_then(|resources| fill::child(resources, list)));
    }
}

fn round_list(list: Option<&mut Value>) {
    for value in list.and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
        let Some(quantity) = value.as_str().and_then(|text| Quantity::parse(text).ok()) else { continue };
        let rounded = Quantity::from_milli(quantity.milli());
        // Beyond what thousandths in 64 bits can say, nothing is to be rounded.
        if rounded != quantity && rounded > quantity {
            *value = json!(rounded.to_string());
        }
    }
}

fn pod_only(spec: &mut Value) {
    if spec.int(&["terminationGracePeriodSeconds"]).is_some_and(|seconds| seconds < 0) {
        spec.put(&["terminationGracePeriodSeconds"], 1);
    }
    let host_network = spec.flag(&["hostNetwork"]);
    for list in ["containers", "initContainers"] {
        for container in fill::items(spec, list) {
            requests_from_limits(container);
            if host_network {
                fill::items(container, "ports").for_each(host_port);
            }
        }
    }
    fill::absent(spec, "enableServiceLinks", true);
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container.map(&["resources", "limits"]).cloned() else { return };
    for (name, limit) in limits {
        if container.at(&["resources", "requests", &name]).is_none_or(Value::is_null) {
            container.put(&["resources", "requests", &name], limit);
        }
    }
}

fn host_port(port: &mut Value) {
    if let Some(number) = port.int(&["containerPort"]).filter(|number| *number != 0) {
        fill::zero(port, "hostPort", number);
    }
}

/// Keeps `podIP` and `podIPs` in step; the single one wins.
fn status_ips(status: &mut Value) {
    let single = status.text(&["podIP"]).to_owned();
    let first = status.items(&["podIPs"]).first().map(|entry| entry.text(&["ip"]).to_owned());
    match first {
        Some(first) if single.is_empty() => status.put(&["podIP"], first),
        Some(first) if first == single => {}
        None if single.is_empty() => {}
        _ => status.put(&["podIPs"], json!([{ "ip": single }])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut value: Value, expected: Value) {
        pod(&mut value);
        assert_eq!(value, expected);
        let once = value.clone();
        pod(&mut value);
        assert_eq!(value, once, "defaulting twice");
    }

    #[test]
    fn a_bare_pod() {
        check(
            json!({"spec": {"containers": [{"name": "c", "image": "nginx"}]}}),
            json!({"spec": {
                "containers": [{
                    "name": "c", "image": "nginx", "imagePullPolicy": "Always", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
                "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler", "enableServiceLinks": true,
            }}),
        );
    }

    fn part(spec: Value, path: &[&str], expected: Value) {
        let mut value = json!({"spec": spec});
        pod(&mut value);
        let found = path.iter().fold(&value["spec"], |v, step| match step.parse::<usize>() {
            Ok(index) => &v[index],
            Err(_) => &v[*step],
        });
        assert_eq!(found, &expected);
    }

    #[test]
    fn limits_become_requests_in_pods_only() {
        let spec = json!({"containers": [{"image": "a:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m"}}}]});
        part(spec.clone(), &["containers", "0", "resources", "requests"], json!({"cpu": "500m", "memory": "1Gi"}));
        let mut value = json!({ "spec": spec });
        template(&mut value);
        assert_eq!(value["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "500m"}));
        assert_eq!(value["spec"].get("enableServiceLinks"), None);
    }

    #[test]
    fn the_rest() {
        part(json!({"serviceAccount": "robot"}), &["serviceAccountName"], json!("robot"));
        part(json!({"serviceAccount": "a", "serviceAccountName": "b"}), &["serviceAccount"], json!("b"));
        part(json!({"terminationGracePeriodSeconds": -5}), &["terminationGracePeriodSeconds"], json!(1));
        part(json!({"volumes": [{"name": "v"}]}), &["volumes", "0", "emptyDir"], json!({}));
        part(
            json!({"volumes": [{"secret": {"secretName": "s"}}]}),
            &["volumes", "0", "secret"],
            json!({"secretName": "s", "defaultMode": 420}),
        );
        part(
            json!({"volumes": [{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}),
            &["volumes", "0", "projected"],
            json!({"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}),
        );
        part(
            json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]}),
            &["containers", "0", "ports", "0"],
            json!({"containerPort": 80, "hostPort": 80, "protocol": "TCP"}),
        );
        part(
            json!({"containers": [{"livenessProbe": {"httpGet": {"port": 80}}}]}),
            &["containers", "0", "livenessProbe"],
            json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
                "successThreshold": 1, "failureThreshold": 3}),
        );
    }

    #[test]
    fn addresses_agree() {
        let check = |status: Value, expected: Value| {
            let mut value = json!({ "status": status });
            pod(&mut value);
            assert_eq!(value["status"], expected);
        };
        check(json!({"podIP": "10.0.0.1"}), json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}));
        check(json!({"podIPs": [{"ip": "::1"}]}), json!({"podIP": "::1", "podIPs": [{"ip": "::1"}]}));
        check(
            json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.2"}]}),
            json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}),
        );
    }
}
