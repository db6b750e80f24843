//! The small tools of the built-in image, for examples and tests: `serve`, `get`, `cat`, `sleep`, `exit`, `echo`.
//!
//! The program runs as the first process of a container, which gets no signal that it does not ask for: every tool
//! that waits ends on SIGTERM.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

/// The name of the program in the image, and the word that means the same.
const NAME: &str = "box";
const USAGE: &str = "usage: box serve [PORT] | get HOST:PORT[/PATH] | cat FILE | sleep [SECONDS] | exit CODE | allocate MIB | \
                     fill FILE MIB | echo TEXT...";
/// Where `serve` listens unless told otherwise.
const PORT: u16 = 8080;
/// More are turned away: the server is for examples.
const CONNECTIONS_MAX: usize = 128;
/// Of `allocate`: more than any example needs.
const ALLOCATE_MIB_MAX: usize = 4_096;
/// Of a request's head.
const HEAD_BYTES_MAX: u64 = 16 * 1024;
/// Printed of an answer or a file.
const PRINT_BYTES_MAX: u64 = 16 << 20;
/// How long a client may take for it.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The tool and its arguments, if the program was called for one.
pub fn words(mut args: impl Iterator<Item = String>) -> Option<Vec<String>> {
    let program = args.next()?;
    if program.rsplit('/').next() == Some(NAME) {
        return Some(args.collect());
    }
    (args.next()? == NAME).then(|| args.collect())
}

/// What a tool is asked to do.
#[derive(Debug, PartialEq)]
enum Tool {
    Serve {
        port: u16,
    },
    /// None sleeps until SIGTERM.
    Sleep {
        seconds: Option<u64>,
    },
    Exit {
        code: u8,
    },
    Echo {
        text: String,
    },
    /// Prints what a server says.
    Get {
        host: String,
        path: String,
    },
    /// Prints a file.
    Cat {
        file: String,
    },
    /// Takes so much memory and keeps it: what a limit is for.
    Allocate {
        mib: usize,
    },
    /// Writes so much into a file and keeps it.
    Fill {
        file: String,
        mib: usize,
    },
}

fn parse(words: &[String]) -> Option<Tool> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["serve"] => Some(Tool::Serve { port: PORT }),
        ["serve", port] => port.parse().ok().map(|port| Tool::Serve { port }),
        ["sleep"] | ["sleep", "infinity"] => Some(Tool::Sleep { seconds: None }),
        ["sleep", seconds] => seconds.parse().ok().map(|seconds| Tool::Sleep { seconds: Some(seconds) }),
        ["exit", code] => code.parse().ok().map(|code| Tool::Exit { code }),
        ["allocate", mib] => mib.parse().ok().map(|mib| Tool::Allocate { mib }),
        ["fill", file, mib] => mib.parse().ok().map(|mib| Tool::Fill { file: (*file).to_owned(), mib }),
        ["get", url] => {
            let url = url.strip_prefix("http://").unwrap_or(url);
            let (host, path) = url.split_once('/').unwrap_or((url, ""));
            Some(Tool::Get { host: host.to_owned(), path: format!("/{path}") })
        }
        ["cat", file] => Some(Tool::Cat { file: (*file).to_owned() }),
        ["echo", text @ ..] => Some(Tool::Echo { text: text.join(" ") }),
        _ => None,
    }
}

/// Runs a tool.
pub fn run(words: &[String]) -> ExitCode {
    let Some(tool) = parse(words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let done = match tool {
        Tool::Exit { code } => return ExitCode::from(code),
        Tool::Echo { text } => {
            println!("{text}");
            return ExitCode::SUCCESS;
        }
        Tool::Sleep { seconds } => wait(seconds.map(Duration::from_secs)),
        Tool::Allocate { mib } => allocate(mib),
        Tool::Fill { file, mib } => fill(&file, mib),
        Tool::Serve { port } => serve(port),
        Tool::Get { host, path } => get(&host, &path),
        Tool::Cat { file } => cat(&file),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Asks a server for a page and prints the body; an answer that is no success is an error.
fn get(host: &str, path: &str) -> std::io::Result<()> {
    use std::net::ToSocketAddrs as _;
    let address = host.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&address, CLIENT_TIMEOUT)?;
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(PRINT_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1).is_some_and(|code| code.starts_with('2')) {
        true => std::io::stdout().write_all(body.as_bytes()),
        false => Err(std::io::Error::other(status.to_owned())),
    }
}

fn cat(file: &str) -> std::io::Result<()> {
    let mut file = std::fs::File::open(file)?.take(PRINT_BYTES_MAX);
    std::io::copy(&mut file, &mut std::io::stdout()).map(drop)
}

/// Takes memory, a piece at a time, and uses it.
fn allocate(mib: usize) -> std::io::Result<()> {
    // Written to, because untouched memory is not there; and with more than zeros, which the kernel gives for nothing.
    let taken: Vec<Vec<u8>> = (0..mib.min(ALLOCATE_MIB_MAX)).map(|_| vec![1; 1 << 20]).collect();
    println!("holding {} MiB", taken.len());
    wait(None)
}

/// Writes a file, a piece at a time.
fn fill(file: &str, mib: usize) -> std::io::Result<()> {
    let mut out = std::fs::File::create(file)?;
    (0..mib).try_for_each(|_| out.write_all(&[1; 1 << 20]))?;
    println!("wrote {mib} MiB");
    wait(None)
}

/// Waits for the time or for SIGTERM, whichever comes first.
fn wait(time: Option<Duration>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let timer = async {
            match time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {}, () = timer => {} }
        Ok(())
    })
}

fn serve(port: u16) -> std::io::Result<()> {
    // Both families where the machine has both.
    let listener =
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)))?;
    println!("serving on {}", listener.local_addr()?);
    let _server = std::thread::spawn(move || accept(&listener));
    wait(None)
}

fn accept(listener: &TcpListener) {
    let (healthy, count) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    for stream in listener.incoming().flatten() {
        if count.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
            count.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (healthy, count) = (Arc::clone(&healthy), Arc::clone(&count));
        std::thread::spawn(move || {
            // A client that goes away is its own affair.
            let _ = converse(stream, &healthy);
            count.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Answers one request.
fn converse(mut stream: TcpStream, healthy: &AtomicBool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut lines = BufReader::new(stream.try_clone()?.take(HEAD_BYTES_MAX)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (status, text) = answer(method, path, healthy);
    print_line(&format!("{method} {path} {status}"));
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

/// A line of the log, if anybody reads it.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn answer(method: &str, path: &str, healthy: &AtomicBool) -> (&'static str, String) {
    match (method, path.split('?').next().unwrap_or("")) {
        ("GET", "/healthz") if healthy.load(Ordering::SeqCst) => ("200 OK", "ok\n".to_owned()),
        ("GET", "/healthz") => ("503 Service Unavailable", "unhealthy\n".to_owned()),
        ("POST", "/healthz/on") => set(healthy, true),
        ("POST", "/healthz/off") => set(healthy, false),
        ("GET", "/") => ("200 OK", format!("{}\n", who())),
        _ => ("404 Not Found", "not found\n".to_owned()),
    }
}

fn set(healthy: &AtomicBool, value: bool) -> (&'static str, String) {
    healthy.store(value, Ordering::SeqCst);
    ("200 OK", format!("healthy: {value}\n"))
}

/// Who answers: the pod where it was told its name, else the host, which is called like the pod.
fn who() -> String {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned());
    std::env::var("POD_NAME").or_else(|_| host()).unwrap_or_else(|_| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn tools_are_told_from_commands() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(words(texts(line).into_iter()), expected.map(texts), "{line}");
        };
        check("/bin/box serve 80", Some("serve 80"));
        check("setpoint box echo a", Some("echo a"));
        check("box", Some(""));
        check("setpoint server", None);
        check("setpoint", None);
    }

    #[test]
    fn tools_are_read() {
        let check = |line: &str, expected: Option<Tool>| assert_eq!(parse(&texts(line)), expected, "{line}");
        check("", Some(Tool::Serve { port: 8080 }));
        check("serve 0", Some(Tool::Serve { port: 0 }));
        check("serve http", None);
        check("sleep", Some(Tool::Sleep { seconds: None }));
        check("sleep 5", Some(Tool::Sleep { seconds: Some(5) }));
        check("exit 3", Some(Tool::Exit { code: 3 }));
        check("fill /x 2", Some(Tool::Fill { file: "/x".to_owned(), mib: 2 }));
        check("exit 256", None);
        check("exit", None);
        check("echo a b", Some(Tool::Echo { text: "a b".to_owned() }));
        let (host, path) = ("10.0.0.1:80".to_owned(), "/a/b".to_owned());
        check("get http://10.0.0.1:80/a/b", Some(Tool::Get { host, path }));
        check("get a:1", Some(Tool::Get { host: "a:1".to_owned(), path: "/".to_owned() }));
        check("cat /a", Some(Tool::Cat { file: "/a".to_owned() }));
        check("rm -rf /", None);
    }

    #[test]
    fn health_can_be_turned_off() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || accept(&listener));
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text.split(' ').nth(1).unwrap_or_default().to_owned()
        };
        let check = |request: &str, expected: &str| assert_eq!(ask(request), expected, "{request}");
        check("GET /healthz", "200");
        check("POST /healthz/off", "200");
        check("GET /healthz", "503");
        check("POST /healthz/on", "200");
        check("GET /healthz?x=y", "200");
        check("GET /", "200");
        assert!(get(&address.to_string(), "/").is_ok());
        assert!(get(&address.to_string(), "/etc/passwd").is_err());
        check("GET /etc/passwd", "404");
        check("DELETE /", "404");
    }
}
