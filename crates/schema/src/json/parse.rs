//! The document: objects and lists on a stack of their own.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::scan::Scanner;
use super::{COMPLAINTS_MAX, DecodeError, Decoded};

/// An object or list that is being read.
enum Open {
    Object { map: Map<String, Value>, key: String },
    List(Vec<Value>),
}

/// What the parser does next.
enum Next {
    /// Reads a value.
    Value,
    /// Puts a finished value where it belongs.
    Place(Value),
}

struct Parser<'b> {
    scanner: Scanner<'b>,
    open: Vec<Open>,
    depth_max: usize,
    duplicates: Vec<String>,
    seen: BTreeSet<String>,
}

/// Reads a whole document.
pub(super) fn document(bytes: &[u8], depth_max: usize) -> Result<Decoded, DecodeError> {
    let scanner = Scanner::new(bytes);
    let mut parser = Parser { scanner, open: Vec::new(), depth_max, duplicates: Vec::new(), seen: BTreeSet::new() };
    let mut next = Next::Value;
    loop {
        next = match next {
            Next::Value => parser.value()?,
            Next::Place(value) if parser.open.is_empty() => return parser.end(value),
            Next::Place(value) => parser.place(value)?,
        };
    }
}

impl Parser<'_> {
    fn end(mut self, value: Value) -> Result<Decoded, DecodeError> {
        match self.scanner.peek() {
            None => Ok(Decoded { value, duplicates: self.duplicates }),
            Some(_) => Err(self.scanner.unexpected("after top-level value")),
        }
    }

    fn value(&mut self) -> Result<Next, DecodeError> {
        match self.scanner.peek() {
            Some(b'{') => self.begin_object(),
            Some(b'[') => self.begin_list(),
            Some(b'"') => Ok(Next::Place(Value::String(self.scanner.string()?))),
            Some(b't') => Ok(Next::Place(self.scanner.literal("true", Value::Bool(true))?)),
            Some(b'f') => Ok(Next::Place(self.scanner.literal("false", Value::Bool(false))?)),
            Some(b'n') => Ok(Next::Place(self.scanner.literal("null", Value::Null)?)),
            Some(b'-' | b'0'..=b'9') => Ok(Next::Place(self.scanner.number()?)),
            _ => Err(self.scanner.unexpected("looking for beginning of value")),
        }
    }

    fn begin_object(&mut self) -> Result<Next, DecodeError> {
        self.check_depth()?;
        self.scanner.advance();
        match self.scanner.peek() {
            Some(b'}') => {
                self.scanner.advance();
                Ok(Next::Place(Value::Object(Map::new())))
            }
            _ => {
                self.open.push(Open::Object { map: Map::new(), key: String::new() });
                self.key()
            }
        }
    }

    fn begin_list(&mut self) -> Result<Next, DecodeError> {
        self.check_depth()?;
        self.scanner.advance();
        if self.scanner.peek() == Some(b']') {
            self.scanner.advance();
            return Ok(Next::Place(Value::Array(Vec::new())));
        }
        self.open.push(Open::List(Vec::new()));
        Ok(Next::Value)
    }

    fn check_depth(&self) -> Result<(), DecodeError> {
        if self.open.len() >= self.depth_max {
            return Err(self.scanner.unexpected("exceeded max depth"));
        }
        Ok(())
    }

    /// Reads `"key":` of the innermost object.
    fn key(&mut self) -> Result<Next, DecodeError> {
        if self.scanner.peek() != Some(b'"') {
            return Err(self.scanner.unexpected("looking for beginning of object key string"));
        }
        let text = self.scanner.string()?;
        if self.scanner.peek() != Some(b':') {
            return Err(self.scanner.unexpected("after object key"));
        }
        self.scanner.advance();
        let is_duplicate = match self.open.last_mut() {
            Some(Open::Object { map, key }) => {
                *key = text;
                map.contains_key(key)
            }
            _ => false,
        };
        if is_duplicate {
            self.note_duplicate();
        }
        Ok(Next::Value)
    }

    /// Records the place where the parser stands.
    fn note_duplicate(&mut self) {
        if self.duplicates.len() >= COMPLAINTS_MAX {
            return;
        }
        let message = format!("duplicate field {}", crate::text::quoted(&self.path()));
        if self.seen.insert(message.clone()) {
            self.duplicates.push(message);
        }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::Object { key, .. } if path.is_empty() => path.push_str(key),
                Open::Object { key, .. } => {
                    let _ = write!(path, ".{key}");
                }
                Open::List(items) => {
                    let _ = write!(path, "[{}]", items.len());
                }
            }
        }
        path
    }

    /// Puts a value into the innermost object or list, and goes on after it.
    fn place(&mut self, value: Value) -> Result<Next, DecodeError> {
        match self.open.last_mut() {
            Some(Open::Object { map, key }) => {
                map.insert(std::mem::take(key), value);
                self.after(b'}', "after object key:value pair")
            }
            Some(Open::List(items)) => {
                items.push(value);
                self.after(b']', "after array element")
            }
            None => Ok(Next::Place(value)),
        }
    }

    /// A comma and the next entry, or the end of the innermost object or list.
    fn after(&mut self, end: u8, context: &str) -> Result<Next, DecodeError> {
        match self.scanner.peek() {
            Some(b',') => {
                self.scanner.advance();
                if end == b'}' { self.key() } else { Ok(Next::Value) }
            }
            Some(byte) if byte == end => {
                self.scanner.advance();
                Ok(Next::Place(match self.open.pop() {
                    Some(Open::Object { map, .. }) => Value::Object(map),
                    Some(Open::List(items)) => Value::Array(items),
                    None => Value::Null,
                }))
            }
            _ => Err(self.scanner.unexpected(context)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::{DEPTH_MAX, decode};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn reads_json() {
        let check = |text: &str, value: Value| assert_eq!(decode(text.as_bytes()).expect(text).value, value);
        check(" {\"a\": [1, -2, 18446744073709551615, 1.5, 1e3, null, true, false, \"x\"]} ", {
            json!({"a": [1, -2, 18_446_744_073_709_551_615_u64, 1.5, 1000.0, null, true, false, "x"]})
        });
        check("[]", json!([]));
        check("{}", json!({}));
        check("{\"a\":{\"b\":[[],{}]},\"c\":\"\"}", json!({"a": {"b": [[], {}]}, "c": ""}));
        check(
            r#""\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud800x\ud800\u0041""#,
            json!("\"\\/\u{8}\u{c}\n\r\té😀\u{fffd}x\u{fffd}A"),
        );
        check("-0", json!(0));
    }

    #[test]
    fn replaces_bytes_that_are_not_utf8() {
        let value = decode(b"\"a\xe2\x82b\xff\"").expect("lenient as Go").value;
        assert_eq!(value, json!("a\u{fffd}\u{fffd}b\u{fffd}"));
    }

    #[test]
    fn complains_like_go() {
        let check =
            |text: &str, message: &str| assert_eq!(decode(text.as_bytes()).expect_err(text).to_string(), message);
        check("", "unexpected end of JSON input");
        check("{", "unexpected end of JSON input");
        check("x", "invalid character 'x' looking for beginning of value");
        check("{a", "invalid character 'a' looking for beginning of object key string");
        check("{\"a\" 1}", "invalid character '1' after object key");
        check("{\"a\":1 2}", "invalid character '2' after object key:value pair");
        check("{\"a\":1,}", "invalid character '}' looking for beginning of object key string");
        check("[1 2]", "invalid character '2' after array element");
        check("[1,]", "invalid character ']' looking for beginning of value");
        check("1 2", "invalid character '2' after top-level value");
        check("\"a\nb\"", "invalid character '\\n' in string literal");
        check("\"\\x\"", "invalid character 'x' in string escape code");
        check("trux", "invalid character 'x' in literal true (expecting 'e')");
        check("-x", "invalid character 'x' in numeric literal");
        check("1.x", "invalid character 'x' after decimal point in numeric literal");
        check("1ex", "invalid character 'x' in exponent of numeric literal");
        check("01", "invalid character '1' after top-level value");
    }

    #[test]
    fn notices_duplicates() {
        let text = r#"{"spec":{"a":1,"l":[{"x":1},{"x":1,"x":2}],"a":2,"a":3}}"#;
        let decoded = decode(text.as_bytes()).expect("valid");
        assert_eq!(decoded.value, json!({"spec": {"a": 3, "l": [{"x": 1}, {"x": 2}]}}));
        assert_eq!(decoded.duplicates, ["duplicate field \"spec.l[1].x\"", "duplicate field \"spec.a\""]);
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(decode(nested(DEPTH_MAX).as_bytes()).is_ok());
        let error = decode(nested(1_000_000).as_bytes()).expect_err("too deep");
        assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_what_is_written(value in any_json()) {
            let decoded = decode(value.to_string().as_bytes()).expect("valid");
            prop_assert_eq!(decoded.value, value);
            prop_assert!(decoded.duplicates.is_empty());
        }

        #[test]
        fn agrees_with_another_parser_and_never_panics(text in r#"[\[\]{}:,"\\0-9a-f.eE+ tnrulse-]{0,24}"#) {
            prop_assume!(!text.contains("\\u")); // half surrogate pairs: Go replaces them, others refuse them
            let ours = decode(text.as_bytes()).map(|d| d.value);
            let theirs = serde_json::from_str::<Value>(&text);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}", text);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }
}
