//! What a brain answers.

use stdx::Time;

use crate::Action;

/// The answer of one brain for one key, in its own words.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<Step, Why> {
    /// What to do next, in order. Performing stops at the first step that is refused.
    pub steps: Vec<Step>,
    /// What happened, or why nothing more does: events, log, plan, metrics.
    pub notes: Vec<Why>,
    /// When to look again even if nothing changes.
    pub wake: Wake,
}

impl<Step, Why> Default for Outcome<Step, Why> {
    fn default() -> Self {
        Outcome { steps: Vec::new(), notes: Vec::new(), wake: Wake::OnChange }
    }
}

impl<Step, Why> Outcome<Step, Why> {
    /// At rest: nothing to do until something changes.
    pub fn rest() -> Self {
        Self::default()
    }

    /// Adds a step.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a note.
    pub fn note(mut self, why: Why) -> Self {
        self.notes.push(why);
        self
    }

    /// Asks to be woken at `time`, or earlier if that was asked before.
    pub fn wake_at(mut self, time: Time) -> Self {
        self.wake = self.wake.or_at(time);
        self
    }
}

/// When to look at a key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// When something it watches changes.
    OnChange,
    /// Also at this time.
    At(Time),
}

impl Wake {
    /// The earlier of this and `time`.
    pub fn or_at(self, time: Time) -> Wake {
        match self {
            Wake::At(earlier) if earlier <= time => self,
            _ => Wake::At(time),
        }
    }
}

/// A reason, in the form that events, logs, plans and metrics share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `Normal` or `Warning` become an event on the object; `None` is for log and plan only.
    pub severity: Option<Severity>,
    /// CamelCase, e.g. `SuccessfulCreate`: the event's reason and the metric's label.
    pub reason: &'static str,
    /// One sentence for people.
    pub message: String,
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Things go as they should.
    Normal,
    /// Something is in the way.
    Warning,
}

impl Note {
    /// An event of type Normal.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Note {
        Note { severity: Some(Severity::Normal), reason, message: message.into() }
    }

    /// An event of type Warning.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Note {
        Note { severity: Some(Severity::Warning), reason, message: message.into() }
    }

    /// A reason that makes no event.
    pub fn quiet(reason: &'static str, message: impl Into<String>) -> Note {
        Note { severity: None, reason, message: message.into() }
    }
}

/// An action and what there is to say once it is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// What to do.
    pub action: Action,
    /// Said when it is done, and only then.
    pub note: Option<Note>,
}

/// An [`Outcome`] in common words: what the loop's hands perform.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Effects in order.
    pub effects: Vec<Effect>,
    /// Reasons that hold whether or not anything is performed.
    pub notes: Vec<Note>,
    /// When to look again.
    pub wake: Wake,
    /// An invariant that the outcome breaks, found by the brain's own check.
    pub violation: Option<String>,
}

impl Turn {
    /// Nothing to do.
    pub fn rest() -> Turn {
        Turn { effects: Vec::new(), notes: Vec::new(), wake: Wake::OnChange, violation: None }
    }
}
