//! Finding the program, in the words of runc.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD};

use super::{Failure, Outcome, reason};

/// Used when the image and the pod give no PATH.
pub(super) const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The path of the program `name`, searched for in PATH unless it contains a slash.
pub(super) fn find(name: &str, env: &[(String, String)]) -> Outcome<String> {
    if name.is_empty() {
        return Err(Failure::new("exec: no command"));
    }
    if name.contains('/') {
        return check(name).map(|()| name.to_owned()).map_err(|e| refuse(name, &e));
    }
    let path = env.iter().find(|(key, _)| key == "PATH").map_or("", |(_, value)| value.as_str());
    let mut denied = None;
    for dir in path.split(':') {
        let candidate = format!("{}/{name}", if dir.is_empty() { "." } else { dir });
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => denied = Some(e),
            Err(_) => {}
        }
    }
    Err(denied.map_or_else(
        || Failure { message: format!("exec: {name:?}: executable file not found in $PATH"), exit_code: 127 },
        |e| refuse(name, &e),
    ))
}

/// A file that may be executed.
fn check(path: &str) -> io::Result<()> {
    let meta = Path::new(path).metadata()?;
    if meta.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if meta.mode() & 0o111 == 0 {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?)
}

fn refuse(name: &str, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::NotFound {
        return Failure { message: format!("exec: {name:?}: stat {name}: {}", reason(error)), exit_code: 127 };
    }
    Failure { message: format!("exec: {name:?}: {}", reason(error)), exit_code: 126 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wordings() {
        let env = [("PATH".to_owned(), "/nowhere:/bin".to_owned())];
        for (name, expected, code) in [
            ("no-such", "exec: \"no-such\": executable file not found in $PATH", 127),
            ("/no/such", "exec: \"/no/such\": stat /no/such: no such file or directory", 127),
            ("/etc/passwd", "exec: \"/etc/passwd\": permission denied", 126),
            ("/etc", "exec: \"/etc\": is a directory", 126),
        ] {
            assert_eq!(find(name, &env), Err(Failure { message: expected.to_owned(), exit_code: code }));
        }
        assert_eq!(find("sh", &env), Ok("/bin/sh".to_owned()));
    }
}
