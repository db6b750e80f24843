//! Regular expressions in Go's syntax.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// Bytes that a compiled pattern may take. Who may write a CustomResourceDefinition writes patterns, so there must be
/// a bound; counted repetitions of letters of all scripts, which are legitimate, take some megabytes.
const COMPILED_BYTES_MAX: usize = 8 << 20;

/// A pattern, compiled when first needed and then kept.
#[derive(Clone, Debug, Default)]
pub struct Compiled(OnceLock<Option<Regex>>);

impl Compiled {
    /// The expression of `pattern`, which must always be the same; `None` when it is not valid.
    pub fn get(&self, pattern: &str) -> Option<&Regex> {
        self.0.get_or_init(|| compile(pattern).ok()).as_ref()
    }
}

/// Compiles a pattern; the error says why it cannot be.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let builder = RegexBuilder::new(&translated(pattern)).size_limit(COMPILED_BYTES_MAX).build();
    builder.map_err(|error| error.to_string().lines().last().unwrap_or("").trim().to_owned())
}

/// Go's meaning in the syntax at hand: `\d \w \s` are ASCII, `\<` is a character, and within a class `[`, `&&`,
/// `--` and `~~` are characters too.
fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    let mut last = '\0';
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) => push_escape(&mut out, escaped),
                None => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() == Some(&':') => {
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' => out.push_str("\\["),
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' | '-' if in_class && last == c => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
        last = c;
    }
    out
}

fn push_escape(out: &mut String, escaped: char) {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' => out.push_str("(?-u:\\b)"),
        'B' => out.push_str("(?-u:\\B)"),
        '<' | '>' => out.push(escaped),
        other => {
            out.push('\\');
            out.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_what_it_means_in_go() {
        let check = |pattern: &str, text: &str, expected: bool| {
            assert_eq!(compile(pattern).expect(pattern).is_match(text), expected, "{pattern} on {text}");
        };
        check("^a+$", "aaa", true);
        check("b", "abc", true);
        check(r"^\d+$", "١٢", false);
        check(r"^[\d.]+$", "1.2", true);
        check(r"^[[]$", "[", true);
        check(r"^[]a]$", "]", true);
        check(r"^[^]a]$", "b", true);
        check(r"^[[:alpha:]]+$", "abc", true);
        check(r"^[a&&b]+$", "a&b", true);
        check(r"^[+--]$", "-", true);
        check(r"^\<x\>$", "<x>", true);
        check(r"^[\w-]+$", "a-b_c", true);
        assert!(compile("(").is_err());
        assert!(compile("(a{1000}){1000}").is_err());
    }
}
