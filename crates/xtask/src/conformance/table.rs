//! The table of results: written, read, and compared with the committed one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::report::Outcome;
use super::tests::{Chosen, Stage, stage_of};

const HEADER: &str = "test\tresult\tseconds\tupstream_seconds\tline";

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The test's full name.
    pub test: String,
    /// The stage that adds it: the name of the file that holds it.
    pub stage: &'static str,
    /// `passed`, `failed` or another word of the suite's, `no result`, or `not run`.
    pub result: String,
    /// Seconds, and upstream's.
    pub seconds: Option<f64>,
    /// Upstream's seconds.
    pub upstream_s: Option<f64>,
    /// The first failing line, or why it was not run.
    pub line: String,
}

/// Rows of a run, in the order of the list.
pub fn rows(chosen: &[Chosen], outcomes: &BTreeMap<String, Outcome>) -> Vec<Row> {
    chosen.iter().map(|c| row(c, outcomes.get(&c.test.name))).collect()
}

fn row(chosen: &Chosen, outcome: Option<&Outcome>) -> Row {
    let (result, seconds, line) = match (&chosen.reason, outcome) {
        (Some(reason), _) => ("not run", None, reason.clone()),
        (None, Some(outcome)) => (outcome.state.as_str(), Some(outcome.seconds), outcome.line.clone()),
        (None, None) => ("no result", None, "the run ended before it".to_owned()),
    };
    let stage = file_of(stage_of(&chosen.test.class));
    let (test, upstream_s) = (chosen.test.name.clone(), chosen.test.upstream_s);
    Row { test, stage, result: result.to_owned(), seconds, upstream_s, line }
}

fn file_of(stage: Stage) -> &'static str {
    match stage {
        Stage::S1 => "s1",
        Stage::S2 => "s2",
        Stage::S3 => "s3",
        Stage::All => "later",
    }
}

/// `N passed, M failed`, and how many were not run.
pub fn summary(rows: &[Row]) -> String {
    let count = |result: &str| rows.iter().filter(|row| row.result == result).count();
    let (passed, not_run) = (count("passed"), count("not run"));
    let failed = rows.len() - passed - not_run;
    let tail = if not_run > 0 { format!(" ({not_run} not run)") } else { String::new() };
    format!("{passed} passed, {failed} failed{tail}")
}

/// The table for people: result, seconds, upstream's seconds and name; what failed, again, at its end.
pub fn render(rows: &[Row]) -> String {
    let mut text: String = rows.iter().map(render_row).collect();
    let failed = |row: &&Row| !matches!(row.result.as_str(), "passed" | "not run");
    for row in rows.iter().filter(failed) {
        let _ = writeln!(text, "FAILED     {}", row.test);
    }
    text
}

fn render_row(row: &Row) -> String {
    let seconds = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |s| format!("{s:.1}"));
    let (took, upstream) = (seconds(row.seconds), seconds(row.upstream_s));
    let reason = if row.line.is_empty() { String::new() } else { format!("{:27}{}\n", "", row.line) };
    format!("{:<9} {took:>7} {upstream:>7}  {}\n{reason}", row.result, row.test)
}

fn to_tsv(rows: &[Row]) -> String {
    let seconds = |value: Option<f64>| value.map_or_else(String::new, |s| format!("{s:.1}"));
    let line = |row: &Row| {
        let (took, upstream) = (seconds(row.seconds), seconds(row.upstream_s));
        format!("{}\t{}\t{took}\t{upstream}\t{}\n", row.test, row.result, row.line)
    };
    format!("{HEADER}\n{}", rows.iter().map(line).collect::<String>())
}

fn from_tsv(text: &str, stage: &'static str) -> Vec<Row> {
    let parse = |line: &str| {
        let mut columns = line.split('\t').map(str::to_owned);
        Some(Row {
            test: columns.next()?,
            stage,
            result: columns.next()?,
            seconds: columns.next()?.parse().ok(),
            upstream_s: columns.next()?.parse().ok(),
            line: columns.next()?,
        })
    };
    text.lines().skip(1).filter_map(parse).collect()
}

/// Writes one table.
pub fn write(path: &Path, rows: &[Row]) -> Result<(), String> {
    std::fs::write(path, to_tsv(rows)).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// The committed results, by name.
pub fn read_committed(folder: &Path) -> Result<BTreeMap<String, Row>, String> {
    let mut rows = BTreeMap::new();
    for stage in [Stage::S1, Stage::S2, Stage::S3].map(file_of) {
        let path = folder.join(stage).with_extension("tsv");
        match std::fs::read_to_string(&path) {
            Ok(text) => rows.extend(from_tsv(&text, stage).into_iter().map(|row| (row.test.clone(), row))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(format!("cannot read {}: {e}", path.display())),
        }
    }
    Ok(rows)
}

/// Replaces the committed results of the tests that ran.
pub fn write_committed(folder: &Path, committed: &BTreeMap<String, Row>, rows: &[Row]) -> Result<(), String> {
    let mut merged = committed.clone();
    let ran = rows.iter().filter(|row| row.result != "not run" || !committed.contains_key(&row.test));
    merged.extend(ran.map(|row| (row.test.clone(), row.clone())));
    for stage in [Stage::S1, Stage::S2, Stage::S3].map(file_of) {
        let of_stage: Vec<Row> = merged.values().filter(|row| row.stage == stage).cloned().collect();
        if !of_stage.is_empty() {
            write(&folder.join(stage).with_extension("tsv"), &of_stage)?;
        }
    }
    Ok(())
}

/// What differs from the committed results.
#[derive(Debug, Default, PartialEq)]
pub struct Differences {
    /// Tests that passed then and did not now.
    pub regressions: Vec<String>,
    /// Tests that pass now and did not, or were not in the table.
    pub gains: Vec<String>,
}

/// Compares. A test that was not run says nothing.
pub fn compare(committed: &BTreeMap<String, Row>, rows: &[Row]) -> Differences {
    let mut differences = Differences::default();
    for row in rows.iter().filter(|row| row.result != "not run") {
        let then = committed.get(&row.test).is_some_and(|row| row.result == "passed");
        match (then, row.result == "passed") {
            (true, false) => differences.regressions.push(row.test.clone()),
            (false, true) => differences.gains.push(row.test.clone()),
            _ => {}
        }
    }
    differences
}

impl Differences {
    /// One line a difference.
    pub fn render(&self) -> String {
        let lost = self.regressions.iter().map(|test| format!("REGRESSION {test}\n"));
        let gained = self.gains.iter().map(|test| format!("new pass   {test}\n"));
        lost.chain(gained).collect()
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    fn row_of(test: &str, result: &str) -> Row {
        let (test, result) = (test.to_owned(), result.to_owned());
        Row { test, stage: "s1", result, seconds: Some(1.0), upstream_s: None, line: String::new() }
    }

    fn check(then: &[(&str, &str)], now: &[(&str, &str)], regressions: &[&str], gains: &[&str], said: &str) {
        let committed = then.iter().map(|(t, r)| ((*t).to_owned(), row_of(t, r))).collect();
        let rows: Vec<Row> = now.iter().map(|(t, r)| row_of(t, r)).collect();
        let differences = compare(&committed, &rows);
        assert_eq!(differences.regressions, regressions);
        assert_eq!(differences.gains, gains);
        assert_eq!(summary(&rows), said);
    }

    #[test]
    fn regressions_and_gains() {
        check(&[], &[("x", "passed")], &[], &["x"], "1 passed, 0 failed");
        check(&[("x", "passed")], &[("x", "failed")], &["x"], &[], "0 passed, 1 failed");
        check(&[("x", "passed")], &[("x", "no result")], &["x"], &[], "0 passed, 1 failed");
        check(&[("x", "passed")], &[("x", "not run")], &[], &[], "0 passed, 0 failed (1 not run)");
        check(&[("x", "failed")], &[("x", "failed")], &[], &[], "0 passed, 1 failed");
    }

    #[test]
    fn failures_are_told_again_at_the_end() {
        let rows = [Row { line: "f.go:1: no".to_owned(), ..row_of("y", "failed") }, row_of("x", "passed")];
        let expected = [
            "failed        1.0       -  y",
            "                           f.go:1: no",
            "passed        1.0       -  x",
            "FAILED     y",
        ];
        assert_eq!(render(&rows).lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_table_survives_its_file() {
        let rows = vec![row_of("x", "passed"), Row { line: "f.go:1: no".to_owned(), ..row_of("y", "failed") }];
        assert_eq!(from_tsv(&to_tsv(&rows), "s1"), rows);
    }

    #[test]
    fn committed_results_are_replaced_by_what_ran() {
        let folder = tempfile::tempdir().unwrap();
        write_committed(folder.path(), &BTreeMap::new(), &[row_of("x", "failed"), row_of("y", "passed")]).unwrap();
        let committed = read_committed(folder.path()).unwrap();
        write_committed(folder.path(), &committed, &[row_of("x", "passed"), row_of("y", "not run")]).unwrap();
        let results = read_committed(folder.path()).unwrap();
        let got: Vec<_> = results.values().map(|row| (row.test.as_str(), row.result.as_str())).collect();
        assert_eq!(got, [("x", "passed"), ("y", "passed")]);
    }
}
