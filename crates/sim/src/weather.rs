//! The faults that last: which are on now, and what they do to a message.

use crate::dice::Dice;

/// One fault that ends.
#[derive(Clone, Debug)]
pub struct Window {
    /// When, in the run's time (microseconds).
    pub until: u64,
    /// Whom it is about; everybody if absent.
    pub room: Option<String>,
    /// What it does.
    pub does: Does,
}

/// What a lasting fault does.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// Loses (percent), leaves unanswered (percent), doubles (percent), delays (microseconds at most).
    Network {
        /// Requests lost.
        lost: u64,
        /// Answers lost.
        unanswered: u64,
        /// Requests doubled.
        doubled: u64,
        /// Longest delay.
        delay: u64,
    },
    /// Views are so late.
    Lag(u64),
    /// Syncs take so long.
    Sync(u64),
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// It never arrives.
    pub lost: bool,
    /// Its answer never arrives.
    pub unanswered: bool,
    /// It arrives twice, the second time so much later.
    pub again_after: Option<u64>,
    /// How long it takes to arrive.
    pub there: u64,
    /// How long the answer takes.
    pub back: u64,
}

/// The faults that are on.
#[derive(Default)]
pub struct Weather(Vec<Window>);

impl Weather {
    /// Adds one.
    pub fn add(&mut self, window: Window) {
        self.0.push(window);
    }

    /// Ends all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    fn on(&self, at: u64, room: &str) -> impl Iterator<Item = Does> {
        let about = move |window: &&Window| {
            at < window.until && window.room.as_ref().is_none_or(|name| room.split('#').next() == Some(name))
        };
        self.0.iter().filter(about).map(|window| window.does)
    }

    /// What becomes of a message that somebody sends now.
    pub fn fate(&self, at: u64, room: &str, dice: &Dice) -> Fate {
        let mut fate = Fate {
            lost: false,
            unanswered: false,
            again_after: None,
            there: dice.between(200, 2_000),
            back: dice.between(200, 2_000),
        };
        for does in self.on(at, room) {
            let Does::Network { lost, unanswered, doubled, delay } = does else { continue };
            fate.lost |= dice.percent(lost);
            fate.unanswered |= dice.percent(unanswered);
            if dice.percent(doubled) {
                fate.again_after = Some(dice.between(1_000, 2_000_000));
            }
            fate.there += dice.below(delay + 1);
            fate.back += dice.below(delay + 1);
        }
        fate
    }

    /// How long a new revision takes to somebody's view.
    pub fn lag(&self, at: u64, room: &str, dice: &Dice) -> u64 {
        let lags = self.on(at, room).map(|does| if let Does::Lag(lag) = does { lag } else { 0 });
        dice.between(500, 20_000) + lags.max().unwrap_or(0)
    }

    /// How long a sync takes.
    pub fn sync(&self, at: u64, dice: &Dice) -> u64 {
        let syncs = self.on(at, "").map(|does| if let Does::Sync(sync) = does { sync } else { 0 });
        dice.between(200, 3_000) + syncs.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_ends_and_strikes_whom_it_is_about() {
        let mut weather = Weather::default();
        let does = Does::Network { lost: 100, unanswered: 0, doubled: 0, delay: 0 };
        weather.add(Window { until: 10, room: Some("a".into()), does });
        let lost = |at, room: &str| weather.fate(at, room, &Dice::new(1)).lost;
        assert_eq!((lost(9, "a"), lost(9, "a#2"), lost(9, "b"), lost(10, "a")), (true, true, false, false));
    }
}
