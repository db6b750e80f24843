//! A plan as people read it.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Action, Change, Consequence, Field, Plan, Reference};

/// Fields shown of an object that is made; the manifest has them all.
const CREATED_FIELDS_MAX: usize = 40;
/// Longest value on one line.
const VALUE_CHARS_MAX: usize = 100;
/// Managers' fields told one by one; more are counted.
const OWNERSHIP_MAX: usize = 5;

/// The whole plan.
pub fn render(plan: &Plan) -> String {
    let mut out = String::new();
    legend(plan, &mut out);
    for change in plan.changes.iter().filter(|change| change.action != Action::Keep || !change.kept.is_empty()) {
        tell_change(change, &mut out);
    }
    tell_consequences(plan, &mut out);
    tell_trouble(plan, &mut out);
    tell_summary(plan, &mut out);
    out
}

fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}

/// Only the symbols that are used.
fn legend(plan: &Plan, out: &mut String) {
    let all = [
        (Action::Create, "create"),
        (Action::Update, "update in-place"),
        (Action::Delete, "destroy"),
        (Action::Replace, "destroy and then create replacement"),
        (Action::Refuse, "refused"),
    ];
    let direct = |action| plan.changes.iter().any(|change| change.action == action);
    let used =
        all.iter().filter(|(action, _)| direct(*action) || plan.consequences.iter().any(|c| c.action == *action));
    let lines: Vec<String> = used.map(|(action, word)| format!("{:>5} {word}", symbol(*action))).collect();
    if !lines.is_empty() {
        line(out, "Actions are shown with these symbols:");
        line(out, &lines.join("\n"));
    }
}

fn symbol(action: Action) -> &'static str {
    match action {
        Action::Create => "+",
        Action::Update => "~",
        Action::Delete => "-",
        Action::Replace => "-/+",
        Action::Refuse => "x",
        Action::Keep => " ",
    }
}

/// `deployment/web`, with the namespace unless it is `default`.
pub fn title(object: &Reference) -> String {
    let kind = object.kind.to_lowercase();
    match &*object.namespace {
        "" | "default" => format!("{kind}/{}", object.name),
        namespace => format!("{kind}/{} ({namespace})", object.name),
    }
}

fn tell_change(change: &Change, out: &mut String) {
    let fate = match change.action {
        Action::Create => "will be created",
        Action::Update => "will be updated in-place",
        Action::Delete => "will be destroyed",
        Action::Replace => "must be replaced",
        Action::Refuse => "would be refused",
        Action::Keep => "stays as it is",
    };
    line(out, &format!("\n{:>3} {} {fate}", symbol(change.action), title(&change.object)));
    if !change.reason.is_empty() {
        line(out, &format!("    # {}", change.reason));
    }
    let shown = if change.action == Action::Create { CREATED_FIELDS_MAX } else { usize::MAX };
    for field in change.fields.iter().take(shown) {
        line(out, &format!("      {}", field_line(field)));
    }
    if change.fields.len() > shown || change.truncated {
        line(out, &format!("      # ({} more fields)", change.fields.len().saturating_sub(shown)));
    }
    for kept in &change.kept {
        let (path, by) = (&kept.path, &kept.by);
        line(out, &format!("      = {path}: {} is {by}'s; declared is {}", value(&kept.value), value(&kept.declared)));
    }
    if change.unchanged > 0 && change.action == Action::Update {
        line(out, &format!("      # ({} unchanged fields hidden)", change.unchanged));
    }
    tell_ownership(change, out);
    for warning in &change.warnings {
        line(out, &format!("      # warning: {warning}"));
    }
}

fn tell_ownership(change: &Change, out: &mut String) {
    for (taken, word) in [(true, "taken from"), (false, "shared with")] {
        let all: Vec<_> = change.ownership.iter().filter(|field| field.taken == taken).collect();
        for field in all.iter().take(OWNERSHIP_MAX) {
            line(out, &format!("      # {} is {word} {}", field.path, field.manager));
        }
        if all.len() > OWNERSHIP_MAX {
            line(out, &format!("      # ({} more fields {word} others)", all.len() - OWNERSHIP_MAX));
        }
    }
}

/// `~ spec.replicas: 1 -> 3`.
pub fn field_line(field: &Field) -> String {
    let forced = if field.forces_replacement { " # forces replacement" } else { "" };
    let path = &field.path;
    match (&field.old, &field.new) {
        (None, Some(new)) => format!("+ {path}: {}{forced}", value(new)),
        (Some(old), None) => format!("- {path}: {} -> absent{forced}", value(old)),
        (old, new) => {
            let side = |side: &Option<Value>| side.as_ref().map_or("absent".to_owned(), value);
            format!("~ {path}: {} -> {}{forced}", side(old), side(new))
        }
    }
}

/// A value on one line.
pub fn value(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((cut, _)) => format!("{}... ({} bytes)", &text[..cut], text.len()),
        None => text,
    }
}

fn tell_consequences(plan: &Plan, out: &mut String) {
    if plan.consequences.is_empty() && plan.hidden == 0 {
        return;
    }
    line(out, "\nWhat follows from it:");
    for consequence in &plan.consequences {
        line(out, &format!("{:>3} {}", symbol(consequence.action), consequence_line(consequence)));
    }
    if plan.hidden > 0 {
        line(out, &format!("    ({} more objects that you may not read)", plan.hidden));
    }
}

fn consequence_line(c: &Consequence) -> String {
    let kind = c.kind.to_lowercase();
    let what = match (c.count, c.names.first()) {
        (1, Some(name)) => format!("{kind}/{name}"),
        (count, _) => format!("{count} {kind}s"),
    };
    let owner = c.owner.as_ref().map(|owner| format!(" of {}", title(owner))).unwrap_or_default();
    let place = match (&c.owner, &*c.namespace) {
        (Some(_), _) | (None, "" | "default") => String::new(),
        (None, namespace) => format!(" ({namespace})"),
    };
    let by = if c.by.is_empty() { String::new() } else { format!(", by {}", c.by) };
    let fields: Vec<String> = c.fields.iter().map(|field| field_line(field)[2..].to_owned()).collect();
    let fields = if fields.is_empty() { String::new() } else { format!(": {}", fields.join("; ")) };
    format!("{what}{owner}{place}{fields}{by}")
}

fn tell_trouble(plan: &Plan, out: &mut String) {
    let mut lines = Vec::new();
    for dip in &plan.dips {
        let budget = dip.budget.as_ref();
        let budget = budget.map(|(name, least)| format!("; budget {name} asks for {least}")).unwrap_or_default();
        let (title, before, lowest) = (title(&dip.object), dip.before, dip.lowest);
        lines.push(format!("{title}: available replicas go down from {before} to {lowest} on the way{budget}"));
    }
    for unplaced in &plan.unplaced {
        let (count, owner) = (unplaced.count, title(&unplaced.owner));
        lines.push(format!("{count} pods of {owner} find no node: {}", unplaced.message));
    }
    for warning in plan.warnings.iter().filter(|warning| warning.reason != "FailedScheduling") {
        lines.push(format!("{}: {}: {}", warning.about, warning.reason, warning.message));
    }
    for outlook in plan.outlook.iter().filter(|outlook| outlook.state != "converged") {
        lines.push(format!("{} does not get ready: {}", title(&outlook.object), outlook.message));
    }
    if !plan.rest.reached {
        lines.push(plan.rest.message.clone());
    }
    if !lines.is_empty() {
        line(out, "\nWorth knowing:");
        lines.iter().for_each(|text| line(out, &format!("  ! {text}")));
    }
}

fn tell_summary(plan: &Plan, out: &mut String) {
    let summary = plan.summary();
    if plan.is_empty() {
        return line(out, "No changes. Everything is as declared.");
    }
    let refused = if summary.refused > 0 { format!(" {} would be refused.", summary.refused) } else { String::new() };
    let counts = format!("{} to add, {} to change, {} to destroy", summary.add, summary.change, summary.destroy);
    line(out, &format!("\nPlan: {counts}.{refused}"));
}
