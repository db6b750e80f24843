//! What is special about pods on Windows, and which fields belong to one operating system only.

use std::sync::LazyLock;

use meta::{ObjectExt, name};
use regex::Regex;
use serde_json::Value;

use crate::check::{At, Faults, named};

/// 64 KiB.
const CREDENTIALS_MAX: usize = 64 * 1024;
const DOMAIN_MAX: usize = 256;
const USER_MAX: usize = 104;
/// Fields of a pod's security context that Windows has no use for.
const LINUX_POD: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
/// Fields of a pod that Windows has no use for.
const LINUX_SPEC: &[&str] = &["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
/// Fields of a container's security context that Windows has no use for.
const LINUX_CONTAINER: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];
const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_ON_LINUX: &str = "windows options cannot be set for a linux pod";

/// A computer's name as NetBIOS has it.
static NET_BIOS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$"#).ok());
/// A domain as DNS has it.
static DNS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
    Regex::new(&format!(r"^{label}(?:\.{label})*$")).ok()
});

fn matches(pattern: &Option<Regex>, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

/// Checks `windowsOptions`, if there are any.
pub(crate) fn options(at: &At, faults: &mut Faults) {
    let (name, spec, user) =
        (at.field("gmsaCredentialSpecName"), at.field("gmsaCredentialSpec"), at.field("runAsUserName"));
    if name.is_set() {
        named(&name, name::dns1123_subdomain, faults);
    }
    if spec.is_set() && spec.text().is_empty() {
        faults.push(spec.invalid("gmsaCredentialSpec cannot be an empty string"));
    } else if spec.text().len() > CREDENTIALS_MAX {
        faults.push(spec.invalid("gmsaCredentialSpec size must be under 64 KiB"));
    }
    if user.is_set() {
        let details = user_faults(user.text());
        faults.extend(details.into_iter().map(|detail| user.invalid(detail)));
    }
}

fn user_faults(text: &str) -> Vec<String> {
    let one = |detail: &str| vec![detail.to_owned()];
    if text.is_empty() {
        return one("runAsUserName cannot be an empty string");
    }
    if text.contains(|c: char| c.is_ascii_control()) {
        return one("runAsUserName cannot contain control characters");
    }
    match text.split('\\').collect::<Vec<_>>()[..] {
        [user] => account_faults(user),
        [domain, user] => {
            let mut faults = domain_faults(domain);
            faults.extend(account_faults(user));
            faults
        }
        _ => one("runAsUserName cannot contain more than one backslash"),
    }
}

fn domain_faults(domain: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if domain.len() >= DOMAIN_MAX {
        faults.push(format!("runAsUserName's Domain length must be under {DOMAIN_MAX} characters"));
    }
    if !matches(&NET_BIOS, domain) && !matches(&DNS, domain) {
        faults.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    faults
}

fn account_faults(user: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if user.is_empty() {
        faults.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_MAX {
        faults.push(format!("runAsUserName's User length must not be longer than {USER_MAX} characters"));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        faults.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(|c| r#""/\:;|=,+*?<>@[]"#.contains(c)) {
        let list = r#""/\:;|=,+*?<>@[]"#;
        faults.push(format!("runAsUserName's User cannot contain the following characters: {list}"));
    }
    faults
}

/// Checks that processes of the node, if there are any, have the pod for themselves.
pub(crate) fn host_process(spec: &At, faults: &mut Faults) {
    let of = |holder: &Value| holder.at(&["securityContext", "windowsOptions", "hostProcess"]).and_then(Value::as_bool);
    let pod = of(spec.value);
    let (mut containers, mut processes) = (0, 0);
    super::each_container(spec, |container| {
        let own = of(container.value);
        containers += 1;
        processes += usize::from(own.or(pod).unwrap_or(false));
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let context = container.field("securityContext");
            let options = context.field("windowsOptions");
            faults.push(options.field("hostProcess").invalid(detail));
        }
    });
    if processes == 0 {
        return;
    }
    if processes != containers {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        faults.push(spec.invalid_as("", detail));
    }
    if !spec.field("hostNetwork").is_true() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        faults.push(spec.field("hostNetwork").invalid_as(false, detail));
    }
}

/// Checks `os` and that no field of the other system is set.
pub(crate) fn system(spec: &At, faults: &mut Faults) {
    let os = spec.field("os");
    match os.field("name").text() {
        _ if !os.is_set() => {}
        "" => faults.push(os.field("name").required("")),
        "linux" => linux(spec, faults),
        "windows" => windows(spec, faults),
        other => faults.push(meta::FieldError::not_supported(os.path, other, &["linux", "windows"])),
    }
}

fn linux(spec: &At, faults: &mut Faults) {
    let mut check = |holder: &At| {
        let context = holder.field("securityContext");
        if context.has("windowsOptions") {
            faults.push(context.field("windowsOptions").forbidden(NOT_ON_LINUX));
        }
    };
    check(spec);
    super::each_container(spec, |container| check(&container));
}

fn windows(spec: &At, faults: &mut Faults) {
    none_of(&spec.field("securityContext"), LINUX_POD, faults);
    none_of(spec, LINUX_SPEC, faults);
    super::each_container(spec, |container| none_of(&container.field("securityContext"), LINUX_CONTAINER, faults));
}

fn none_of(at: &At, fields: &[&str], faults: &mut Faults) {
    for field in fields {
        let value = at.field(field);
        // Upstream cannot see a plain flag that is off, nor an empty list of sysctls.
        let plain_off = matches!(*field, "hostPID" | "hostIPC") && !value.is_true();
        let empty = *field == "sysctls" && value.items().is_empty();
        if value.is_set() && !plain_off && !empty {
            faults.push(value.forbidden(NOT_ON_WINDOWS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn user_names() {
        let check = |text: &str, expected: &[&str]| assert_eq!(user_faults(text), expected, "{text}");
        check("user", &[]);
        check(r"DOMAIN\user", &[]);
        check(r"a.example\user", &[]);
        check("", &["runAsUserName cannot be an empty string"]);
        check("a\tb", &["runAsUserName cannot contain control characters"]);
        check(r"a\b\c", &["runAsUserName cannot contain more than one backslash"]);
        check("..", &["runAsUserName's User cannot contain only periods or spaces"]);
        check(r"\user", &["runAsUserName's Domain doesn't match the NetBios nor the DNS format"]);
        check("a@b", &[r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#]);
    }

    #[test]
    fn fields_of_the_other_system() {
        let check = |spec: Value, expected: &[&str]| {
            let mut faults = Faults::new();
            system(&At::root(&spec), &mut faults);
            host_process(&At::root(&spec), &mut faults);
            assert_eq!(faults.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        };
        check(json!({"os": {"name": "linux"}}), &[]);
        check(
            json!({"os": {"name": "dos"}}),
            &["os: Unsupported value: \"dos\": supported values: \"linux\", \"windows\""],
        );
        check(
            json!({"os": {"name": "windows"}, "hostPID": false, "securityContext": {"fsGroup": 1},
                "containers": [{"securityContext": {"privileged": false}}]}),
            &[
                "securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
                "containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
            ],
        );
        check(
            json!({"securityContext": {"windowsOptions": {"hostProcess": true}}, "containers": [{}]}),
            &["hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"],
        );
    }
}
