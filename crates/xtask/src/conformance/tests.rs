//! The list of tests: what each needs, and which a stage runs.

use std::path::Path;

use clap::ValueEnum;

/// A share of the suite. Each includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Stage {
    /// The API alone.
    S1,
    /// Controllers; pods need not run.
    S2,
    /// Pods whose containers are simulated.
    S3,
    /// Every test; those that need containers are listed, not run.
    All,
}

/// One conformance test.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// What it needs: the table in docs/conformance.md.
    pub class: String,
    /// Its full name, as the suite reports it.
    pub name: String,
    /// Seconds it takes against upstream's own servers, where known.
    pub upstream_s: Option<f64>,
    /// Why it cannot pass on simulated nodes, or empty.
    pub not_run: String,
}

/// What is asked for.
pub struct Selection<'a> {
    /// The stage.
    pub stage: Stage,
    /// Texts of which a name contains one; none means every name.
    pub focus: &'a [String],
    /// Texts of which a name contains none.
    pub skip: &'a [String],
}

/// A test of the selection.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The test.
    pub test: Test,
    /// Why it is not run.
    pub reason: Option<String>,
}

/// Reads the list.
pub fn read(path: &Path) -> Result<Vec<Test>, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Test>, String> {
    let lines = text.lines().enumerate().skip(1).filter(|(_, line)| !line.is_empty());
    lines.map(|(at, line)| parse_line(line).ok_or(format!("tests.tsv:{}: four columns are needed", at + 1))).collect()
}

fn parse_line(line: &str) -> Option<Test> {
    let mut columns = line.split('\t');
    let test = Test {
        class: columns.next()?.to_owned(),
        name: columns.next()?.to_owned(),
        upstream_s: columns.next()?.parse().ok(),
        not_run: columns.next()?.to_owned(),
    };
    columns.next().is_none().then_some(test)
}

/// The tests of a selection, each with the reason if it is not run.
pub fn select(all: &[Test], selection: &Selection) -> Vec<Chosen> {
    let contains_one = |name: &str, texts: &[String]| texts.iter().any(|text| name.contains(text.as_str()));
    let wanted = |test: &&Test| {
        stage_of(&test.class) <= selection.stage
            && (selection.focus.is_empty() || contains_one(&test.name, selection.focus))
    };
    let choose = |test: &Test| {
        let left_out = contains_one(&test.name, selection.skip).then(|| "left out by --skip".to_owned());
        Chosen { test: test.clone(), reason: left_out.or_else(|| cannot_run(test)) }
    };
    all.iter().filter(wanted).map(choose).collect()
}

/// The first stage that runs a class.
pub fn stage_of(class: &str) -> Stage {
    match class {
        "a" => Stage::S1,
        "b" => Stage::S2,
        "c-fake" | "f-fake" => Stage::S3,
        _ => Stage::All,
    }
}

/// Why simulated nodes are not enough for a test.
fn cannot_run(test: &Test) -> Option<String> {
    if !test.not_run.is_empty() {
        return Some(test.not_run.clone());
    }
    let reason = match test.class.as_str() {
        "a" | "b" | "c-fake" | "f-fake" => return None,
        "h" => "needs a pod that the server dials",
        "e" => "needs volumes in running containers",
        "d" => "needs the data plane of Services, or DNS",
        _ => "needs running containers",
    };
    Some(reason.to_owned())
}

#[cfg(test)]
mod checks {
    use super::*;

    const LIST: &str =
        "class\ttest\tupstream_seconds\tnot_run\na\tone\t0.5\t\nb\ttwo\t\t\nc-fake\tthree\t1\tneeds x\nd\tfour\t\t\n";

    fn check(stage: Stage, focus: &[&str], skip: &[&str], expected: &[(&str, Option<&str>)]) {
        let all = parse(LIST).unwrap();
        let own = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let chosen = select(&all, &Selection { stage, focus: &own(focus), skip: &own(skip) });
        let got: Vec<_> = chosen.iter().map(|c| (c.test.name.as_str(), c.reason.as_deref())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn stages_include_those_before() {
        check(Stage::S1, &[], &[], &[("one", None)]);
        check(Stage::S2, &[], &[], &[("one", None), ("two", None)]);
        check(Stage::S3, &["o"], &[], &[("one", None), ("two", None)]);
        check(Stage::S3, &["three"], &[], &[("three", Some("needs x"))]);
    }

    #[test]
    fn what_does_not_run_says_why() {
        check(Stage::All, &["four"], &[], &[("four", Some("needs the data plane of Services, or DNS"))]);
        check(Stage::S1, &[], &["one"], &[("one", Some("left out by --skip"))]);
    }

    #[test]
    fn a_line_has_four_columns() {
        assert_eq!(parse("x\na\tb\tc\n"), Err("tests.tsv:2: four columns are needed".to_owned()));
    }

    #[test]
    fn the_list_is_whole() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/tests.tsv");
        let all = read(&path).unwrap();
        assert_eq!(all.len(), 462);
        let upto = |stage| all.iter().filter(|t| stage_of(&t.class) <= stage).count();
        assert_eq!((upto(Stage::S1), upto(Stage::S2), upto(Stage::S3)), (117, 152, 223));
        let names: std::collections::BTreeSet<_> = all.iter().map(|t| &t.name).collect();
        assert_eq!(names.len(), all.len());
    }
}
