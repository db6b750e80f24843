//! What a simulated container would do if it ran: for how long, and how it would end. Read from its image and command,
//! for the few programs that everybody writes into examples and tests; any other program takes a moment and succeeds.

use std::time::Duration;

use meta::ObjectExt;
use serde_json::Value;

/// How long a program takes that says nothing about itself.
const MOMENT: Duration = Duration::from_secs(1);

/// Images whose own program serves until it is stopped.
const SERVERS: &[&str] = &[
    "caddy",
    "etcd",
    "haproxy",
    "httpd",
    "memcached",
    "mongo",
    "mysql",
    "nginx",
    "pause",
    "postgres",
    "redis",
    "traefik",
];

/// What the tests' own image serves until it is stopped; without arguments it pauses.
const AGNHOST_SERVERS: &[&str] = &[
    "crd-conversion-webhook",
    "fake-gitserver",
    "grpc-health-checking",
    "guestbook",
    "inclusterclient",
    "logs-generator",
    "net-server",
    "netexec",
    "no-snat-test-proxy",
    "nosnat-test",
    "pause",
    "port-forward-tester",
    "porter",
    "sample-device-plugin",
    "serve-hostname",
    "tcp-reset",
    "test-webserver",
    "webhook",
];

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// How long it runs; `None` is until it is stopped.
    pub lasts: Option<Duration>,
    /// What it ends with.
    pub exit_code: i64,
}

impl Program {
    const FOREVER: Program = Program { lasts: None, exit_code: 0 };
    const SHORT: Program = Program { lasts: Some(MOMENT), exit_code: 0 };

    /// The program of a container of a pod.
    pub fn of(container: &Value) -> Program {
        let words = |field: &str| container.items(&[field]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
        let (command, args) = (words("command"), words("args"));
        if command.is_empty() {
            return of_image(container.text(&["image"]), &args);
        }
        of_command(&[command, args].concat())
    }

    /// What the program of a container is known to write.
    pub fn writes(container: &Value) -> &'static str {
        let (name, is_plain) = (image_name(container.text(&["image"])), container.items(&["command"]).is_empty());
        let pauses = matches!(container.items(&["args"]).first().map(Value::as_str), None | Some(Some("pause")));
        if name == "agnhost" && is_plain && pauses { "Paused\n" } else { "" }
    }

    /// Both together, as the containers of one pod: it lasts as long as the longest and fails if one does.
    pub fn and(self, other: Program) -> Program {
        let lasts = match (self.lasts, other.lasts) {
            (Some(one), Some(two)) => Some(one.max(two)),
            _ => None,
        };
        Program { lasts, exit_code: if self.exit_code != 0 { self.exit_code } else { other.exit_code } }
    }

    /// One after the other, as the commands of a script: the last says how it ends.
    fn then(self, next: Program) -> Program {
        match (self.lasts, next.lasts) {
            (Some(one), Some(two)) => Program { lasts: Some(one.saturating_add(two)), ..next },
            _ => Program::FOREVER,
        }
    }
}

fn of_image(image: &str, args: &[&str]) -> Program {
    let name = image_name(image);
    match args {
        _ if SERVERS.contains(&name) => Program::FOREVER,
        [] if name == "agnhost" => Program::FOREVER,
        [what, ..] if name == "agnhost" && AGNHOST_SERVERS.contains(what) => Program::FOREVER,
        // An image of a shell or a language runs what it is told, like a command.
        [_, ..] if name != "agnhost" => of_command(args),
        _ => Program::SHORT,
    }
}

/// The last part of an image's name, without tag and digest.
fn image_name(image: &str) -> &str {
    image.rsplit('/').next().unwrap_or_default().split(['@', ':']).next().unwrap_or_default()
}

fn of_command(words: &[&str]) -> Program {
    let Some((first, rest)) = words.split_first() else { return Program::SHORT };
    match (first.rsplit('/').next().unwrap_or_default(), rest) {
        ("sh" | "bash" | "ash" | "dash", [flag, script, ..]) if flag.starts_with('-') && flag.ends_with('c') => {
            of_script(script)
        }
        ("sleep", [span, ..]) => slept(span).unwrap_or(Program::SHORT),
        ("tail", ["-f" | "-F", ..]) | ("pause", _) => Program::FOREVER,
        ("false", _) => Program { exit_code: 1, ..Program::SHORT },
        _ => Program::SHORT,
    }
}

/// A script that goes straight through; what one with conditions does is not known.
fn of_script(script: &str) -> Program {
    let mut whole = Program { lasts: Some(Duration::ZERO), exit_code: 0 };
    for statement in script.split([';', '\n', '&']).map(str::trim) {
        let words: Vec<&str> =
            statement.split_whitespace().skip_while(|word| *word == "do" || *word == "exec").collect();
        whole = match words.as_slice() {
            ["exit"] => return at_least_a_moment(whole),
            ["exit", code, ..] => {
                return at_least_a_moment(Program { exit_code: code.parse().unwrap_or(whole.exit_code), ..whole });
            }
            ["while", "true" | ":", ..] | ["until", "false", ..] => return Program::FOREVER,
            ["sleep", ..] | ["tail", ..] => whole.then(of_command(&words)),
            ["if" | "case" | "for" | "while" | "until" | "[" | "[[" | "test", ..] => return Program::SHORT,
            ["true", ..] => Program { exit_code: 0, ..whole },
            ["false", ..] => Program { exit_code: 1, ..whole },
            _ => whole,
        };
    }
    at_least_a_moment(whole)
}

fn at_least_a_moment(program: Program) -> Program {
    Program { lasts: program.lasts.map(|span| span.max(MOMENT)), ..program }
}

/// `sleep`'s argument: seconds, or with a unit, or without end.
fn slept(span: &str) -> Option<Program> {
    if matches!(span, "inf" | "infinity") {
        return Some(Program::FOREVER);
    }
    let digits = span.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit = match &span[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let seconds = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    Some(Program { lasts: Some(Duration::from_secs(seconds)), exit_code: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(container: Value, seconds: Option<u64>, exit_code: i64) {
        let expected = Program { lasts: seconds.map(Duration::from_secs), exit_code };
        assert_eq!(Program::of(&container), expected, "{container}");
    }

    #[test]
    fn images_that_serve_do_not_end() {
        check(json!({"image": "registry.k8s.io/pause:3.10"}), None, 0);
        check(json!({"image": "localhost:5000/nginx@sha256:0"}), None, 0);
        check(json!({"image": "nginx", "args": ["-g", "daemon off;"]}), None, 0);
        check(json!({"image": "x/agnhost:2"}), None, 0);
        check(json!({"image": "x/agnhost:2", "args": ["netexec", "--http-port=80"]}), None, 0);
        check(json!({"image": "x/agnhost:2", "args": ["mounttest"]}), Some(1), 0);
        check(json!({"image": "busybox"}), Some(1), 0);
        check(json!({"image": "busybox", "args": ["sleep", "9"]}), Some(9), 0);
        check(json!({}), Some(1), 0);
    }

    #[test]
    fn commands_say_how_long_and_how() {
        let command = |words: &[&str]| json!({"image": "nginx", "command": words});
        check(command(&["sleep", "300"]), Some(300), 0);
        check(command(&["/bin/sleep", "2m"]), Some(120), 0);
        check(command(&["sleep", "infinity"]), None, 0);
        check(command(&["sleep", "long"]), Some(1), 0);
        check(command(&["sleep", "18446744073709551615d"]), Some(1), 0);
        check(command(&["/bin/true"]), Some(1), 0);
        check(command(&["false"]), Some(1), 1);
        check(command(&["/bin/sh", "-c", "exit 3"]), Some(1), 3);
        check(command(&["sh", "-c", "echo hi && sleep 5; sleep 6; exit 42"]), Some(11), 42);
        check(command(&["bash", "-ec", "sleep 5; false"]), Some(5), 1);
        check(command(&["sh", "-c", "while true; do sleep 1; done"]), None, 0);
        check(command(&["sh", "-c", "exit 1; sleep 900"]), Some(1), 1);
        check(command(&["sh", "-c", "if [ $(expr $I % 2) -ne 0 ]; then\n exit 1\nfi"]), Some(1), 0);
        check(json!({"image": "busybox", "command": ["sh", "-c"], "args": ["exit 7"]}), Some(1), 7);
    }

    #[test]
    fn containers_together() {
        let of = |seconds: Option<u64>, exit_code| Program { lasts: seconds.map(Duration::from_secs), exit_code };
        assert_eq!(of(Some(1), 0).and(of(Some(9), 2)), of(Some(9), 2));
        assert_eq!(of(Some(1), 3).and(of(None, 0)), of(None, 3));
    }
}
