//! How the suite is tested itself: an engine with a planted mistake must not pass it.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{MakeRig, cases, random};

/// Where an engine was found to be wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caught {
    /// The first fixed case that fails, and how manieth it is.
    pub case: Option<(&'static str, usize)>,
    /// How many random runs it took, and what the failing one says.
    pub run: Option<(u64, String)>,
}

impl Caught {
    /// Whether anything noticed.
    pub fn is_caught(&self) -> bool {
        self.case.is_some() || self.run.is_some()
    }
}

/// One row of a table: the fixed case, the random runs, what was said.
impl fmt::Display for Caught {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let case = self.case.map_or_else(|| "none".to_owned(), |(name, nth)| format!("{name} ({nth})"));
        match &self.run {
            Some((runs, said)) => write!(f, "{case} | {runs} | {said}"),
            None => write!(f, "{case} | none | "),
        }
    }
}

/// Looks for what is wrong with an engine: by the fixed cases, and by random runs until one fails.
pub fn hunt(make: MakeRig<'_>, seeds: Range<u64>) -> Caught {
    let fails = |run: &dyn Fn()| catch_unwind(AssertUnwindSafe(run)).err().map(|panic| said(&*panic));
    let case = cases::CASES.iter().zip(1..).find(|((_, case), _)| fails(&|| case(make)).is_some());
    let run = seeds.zip(1..).find_map(|(seed, runs)| Some((runs, fails(&|| random::run(make, seed))?)));
    Caught { case: case.map(|((name, _), nth)| (*name, nth)), run }
}

/// The property of a watch that was broken, or the kind of disagreement.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    match text.split_once("Err(").and_then(|(_, rest)| rest.split_once(')')) {
        Some((word, _)) if word.chars().all(char::is_alphabetic) => format!("watch: {word}"),
        _ if text.contains("Commit(") => "a commit is answered otherwise than by the model".to_owned(),
        _ if text.contains("Read(") => "an old state is not the model's".to_owned(),
        _ if text.contains("Watch(") => "a watch is refused, or not, otherwise than by the model".to_owned(),
        _ if text.contains("Restart") => "a restart changes what it must not".to_owned(),
        _ => text.lines().next().unwrap_or_default().to_owned(),
    }
}
