//! Field selectors: `metadata.name=web,status.phase!=Running`.

use std::fmt;

/// One requirement on one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The field's label, e.g. `spec.nodeName`.
    pub field: String,
    /// True for `=` and `==`, false for `!=`.
    pub equals: bool,
    /// The value compared with, unescaped.
    pub value: String,
}

/// A conjunction of requirements; empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// All must hold.
    pub requirements: Vec<Requirement>,
}

impl FieldSelector {
    /// Reads the text form with upstream's escapes (`\\`, `\,`, `\=`). The error is upstream's sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        terms.retain(|term| !term.is_empty());
        // Sorted as upstream does, so that the first error is the same.
        terms.sort_unstable();
        let read = |term: &&str| {
            let (field, equals, value) =
                split_term(term).ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            Ok(Requirement { field: field.to_owned(), equals, value: unescape(value)? })
        };
        let mut requirements = terms.iter().map(read).collect::<Result<Vec<_>, String>>()?;
        // `=` and its like ask nothing; upstream drops them.
        requirements.retain(|r| !(r.field.is_empty() && r.value.is_empty()));
        // `==` sorts elsewhere than the `=` that means the same.
        requirements.sort_by_cached_key(ToString::to_string);
        Ok(Self { requirements })
    }

    /// Whether every requirement holds, given each field's value.
    pub fn matches<'v>(&self, value_of: impl Fn(&str) -> &'v str) -> bool {
        self.requirements.iter().all(|r| (value_of(&r.field) == r.value) == r.equals)
    }

    /// The value that the selector pins `field` to, if it does (`metadata.name=x` makes a list a get).
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equals && r.field == field).map(|r| r.value.as_str())
    }

    /// Whether the selector has no requirement and so matches everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl fmt::Display for FieldSelector {
    /// The text form, escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    /// One term, escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.equals { "=" } else { "!=" };
        write!(f, "{}{operator}{}", self.field, escape(&self.value))
    }
}

/// The value as it must be written in a selector.
pub fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The text between unescaped commas, escapes left as they are.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let ends = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })
    .collect()
}

/// Field, whether equal, and the value still escaped; split at the first operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let equals = term.find('=')?;
    let (before, after) = (term.get(..equals)?, term.get(equals + 1..)?);
    match before.strip_suffix('!') {
        Some(field) => Some((field, false, after)),
        None => Some((before, true, after.strip_prefix('=').unwrap_or(after))),
    }
}

fn unescape(value: &str) -> Result<String, String> {
    let invalid = |sequence: &str| format!("invalid field selector: invalid escape sequence: {sequence}");
    let mut out = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(invalid(&format!("\\{c}"))),
                None => return Err(invalid("\\")),
            },
            // Upstream prints the character's number.
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {}", u32::from(c))),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_form_is_read_and_printed() {
        let check = |text: &str, printed: &str| assert_eq!(FieldSelector::parse(text).unwrap().to_string(), printed);
        for text in ["x=a,y=b,z=c", "", "x!=a,y=b", r"x=a\\\,\=b", "x=", "=a"] {
            check(text, text);
        }
        check("x==a", "x=a");
        check("z=1,a=2", "a=2,z=1");
        check(",,x=a,", "x=a");
        check("=,x=a,!=", "x=a");
        check("x=a b", "x=a b");
    }

    #[test]
    fn bad_text_is_refused_in_upstreams_words() {
        let check = |text: &str, error: &str| assert_eq!(FieldSelector::parse(text), Err(error.to_owned()));
        check("x", "invalid selector: 'x'; can't understand 'x'");
        check("a=b,x!a", "invalid selector: 'a=b,x!a'; can't understand 'x!a'");
        check("x=a=b", "invalid field selector: unescaped character in value: 61");
        check("x===b", "invalid field selector: unescaped character in value: 61");
        check(r"x=a\b", r"invalid field selector: invalid escape sequence: \b");
        check(r"x=a\", r"invalid field selector: invalid escape sequence: \");
    }

    #[test]
    fn selectors_match_and_pin() {
        let selector = FieldSelector::parse("metadata.name=web,status.phase!=Running").unwrap();
        let value = |name, phase| move |field: &str| if field == "metadata.name" { name } else { phase };
        assert!(selector.matches(value("web", "Pending")));
        assert!(!selector.matches(value("web", "Running")));
        assert!(!selector.matches(value("db", "")));
        assert_eq!((selector.exact("metadata.name"), selector.exact("status.phase")), (Some("web"), None));
        assert!(FieldSelector::default().is_everything());
    }

    #[test]
    fn both_signs_of_equality_sort_alike() {
        let text = FieldSelector::parse(r"=é,==é\,").map(|selector| selector.to_string());
        assert_eq!(text.as_deref().map(FieldSelector::parse), Ok(FieldSelector::parse(r"=é,==é\,")));
    }

    proptest! {
        #[test]
        fn escaped_values_come_back(value in ".{0,20}") {
            let selector = FieldSelector::parse(&format!("a={}", escape(&value))).unwrap();
            prop_assert_eq!(selector.exact("a"), Some(value.as_str()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in r"[a,=!\\é]{0,16}") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}
