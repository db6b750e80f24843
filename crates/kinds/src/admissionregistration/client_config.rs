//! How the server reaches a webhook: by URL or by Service.

use meta::name;

use crate::check::{At, Faults};

const FORM: &str = "; desired format: https://host[/path]";

/// Exactly one of `url` and `service`, and that one sound.
pub(crate) fn check(config: &At, faults: &mut Faults) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => check_url(&url, faults),
        (false, true) => check_service(&service, faults),
        _ => faults.push(config.required("exactly one of url or service is required")),
    }
}

fn check_url(url: &At, faults: &mut Faults) {
    let (scheme, rest) = url.text().split_once("://").unwrap_or(("", url.text()));
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or("");
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if scheme != "https" {
        faults.push(url.invalid_as(scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    if host.is_empty() || scheme.is_empty() {
        faults.push(url.invalid_as("", format!("host must be specified{FORM}")));
    }
    let refused = [(user, "user information is"), (fragment, "fragments are"), (query, "query parameters are")];
    for (part, what) in refused.into_iter().filter(|(part, _)| !part.is_empty()) {
        faults.push(url.invalid_as(part, format!("{what} not permitted in the URL")));
    }
}

fn check_service(service: &At, faults: &mut Faults) {
    for field in ["name", "namespace"] {
        let at = service.field(field);
        if at.text().is_empty() {
            faults.push(at.required(format!("service {field} is required")));
        }
    }
    let port = service.field("port");
    let broken = name::port_number(port.int().unwrap_or(443));
    if !broken.is_empty() {
        faults.push(port.invalid(format!("port is not valid: {}", broken.join(","))));
    }
    check_path(&service.field("path"), faults);
}

fn check_path(path: &At, faults: &mut Faults) {
    let text = path.text();
    if matches!(text, "" | "/") {
        return;
    }
    if text == "//" {
        faults.push(path.invalid("segment[0] may not be empty"));
        return;
    }
    if !text.starts_with('/') {
        faults.push(path.invalid("must start with a '/'"));
    }
    let inner = text.strip_prefix('/').unwrap_or(text);
    for (index, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if step.is_empty() {
            faults.push(path.invalid(format!("segment[{index}] may not be empty")));
        } else {
            let broken = name::dns1123_subdomain(step).into_iter();
            faults.extend(broken.map(|fault| path.invalid(format!("segment[{index}]: {fault}"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn client_configs() {
        let check = |config: Value, expected: &[&str]| {
            let mut faults = Faults::new();
            check(&At::root(&json!({ "c": config })).field("c"), &mut faults);
            let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({"url": "https://a.b/c"}), &[]);
        check(json!({"service": {"name": "a", "namespace": "b", "path": "/x/y/", "port": 443}}), &[]);
        check(json!({}), &["c: Required value: exactly one of url or service is required"]);
        check(
            json!({"url": "http://u@a.b/c?d#e"}),
            &[
                "c.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: \
                 https://host[/path]",
                "c.url: Invalid value: \"u\": user information is not permitted in the URL",
                "c.url: Invalid value: \"e\": fragments are not permitted in the URL",
                "c.url: Invalid value: \"d\": query parameters are not permitted in the URL",
            ],
        );
        check(
            json!({"service": {"name": "a", "port": 0, "path": "/x//y"}}),
            &[
                "c.service.namespace: Required value: service namespace is required",
                "c.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                "c.service.path: Invalid value: \"/x//y\": segment[1] may not be empty",
            ],
        );
    }
}
