//! `pods/exec` and `pods/attach`: their options.

use meta::ApiError;

use super::Query;

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
}
