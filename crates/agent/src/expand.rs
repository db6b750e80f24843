//! `$(NAME)` in commands, arguments and values of variables.

/// Replaces `$(NAME)` by what `value_of` says; what it does not know stays as it is, and `$$` is one `$`.
pub fn expand(text: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match value_of(name) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_replaced() {
        let check = |text: &str, expected: &str| {
            let value_of = |name: &str| match name {
                "A" => Some("a".to_owned()),
                "E" => Some(String::new()),
                _ => None,
            };
            assert_eq!(expand(text, value_of), expected, "{text}");
        };
        check("plain", "plain");
        check("$(A)-$(A)", "a-a");
        check("x$(E)y", "xy");
        check("$(NO)", "$(NO)");
        check("$$(A)", "$(A)");
        check("$$$(A)", "$a");
        check("$A $", "$A $");
        check("$(A", "$(A");
        check("é$(A)é", "éaé");
    }
}
