//! What a registry asks for when it refuses: the `WWW-Authenticate` header.

use std::collections::BTreeMap;

/// How to prove who asks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Challenge {
    /// By name and password.
    Basic,
    /// By a token, to be had from `realm`.
    Bearer { realm: String, service: String, scope: String },
}

impl Challenge {
    /// The challenge that can be answered, of all that the headers name; a token is preferred.
    pub fn choose<'a>(headers: impl Iterator<Item = &'a str>) -> Option<Challenge> {
        let mut chosen = None;
        for header in headers {
            match Challenge::parse(header) {
                Some(Challenge::Basic) if chosen.is_some() => {}
                None => {}
                found => chosen = found,
            }
        }
        chosen
    }

    fn parse(header: &str) -> Option<Challenge> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut parameters = parameters(rest);
        let mut take = |name: &str| parameters.remove(name).unwrap_or_default();
        let (realm, service, scope) = (take("realm"), take("service"), take("scope"));
        (!realm.is_empty()).then_some(Challenge::Bearer { realm, service, scope })
    }
}

/// `name=value, name="quoted \"value\""`.
fn parameters(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',', '\t']).to_ascii_lowercase();
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted),
            None => {
                let end = after.find(',').unwrap_or(after.len());
                let (value, after) = after.split_at(end);
                (value.trim().to_owned(), after)
            }
        };
        found.insert(name, value);
        rest = after;
    }
    found
}

/// The value up to the closing quote, and what follows that.
fn unquote(quoted: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, quoted.get(at + 1..).unwrap_or("")),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: &str, scope: &str) -> Option<Challenge> {
        let own = str::to_owned;
        Some(Challenge::Bearer { realm: own(realm), service: own(service), scope: own(scope) })
    }

    #[test]
    fn challenges_are_read() {
        let check = |headers: &[&str], expected: Option<Challenge>| {
            assert_eq!(Challenge::choose(headers.iter().copied()), expected, "{headers:?}");
        };
        let full = r#"Bearer realm="https://auth.example/token",service="r",scope="repository:a:pull,push""#;
        check(&[full], bearer("https://auth.example/token", "r", "repository:a:pull,push"));
        check(&["Basic realm=\"r\"", full], bearer("https://auth.example/token", "r", "repository:a:pull,push"));
        check(&[full, "Basic"], bearer("https://auth.example/token", "r", "repository:a:pull,push"));
        check(&["basic"], Some(Challenge::Basic));
        check(&["BEARER realm=x , service = y"], bearer("x", "y", ""));
        check(&[r#"Bearer realm="a\"b""#], bearer("a\"b", "", ""));
        check(&["Bearer realm=\"open"], bearer("open", "", ""));
        check(&["Bearer service=\"r\""], None);
        check(&["Negotiate", ""], None);
    }
}
