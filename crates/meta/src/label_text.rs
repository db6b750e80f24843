//! The text form of label selectors: `x in (foo,,baz),y,z notin (),!w`.
//!
//! Scanning and parsing are one pass with one token of look-ahead; the sentences of the errors are upstream's.

use std::collections::BTreeSet;

use crate::labels::{Operator, Requirement, key_fault};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    End,
    Open,
    Close,
    Comma,
    Not,
    Equals,
    NotEquals,
    Greater,
    Less,
    Word,
}

/// A piece of the text; `in` and `notin` are words, which the grammar alone tells from operators.
#[derive(Clone, Copy, Debug)]
struct Token<'t> {
    kind: Kind,
    text: &'t str,
}

/// Reads one selector.
pub(crate) struct Parser<'t> {
    rest: &'t str,
    next: Token<'t>,
}

impl<'t> Parser<'t> {
    /// A parser at the start of `text`.
    pub(crate) fn new(text: &'t str) -> Self {
        let mut parser = Self { rest: text, next: Token { kind: Kind::End, text: "" } };
        parser.next = parser.scan();
        parser
    }

    /// All requirements of the text, in the order written.
    pub(crate) fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.next.kind {
                Kind::End => return Ok(requirements),
                Kind::Word | Kind::Not => {}
                _ => return Err(self.found("!, identifier, or 'end of string'")),
            }
            let requirement = self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
            requirements.push(requirement);
            let separator = self.take();
            match separator.kind {
                Kind::End => return Ok(requirements),
                Kind::Comma if matches!(self.next.kind, Kind::Word | Kind::Not) => {}
                Kind::Comma => return Err(self.found("identifier after ','")),
                _ => return Err(found(separator, "',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.next.kind == Kind::Not;
        if negated {
            self.take();
        }
        let key = self.take();
        if key.kind != Kind::Word {
            return Err(found(key, "identifier"));
        }
        if let Some(fault) = key_fault("", key.text) {
            return Err(fault.to_string());
        }
        if negated {
            return Requirement::new(key.text, Operator::DoesNotExist, Vec::new());
        }
        match self.next.kind {
            Kind::End | Kind::Comma => Requirement::new(key.text, Operator::Exists, Vec::new()),
            _ => self.comparison(key.text),
        }
    }

    fn comparison(&mut self, key: &str) -> Result<Requirement, String> {
        let operator = self.take();
        match (operator.kind, operator.text) {
            (Kind::Word, "in") => Requirement::new(key, Operator::In, self.set()?),
            (Kind::Word, "notin") => Requirement::new(key, Operator::NotIn, self.set()?),
            (Kind::Equals, _) => Requirement::exact(key, Operator::In, self.value()?),
            (Kind::NotEquals, _) => Requirement::exact(key, Operator::NotIn, self.value()?),
            (Kind::Greater, _) => Requirement::new(key, Operator::GreaterThan, vec![self.value()?.to_owned()]),
            (Kind::Less, _) => Requirement::new(key, Operator::LessThan, vec![self.value()?.to_owned()]),
            _ => Err(found(operator, "in, notin, =, ==, !=, gt, lt")),
        }
    }

    /// The value after `=` and its like; nothing there is the empty value.
    fn value(&mut self) -> Result<&'t str, String> {
        if matches!(self.next.kind, Kind::End | Kind::Comma) {
            return Ok("");
        }
        let value = self.take();
        if value.kind == Kind::Word { Ok(value.text) } else { Err(found(value, "identifier")) }
    }

    /// The values in parentheses after `in` and `notin`.
    fn set(&mut self) -> Result<Vec<String>, String> {
        let open = self.take();
        if open.kind != Kind::Open {
            return Err(format!("found '{}' expected: '('", open.text));
        }
        match self.next.kind {
            Kind::Word | Kind::Comma => {}
            Kind::Close => {
                self.take();
                return Ok(vec![String::new()]);
            }
            _ => return Err(self.found("',', ')' or identifier")),
        }
        let values = self.list()?;
        self.take();
        Ok(values.into_iter().map(str::to_owned).collect())
    }

    /// The values up to (and without) the closing parenthesis; a comma with nothing beside it adds the empty value.
    fn list(&mut self) -> Result<BTreeSet<&'t str>, String> {
        let mut values = BTreeSet::new();
        loop {
            let token = self.take();
            match (token.kind, self.next.kind) {
                (Kind::Word, next) => {
                    values.insert(token.text);
                    match next {
                        Kind::Comma => {}
                        Kind::Close => return Ok(values),
                        _ => return Err(self.found("',' or ')'")),
                    }
                }
                (Kind::Comma, next) => {
                    if values.is_empty() || matches!(next, Kind::Comma | Kind::Close) {
                        values.insert("");
                    }
                    if next == Kind::Close {
                        return Ok(values);
                    }
                }
                _ => return Err(found(token, "',', or identifier")),
            }
        }
    }

    fn found(&self, expected: &str) -> String {
        found(self.next, expected)
    }

    fn take(&mut self) -> Token<'t> {
        let next = self.scan();
        std::mem::replace(&mut self.next, next)
    }

    fn scan(&mut self) -> Token<'t> {
        let text = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let (kind, length) = match text.as_bytes() {
            // Upstream's scanner reads a NUL as the end where a token may start, and swallows one after a token.
            [] | [0, ..] => (Kind::End, 0),
            [b'=', b'=', ..] => (Kind::Equals, 2),
            [b'!', b'=', ..] => (Kind::NotEquals, 2),
            [b'=', ..] => (Kind::Equals, 1),
            [b'!', ..] => (Kind::Not, 1),
            [b'(', ..] => (Kind::Open, 1),
            [b')', ..] => (Kind::Close, 1),
            [b',', ..] => (Kind::Comma, 1),
            [b'>', ..] => (Kind::Greater, 1),
            [b'<', ..] => (Kind::Less, 1),
            _ => (Kind::Word, word_length(text)),
        };
        let (token, rest) = text.split_at(length);
        self.rest = if kind == Kind::End { rest } else { rest.strip_prefix('\0').unwrap_or(rest) };
        Token { kind, text: token }
    }
}

fn word_length(text: &str) -> usize {
    let ends = |c| matches!(c, ' ' | '\t' | '\r' | '\n' | '=' | '!' | '(' | ')' | ',' | '>' | '<' | '\0');
    text.find(ends).unwrap_or(text.len())
}

fn found(token: Token<'_>, expected: &str) -> String {
    format!("found '{}', expected: {expected}", token.text)
}
