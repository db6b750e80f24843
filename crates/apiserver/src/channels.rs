//! Several streams in one WebSocket: the channel's number stands before each message (the `channel.k8s.io` family).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};
use meta::ApiError;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// The number of the process's standard input.
pub const STDIN: u8 = 0;
/// Of its standard output.
pub const STDOUT: u8 = 1;
/// Of its standard error.
pub const STDERR: u8 = 2;
/// Of how it ended.
pub const ERROR: u8 = 3;
/// Of its terminal's sizes.
pub const RESIZE: u8 = 4;
/// Of channels that are closed (version 5).
const CLOSE: u8 = 255;

/// The names of all protocols. Without a name the first, unversioned one is spoken.
pub const PROTOCOLS: [&str; 6] = [
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
];

/// The names that are spoken over streams of SPDY, where each channel is one.
pub const STREAM_PROTOCOLS: [&str; 5] =
    ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io", ""];

/// One of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    is_base64: bool,
    has_status: bool,
    has_close: bool,
}

/// What a client says.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// Bytes on a channel.
    Bytes(u8, Bytes),
    /// Nothing more comes on a channel.
    Closed(u8),
}

impl Protocol {
    /// By one of [`PROTOCOLS`].
    pub fn named(name: &str) -> Protocol {
        Protocol {
            is_base64: name.contains("base64."),
            has_status: name.starts_with("v4.") || name.starts_with("v5."),
            has_close: name.starts_with("v5."),
        }
    }

    /// A message with bytes of a channel.
    pub fn message(self, channel: u8, bytes: &[u8]) -> Message {
        if self.is_base64 {
            let mut text = String::with_capacity(1 + bytes.len().div_ceil(3) * 4);
            text.push(char::from(b'0' + channel));
            STANDARD.encode_string(bytes, &mut text);
            return Message::Text(text.into());
        }
        let mut framed = BytesMut::with_capacity(1 + bytes.len());
        framed.put_u8(channel);
        framed.put_slice(bytes);
        Message::Binary(framed.freeze())
    }

    /// What a message says; `None` when it says nothing that this protocol knows.
    pub fn said(self, message: Message) -> Option<Said> {
        let mut bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => Bytes::from(text),
            _ => return None,
        };
        if bytes.is_empty() {
            return None;
        }
        let channel = bytes.split_to(1)[0];
        if self.is_base64 {
            let channel = channel.checked_sub(b'0').filter(|channel| *channel <= 9)?;
            return Some(Said::Bytes(channel, STANDARD.decode(&bytes).ok()?.into()));
        }
        match channel {
            CLOSE if self.has_close => bytes.first().map(|closed| Said::Closed(*closed)),
            channel => Some(Said::Bytes(channel, bytes)),
        }
    }

    /// How a session ended, in the protocol's words: old ones tell failures only.
    pub fn outcome(self, outcome: &Outcome) -> Option<String> {
        match (self.has_status, outcome) {
            (true, outcome) => Some(outcome.status().to_string()),
            (false, Outcome::Exited(0)) => None,
            (false, outcome) => Some(outcome.message()),
        }
    }
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// With this code of its process.
    Exited(i32),
    /// Otherwise.
    Failed(ApiError),
}

impl Outcome {
    /// The `v1.Status`.
    pub fn status(&self) -> Value {
        match self {
            Outcome::Exited(0) => json!({"metadata": {}, "status": "Success"}),
            Outcome::Exited(code) => json!({
                "metadata": {}, "status": "Failure", "message": self.message(), "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Outcome::Failed(error) => error.to_value(),
        }
    }

    fn message(&self) -> String {
        match self {
            Outcome::Exited(code) => format!("command terminated with non-zero exit code: exit status {code}"),
            Outcome::Failed(error) => error.message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_there_and_back() {
        for name in PROTOCOLS {
            let protocol = Protocol::named(name);
            for bytes in [&b""[..], b"x", b"\xff\x00abc"] {
                let message = protocol.message(STDERR, bytes);
                assert_eq!(message.is_text(), name.contains("base64"));
                assert_eq!(protocol.said(message), Some(Said::Bytes(STDERR, Bytes::copy_from_slice(bytes))), "{name}");
            }
        }
    }

    #[test]
    fn what_clients_say() {
        let check = |name: &str, message: Message, expected: Option<Said>| {
            assert_eq!(Protocol::named(name).said(message.clone()), expected, "{name} {message:?}");
        };
        let binary = |bytes: &'static [u8]| Message::Binary(Bytes::from_static(bytes));
        check("v5.channel.k8s.io", binary(b"\xff\x00"), Some(Said::Closed(0)));
        check("v5.channel.k8s.io", binary(b"\xff"), None);
        check("v4.channel.k8s.io", binary(b"\xff\x00"), Some(Said::Bytes(255, Bytes::from_static(b"\0"))));
        check("v4.channel.k8s.io", binary(b""), None);
        check("base64.channel.k8s.io", Message::Text("0YQ==".into()), Some(Said::Bytes(0, Bytes::from_static(b"a"))));
        check("base64.channel.k8s.io", Message::Text("0!".into()), None);
        check("base64.channel.k8s.io", Message::Text("xYQ==".into()), None);
        check("channel.k8s.io", Message::Ping(Bytes::new()), None);
    }

    #[test]
    fn ends_are_told() {
        let new = Protocol::named("v4.channel.k8s.io");
        let told = |outcome| {
            let words = new.outcome(&outcome).expect("words");
            serde_json::from_str::<Value>(&words).expect("JSON")
        };
        assert_eq!(told(Outcome::Exited(0)), json!({"metadata": {}, "status": "Success"}));
        assert_eq!(told(Outcome::Exited(3))["details"]["causes"][0], json!({"reason": "ExitCode", "message": "3"}));
        assert_eq!(told(Outcome::Failed(ApiError::internal("x")))["code"], 500);
        let old = Protocol::named("channel.k8s.io");
        assert_eq!(old.outcome(&Outcome::Exited(0)), None);
        let words = "command terminated with non-zero exit code: exit status 3";
        assert_eq!(old.outcome(&Outcome::Exited(3)).as_deref(), Some(words));
    }
}
