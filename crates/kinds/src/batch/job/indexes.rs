//! Sets of indexes as Jobs write them: `1,3-5,7`.

/// Counts the indexes of a set; all must be below `completions` and in order. The error is upstream's sentence.
pub(crate) fn count(text: &str, completions: i64) -> Result<i64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    let (mut last, mut total) = (None, 0);
    for part in text.split(',') {
        let (first, end) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

fn interval(part: &str, completions: i64) -> Result<(i64, i64), String> {
    let (first, end) = match part.split('-').collect::<Vec<_>>()[..] {
        [one] => (one, None),
        [first, end] => (first, Some(end)),
        _ => {
            return Err(format!(
                "the fragment {part:?} violates the requirement that an index interval can have at most two parts \
                 separated by '-'"
            ));
        }
    };
    let start = index(first, completions)?;
    let Some(end) = end else { return Ok((start, start)) };
    let end = index(end, completions)?;
    if start >= end {
        return Err(format!("non-increasing order, previous: {start}, current: {end}"));
    }
    Ok((start, end))
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    }
}

/// The first index that stands in both sets. Malformed parts are passed over: they are reported elsewhere.
pub(crate) fn first_shared(a: &str, b: &str, completions: i64) -> Option<i64> {
    let parse = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (a, b) = (parse(a), parse(b));
    let (mut i, mut j) = (0, 0);
    while let (Some((start, end)), Some((other_start, other_end))) = (a.get(i), b.get(j)) {
        if start <= other_end && other_start <= end {
            return Some(*start.max(other_start));
        }
        if start <= other_start { i += 1 } else { j += 1 }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let check = |text: &str, expected: Result<i64, &str>| {
            assert_eq!(count(text, 10), expected.map_err(str::to_owned), "{text}");
        };
        check("", Ok(0));
        check("0,2-4,9", Ok(5));
        check("10", Err("too large index: \"10\""));
        check("3,2", Err("non-increasing order, previous: 3, current: 2"));
        check("4-4", Err("non-increasing order, previous: 4, current: 4"));
        check("x", Err("cannot convert string to integer for index: \"x\""));
        check(
            "1-2-3",
            Err("the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts \
                 separated by '-'"),
        );
        assert_eq!(first_shared("0-2,5", "3,4-6", 10), Some(5));
        assert_eq!(first_shared("0,2", "1,3", 10), None);
    }
}
