//! What the server knows of the objects: drift, blame, history, fights, and why something is not as it should be.

use std::collections::BTreeMap;
use std::time::Duration;

use meta::ObjectExt;
use planner::{Blame, Class, Diagnosis, DriftReport, Fight, FightReport, Past, Reference, text};
use serde_json::{Value, json};

use crate::api::{Api, Refused};
use crate::manifest;
use crate::planning::{Stopped, Wish, WishArgs, carry_out, placed};
use crate::reach::{Form, ObjectArgs, ReachArgs, find};
use crate::report::{CommandError, Ended};

/// How often objects are looked at while they are waited for.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Options of `drift`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DriftArgs {
    #[command(subcommand)]
    pub command: Option<DriftCommand>,
    #[command(flatten)]
    pub wish: WishArgs,
    /// Make it as declared again: plan that, ask, and do it.
    #[arg(long)]
    pub fix: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// How to print.
    #[arg(short = 'o', long, value_enum, default_value_t = Form::Text)]
    pub output: Form,
}

/// What else to do about drift.
#[derive(Debug, clap::Subcommand)]
pub enum DriftCommand {
    /// Say that the drift of one field is known: it raises no exit code for a while.
    Ack(AckArgs),
}

/// Options of `drift ack`.
#[derive(Debug, clap::Args)]
pub struct AckArgs {
    /// KIND/NAME, as kubectl takes it.
    pub object: String,
    /// The field, as drift prints it.
    pub field: String,
    /// For how long: 90m, 12h, 7d.
    #[arg(long = "for", value_name = "DURATION", default_value = "7d")]
    pub span: String,
    /// Its namespace.
    #[arg(short = 'n', long, default_value = "default")]
    pub namespace: String,
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Runs `drift ack`.
async fn acknowledge(args: &AckArgs) -> Result<Ended, CommandError> {
    let bad = || Stopped(format!("{:?} is no duration: say 90m, 12h or 7d", args.span));
    let (number, unit) = args.span.split_at(args.span.len().saturating_sub(1));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(bad().into()),
    };
    let span = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)).ok_or_else(bad)?;
    let until = clock::Clock::now(&clock::SystemClock::new()).after(Duration::from_secs(span)).to_rfc3339();
    let api = args.reach.open()?;
    let about = find(&api, &args.object, &args.namespace).await?;
    let named = about.manifest();
    let live = api.get(&api.address(&named).await?).await?;
    let known = live.annotation(planner::ACKNOWLEDGED).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut known = known.filter(Value::is_object).unwrap_or_else(|| json!({}));
    known[args.field.as_str()] = json!(until);
    api.annotate(&named, planner::ACKNOWLEDGED, &known.to_string()).await?;
    println!("{} {}: known until {until}", text::title(&about), args.field);
    Ok(Ended::Well)
}

/// Options of `fights`.
#[derive(Debug, clap::Args)]
pub struct FightsArgs {
    /// Only in this namespace.
    #[arg(short = 'n', long, default_value = "")]
    pub namespace: String,
    #[command(flatten)]
    pub reach: ReachArgs,
    /// How to print.
    #[arg(short = 'o', long, value_enum, default_value_t = Form::Text)]
    pub output: Form,
}

/// Options of `wait`.
#[derive(Debug, clap::Args)]
pub struct WaitArgs {
    /// KIND/NAME, several if need be.
    pub objects: Vec<String>,
    /// File or directory of manifests whose objects are waited for.
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    pub files: Vec<std::path::PathBuf>,
    /// Namespace of the objects that are named.
    #[arg(short = 'n', long, default_value = "default")]
    pub namespace: String,
    /// Seconds to wait.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub timeout: u64,
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// What to do about a rollout.
#[derive(Debug, clap::Subcommand)]
pub enum RolloutCommand {
    /// Wait until it is complete, and say why not: the same as `wait`, by the name that kubectl has for it.
    Status(WaitArgs),
}

fn as_json(kind: &str, mut value: Value) -> Result<(), CommandError> {
    value.put(&["apiVersion"], planner::API_VERSION);
    value.put(&["kind"], kind);
    println!("{}", serde_json::to_string_pretty(&value)?);
    Ok(())
}

/// Runs `drift`. Drift has an exit code of its own.
pub(crate) async fn drift(args: &DriftArgs) -> Result<Ended, CommandError> {
    if let Some(DriftCommand::Ack(args)) = &args.command {
        return acknowledge(args).await;
    }
    let api = args.wish.reach.open()?;
    let objects = manifest::read_all(&args.wish.files)?;
    if objects.is_empty() {
        return Err(Stopped("nothing is declared: name manifests with -f".to_owned()).into());
    }
    let answer = api.ask("Drift", "drifts", json!({"objects": objects, "fieldManager": "setpoint"})).await?;
    let report: DriftReport = serde_json::from_value(answer.clone())?;
    match args.output {
        Form::Json => as_json("Drift", answer)?,
        Form::Text => tell_drift(&report),
    }
    if args.fix && report.has_drifted() {
        let wish = Wish { force: true, ..Wish::of(&api, &args.wish).await? };
        let plan = wish.plan(&api).await?;
        carry_out(&api, &wish, plan, args.yes).await?;
        return Ok(Ended::Well);
    }
    Ok(if report.has_drifted() { Ended::Changes } else { Ended::Well })
}

fn tell_drift(report: &DriftReport) {
    for object in &report.objects {
        let title = text::title(&object.object);
        match (object.missing, &*object.refused) {
            (true, _) => println!("{title} is missing"),
            (false, "") => println!("{title}"),
            (false, why) => println!("{title} cannot be compared: {why}"),
        }
        for field in &object.fields {
            let shown = |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), text::value);
            println!("  {}: declared {}, is {}", field.path, shown(&field.declared), shown(&field.live));
            let by = match (&*field.user, &*field.manager) {
                ("", "") => String::new(),
                ("", manager) => format!(" by {manager}"),
                (user, manager) => format!(" by {user} with {manager} ({}) at {}", field.verb, field.time),
            };
            println!("    {}{by}", class_text(field.class));
        }
    }
    let drifted = report.objects.len();
    println!("{} objects compared, {drifted} differ", report.compared);
}

fn class_text(class: Class) -> &'static str {
    match class {
        Class::EditedByHand => "edited by hand",
        Class::AnotherManager => "written by another manager",
        Class::Autoscaler => "chosen by an autoscaler, no drift",
        Class::Defaulting => "filled in by the server",
        Class::NotYetApplied => "declared but not applied yet",
        Class::Acknowledged => "known",
    }
}

async fn ask_about(args: &ObjectArgs, kind: &str, plural: &str) -> Result<Value, CommandError> {
    let api = args.reach.open()?;
    let object = find(&api, &args.object, &args.namespace).await?;
    Ok(api.ask(kind, plural, json!({"object": object})).await?)
}

/// Runs `blame`.
pub(crate) async fn blame(args: &ObjectArgs) -> Result<Ended, CommandError> {
    let answer = ask_about(args, "Blame", "blames").await?;
    if args.output == Form::Json {
        as_json("Blame", answer)?;
        return Ok(Ended::Well);
    }
    let blame: Blame = serde_json::from_value(answer)?;
    let width = blame.fields.iter().map(|row| owner_text(row).chars().count()).max().unwrap_or(0);
    for row in &blame.fields {
        let last = row.last.as_ref().filter(|last| !last.path.is_empty());
        let before = last.and_then(|last| last.old.as_ref()).map(|old| format!("  (was {})", text::value(old)));
        let (owner, before) = (owner_text(row), before.unwrap_or_default());
        println!("{owner:width$}  {}: {}{before}", row.path, text::value(&row.value));
    }
    Ok(Ended::Well)
}

/// `kubectl-edit  2026-11-30T10:00:00Z`: who stands beside a field.
fn owner_text(row: &planner::BlameRow) -> String {
    let names: Vec<&str> = row.owners.iter().map(|owner| &*owner.manager).collect();
    let names = if names.is_empty() { "(default)".to_owned() } else { names.join(",") };
    let time = row
        .last
        .as_ref()
        .map_or_else(|| row.owners.iter().map(|owner| &*owner.time).max().unwrap_or(""), |last| &*last.time);
    format!("{names}  {time}")
}

/// Runs `history`.
pub(crate) async fn history(args: &ObjectArgs) -> Result<Ended, CommandError> {
    let answer = ask_about(args, "Blame", "blames").await?;
    let blame: Blame = serde_json::from_value(answer)?;
    if args.output == Form::Json {
        as_json("History", json!({"object": blame.object, "history": blame.history}))?;
        return Ok(Ended::Well);
    }
    for past in &blame.history {
        println!("{}", past_text(past));
    }
    Ok(Ended::Well)
}

fn past_text(past: &Past) -> String {
    let shown = |value: &Option<Value>| value.as_ref().map_or("absent".to_owned(), text::value);
    let Past { path, manager, user, verb, time, old, new, .. } = past;
    match &**path {
        "" => format!("{time}  created by {user} with {manager}"),
        path => format!("{time}  {path}: {} -> {}  by {user} with {manager} ({verb})", shown(old), shown(new)),
    }
}

/// Runs `fights`.
pub(crate) async fn fights(args: &FightsArgs) -> Result<Ended, CommandError> {
    let api = args.reach.open()?;
    let answer = api.ask("FightReport", "fightreports", json!({"namespace": args.namespace})).await?;
    let report: FightReport = serde_json::from_value(answer.clone())?;
    match args.output {
        Form::Json => as_json("FightReport", answer)?,
        Form::Text => tell_fights(&report),
    }
    Ok(if report.fights.is_empty() { Ended::Well } else { Ended::Changes })
}

fn tell_fights(report: &FightReport) {
    for Fight { object, path, sides, rounds, period_seconds, since, .. } in &report.fights {
        println!("{} {path}: {rounds} rounds since {since}, one every {period_seconds:.1} s", text::title(object));
        for side in sides {
            let value = side.value.as_ref().map_or("(not shown)".to_owned(), text::value);
            println!("  {} ({}) writes {value} by {}", side.manager, side.user, side.verb);
        }
    }
    for risk in &report.risks {
        println!("{} {}: {} ({})", text::title(&risk.object), risk.path, risk.message, risk.parties.join(", "));
    }
    if report.fights.is_empty() && report.risks.is_empty() {
        println!("nobody fights");
    }
}

/// Runs `why`.
pub(crate) async fn why(args: &ObjectArgs) -> Result<Ended, CommandError> {
    let answer = ask_about(args, "Diagnosis", "diagnoses").await?;
    let diagnosis: Diagnosis = serde_json::from_value(answer.clone())?;
    match args.output {
        Form::Json => as_json("Diagnosis", answer)?,
        Form::Text => println!("{}", diagnosis_text(&diagnosis)),
    }
    Ok(ended(&diagnosis))
}

fn ended(diagnosis: &Diagnosis) -> Ended {
    let is_over = diagnosis.cause.as_ref().is_some_and(|cause| !cause.retrying);
    match &*diagnosis.state {
        "converged" => Ended::Well,
        "failed" => Ended::Terminal,
        _ if is_over => Ended::Terminal,
        _ => Ended::Changes,
    }
}

/// The answer to why, for people.
fn diagnosis_text(diagnosis: &Diagnosis) -> String {
    let title = text::title(&diagnosis.object);
    let Some(cause) = &diagnosis.cause else {
        let message = if diagnosis.message.is_empty() { String::new() } else { format!(": {}", diagnosis.message) };
        let state = if diagnosis.state == "converged" {
            "is as it should be".to_owned()
        } else {
            format!("is {}", diagnosis.state)
        };
        return format!("{title} {state}{message}");
    };
    let count = if cause.of > 1 { format!("{} of {}: ", cause.count, cause.of) } else { String::new() };
    let retrying = if cause.retrying { "it is tried again" } else { "it stays so until something is changed" };
    let way: Vec<String> = diagnosis.chain.iter().map(text::title).collect();
    let mut lines = vec![format!("{title} is not as it should be: {}", diagnosis.message)];
    if way.len() > 1 {
        lines.push(format!("  {}", way.join(" > ")));
    }
    lines.push(format!("  {count}{}: {}", cause.reason, cause.message));
    lines.push(format!("  {retrying}; next: {}", cause.next));
    lines.join("\n")
}

/// Runs `wait`.
pub(crate) async fn wait(args: &WaitArgs) -> Result<Ended, CommandError> {
    let api = args.reach.open()?;
    let mut about: Vec<Reference> = manifest::read_all(&args.files)?.iter().map(placed).collect();
    for typed in &args.objects {
        about.push(find(&api, typed, &args.namespace).await?);
    }
    if about.is_empty() {
        return Err(Stopped("nothing to wait for: name objects, or manifests with -f".to_owned()).into());
    }
    wait_for(&api, &about, Duration::from_secs(args.timeout)).await
}

/// How objects come to be, told as it changes.
struct Progress<'o> {
    about: &'o [Reference],
    told: BTreeMap<&'o Reference, String>,
    begun: tokio::time::Instant,
}

impl<'o> Progress<'o> {
    fn of(about: &'o [Reference]) -> Progress<'o> {
        Progress { about, told: BTreeMap::new(), begun: tokio::time::Instant::now() }
    }

    /// Looks at all of them once, and tells what is new.
    async fn look(&mut self, api: &Api) -> Result<Vec<Ended>, Refused> {
        let mut states = Vec::new();
        for object in self.about {
            let diagnosis = look(api, object).await?;
            let line = diagnosis_text(&diagnosis);
            if self.told.get(object) != Some(&line) {
                println!("{:>6.1}s  {line}", self.begun.elapsed().as_secs_f64());
                self.told.insert(object, line);
            }
            states.push(ended(&diagnosis));
        }
        Ok(states)
    }
}

/// Shows how objects come to be until all of them are there, one cannot get there, or the time is over.
pub(crate) async fn wait_for(api: &Api, about: &[Reference], timeout: Duration) -> Result<Ended, CommandError> {
    let mut progress = Progress::of(about);
    loop {
        let states = progress.look(api).await?;
        if states.iter().all(|state| *state == Ended::Well) {
            return Ok(Ended::Well);
        }
        if states.contains(&Ended::Terminal) {
            return Ok(Ended::Terminal);
        }
        if progress.begun.elapsed() > timeout {
            return Ok(Ended::Changes);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Shows how objects come to be until waiting changes nothing more for any of them.
pub(crate) async fn follow(api: &Api, about: &[Reference]) -> Result<(), CommandError> {
    let mut progress = Progress::of(about);
    while progress.look(api).await?.contains(&Ended::Changes) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

async fn look(api: &Api, object: &Reference) -> Result<Diagnosis, Refused> {
    let progressing = |message: String| Diagnosis {
        object: object.clone(),
        state: "progressing".to_owned(),
        message,
        cause: None,
        chain: Vec::new(),
    };
    match api.ask("Diagnosis", "diagnoses", json!({"object": object})).await {
        Ok(answer) => serde_json::from_value(answer)
            .map_err(|error| Refused { reason: String::new(), message: error.to_string() }),
        Err(refused) if refused.reason == "NotFound" => Ok(progressing("it is not there yet".to_owned())),
        Err(refused) => Err(refused),
    }
}
