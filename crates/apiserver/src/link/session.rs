//! A session over a connection, at both of its ends.

use std::pin::Pin;

use contract::{Error, Session, SessionExit, TerminalSize};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::frame::{self, Frame, Kind};
use super::{Reading, Secured};

/// Bytes of one stream that wait for whoever reads it.
const WAITING_BYTES_MAX: usize = 64 * 1024;
/// Read at once.
const CHUNK_BYTES: usize = 32 * 1024;
/// How long output may be silent after the process has ended: a descendant may hold it open for ever, and nobody says
/// here that they have stopped reading.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(10);
/// Sizes waiting to be set; only the last matters.
const RESIZES_KEPT: usize = 4;

type Writer = WriteHalf<Reading>;

/// The end of whoever asked: a session whose process is elsewhere.
pub fn of_connection(connection: Reading, [stdin, stdout, stderr, resize]: [bool; 4]) -> Session {
    let (reader, writer) = tokio::io::split(connection);
    let pipe = |wanted: bool| wanted.then(|| tokio::io::duplex(WAITING_BYTES_MAX));
    let (input, output, error) = (pipe(stdin), pipe(stdout), pipe(stderr));
    let ends = |pipe: Option<(DuplexStream, DuplexStream)>| pipe.unzip();
    let ((near_in, far_in), (near_out, far_out), (near_error, far_error)) = (ends(input), ends(output), ends(error));
    let (sizes, to_set) = mpsc::channel(RESIZES_KEPT);
    let (exit, exited) = oneshot::channel();
    tokio::spawn(async move {
        let told = tokio::spawn(tell(writer, far_in, to_set));
        hear(reader, [far_out, far_error], exit).await;
        // The connection ends here, and with it the process if it has not ended.
        told.abort();
    });
    Session {
        stdin: near_in.map(|pipe| Box::pin(pipe) as Pin<Box<dyn AsyncWrite + Send>>),
        stdout: near_out.map(|pipe| Box::pin(pipe) as Pin<Box<dyn AsyncRead + Send>>),
        stderr: near_error.map(|pipe| Box::pin(pipe) as Pin<Box<dyn AsyncRead + Send>>),
        resize: resize.then_some(sizes),
        exit: exited,
    }
}

/// Sends input and sizes, until both have ended or the connection has.
async fn tell(mut writer: Writer, mut stdin: Option<DuplexStream>, mut sizes: mpsc::Receiver<TerminalSize>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut sizes_end = false;
    loop {
        let sent = tokio::select! {
            read = read_some(&mut stdin, &mut buffer), if stdin.is_some() => {
                let count = read.unwrap_or(0);
                if count == 0 {
                    stdin = None;
                }
                frame::write(&mut writer, Kind::Stdin, buffer.get(..count).unwrap_or_default()).await
            }
            size = sizes.recv(), if !sizes_end => match size {
                Some(TerminalSize { width, height }) => {
                    let bytes = [width.to_be_bytes(), height.to_be_bytes()].concat();
                    frame::write(&mut writer, Kind::Resize, &bytes).await
                }
                None => {
                    sizes_end = true;
                    Ok(())
                }
            },
            else => return std::future::pending().await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn read_some<R: AsyncRead + Unpin>(from: &mut Option<R>, buffer: &mut [u8]) -> std::io::Result<usize> {
    match from {
        Some(from) => from.read(buffer).await,
        None => std::future::pending().await,
    }
}

/// Takes output and the exit, until the connection ends or nobody waits for the exit any more.
async fn hear(
    mut reader: ReadHalf<Reading>,
    mut outputs: [Option<DuplexStream>; 2],
    mut exit: oneshot::Sender<SessionExit>,
) {
    let ended = loop {
        let read = tokio::select! {
            read = frame::read(&mut reader) => read,
            () = exit.closed() => return,
        };
        match read {
            Ok(Some(Frame { kind: Kind::Exit, bytes })) => break exit_of(&bytes),
            Ok(Some(frame)) => {
                tokio::select! {
                    () = pass_on(&mut outputs, frame) => {}
                    () = exit.closed() => return,
                }
            }
            Ok(None) | Err(_) => break Err(Error::WrongState("the connection to the node was lost".to_owned())),
        }
    };
    // Nobody may be left to hear.
    let _ = exit.send(ended);
    // What the process wrote before it ended may still be on its way.
    while outputs.iter().any(Option::is_some) {
        match tokio::time::timeout(SILENCE, frame::read(&mut reader)).await {
            Ok(Ok(Some(frame))) => pass_on(&mut outputs, frame).await,
            Ok(Ok(None) | Err(_)) | Err(_) => return,
        }
    }
}

async fn pass_on(outputs: &mut [Option<DuplexStream>; 2], Frame { kind, bytes }: Frame) {
    let output = match kind {
        Kind::Stdout => &mut outputs[0],
        Kind::Stderr => &mut outputs[1],
        Kind::Stdin | Kind::Exit | Kind::Resize => return,
    };
    let Some(pipe) = output else { return };
    if bytes.is_empty() || pipe.write_all(&bytes).await.is_err() {
        *output = None;
    }
}

fn exit_of(bytes: &[u8]) -> SessionExit {
    let told: Value = serde_json::from_slice(bytes).unwrap_or_default();
    match told["code"].as_i64().and_then(|code| i32::try_from(code).ok()) {
        Some(code) => Ok(code),
        None => Err(Error::WrongState(told["error"].as_str().unwrap_or("the session ended").to_owned())),
    }
}

/// Which streams a session has, for whoever asked.
pub fn streams_of(session: &Session) -> [bool; 4] {
    [session.stdin.is_some(), session.stdout.is_some(), session.stderr.is_some(), session.resize.is_some()]
}

/// The end of the node: carries a session of this machine, until it has ended with its output or the asker has gone. The
/// session is dropped then, which ends the process.
pub async fn carry(session: Session, connection: tokio::io::BufReader<Secured>) {
    let (reader, writer) = tokio::io::split(connection);
    let Session { stdin, stdout, stderr, resize, exit } = session;
    let inward = Inward { stdin, resize };
    let outward = Outward { stdout, stderr, exit, has_ended: false };
    tokio::select! {
        () = inward.run(reader) => {}
        said = outward.run(writer) => {
            if let Err(error) = said {
                tracing::debug!(%error, "whoever asked has gone");
            }
        }
    }
}

/// What a process of this machine is told.
struct Inward {
    stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    resize: Option<mpsc::Sender<TerminalSize>>,
}

impl Inward {
    /// Until the asker has gone.
    async fn run(mut self, mut reader: ReadHalf<Reading>) {
        while let Ok(Some(Frame { kind, bytes })) = frame::read(&mut reader).await {
            match kind {
                Kind::Stdin if bytes.is_empty() => self.stdin = None,
                Kind::Stdin => self.write(&bytes).await,
                Kind::Resize => self.set_size(&bytes),
                Kind::Stdout | Kind::Stderr | Kind::Exit => {}
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        if let Some(input) = &mut self.stdin
            && (input.write_all(bytes).await.is_err() || input.flush().await.is_err())
        {
            // The process takes no more; it may go on all the same.
            self.stdin = None;
        }
    }

    fn set_size(&self, bytes: &[u8]) {
        if let (Some(resize), [w, x, h, y]) = (&self.resize, bytes) {
            let (width, height) = (u16::from_be_bytes([*w, *x]), u16::from_be_bytes([*h, *y]));
            // When sizes wait already, another comes soon.
            let _ = resize.try_send(TerminalSize { width, height });
        }
    }
}

type Source = Option<Pin<Box<dyn AsyncRead + Send>>>;

/// What a process of this machine says.
struct Outward {
    stdout: Source,
    stderr: Source,
    exit: oneshot::Receiver<SessionExit>,
    has_ended: bool,
}

impl Outward {
    /// Until the process has ended and its outputs have.
    async fn run(mut self, mut writer: Writer) -> std::io::Result<()> {
        let (mut out, mut error) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        while self.stdout.is_some() || self.stderr.is_some() || !self.has_ended {
            tokio::select! {
                read = read_some(&mut self.stdout, &mut out) => {
                    pass(read, &out, Kind::Stdout, &mut self.stdout, &mut writer).await?;
                }
                read = read_some(&mut self.stderr, &mut error) => {
                    pass(read, &error, Kind::Stderr, &mut self.stderr, &mut writer).await?;
                }
                ended = &mut self.exit, if !self.has_ended => {
                    self.has_ended = true;
                    frame::write(&mut writer, Kind::Exit, told(ended).to_string().as_bytes()).await?;
                }
            }
        }
        writer.shutdown().await
    }
}

/// Sends what was read; nothing is the end.
async fn pass(
    read: std::io::Result<usize>,
    buffer: &[u8],
    kind: Kind,
    source: &mut Source,
    writer: &mut Writer,
) -> std::io::Result<()> {
    let count = read.unwrap_or(0);
    if count == 0 {
        *source = None;
    }
    frame::write(writer, kind, buffer.get(..count).unwrap_or_default()).await
}

fn told(ended: Result<SessionExit, oneshot::error::RecvError>) -> Value {
    match ended {
        Ok(Ok(code)) => json!({"code": code}),
        Ok(Err(error)) => json!({"error": error.to_string()}),
        Err(_) => json!({"error": "the session ended with its container"}),
    }
}
