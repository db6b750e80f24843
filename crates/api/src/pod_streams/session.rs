//! `pods/exec`, `pods/attach` and `pods/portforward`: their options.

use meta::ApiError;

use super::Query;

/// Most ports of one request that forwards several at once: more are of no use to anybody.
const PORTS_MAX: usize = 64;

/// What is wanted of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// As asked for; empty if not.
    pub container: String,
    /// Empty when attaching.
    pub command: Vec<String>,
    /// Its standard input.
    pub stdin: bool,
    /// Its standard output.
    pub stdout: bool,
    /// Its standard error.
    pub stderr: bool,
    /// All of them on a terminal.
    pub tty: bool,
}

impl SessionOptions {
    /// Reads and checks a decoded query.
    pub fn from_query(query: &[(String, String)], is_exec: bool) -> Result<SessionOptions, ApiError> {
        let query = Query(query);
        let tty = query.flag("tty");
        let options = SessionOptions {
            container: query.text("container").unwrap_or("").to_owned(),
            command: query.all("command").map(str::to_owned).collect(),
            stdin: query.flag("stdin"),
            stdout: query.flag("stdout"),
            // A terminal has one output.
            stderr: query.flag("stderr") && !tty,
            tty,
        };
        if is_exec && options.command.is_empty() {
            return Err(ApiError::bad_request("you must specify at least 1 command for the container"));
        }
        if !options.stdin && !options.stdout && !options.stderr {
            return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        }
        Ok(options)
    }
}

/// The ports that a query names, for clients that name them at once.
pub fn forward_ports(query: &[(String, String)]) -> Result<Vec<u16>, ApiError> {
    let given = Query(query).all("ports").flat_map(|value| value.split(','));
    let read = given.take(PORTS_MAX + 1).map(|text| {
        let port = text.parse().ok().filter(|port| *port != 0);
        port.ok_or_else(|| ApiError::bad_request(format!("unable to parse {text:?} as a port")))
    });
    let ports: Vec<u16> = read.collect::<Result<_, _>>()?;
    match ports.len() {
        0 => Err(ApiError::bad_request("query parameter \"ports\" is required")),
        1..=PORTS_MAX => Ok(ports),
        _ => Err(ApiError::bad_request(format!("at most {PORTS_MAX} ports may be forwarded by one request"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &[(&str, &str)]) -> Vec<(String, String)> {
        query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn sessions_are_read() {
        let all = [
            ("command", "a"),
            ("command", "b c"),
            ("stdin", "true"),
            ("stderr", "1"),
            ("tty", "true"),
            ("stdout", "true"),
        ];
        let read = SessionOptions::from_query(&pairs(&all), true).expect("sound");
        assert_eq!(read.command, ["a", "b c"]);
        assert_eq!((read.stdin, read.stdout, read.stderr, read.tty), (true, true, false, true));
        let check = |query: &[(&str, &str)], is_exec: bool, expected: &str| {
            let error = SessionOptions::from_query(&pairs(query), is_exec).expect_err("refused");
            assert_eq!((error.code, error.message.as_str()), (400, expected));
        };
        check(&[("stdout", "1")], true, "you must specify at least 1 command for the container");
        check(&[("command", "a")], true, "you must specify at least 1 of stdin, stdout, stderr");
        check(&[("stdout", "false")], false, "you must specify at least 1 of stdin, stdout, stderr");
    }

    #[test]
    fn ports_are_read() {
        assert_eq!(forward_ports(&pairs(&[("ports", "80,443"), ("ports", "8080")])), Ok(vec![80, 443, 8080]));
        for bad in ["0", "x", "65536", ""] {
            assert_eq!(forward_ports(&pairs(&[("ports", bad)])).map_err(|e| e.code), Err(400), "{bad}");
        }
        assert_eq!(forward_ports(&[]).map_err(|e| e.code), Err(400));
        let many = vec![("ports".to_owned(), "1".to_owned()); PORTS_MAX + 1];
        assert!(forward_ports(&many).is_err());
    }
}
