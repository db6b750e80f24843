//! How a failure is printed: one line, its causes, and what to do.

use std::error::Error;
use std::fmt;

/// A failed command.
#[derive(Debug)]
pub struct CommandError {
    /// What was attempted and why it failed.
    pub source: Box<dyn Error>,
    /// What to do about it, when there is something to say.
    pub hint: Option<String>,
}

impl<E: Error + 'static> From<E> for CommandError {
    fn from(source: E) -> Self {
        CommandError { source: Box::new(source), hint: None }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", stdx::chain(&*self.source))?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Prints a failure to standard error.
pub fn print(error: &CommandError) {
    eprintln!("{error}");
}
