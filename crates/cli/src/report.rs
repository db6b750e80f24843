//! How a failure is printed: one line, its causes, and what to do.

use std::error::Error;
use std::fmt;

/// How a command ended that did what it was asked to do. Each has its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// 0: as it should be.
    Well,
    /// 1: not done.
    Failed,
    /// 2: there are changes, there is drift, there are fights, or something is still on its way at the deadline.
    Changes,
    /// 3: something will not come to be without help.
    Terminal,
}

impl From<Ended> for std::process::ExitCode {
    fn from(ended: Ended) -> std::process::ExitCode {
        std::process::ExitCode::from(match ended {
            Ended::Well => 0,
            Ended::Failed => 1,
            Ended::Changes => 2,
            Ended::Terminal => 3,
        })
    }
}

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
