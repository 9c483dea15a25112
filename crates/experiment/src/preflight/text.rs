//! Describes an experiment as text.

use std::collections::BTreeMap;
use std::time::Duration;

use plan::readable::counted;
use plan::secrets::hide_in_words;
use plan::{shell, units};
use results::{Cell, Order};

use super::{PlannedLoad, checks, nominal_time, places};
use crate::agents::Agent;
use crate::change::sysctl_path;
use crate::design::{Planned, Schedule, levels_of};
use crate::environment::normal;
use crate::factor::{Factor, FactorKind, Level, LevelValue};
use crate::host::HostAccess;
use crate::remote::{Machines, label_on};
use crate::spec::{Baseline, Hook, Spec};

/// The most rounds whose order is listed; the seed determines the others.
const ROUNDS_SHOWN: usize = 50;

/// The same of an experiment that may end after any round, which seldom makes many.
const ROUNDS_SHOWN_SEQUENTIAL: usize = 5;

/// Columns of a line of the order.
const WIDTH: usize = 100;

pub(super) fn describe(
    spec: &Spec,
    schedule: &Schedule,
    loads: &[PlannedLoad],
    machines: &Machines<'_>,
    agents: Option<&[Agent]>,
) -> String {
    let mut text = head(spec, schedule, loads, agents.is_some()).join("\n") + "\n";
    let out = &mut text;
    section(
        out,
        "cells",
        schedule.cells.iter().map(|cell| cell_line(cell, spec)),
    );
    section(out, places::heading(spec), places::lines(spec, agents));
    section(out, "order", order_lines(spec, &schedule.trials));
    section(out, "loads", loads.iter().map(load_line));
    section(out, "changes", change_lines(spec, machines));
    section(out, "commands", command_lines(spec));
    section(out, "telemetry", telemetry_lines(spec, agents.is_some()));
    text
}

/// A heading and its lines; nothing without lines.
fn section(out: &mut String, heading: &str, lines: impl IntoIterator<Item = String>) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_some() {
        out.push_str(&format!("\n{heading}:\n"));
    }
    for line in lines {
        out.push_str(&format!("  {line}\n"));
    }
}

fn head(spec: &Spec, schedule: &Schedule, loads: &[PlannedLoad], is_fleet: bool) -> Vec<String> {
    let order = match spec.order {
        Order::Shuffled => format!("shuffled within each round, seed {}", schedule.seed),
        Order::Sequential => "sequential, as written".to_owned(),
    };
    let what = match spec.search {
        Some(_) => "searches:",
        None => "trials:  ",
    };
    let most = spec.until.map_or("", |_| "at most ");
    let repeats = match spec.baseline {
        Some(_) => ", plus repeats of the baseline",
        None => "",
    };
    let trials = schedule.trials.len();
    let cells = counted(schedule.cells.len() as u64, "cell");
    let rounds = counted(spec.rounds.into(), "round");
    let (name, file) = (printable(&spec.name), spec.file.display());
    let time = time_in_all(spec, schedule, loads, is_fleet);
    let mut lines = vec![
        format!("experiment: {name} ({file})"),
        format!("{what}   {most}{trials} ({cells} x {rounds}{repeats}), {order}"),
        format!("time:       {time}"),
        format!("results:    {}", spec.results.display()),
    ];
    if !spec.judge.is_empty() {
        let labels: Vec<_> = spec.judge.iter().map(|it| it.label.as_str()).collect();
        lines.push(format!("judged by:  {}", labels.join(", ")));
    }
    lines.extend(spec.threshold.map(|threshold| {
        let percent = threshold * 100.0;
        format!("threshold:  differences below {percent} % do not matter")
    }));
    lines
}

fn time_in_all(spec: &Spec, schedule: &Schedule, loads: &[PlannedLoad], is_fleet: bool) -> String {
    if let Some(search) = &spec.search {
        let searches = u32::try_from(schedule.trials.len()).unwrap_or(u32::MAX);
        let time = units::time(search.nominal_time().saturating_mul(searches));
        return match search.rate_per_sec {
            Some(_) => format!("about {time}, if the runs agree"),
            None => format!("at most {time}; the first rough answer comes in the first minute"),
        };
    }
    let mut by_number = BTreeMap::new();
    for load in loads {
        let time = load.plan.as_ref().ok().and_then(nominal_time);
        by_number.extend(load.cells.iter().map(|number| (*number, time)));
    }
    let of_trial = |trial: &Planned| *by_number.get(&trial.cell.number)?;
    let times = schedule.trials.iter().map(of_trial);
    let known: Option<Vec<Duration>> = times.collect();
    let Some(known) = known else {
        return "unknown: some runs have no duration".to_owned();
    };
    let count = u32::try_from(known.len()).unwrap_or(u32::MAX);
    let settle = spec.hooks.settle.saturating_mul(count);
    let sum = known.into_iter().fold(settle, Duration::saturating_add);
    // Milliseconds do not matter here.
    let sum = match sum.as_secs() {
        seconds @ 60.. => Duration::from_secs(seconds),
        _ => sum,
    };
    let commands = if checks::commands(spec).is_empty() {
        ""
    } else {
        ", plus the time of the hooks"
    };
    let agents = if is_fleet {
        ", plus the start of the agents for each run"
    } else {
        ""
    };
    let most = spec.until.map_or("", |_| "at most ");
    format!("{most}about {}{commands}{agents}", units::time(sum))
}

fn cell_line(cell: &Cell, spec: &Spec) -> String {
    let mut line = format!("{:>4} ", cell.number);
    let has_only_target = cell.settings.is_empty() && cell.profile.is_none();
    for (factor, level) in levels_of(cell) {
        if factor != "target" || spec.targets.len() > 1 || has_only_target {
            line += &format!(" {}={}", printable(factor), quoted(level));
        }
    }
    if let Some(Baseline { every, .. }) = spec.baseline.as_ref().filter(|_| cell.is_baseline) {
        line += &format!(
            "  (baseline: first in each round, again after every {every} others, and last)"
        );
    }
    line
}

/// With quotes if it contains blanks.
pub(super) fn quoted(text: &str) -> String {
    let text = printable(text);
    if text.contains(' ') {
        format!("{text:?}")
    } else {
        text
    }
}

/// The text with escapes in place of what is not printable, so that a command can be recognized.
pub(super) fn printable(text: &str) -> String {
    let escaped = |c: char| {
        if plan::is_printable(c) {
            c.to_string()
        } else {
            c.escape_default().to_string()
        }
    };
    text.chars().map(escaped).collect()
}

/// The remaining trials of a resumed experiment.
pub(crate) fn describe_left(spec: &Spec, remaining: &[Planned], total: usize) -> String {
    let mut text = String::new();
    let heading = format!("remaining ({} of {total} trials)", remaining.len());
    section(&mut text, &heading, order_lines(spec, remaining));
    text
}

fn order_lines(spec: &Spec, trials: &[Planned]) -> Vec<String> {
    let most = match spec.until {
        Some(_) => ROUNDS_SHOWN_SEQUENTIAL,
        None => ROUNDS_SHOWN,
    };
    let mut rounds = trials.chunk_by(|a, b| a.round == b.round);
    let shown = rounds.by_ref().take(most);
    let mut lines: Vec<_> = shown.flat_map(round_lines).collect();
    match rounds.count() {
        0 => {}
        more => lines.push(format!("and {} more", counted(more as u64, "round"))),
    }
    lines
}

fn round_lines(round: &[Planned]) -> Vec<String> {
    let mut lines = Vec::new();
    let number = round.first().map_or(0, |trial| trial.round);
    let mut line = format!("round {number}: cells");
    let indent = " ".repeat(line.len());
    for trial in round {
        let word = format!(" {}", trial.cell.number);
        if line.len() + word.len() > WIDTH {
            lines.push(std::mem::replace(&mut line, indent.clone()));
        }
        line.push_str(&word);
    }
    lines.push(line);
    lines
}

fn load_line(load: &PlannedLoad) -> String {
    // Before they are quoted, since a secret may have spaces and quotes.
    let arguments: Vec<_> = hide_in_words(&load.arguments)
        .iter()
        .map(|argument| shell::quoted(&printable(argument)))
        .collect();
    let (arguments, cells) = (arguments.join(" "), ranges(&load.cells));
    format!("wrkbench {arguments}   ({cells})")
}

/// Numbers of cells: `cells 1-3, 7`.
fn ranges(cells: &[u32]) -> String {
    let runs = cells.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    let word = if cells.len() == 1 { "cell" } else { "cells" };
    format!("{word} {}", runs.collect::<Vec<_>>().join(", "))
}

fn change_lines(spec: &Spec, machines: &Machines<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for factor in &spec.factors {
        let host = factor.host.as_deref();
        match &factor.kind {
            FactorKind::Sysctl { keys } => {
                for key in keys {
                    let values = |level: &Level| {
                        let value = factor.sysctl_value(key, level).unwrap_or_default();
                        with_name(level, value)
                    };
                    let levels: Vec<_> = factor.levels.iter().map(values).collect();
                    let (name, levels) = (label_on(host, key), levels.join(", "));
                    let now = present(key, machines.get(host));
                    lines.push(format!("{name}: now {now}, levels {levels}"));
                }
            }
            FactorKind::Command { .. } => {
                let levels = factor.levels.iter().map(|level| quoted(&level.name));
                let levels = levels.collect::<Vec<_>>().join(", ");
                let name = label_on(host, &printable(&factor.name));
                lines.push(format!("{name}: by its command, levels {levels}"));
            }
            FactorKind::File { .. } | FactorKind::Option { .. } => {}
        }
    }
    for (factor, path, template) in checks::files(spec) {
        let host = factor.host.as_deref();
        let now = match machines.get(host).map(|machine| machine.read(path)) {
            Some(Ok(content)) => format!("{} bytes", content.len()),
            Some(Err(error)) => format!("unreadable ({error})"),
            None => UNKNOWN.to_owned(),
        };
        let levels: Vec<_> = factor.levels.iter().map(named_values).collect();
        lines.push(format!(
            "{}: now {now}, made from {}, levels {}",
            label_on(host, &path.display().to_string()),
            template.display(),
            levels.join(", ")
        ));
    }
    lines
}

fn with_name(level: &Level, value: &str) -> String {
    match level.value {
        LevelValue::Named(_) => format!("{} = {}", quoted(&level.name), quoted(value)),
        _ => quoted(value),
    }
}

fn named_values(level: &Level) -> String {
    match &level.value {
        LevelValue::Named(values) => {
            let values: Vec<_> = values
                .iter()
                .map(|(name, value)| format!("{} {}", printable(name), quoted(value)))
                .collect();
            format!("{} ({})", quoted(&level.name), values.join(", "))
        }
        _ => quoted(&level.name),
    }
}

/// The present value of a setting of a machine that is not there.
const UNKNOWN: &str = "unknown";

/// The present value of a setting with single spaces; the kernel separates numbers with tabs.
fn present(key: &str, machine: Option<&dyn HostAccess>) -> String {
    let Some(machine) = machine else {
        return UNKNOWN.to_owned();
    };
    let content = sysctl_path(key).map(|path| machine.read(&path));
    match content {
        Some(Ok(content)) => quoted(&normal(&String::from_utf8_lossy(&content))),
        Some(Err(error)) => format!("unreadable ({error})"),
        None => "not a setting".to_owned(),
    }
}

fn command_lines(spec: &Spec) -> Vec<String> {
    let mut lines = hook_lines(spec);
    lines.extend(spec.factors.iter().flat_map(lines_of_factor));
    lines
}

fn hook_lines(spec: &Spec) -> Vec<String> {
    let hooks = &spec.hooks;
    let mut lines = Vec::new();
    let mut hook = |name: &str, hook: &Option<Hook>, when: &str| {
        if let Some(hook) = hook {
            let name = label_on(hook.host.as_deref(), name);
            let when = format!("{when}, at most {}", units::time(hook.limit));
            lines.push(command_line(&name, &hook.command, &when));
        }
    };
    hook("setup", &hooks.setup, "once, first");
    hook(
        "restart",
        &hooks.restart,
        "after a level was changed, and after the restore",
    );
    for target in &spec.targets {
        for (what, own) in [("before", &target.before), ("after", &target.after)] {
            let name = format!("{what} {}", printable(&target.name));
            hook(&name, own, &format!("{what} each of its runs"));
        }
    }
    hook("before", &hooks.before, "before each run");
    hook("after", &hooks.after, "after each run");
    hook("teardown", &hooks.teardown, "once, after the restore");
    if let Some(ready) = &hooks.ready {
        let url = ready.url.as_deref().unwrap_or("the target's URL");
        let (status, within) = (ready.expected(), units::time(ready.within));
        lines.push(format!(
            "ready: {url} responds with {status}, before each run, within {within}"
        ));
    }
    if !hooks.settle.is_zero() {
        lines.push(format!(
            "settle: {} before each run",
            units::time(hooks.settle)
        ));
    }
    lines
}

fn lines_of_factor(factor: &Factor) -> Vec<String> {
    let name = label_on(factor.host.as_deref(), &printable(&factor.name));
    match &factor.kind {
        FactorKind::Command {
            apply,
            restore,
            limit,
        } => {
            let limit = format!("at most {}", units::time(*limit));
            let while_applied = format!("the level is in $LEVEL, {limit}");
            let at_end = format!("at the end, {limit}");
            vec![
                command_line(&format!("{name}, apply"), apply, &while_applied),
                command_line(&format!("{name}, restore"), restore, &at_end),
            ]
        }
        FactorKind::File {
            check: Some(check), ..
        } => {
            let limit = units::time(check.limit);
            let when = format!("when the file is written, at most {limit}");
            vec![command_line(
                &format!("{name}, check"),
                &check.command,
                &when,
            )]
        }
        _ => Vec::new(),
    }
}

/// A command with all its lines.
fn command_line(name: &str, command: &str, when: &str) -> String {
    let lines: Vec<_> = command.trim_end().lines().map(printable).collect();
    format!("{name}: {}   ({when})", lines.join("\n      "))
}

fn telemetry_lines(spec: &Spec, is_fleet: bool) -> Option<String> {
    let telemetry = spec.telemetry.as_ref()?;
    let sockets = telemetry.sockets.as_deref().map(|filter| match filter {
        "" => "all sockets".to_owned(),
        filter => format!("sockets {}", printable(filter)),
    });
    let counters = telemetry.counters.then(|| "counters".to_owned());
    let what: Vec<_> = sockets.into_iter().chain(counters).collect();
    let samples = match telemetry.sockets {
        _ if is_fleet => ", of each agent's machine",
        Some(_) => ", each sample in trials/*.samples.jsonl.zst",
        None => "",
    };
    Some(format!(
        "{}, every {}{samples}",
        what.join(" and "),
        units::time(telemetry.interval)
    ))
}
