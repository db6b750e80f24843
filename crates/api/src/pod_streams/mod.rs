//! Streams of pods: what is asked of a container (its log, a command in it, its terminal), read from the query and from
//! the pod. The bytes themselves are the shell's and the node's.

mod log;
mod session;

use meta::{ApiError, ObjectExt};
use serde_json::Value;

pub use log::{LogOptions, LogStream, log_container};
pub use session::SessionOptions;

/// The lists of containers in a pod's spec, in the order in which upstream names them.
const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// A decoded query by name.
#[derive(Clone, Copy)]
struct Query<'q>(&'q [(String, String)]);

impl<'q> Query<'q> {
    fn all(self, name: &'static str) -> impl Iterator<Item = &'q str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn text(self, name: &'static str) -> Option<&'q str> {
        self.all(name).next()
    }

    /// Upstream's reading: there, and neither `false` nor `0`.
    fn flag(self, name: &'static str) -> bool {
        self.text(name).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    fn int(self, name: &'static str) -> Result<Option<i64>, ApiError> {
        let bad = |value: &str| ApiError::bad_request(format!("strconv.ParseInt: parsing {value:?}: invalid syntax"));
        let given = self.text(name).filter(|value| !value.is_empty());
        given.map(|value| value.parse().map_err(|_| bad(value))).transpose()
    }
}

/// The container meant: the named one, or the only one.
pub fn container_of(pod: &Value, asked: &str) -> Result<String, ApiError> {
    let names = |list: &str| -> Vec<&str> {
        pod.items(&["spec", list]).iter().map(|container| container.text(&["name"])).collect()
    };
    if !asked.is_empty() {
        let is_known = LISTS.iter().any(|list| names(list).contains(&asked));
        let unknown = || ApiError::bad_request(format!("container {asked} is not valid for pod {}", pod.name()));
        return is_known.then(|| asked.to_owned()).ok_or_else(unknown);
    }
    let main = names("containers");
    if let [only] = main.as_slice() {
        return Ok((*only).to_owned());
    }
    let mut message = format!("a container name must be specified for pod {}", pod.name());
    if !main.is_empty() {
        message.push_str(&format!(", choose one of: [{}]", main.join(" ")));
        let init = names("initContainers");
        if !init.is_empty() {
            message.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
        }
    }
    Err(ApiError::bad_request(message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_only_container_or_the_named_one() {
        let named = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name})).collect() };
        let check = |main: &[&str], init: &[&str], asked: &str, expected: Result<&str, &str>| {
            let pod = json!({
                "metadata": {"name": "p"}, "spec": {"containers": named(main), "initContainers": named(init)},
            });
            let found = container_of(&pod, asked).map_err(|error| error.message);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{main:?} {init:?} {asked}");
        };
        check(&["a"], &["i"], "", Ok("a"));
        check(&["a", "b"], &[], "b", Ok("b"));
        check(&["a"], &["i"], "i", Ok("i"));
        check(&["a"], &[], "x", Err("container x is not valid for pod p"));
        check(&["a", "b"], &[], "", Err("a container name must be specified for pod p, choose one of: [a b]"));
        check(
            &["a", "b"],
            &["i", "j"],
            "",
            Err(
                "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i j]",
            ),
        );
        check(&[], &[], "", Err("a container name must be specified for pod p"));
    }
}
