//! One run of upstream's test binary under ginkgo, against a server of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Args;
use super::report::{self, Outcome};
use super::tests::Chosen;
use crate::bench::server::{self, Server};

/// Two nodes: tests of scheduling and taints need them, and even tests of the API alone pick a node's name.
const NODES: &str = "2";
/// Seconds between compactions; 300 elsewhere. One test waits until a page's token expires.
const COMPACTION_S: &str = "60";
/// No run may take longer: upstream's own serial run of all tests takes two hours.
const RUN_MAX: &str = "3h";

/// Where the tools are.
struct Tools {
    bin: PathBuf,
}

impl Tools {
    /// Installs what is missing; a line per tool goes to the terminal.
    fn install() -> Result<Tools, String> {
        let mut command = Command::new("hack/tools.sh");
        let output = command.args(["kubectl137", "e2e137"]).stderr(Stdio::inherit()).output();
        let output = output.map_err(|e| format!("cannot run hack/tools.sh: {e}"))?;
        let bin = String::from_utf8_lossy(&output.stdout).lines().last().map(PathBuf::from);
        match bin {
            Some(bin) if output.status.success() => Ok(Tools { bin }),
            _ => Err("hack/tools.sh could not install the tests".to_owned()),
        }
    }
}

/// Runs the chosen tests that can run and returns what became of each.
pub fn run(chosen: &[Chosen], args: &Args, out: &Path) -> Result<BTreeMap<String, Outcome>, String> {
    let tools = Tools::install()?;
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => server::build()?,
    };
    let report = out.join("report.json");
    let _ = std::fs::remove_file(&report);
    let data = tempfile::tempdir().map_err(|e| e.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|e| e.to_string())?;
    let options = ["--simulated-nodes", NODES, "--compaction-interval", COMPACTION_S];
    let server =
        runtime.block_on(Server::start_logged(&binary, data.path(), &options, Some(&out.join("server.log"))))?;
    let names: Vec<&str> = chosen.iter().filter(|c| c.reason.is_none()).map(|c| c.test.name.as_str()).collect();
    println!("{} tests, {} at a time, against {} (logs in {})", names.len(), args.procs, server.address, out.display());
    let mut ginkgo = command(&tools, &names, args.procs, &data.path().join("kubeconfig"), out);
    follow(&mut ginkgo, names.len(), &out.join("suite.log"))?;
    report::read(&report)
}

fn command(tools: &Tools, names: &[&str], procs: usize, kubeconfig: &Path, out: &Path) -> Command {
    let mut command = Command::new(tools.bin.join("ginkgo"));
    command
        .arg(format!("--procs={procs}"))
        .args(["-v", "--no-color", "--keep-going", "--label-filter=Conformance", "--json-report=report.json"])
        .arg(format!("--timeout={RUN_MAX}"))
        .arg(format!("--output-dir={}", out.display()))
        .arg(format!("--focus={}", focus(names)))
        .arg(tools.bin.join("e2e-1.37.test"))
        .arg("--")
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--kubectl-path={}", tools.bin.join("kubectl-1.37").display()))
        .arg(format!("--num-nodes={NODES}"))
        .args(["--provider=skeleton", "--disable-log-dump", "--allowed-not-ready-nodes=-1"])
        .env_remove("KUBECONFIG")
        .current_dir(out);
    command
}

/// One expression that matches these names and no others.
fn focus(names: &[&str]) -> String {
    let escaped: Vec<String> = names.iter().map(|name| escape(name)).collect();
    format!("({})$", escaped.join("|"))
}

fn escape(name: &str) -> String {
    let quote = |c: char| match c {
        '\\' | '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => format!("\\{c}"),
        _ => c.to_string(),
    };
    name.chars().map(quote).collect()
}

/// Runs it, keeps its output in `log` and says how far it is.
fn follow(command: &mut Command, count: usize, log: &Path) -> Result<(), String> {
    let mut file = File::create(log).map_err(|e| format!("cannot create {}: {e}", log.display()))?;
    let errors = file.try_clone().map_err(|e| e.to_string())?;
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
    let mut child = spawned.map_err(|e| format!("cannot start ginkgo: {e}"))?;
    let (mut done, mut ended) = (0, None);
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).map_err(|e| e.to_string())? > 0 {
        file.write_all(&line).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        let text = String::from_utf8_lossy(&line);
        if let Some(verdict) = ended.take() {
            done += 1;
            println!("{done}/{count} {verdict} {}", name(&text));
        }
        ended = verdict(&text).map(str::to_owned);
        line.clear();
    }
    // Its exit code says whether all passed, which the report says better.
    child.wait().map_err(|e| e.to_string())?;
    Ok(())
}

/// The line that ends one test, such as `• [2.1 seconds]` or `• [FAILED] [0.5 seconds]`.
fn verdict(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix("• ").filter(|rest| rest.starts_with('[') && rest.ends_with("seconds]"))
}

/// The name in the line after that; labels follow it.
fn name(line: &str) -> &str {
    line.rfind(" [").map_or(line, |at| &line[..at]).trim_end()
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn names_are_matched_literally() {
        assert_eq!(focus(&["[sig-x] a (b) 0.5", "c"]), r"(\[sig-x\] a \(b\) 0\.5|c)$");
    }

    #[test]
    fn ends_of_tests_are_seen() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(verdict(line), expected);
        check("• [2.100 seconds]\n", Some("[2.100 seconds]"));
        check("• [FAILED] [0.5 seconds]\n", Some("[FAILED] [0.5 seconds]"));
        check("  STEP: waits [2 seconds]\n", None);
        assert_eq!(name("[sig-x] A works [Conformance] [sig-x, Conformance]\n"), "[sig-x] A works [Conformance]");
    }
}
