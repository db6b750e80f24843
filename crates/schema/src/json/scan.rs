//! Tokens: strings, numbers, literals, with Go's sentences for what is wrong with them.

use serde_json::{Number, Value};

use super::DecodeError;

/// A position in the bytes.
pub(super) struct Scanner<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Scanner<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte that is not white space, not consumed.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    pub fn advance(&mut self) {
        self.at += 1;
    }

    /// The error for the byte here (or the missing byte).
    pub fn unexpected(&self, context: &str) -> DecodeError {
        match self.bytes.get(self.at) {
            None => DecodeError("unexpected end of JSON input".to_owned()),
            Some(byte) => DecodeError(format!("invalid character {} {context}", quoted(*byte))),
        }
    }

    /// `true`, `false` or `null`.
    pub fn literal(&mut self, word: &'static str, value: Value) -> Result<Value, DecodeError> {
        for expected in word.bytes() {
            if self.bytes.get(self.at) != Some(&expected) {
                let expected = char::from(expected);
                return Err(self.unexpected(&format!("in literal {word} (expecting '{expected}')")));
            }
            self.at += 1;
        }
        Ok(value)
    }

    /// A number: whole ones exactly where 64 bits hold them, others as the nearest double.
    pub fn number(&mut self) -> Result<Value, DecodeError> {
        let start = self.at;
        let whole = self.skip_number()?;
        let text = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or("");
        if whole {
            if let Ok(number) = text.parse::<i64>() {
                return Ok(number.into());
            }
            if let Ok(number) = text.parse::<u64>() {
                return Ok(number.into());
            }
        }
        let double = text.parse::<f64>().ok().and_then(Number::from_f64);
        let refuse = || DecodeError(format!("json: cannot unmarshal number {text} into Go value of type float64"));
        double.map(Value::Number).ok_or_else(refuse)
    }

    /// Steps over a number; true when it has neither fraction nor exponent.
    fn skip_number(&mut self) -> Result<bool, DecodeError> {
        let mut whole = true;
        if self.here() == Some(b'-') {
            self.at += 1;
        }
        match self.here() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.skip_digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.here() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.here() {
            whole = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.here() {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(whole)
    }

    fn here(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_digits(&mut self) {
        while let Some(b'0'..=b'9') = self.here() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), DecodeError> {
        if !matches!(self.here(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(context));
        }
        self.skip_digits();
        Ok(())
    }

    /// A string; the opening quote is here. Bytes that are not UTF-8 become U+FFFD, each, as Go has it.
    pub fn string(&mut self) -> Result<String, DecodeError> {
        self.at += 1;
        let start = self.at;
        while let Some(byte) = self.here() {
            match byte {
                b'"' => {
                    let text = lossy(&self.bytes[start..self.at]);
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' => return self.escaped_string(start),
                0..0x20 => break,
                _ => self.at += 1,
            }
        }
        Err(self.unexpected("in string literal"))
    }

    /// The rest of a string from its first escape on.
    fn escaped_string(&mut self, start: usize) -> Result<String, DecodeError> {
        let mut text = lossy(&self.bytes[start..self.at]);
        let mut plain = self.at;
        while let Some(byte) = self.here() {
            match byte {
                b'"' => {
                    text.push_str(&lossy(&self.bytes[plain..self.at]));
                    self.at += 1;
                    return Ok(text);
                }
                b'\\' => {
                    text.push_str(&lossy(&self.bytes[plain..self.at]));
                    self.at += 1;
                    text.push(self.escape()?);
                    plain = self.at;
                }
                0..0x20 => break,
                _ => self.at += 1,
            }
        }
        Err(self.unexpected("in string literal"))
    }

    fn escape(&mut self) -> Result<char, DecodeError> {
        let plain = match self.here() {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// `uXXXX`, and the second half of a surrogate pair when it follows; half pairs become U+FFFD.
    fn unicode_escape(&mut self) -> Result<char, DecodeError> {
        self.at += 1;
        let first = self.hex4()?;
        if (0xD800..0xDC00).contains(&first) && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xDC00..0xE000).contains(&second) {
                let code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = before;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32, DecodeError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.here().and_then(|b| char::from(b).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.unexpected("in \\u hexadecimal character escape"))?;
            self.at += 1;
        }
        Ok(code)
    }
}

/// UTF-8 with one U+FFFD for every byte that is not.
fn lossy(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(rest) if text.is_empty() => return rest.to_owned(),
            Ok(rest) => return text + rest,
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                text.push_str(std::str::from_utf8(valid).unwrap_or(""));
                let broken = error.error_len().unwrap_or(rest.len());
                (0..broken).for_each(|_| text.push(char::REPLACEMENT_CHARACTER));
                bytes = &rest[broken..];
            }
        }
    }
}

/// A byte as Go's scanner quotes it.
fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => r#"'"'"#.to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        0x20..=0x7e => format!("'{}'", char::from(byte)),
        0x00..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}
