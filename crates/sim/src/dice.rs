//! Choices that follow from a number: the same salt and the same question give the same answer, whatever else has been
//! asked before. So an entry taken out of a plan leaves the choices of the others alone, and plans shrink well.

use clock::{Ids, SeededIds};

/// A source of choices.
pub struct Dice(SeededIds);

impl Dice {
    /// The choices that belong to a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(SeededIds::new(seed ^ 0x5eed_5eed_0dd5_eed5))
    }

    /// The choices that belong to a question under a seed.
    pub fn about(seed: u64, question: &str, number: u64) -> Dice {
        Dice::new(fnv(fnv(seed ^ 0xcbf2_9ce4_8422_2325, question.as_bytes()), &number.to_le_bytes()))
    }

    /// Below `bound`; 0 when the bound is 0.
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.number() % bound }
    }

    /// From `low` to `high`, both included.
    pub fn between(&self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in `percent` of a hundred.
    pub fn percent(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// From `low` to `high`, small values as likely as large ones of the same order.
    pub fn logarithmic(&self, low: u64, high: u64) -> u64 {
        let span = (high.max(1) as f64 / low.max(1) as f64).ln();
        let share = self.below(1 << 20) as f64 / (1u64 << 20) as f64;
        ((low.max(1) as f64) * (span * share).exp()) as u64
    }

    /// One of several.
    pub fn pick<'t, T>(&self, of: &'t [T]) -> Option<&'t T> {
        of.get(self.below(of.len() as u64) as usize)
    }
}

/// FNV-1a, going on from `hash`.
pub fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_question_has_the_same_answer() {
        let ask = |seed, question, number| Dice::about(seed, question, number).below(1 << 40);
        assert_eq!(ask(1, "a", 2), ask(1, "a", 2));
        assert_ne!(ask(1, "a", 2), ask(1, "b", 2));
        assert_ne!(ask(1, "a", 2), ask(2, "a", 2));
    }

    #[test]
    fn bounds_hold() {
        let dice = Dice::new(7);
        for _ in 0..1_000 {
            assert!((3..=5).contains(&dice.between(3, 5)));
            assert!((10..=1_000).contains(&dice.logarithmic(10, 1_000)));
        }
        assert_eq!(dice.below(0), 0);
    }
}
