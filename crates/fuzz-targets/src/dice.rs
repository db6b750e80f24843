//! A small generator of numbers and of broken inputs, for the ordinary tests: libFuzzer has better ones.

/// Numbers that look random and are the same in every run.
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `below`; 0 when that is 0.
    pub fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0).checked_rem(below).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.below(256).to_le_bytes()[0]
    }

    /// One of the inputs, broken in one to four places.
    pub fn broken(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut input = inputs.get(self.below(inputs.len())).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.break_once(&mut input, inputs);
        }
        input
    }

    fn break_once(&mut self, input: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        const MARKS: &[u8] = b"{}[]\",:\n\\/.$-+0919eE%=!<>()'\x00\xff\x80";
        let at = self.below(input.len() + 1);
        match self.below(6) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.byte(),
            2 => input.truncate(at),
            3 => input.insert(at, MARKS[self.below(MARKS.len())]),
            4 => {
                let until = (at + self.below(16)).min(input.len());
                let piece = input[at..until].to_vec();
                input.splice(at..at, piece);
            }
            _ => {
                let other = inputs.get(self.below(inputs.len())).map_or(&[][..], Vec::as_slice);
                let from = self.below(other.len());
                let until = (from + self.below(32)).min(other.len());
                input.splice(at..at, other[from..until].iter().copied());
            }
        }
    }
}
