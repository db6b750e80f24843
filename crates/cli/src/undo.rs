//! `setpoint undo`: takes back what people and programs changed on an object, by its change log; itself a plan.

use std::collections::BTreeMap;

use meta::{ObjectExt, Time};
use planner::{Blame, Past, Plan, path};
use serde_json::{Value, json};

use crate::planning::{Stopped, Wish, carry_out};
use crate::reach::{ReachArgs, find};
use crate::report::{CommandError, Ended};

/// Options of `undo`.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// KIND/NAME, as kubectl takes it.
    pub object: String,
    /// Its namespace.
    #[arg(short = 'n', long, default_value = "default")]
    pub namespace: String,
    /// Take back everything since this time (as history prints it) [default: the last change].
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub reach: ReachArgs,
}

/// Runs `undo`.
pub(crate) async fn undo(args: &UndoArgs) -> Result<Ended, CommandError> {
    let api = args.reach.open()?;
    let about = find(&api, &args.object, &args.namespace).await?;
    let answer = api.ask("Blame", "blames", json!({"object": about})).await?;
    let blame: Blame = serde_json::from_value(answer)?;
    let to = args.to.as_deref().map(|text| Time::parse(text).ok_or_else(|| Stopped(format!("{text:?} is no time"))));
    let chosen = chosen(&blame.history, to.transpose()?);
    if chosen.is_empty() {
        return Err(Stopped("the log of the object has no change to take back".to_owned()).into());
    }
    let named = about.manifest();
    let mut object = api.get(&api.address(&named).await?).await?;
    // The revision that is written on is the plan's: status may move meanwhile.
    for field in ["managedFields", "resourceVersion"] {
        object.remove(&["metadata", field]);
    }
    for (field, past) in &chosen {
        restore(&mut object, field, past)?;
    }
    let wish = Wish {
        objects: Vec::new(),
        updates: vec![object],
        deletions: Vec::new(),
        force: false,
        replace: false,
        inventory: None,
    };
    let plan = wish.plan(&api).await?;
    only_restores(&plan, &chosen)?;
    carry_out(&api, &wish, plan, args.yes).await?;
    Ok(Ended::Well)
}

/// What was read and put back as a whole must change nothing that somebody wrote between.
fn only_restores(plan: &Plan, chosen: &BTreeMap<&str, &Past>) -> Result<(), Stopped> {
    let is_meant = |path: &str| chosen.keys().any(|field| path.starts_with(field) || field.starts_with(path));
    let fields = plan.changes.iter().flat_map(|change| &change.fields);
    match fields.map(|field| &*field.path).find(|path| !is_meant(path)) {
        None => Ok(()),
        Some(other) => Err(Stopped(format!("{other} was changed in this very moment; nothing was written: try again"))),
    }
}

/// The changes to take back: of each field the oldest, whose value before is the one to restore.
fn chosen(history: &[Past], to: Option<Time>) -> BTreeMap<&str, &Past> {
    // What controllers write follows from what is desired, and follows again; to acknowledge drift changes nothing.
    let is_other = |past: &Past| past.path.is_empty() || past.path.contains(planner::ACKNOWLEDGED);
    let is_desired =
        |past: &&Past| !is_other(past) && !past.path.starts_with("status") && !past.user.starts_with("system:");
    let desired: Vec<&Past> = history.iter().filter(is_desired).collect();
    let Some(last) = desired.last() else { return BTreeMap::new() };
    let is_meant = |past: &Past| match to {
        Some(to) => Time::parse(&past.time).is_some_and(|time| time > to),
        None => (&past.time, &past.manager, &past.verb) == (&last.time, &last.manager, &last.verb),
    };
    let mut fields = BTreeMap::new();
    for past in desired.into_iter().filter(|past| is_meant(past)) {
        fields.entry(&*past.path).or_insert(past);
    }
    fields
}

fn restore(object: &mut Value, field: &str, past: &Past) -> Result<(), Stopped> {
    if past.left_out {
        return Err(Stopped(format!(
            "{field}: the value before was secret or long and was not kept; nothing was written"
        )));
    }
    match path::set(object, field, past.old.clone()) {
        true => Ok(()),
        false => Err(Stopped(format!("{field}: there is no such place any more; nothing was written"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(path: &str, user: &str, second: u32, old: i64) -> Past {
        Past {
            path: path.to_owned(),
            manager: "kubectl".to_owned(),
            user: user.to_owned(),
            verb: "patch".to_owned(),
            time: format!("2026-01-01T00:00:{second:02}Z"),
            old: Some(json!(old)),
            new: None,
            left_out: false,
        }
    }

    #[test]
    fn the_oldest_value_of_each_field_is_restored() {
        let history = [
            past("", "ada", 0, 0),
            past("spec.replicas", "ada", 1, 1),
            past("spec.replicas", "ada", 3, 2),
            past("metadata.annotations[r]", "system:serviceaccount:kube-system:x", 4, 9),
            past("spec.paused", "ada", 5, 3),
        ];
        let check = |to: Option<&str>, expected: &[(&str, i64)]| {
            let chosen = chosen(&history, to.and_then(Time::parse));
            let found: Vec<_> = chosen
                .iter()
                .map(|(path, past)| (*path, past.old.as_ref().and_then(Value::as_i64).unwrap_or(0)))
                .collect();
            assert_eq!(found, expected);
        };
        check(None, &[("spec.paused", 3)]);
        check(Some("2026-01-01T00:00:00Z"), &[("spec.paused", 3), ("spec.replicas", 1)]);
        check(Some("2026-01-01T00:00:02Z"), &[("spec.paused", 3), ("spec.replicas", 2)]);
        check(Some("2026-01-01T00:00:09Z"), &[]);
    }
}
