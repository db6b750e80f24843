//! Errors for people: an error with what caused it.

use std::error::Error;

/// The error and its causes in one line, outermost first, joined by `: `.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    #[test]
    fn causes_follow_what_they_caused() {
        let cause = Layer("no such file", None);
        assert_eq!(chain(&cause), "no such file");
        let open = Layer("open", Some(Box::new(cause)));
        assert_eq!(chain(&Layer("start", Some(Box::new(open)))), "start: open: no such file");
    }
}
