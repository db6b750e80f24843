//! `setpoint plan` and `setpoint apply`: see before you act, then do exactly that or stop.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use meta::ObjectExt;
use planner::{Action, Change, Plan, Reference};
use serde_json::{Value, json};

use crate::api::{Api, Refused};
use crate::inventory::Inventory;
use crate::manifest;
use crate::plan_file::PlanFile;
use crate::reach::{Form, ReachArgs};
use crate::report::{CommandError, Ended};
use crate::reports;

/// How long an object may be refused for want of another (its kind, its service account) that is just being made.
const WANT_MAX: Duration = Duration::from_secs(15);
/// How long a replaced object may take to go.
const GONE_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often an object may be written by others between plan and apply before apply gives up.
const ATTEMPTS_MAX: usize = 10;

/// What is declared, and how it is to be taken.
#[derive(Debug, clap::Args)]
pub struct WishArgs {
    /// File or directory of manifests (YAML or JSON); - reads standard input; may be given several times.
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Take fields that other managers own.
    #[arg(long)]
    pub force_conflicts: bool,
    /// Delete and make anew what cannot be changed in place.
    #[arg(long)]
    pub replace: bool,
    /// Delete what an earlier apply with the same inventory declared and these files do not.
    #[arg(long)]
    pub prune: bool,
    /// Name of the inventory, a ConfigMap in the namespace 'default'.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub inventory: String,
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Options of `plan`.
#[derive(Debug, clap::Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub wish: WishArgs,
    /// Keep the plan for 'apply --plan' (mode 0600; secret values are left out).
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 2 when there are changes.
    #[arg(long)]
    pub detailed_exitcode: bool,
    /// How to print.
    #[arg(short = 'o', long, value_enum, default_value_t = Form::Text)]
    pub output: Form,
}

/// Options of `apply`.
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    pub wish: WishArgs,
    /// Perform a plan that was kept, and nothing else.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "force_conflicts", "replace", "prune"])]
    pub plan: Option<PathBuf>,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Do not wait until everything is as declared.
    #[arg(long)]
    pub no_wait: bool,
    /// Seconds to wait for that.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub timeout: u64,
}

/// What is wished, as it is sent.
pub(crate) struct Wish {
    pub objects: Vec<Value>,
    /// Objects put in the place of live ones as they are.
    pub updates: Vec<Value>,
    pub deletions: Vec<Reference>,
    pub force: bool,
    pub replace: bool,
    pub inventory: Option<Inventory>,
}

/// Something in the way of a plan.
#[derive(Debug)]
pub(crate) struct Stopped(pub String);

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Stopped {}

impl Wish {
    pub(crate) async fn of(api: &Api, args: &WishArgs) -> Result<Wish, CommandError> {
        let objects = manifest::read_all(&args.files)?;
        let mut wish = Wish {
            objects,
            updates: Vec::new(),
            deletions: Vec::new(),
            force: args.force_conflicts,
            replace: args.replace,
            inventory: None,
        };
        if wish.objects.is_empty() {
            let message = if args.prune {
                "nothing is declared, and nothing is pruned because of an empty set"
            } else {
                "nothing is declared: name manifests with -f"
            };
            return Err(Stopped(message.to_owned()).into());
        }
        if args.prune {
            let inventory = Inventory::read(api, &args.inventory).await?;
            wish.deletions = inventory.no_longer_in(&wish.objects);
            wish.inventory = Some(inventory);
        }
        Ok(wish)
    }

    /// Asks the server what would happen.
    pub(crate) async fn plan(&self, api: &Api) -> Result<Plan, CommandError> {
        let spec = json!({"objects": self.objects, "updates": self.updates, "deletions": self.deletions, "fieldManager": "setpoint",
            "force": self.force, "replace": self.replace});
        let status = api.ask("Plan", "plans", spec).await?;
        Ok(serde_json::from_value(status)?)
    }
}

/// Runs `plan`.
pub(crate) async fn plan(args: &PlanArgs) -> Result<Ended, CommandError> {
    let api = args.wish.reach.open()?;
    let wish = Wish::of(&api, &args.wish).await?;
    let plan = wish.plan(&api).await?;
    print(&plan, args.output)?;
    if let Some(path) = &args.out {
        PlanFile::of(&api, &wish, &plan, &args.wish.files).await?.write(path)?;
        eprintln!("kept in {}; perform it with: setpoint apply --plan {}", path.display(), path.display());
    }
    Ok(match (plan.summary().refused, plan.is_empty()) {
        (0, true) => Ended::Well,
        (0, false) if args.detailed_exitcode => Ended::Changes,
        (0, false) => Ended::Well,
        _ => Ended::Failed,
    })
}

fn print(plan: &Plan, form: Form) -> Result<(), CommandError> {
    match form {
        Form::Text => print!("{}", planner::text::render(plan)),
        Form::Json => {
            let mut value = serde_json::to_value(plan)?;
            value.put(&["apiVersion"], planner::API_VERSION);
            value.put(&["kind"], "Plan");
            println!("{}", serde_json::to_string_pretty(&value)?);
        }
    }
    Ok(())
}

/// Runs `apply`.
pub(crate) async fn apply(args: &ApplyArgs) -> Result<Ended, CommandError> {
    let api = args.wish.reach.open()?;
    let (wish, plan) = match &args.plan {
        None => {
            let wish = Wish::of(&api, &args.wish).await?;
            let plan = wish.plan(&api).await?;
            (wish, plan)
        }
        Some(path) => {
            let (wish, planned) = PlanFile::read(path)?.open(&api).await?;
            let now = wish.plan(&api).await?;
            still_holds(&planned, &now)?;
            (wish, now)
        }
    };
    carry_out(&api, &wish, plan, args.yes).await?;
    if args.no_wait {
        return Ok(Ended::Well);
    }
    let about: Vec<Reference> = wish.objects.iter().map(placed).collect();
    reports::wait_for(&api, &about, Duration::from_secs(args.timeout)).await
}

/// Shows a plan, asks, and does what it says.
pub(crate) async fn carry_out(api: &Api, wish: &Wish, plan: Plan, yes: bool) -> Result<(), CommandError> {
    print(&plan, Form::Text)?;
    if plan.summary().refused > 0 {
        return Err(
            Stopped("the plan cannot be performed: see what would be refused; nothing was written".to_owned()).into()
        );
    }
    if !plan.is_empty() && !yes && !agreed()? {
        return Err(Stopped("not agreed; nothing was written".to_owned()).into());
    }
    if let Some(inventory) = &wish.inventory {
        // Before the first write: what is made must be known, whatever happens then.
        inventory.write(api, &inventory.with(&wish.objects)).await?;
    }
    perform(api, wish, plan).await?;
    if let Some(inventory) = &wish.inventory {
        inventory.write(api, &Inventory::references(&wish.objects)).await?;
    }
    Ok(())
}

/// The object's own words, with the namespace that is meant when none is said.
pub(crate) fn placed(object: &Value) -> Reference {
    let mut about = Reference::of(object);
    let known = object.gvk().and_then(|gvk| kinds::Catalog::built_in().kind(&gvk).cloned());
    match known {
        Some(kind) if !kind.is_namespaced() => about.namespace.clear(),
        Some(_) if about.namespace.is_empty() => about.namespace = "default".to_owned(),
        _ => {}
    }
    about
}

fn agreed() -> Result<bool, CommandError> {
    if !std::io::stdin().is_terminal() {
        return Err(Stopped("nobody can be asked here: agree with --yes; nothing was written".to_owned()).into());
    }
    print!("\nPerform these actions? Only 'yes' is taken for an answer: ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// A kept plan holds as long as it would do the same to every declared object, and makes nothing else go away.
fn still_holds(planned: &Plan, now: &Plan) -> Result<(), CommandError> {
    let differences = moved(&planned.essence(), &now.essence());
    if !differences.is_empty() {
        let told = differences.join("\n");
        return Err(Stopped(format!("the world has moved since the plan was made; nothing was written\n{told}")).into());
    }
    let lost = now.losses();
    let new: Vec<_> =
        lost.difference(&planned.losses()).map(|(kind, namespace, _)| format!("{kind} in {namespace}")).collect();
    if !new.is_empty() {
        let message = format!("more would go away than was planned ({}); nothing was written", new.join(", "));
        return Err(Stopped(message).into());
    }
    Ok(())
}

/// Planned against now, object by object and field by field.
fn moved(planned: &[Change], now: &[Change]) -> Vec<String> {
    let mut lines = Vec::new();
    let about = |all: &[Change], object: &Reference| all.iter().find(|change| change.object == *object).cloned();
    let mut objects: Vec<&Reference> = planned.iter().chain(now).map(|change| &change.object).collect();
    objects.sort();
    objects.dedup();
    for object in objects {
        let (then, today) = (about(planned, object), about(now, object));
        if then == today {
            continue;
        }
        lines.push(format!("  {}:", planner::text::title(object)));
        for (word, change) in [("planned", then), ("now", today)] {
            let Some(change) = change else {
                lines.push(format!("    {word:>7}: as declared"));
                continue;
            };
            let fate = serde_json::to_value(change.action).unwrap_or_default();
            lines.push(format!("    {word:>7}: {} {}", fate.as_str().unwrap_or(""), change.reason));
            lines
                .extend(change.fields.iter().map(|field| format!("             {}", planner::text::field_line(field))));
        }
    }
    lines
}

/// Does what the plan says, object by object, each on the very revision that the plan saw. When somebody else writes an
/// object meanwhile, the rest is planned anew, and done only if it is still the same.
async fn perform(api: &Api, wish: &Wish, mut plan: Plan) -> Result<(), CommandError> {
    let order: Vec<Reference> = plan.changes.iter().map(|change| change.object.clone()).collect();
    let declared = Declared::of(wish);
    for object in order {
        let mut attempts = 0;
        while let Some(change) = plan.changes.iter().find(|change| change.object == object).cloned() {
            match step(api, wish, &declared, &change).await {
                Ok(()) => break,
                Err(refused) if matches!(&*refused.reason, "Conflict" | "AlreadyExists") && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    let now = wish.plan(api).await?;
                    let rest = |plan: &Plan| -> Vec<Change> {
                        plan.essence().into_iter().filter(|change| change.object == object).collect()
                    };
                    let differences = moved(&rest(&plan), &rest(&now));
                    if !differences.is_empty() {
                        let told = differences.join("\n");
                        return Err(Stopped(format!(
                            "the world has moved while the plan was performed; stopped\n{told}"
                        ))
                        .into());
                    }
                    plan = now;
                }
                Err(refused) => {
                    let message = format!("{}: {}", planner::text::title(&object), refused.message);
                    return Err(Refused { message, ..refused }.into());
                }
            }
        }
    }
    Ok(())
}

/// The objects of a wish by what they are called, with and without the namespace that is meant when none is said.
struct Declared<'w> {
    objects: BTreeMap<Reference, &'w Value>,
    updates: BTreeMap<Reference, &'w Value>,
}

impl<'w> Declared<'w> {
    fn of(wish: &'w Wish) -> Declared<'w> {
        let named = |object: &'w Value| [(Reference::of(object), object), (placed(object), object)];
        Declared {
            objects: wish.objects.iter().flat_map(named).collect(),
            updates: wish.updates.iter().flat_map(named).collect(),
        }
    }
}

async fn step(api: &Api, wish: &Wish, declared: &Declared<'_>, change: &Change) -> Result<(), Refused> {
    let title = planner::text::title(&change.object);
    if matches!(change.action, Action::Delete | Action::Replace) {
        api.delete_planned(change).await?;
        println!("{title} deleted");
    }
    if change.action == Action::Delete {
        return Ok(());
    }
    if let Some(object) = declared.updates.get(&change.object) {
        api.update_planned(object, change).await?;
        println!("{title} changed");
        return Ok(());
    }
    let Some(object) = declared.objects.get(&change.object) else { return Ok(()) };
    let mut object = (*object).clone();
    for kept in &change.kept {
        let path: Vec<&str> = kept.path.split('.').collect();
        object.put(&path, kept.value.clone());
    }
    let mut change = change.clone();
    if change.action == Action::Replace {
        wait_until_gone(api, &object).await?;
        change.uid.clear();
    }
    let begun = tokio::time::Instant::now();
    loop {
        match api.apply_planned(&object, &change, wish.force).await {
            Ok(_) => break,
            Err(refused) if is_early(&refused) && begun.elapsed() < WANT_MAX => tokio::time::sleep(LOOK_EVERY).await,
            Err(refused) => return Err(refused),
        }
    }
    match change.action {
        Action::Create | Action::Replace => println!("{title} created"),
        Action::Update => println!("{title} changed"),
        _ => {}
    }
    Ok(())
}

/// What the plan found possible may have to wait for what it needs: a definition to be established, a namespace to be
/// furnished.
fn is_early(refused: &Refused) -> bool {
    refused.reason == "NotFound" || (refused.reason == "Forbidden" && refused.message.contains("service account"))
}

async fn wait_until_gone(api: &Api, object: &Value) -> Result<(), Refused> {
    let begun = tokio::time::Instant::now();
    let address = api.address(object).await?;
    while begun.elapsed() < GONE_MAX {
        match api.get(&address).await {
            Err(refused) if refused.reason == "NotFound" => return Ok(()),
            _ => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
    Err(Refused { reason: "Timeout".to_owned(), message: "it was deleted but does not go away".to_owned() })
}
