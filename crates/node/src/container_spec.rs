//! A container as the runtime's.

use std::path::PathBuf;

use agent::env::Environment;
use agent::expand::expand;
use agent::figures::{self, Figures};
use agent::pod::Marks;
use contract::{ContainerSpec, Mount, MountSource, Propagation, RootImage, SeccompProfile, Security, User};
use meta::ObjectExt;
use serde_json::Value;

use crate::image::LocalImage;
use crate::sandbox_spec::resources;
use crate::seen::annotations;
use crate::signal::signal;

/// Everything that a container is made of.
pub(crate) struct Parts<'p> {
    pub pod: &'p Value,
    pub container: &'p Value,
    pub attempt: u32,
    pub image: &'p LocalImage,
    pub environment: &'p Environment,
    pub marks: &'p Marks,
    /// What a volume is on this machine.
    pub volume: &'p dyn Fn(&str) -> Option<Source>,
    /// The file for its last words.
    pub message: PathBuf,
    pub node_memory: i64,
}

/// What a volume is on this machine.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A file or directory.
    Path(PathBuf),
    /// What an image holds.
    Image(Box<LocalImage>),
}

/// The runtime's spec; the error is what the container's status shows as `CreateContainerConfigError`.
pub(crate) fn container_spec(parts: &Parts<'_>) -> Result<ContainerSpec, String> {
    let container = parts.container;
    let env = variables(parts);
    let (command, args) = command(parts)?;
    Ok(ContainerSpec {
        name: container.text(&["name"]).to_owned(),
        attempt: parts.attempt,
        labels: Default::default(),
        annotations: annotations(parts.marks),
        root: RootImage {
            image: container.text(&["image"]).to_owned(),
            image_id: parts.image.id.clone(),
            reference: parts.image.reference.clone(),
            lower_dirs: parts.image.layers.clone(),
        },
        command,
        args,
        working_dir: match container.text(&["workingDir"]) {
            "" => parts.image.working_dir.clone(),
            own => own.to_owned(),
        },
        env,
        user: user(parts)?,
        tty: container.flag(&["tty"]),
        stdin: container.flag(&["stdin"]),
        stdin_once: container.flag(&["stdinOnce"]),
        stop_signal: signal(container.text(&["lifecycle", "stopSignal"])),
        mounts: mounts(parts)?,
        devices: Vec::new(),
        resources: resources(&Figures::of(&container["resources"])),
        security: security(parts)?,
        rlimits: Vec::new(),
        oom_score_adj: i32::try_from(figures::oom_score_adj(parts.pod, container, parts.node_memory)).ok(),
        log: Default::default(),
    })
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    value.items(&[field]).iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// The image's, then the pod's.
fn variables(parts: &Parts<'_>) -> Vec<(String, String)> {
    let own = parts.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut all: Vec<(String, String)> =
        parts.image.env.iter().filter(|(name, _)| !parts.environment.contains_key(name)).cloned().collect();
    all.extend(own);
    all
}

/// A command replaces the image's entrypoint and arguments, arguments alone replace its arguments. Where the image is
/// read by the runtime, command and arguments are left apart; else the line is whole.
fn command(parts: &Parts<'_>) -> Result<(Vec<String>, Vec<String>), String> {
    let value = |name: &str| parts.environment.get(name).cloned();
    let expanded =
        |field: &str| -> Vec<String> { texts(parts.container, field).iter().map(|text| expand(text, value)).collect() };
    let (command, args) = (expanded("command"), expanded("args"));
    if parts.image.is_configured_by_runtime {
        return Ok((command, args));
    }
    let line: Vec<String> = match (command.is_empty(), args.is_empty()) {
        (false, _) => command.into_iter().chain(args).collect(),
        (true, false) => parts.image.entrypoint.iter().cloned().chain(args).collect(),
        (true, true) => parts.image.entrypoint.iter().chain(&parts.image.cmd).cloned().collect(),
    };
    if line.is_empty() { Err("no command specified".to_owned()) } else { Ok((line, Vec::new())) }
}

/// A field of the container's security context, or else of the pod's.
fn either<'p>(parts: &Parts<'p>, field: &str) -> Option<&'p Value> {
    let own = parts.container.at(&["securityContext", field]);
    own.or_else(|| parts.pod.at(&["spec", "securityContext", field])).filter(|value| !value.is_null())
}

fn user(parts: &Parts<'_>) -> Result<User, String> {
    let number = |field: &str| either(parts, field).and_then(Value::as_i64);
    let uid = number("runAsUser");
    let as_text = uid.map_or_else(|| parts.image.user.clone(), |uid| uid.to_string());
    if either(parts, "runAsNonRoot").and_then(Value::as_bool) == Some(true) {
        not_root(parts, uid, &as_text)?;
    }
    let pod = |field: &str| parts.pod.at(&["spec", "securityContext", field]);
    let mut groups: Vec<u32> = pod("supplementalGroups")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|group| u32::try_from(group.as_i64()?).ok())
        .collect();
    groups.extend(pod("fsGroup").and_then(Value::as_i64).and_then(|group| u32::try_from(group).ok()));
    Ok(User {
        user: as_text,
        run_as_group: number("runAsGroup").and_then(|group| u32::try_from(group).ok()),
        supplemental_groups: groups,
        strict_groups: pod("supplementalGroupsPolicy").and_then(Value::as_str) == Some("Strict"),
    })
}

fn not_root(parts: &Parts<'_>, uid: Option<i64>, image_user: &str) -> Result<(), String> {
    let name = image_user.split(':').next().unwrap_or("");
    let whom = format!(
        "(pod: \"{}_{}({})\", container: {})",
        parts.pod.name(),
        parts.pod.namespace(),
        parts.pod.uid(),
        parts.container.text(&["name"])
    );
    match (uid, name.parse::<u32>()) {
        (Some(0), _) => Err(format!("container's runAsUser breaks non-root policy {whom}")),
        (Some(_), _) => Ok(()),
        (None, Ok(0)) => Err(format!("container has runAsNonRoot and image will run as root {whom}")),
        (None, Ok(_)) => Ok(()),
        (None, Err(_)) if name.is_empty() => {
            Err(format!("container has runAsNonRoot and image will run as root {whom}"))
        }
        (None, Err(_)) => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {whom}"
        )),
    }
}

fn security(parts: &Parts<'_>) -> Result<Security, String> {
    // Less protection than was asked for is no protection.
    for (field, what) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let profile = either(parts, field).filter(|profile| profile.text(&["type"]) == "Localhost");
        if let Some(name) = profile.map(|profile| profile.text(&["localhostProfile"])) {
            return Err(format!("this node does not load {what} profiles of its own: {name:?} cannot be used"));
        }
    }
    let own = &parts.container["securityContext"];
    let is_privileged = own.flag(&["privileged"]);
    let profile = either(parts, "seccompProfile").map_or("", |profile| profile.text(&["type"]));
    let capabilities =
        |list: &str| own.at(&["capabilities"]).map(|capabilities| texts(capabilities, list)).unwrap_or_default();
    Ok(Security {
        privileged: is_privileged,
        add_capabilities: capabilities("add"),
        drop_capabilities: capabilities("drop"),
        no_new_privileges: own.at(&["allowPrivilegeEscalation"]).and_then(Value::as_bool) == Some(false),
        readonly_root: own.flag(&["readOnlyRootFilesystem"]),
        seccomp: match profile {
            "RuntimeDefault" => SeccompProfile::RuntimeDefault,
            _ => SeccompProfile::Unconfined,
        },
        unmasked_proc: own.text(&["procMount"]) == "Unmasked",
    })
}

fn mounts(parts: &Parts<'_>) -> Result<Vec<Mount>, String> {
    let mut mounts = Vec::new();
    for written in parts.container.items(&["volumeMounts"]) {
        let volume = written.text(&["name"]);
        let source = (parts.volume)(volume).ok_or_else(|| format!("cannot find volume \"{volume}\" to mount"))?;
        let sub_path = sub_path(parts, written)?;
        mounts.push(Mount {
            container_path: written.text(&["mountPath"]).to_owned(),
            source: match source {
                Source::Path(path) => MountSource::Host { path, sub_path },
                Source::Image(image) => MountSource::Image {
                    image_id: image.id,
                    reference: image.reference,
                    lower_dirs: image.layers,
                    sub_path,
                },
            },
            readonly: written.flag(&["readOnly"]),
            recursive_readonly: matches!(written.text(&["recursiveReadOnly"]), "Enabled" | "IfPossible"),
            propagation: match written.text(&["mountPropagation"]) {
                "Bidirectional" => Propagation::Bidirectional,
                "HostToContainer" => Propagation::HostToContainer,
                _ => Propagation::Private,
            },
        });
    }
    let last_words = match parts.container.text(&["terminationMessagePath"]) {
        "" => "/dev/termination-log",
        path => path,
    };
    mounts.push(Mount {
        container_path: last_words.to_owned(),
        source: MountSource::Host { path: parts.message.clone(), sub_path: String::new() },
        readonly: false,
        recursive_readonly: false,
        propagation: Propagation::Private,
    });
    Ok(mounts)
}

/// Never out of the volume: neither as written nor by what variables bring in.
fn sub_path(parts: &Parts<'_>, mount: &Value) -> Result<String, String> {
    let path = match mount.text(&["subPathExpr"]) {
        "" => mount.text(&["subPath"]).to_owned(),
        expression => {
            let missing = std::cell::Cell::new(false);
            let value = |name: &str| {
                let value = parts.environment.get(name).cloned();
                missing.set(missing.get() || value.is_none());
                value
            };
            let path = expand(expression, value);
            if missing.get() {
                return Err(format!("missing value for {expression:?}"));
            }
            path
        }
    };
    if path.starts_with('/') {
        return Err(format!("error SubPath `{path}` must not be an absolute path"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{path}`: must not contain '..'"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(container: Value) -> Result<ContainerSpec, String> {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u"},
            "spec": {"securityContext": {"fsGroup": 7}, "containers": [container]},
        });
        let image = LocalImage {
            id: "sha256:1".into(),
            entrypoint: vec!["/app".into()],
            cmd: vec!["run".into()],
            env: vec![("PATH".into(), "/bin".into()), ("A".into(), "image".into())],
            ..LocalImage::default()
        };
        let environment = Environment::from([("A".to_owned(), "pod".to_owned())]);
        container_spec(&Parts {
            pod: &pod,
            container: &pod["spec"]["containers"][0],
            attempt: 0,
            image: &image,
            environment: &environment,
            marks: &Marks::default(),
            volume: &|name| match name {
                "v" => Some(Source::Path("/volumes/v".into())),
                "i" => Some(Source::Image(Box::new(LocalImage { id: "sha256:2".into(), ..LocalImage::default() }))),
                _ => None,
            },
            message: PathBuf::from("/message"),
            node_memory: 1 << 30,
        })
    }

    #[test]
    fn commands_replace_what_the_image_says() {
        let check = |container: Value, expected: &[&str]| {
            assert_eq!(
                spec(container.clone()).map(|spec| spec.command),
                Ok(expected.iter().map(|s| (*s).to_owned()).collect()),
                "{container}"
            );
        };
        check(json!({}), &["/app", "run"]);
        check(json!({"args": ["$(A)"]}), &["/app", "pod"]);
        check(json!({"command": ["/x"]}), &["/x"]);
        check(json!({"command": ["/x"], "args": ["$(NO)"]}), &["/x", "$(NO)"]);
        let env = spec(json!({})).expect("a spec").env;
        assert_eq!(env, [("PATH".into(), "/bin".into()), ("A".into(), "pod".into())]);
    }

    #[test]
    fn paths_stay_in_their_volume() {
        let mount = |more: Value| {
            let mut mount = json!({"name": "v", "mountPath": "/data"});
            for (key, value) in more.as_object().into_iter().flatten() {
                mount[key] = value.clone();
            }
            spec(json!({"volumeMounts": [mount]})).map(|spec| spec.mounts[0].source.clone())
        };
        let host = |sub_path: &str| Ok(MountSource::Host { path: "/volumes/v".into(), sub_path: sub_path.into() });
        assert_eq!(mount(json!({"subPath": "a/b"})), host("a/b"));
        assert_eq!(mount(json!({"subPathExpr": "x-$(A)"})), host("x-pod"));
        let image = MountSource::Image {
            image_id: "sha256:2".into(),
            reference: String::new(),
            lower_dirs: Vec::new(),
            sub_path: "a".into(),
        };
        assert_eq!(mount(json!({"name": "i", "subPath": "a"})), Ok(image));
        assert!(mount(json!({"subPath": "../x"})).is_err() && mount(json!({"subPathExpr": "$(NO)"})).is_err());
        assert!(spec(json!({"volumeMounts": [{"name": "w", "mountPath": "/w"}]})).is_err());
    }

    #[test]
    fn a_profile_that_cannot_be_loaded_is_no_reason_to_run_without() {
        let profile = |field: &str, profile: Value| spec(json!({"name": "c", "securityContext": {field: profile}}));
        let own = json!({"type": "Localhost", "localhostProfile": "p.json"});
        let why = "this node does not load seccomp profiles of its own: \"p.json\" cannot be used";
        assert_eq!(profile("seccompProfile", own.clone()).map(drop), Err(why.to_owned()));
        assert!(profile("appArmorProfile", own).is_err());
        let usual = profile("seccompProfile", json!({"type": "RuntimeDefault"})).map(|spec| spec.security.seccomp);
        assert_eq!(usual, Ok(SeccompProfile::RuntimeDefault));
    }

    #[test]
    fn who_it_runs_as() {
        let user = |context: Value| spec(json!({"name": "c", "securityContext": context})).map(|spec| spec.user.user);
        assert_eq!(user(json!({"runAsUser": 5})), Ok("5".to_owned()));
        let why = "container has runAsNonRoot and image will run as root (pod: \"p_d(u)\", container: c)";
        assert_eq!(user(json!({"runAsNonRoot": true})), Err(why.to_owned()));
        assert_eq!(user(json!({"runAsNonRoot": true, "runAsUser": 5})), Ok("5".to_owned()));
        assert_eq!(spec(json!({})).expect("a spec").user.supplemental_groups, [7]);
    }
}
