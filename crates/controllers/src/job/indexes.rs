//! Sets of completion indexes and their text form, `1,3-5,7`.

use std::collections::BTreeSet;

/// Indexes that a text may name: a job has fewer completions, and what the API lets through is bounded by text length.
const INDEXES_MAX: usize = 100_000;

/// Reads the text form; indexes from `completions` on and malformed parts are left out.
pub(super) fn parse(text: &str, completions: i64) -> BTreeSet<i64> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) else { continue };
        let room = INDEXES_MAX.saturating_sub(indexes.len());
        indexes.extend((first.max(0)..=last.min(completions - 1)).take(room));
    }
    indexes
}

/// The text form: ascending, runs of three and more as `first-last`, runs of two as `first,last`.
pub(super) fn format(indexes: &BTreeSet<i64>) -> String {
    let mut runs: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => runs.push((*index, *index)),
        }
    }
    let text = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        let check = |text: &str, completions: i64, written: &str| {
            assert_eq!(format(&parse(text, completions)), written, "{text}");
        };
        check("", 5, "");
        check("0", 5, "0");
        check("0-2,4", 9, "0-2,4");
        check("1,2", 9, "1,2");
        check("1-2", 9, "1,2");
        check("1,2,3", 9, "1-3");
        check("3-9", 5, "3,4");
        check("x,2-y,1", 5, "1");
        check("0-99999999999", 99_999_999_999, "0-99999");
    }
}
