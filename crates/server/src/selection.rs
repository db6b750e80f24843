//! Which controllers run, said as to kube-controller-manager: `*,-job`, `deployment,replicaset`.

use brain::Controller;

/// A choice of controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(Vec<String>);

impl Selection {
    /// From its words: `*` for all, a name for one, `-name` for all but one.
    pub fn new(words: impl IntoIterator<Item = String>) -> Selection {
        Selection(words.into_iter().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect())
    }

    /// The chosen ones, in the order of `all`; the error names a word that means none of them. Of a name and its
    /// opposite the first one said counts, as upstream.
    pub fn of(&self, all: Vec<Controller>) -> Result<Vec<Controller>, String> {
        let known = |word: &str| all.iter().any(|controller| short(controller.def.name) == short(word));
        for word in &self.0 {
            let name = word.strip_prefix('-').unwrap_or(word);
            if word != "*" && !known(name) {
                let names: Vec<&str> = all.iter().map(|controller| controller.def.name).collect();
                return Err(format!("{name:?} is no controller; there are: {}", names.join(", ")));
            }
        }
        Ok(all.into_iter().filter(|controller| self.has(controller.def.name)).collect())
    }

    fn has(&self, name: &str) -> bool {
        for word in &self.0 {
            match word.strip_prefix('-') {
                Some(not) if short(not) == short(name) => return false,
                None if short(word) == short(name) => return true,
                _ => {}
            }
        }
        self.0.iter().any(|word| word == "*")
    }
}

/// `deployment-controller` is `deployment` too.
fn short(name: &str) -> &str {
    name.strip_suffix("-controller").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(words: &str) -> Result<Vec<&'static str>, String> {
        let selection = Selection::new(words.split(',').map(str::to_owned));
        Ok(selection.of(controllers::all())?.iter().map(|controller| controller.def.name).collect())
    }

    #[test]
    fn controllers_are_chosen_as_upstream() {
        let all = controllers::all().len();
        assert_eq!(chosen("*").map(|names| names.len()), Ok(all));
        assert_eq!(chosen("deployment,replicaset-controller"), Ok(vec!["deployment", "replicaset"]));
        assert_eq!(chosen("*,-job").map(|names| (names.len(), names.contains(&"job"))), Ok((all - 1, false)));
        assert_eq!(chosen("job,-job"), Ok(vec!["job"]));
        assert_eq!(chosen(""), Ok(Vec::new()));
        assert!(chosen("deploymint").expect_err("unknown").starts_with("\"deploymint\" is no controller; there are: "));
    }
}
