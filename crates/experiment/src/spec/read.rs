//! A plan's text into a [`Spec`]: every table and key, each refused by its line.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use plan::{Target, TelemetrySpec};
use results::Order;
use toml::de::DeTable;

use super::document::{Lines, Problem, Problems, SpecError, Table, Value, shown};
use super::factors::read_factor;
use super::options::read_options;
use super::{
    Baseline, Hook, Hooks, LoadOptions, MAX_CELLS, MAX_FILE_BYTES, MAX_ROUNDS, MAX_TRIALS, Profile,
    Ready, Selection, Spec, TargetSpec, folder_of, variable,
};
use crate::design;
use crate::factor::{Factor, FactorKind};

/// The longest that a command may take if the plan does not say.
const HOOK_LIMIT: Duration = Duration::from_secs(60);
/// How long readiness is waited for if the plan does not say.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Time between samples if the plan does not say.
const TELEMETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Between the baseline's repetitions if the plan does not say.
const BASELINE_EVERY: u32 = 5;
/// Longest name of anything.
const NAME_CHARS: usize = 100;

const TOP: [&str; 16] = [
    "name",
    "rounds",
    "results",
    "seed",
    "order",
    "retries",
    "max_failures",
    "threshold",
    "load",
    "target",
    "profile",
    "factor",
    "exclude",
    "baseline",
    "hooks",
    "telemetry",
];

/// Names that are no factor's, since a selection of cells and the environment of commands have them.
const RESERVED: [&str; 8] = [
    "target", "profile", "every", "url", "plan_dir", "level", "trial", "round",
];

/// The text of a plan's file, and the folder that it lies in, absolute: commands that undo something may run
/// elsewhere.
pub(super) fn file_text(file: &Path) -> Result<(String, PathBuf), Problem> {
    let refuse = |text: String| Problem { line: None, text };
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| refuse(format!("cannot read the file ({error})")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(refuse(format!(
            "larger than {MAX_FILE_BYTES} bytes: this is no plan"
        )));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Problem::at(line, "not UTF-8 text: this is no plan")
    })?;
    let folder = std::path::absolute(folder_of(file))
        .map_err(|error| refuse(format!("the folder of the plan cannot be found ({error})")))?;
    Ok((text, folder))
}

pub(super) fn read(text: &str, file: &Path, folder: &Path) -> Result<Spec, SpecError> {
    let lines = Lines::of(text);
    let mut problems = Problems::default();
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let message = error.message().trim().replace('\n', ", ");
            problems.0.push(Problem {
                line: error.span().map(|span| lines.at(span.start)),
                text: format!("not TOML: {message}"),
            });
            return Err(problems.judge(file).expect_err("there is a problem"));
        }
    };
    let root = Table::new("the top of the file", 1, root.get_ref(), &lines);
    let spec = read_top(root, text, file, folder, &mut problems);
    check_whole(&spec, &mut problems);
    problems.judge(file)?;
    Ok(spec)
}

fn read_top(
    mut top: Table<'_>,
    text: &str,
    file: &Path,
    base: &Path,
    problems: &mut Problems,
) -> Spec {
    if !top.has("name") {
        problems.add(1, "name is missing: name = \"what is tried\"");
    }
    let name = top.read("name", problems, |value| {
        read_name(value, "a name in quotes")
    });
    let rounds = top.read("rounds", problems, |value| {
        value.count(1..=MAX_ROUNDS.into())
    });
    let results = top.read("results", problems, |value| {
        value.text("a folder in quotes")
    });
    let load = match read_table(&mut top, "load", problems) {
        Some(mut table) => read_options(table.rest(), base, problems),
        None => LoadOptions::default(),
    };
    let targets = read_targets(&mut top, base, problems);
    let profiles = read_profiles(&mut top, base, problems);
    let factors: Vec<Factor> = read_tables(&mut top, "factor", problems)
        .into_iter()
        .filter_map(|table| read_factor(table, base, problems))
        .collect();
    let mut spec = Spec {
        name: name.unwrap_or_default(),
        rounds: rounds
            .and_then(|rounds| rounds.try_into().ok())
            .unwrap_or(1),
        results: base.join(results.as_deref().unwrap_or("results")),
        seed: top.read("seed", problems, |value| value.count(0..=i64::MAX as u64)),
        order: top.read("order", problems, read_order).unwrap_or_default(),
        retries: read_u32(&mut top, "retries", 0..=10, problems).unwrap_or(1),
        max_failures: read_u32(&mut top, "max_failures", 0..=100_000, problems)
            .unwrap_or(super::MAX_FAILURES),
        threshold: top.read("threshold", problems, read_threshold),
        load,
        targets,
        profiles,
        factors,
        exclude: Vec::new(),
        baseline: None,
        hooks: read_hooks(&mut top, problems),
        telemetry: read_telemetry(&mut top, problems),
        text: text.to_owned(),
        file: file.to_owned(),
        folder: base.to_owned(),
    };
    // These name levels, so they come when all levels are known.
    spec.exclude = read_exclusions(&mut top, &spec, problems);
    spec.baseline = read_baseline(&mut top, &spec, problems);
    for value in top.rest() {
        let mut text = super::document::unknown(&value.key, &top.name, &TOP);
        if value
            .elements()
            .is_some_and(|elements| elements.iter().all(|e| !e.is_table()))
        {
            text.push_str(&format!(
                "; to vary an option of the load, write [[factor]] and under it {} = [...]",
                value.key
            ));
        }
        problems.add(value.line, text);
    }
    spec
}

fn read_u32(
    table: &mut Table<'_>,
    key: &str,
    range: std::ops::RangeInclusive<u64>,
    problems: &mut Problems,
) -> Option<u32> {
    let number = table.read(key, problems, |value| value.count(range))?;
    u32::try_from(number).ok()
}

/// A table of the top, `[key]`.
fn read_table<'a>(top: &mut Table<'a>, key: &str, problems: &mut Problems) -> Option<Table<'a>> {
    let name = format!("[{key}]");
    top.read(key, problems, |value| {
        value.table(name.as_str(), &format!("a table, {name}"))
    })
}

/// The tables of a list, `[[key]]`.
fn read_tables<'a>(top: &mut Table<'a>, key: &str, problems: &mut Problems) -> Vec<Table<'a>> {
    let name = format!("[[{key}]]");
    let expected = format!("tables, each under its own {name}");
    let Some(values) = top.read(key, problems, |value| value.list(&expected)) else {
        return Vec::new();
    };
    values
        .iter()
        .filter_map(|value| problems.keep(value.table(name.as_str(), &expected)))
        .collect()
}

/// A name: one line, not empty, not too long.
pub(super) fn read_name(value: &Value<'_>, expected: &str) -> Result<String, Problem> {
    let name = value.text(expected)?;
    check_name(value, &name)?;
    Ok(name)
}

pub(super) fn check_name(value: &Value<'_>, name: &str) -> Result<(), Problem> {
    if name.trim().is_empty() {
        return Err(value.problem(format!("{}: an empty name", value.key)));
    }
    if name.chars().count() > NAME_CHARS || name.chars().any(char::is_control) {
        return Err(value.problem(format!(
            "{}: {} is no name (one line, at most {NAME_CHARS} characters)",
            value.key,
            shown(name)
        )));
    }
    Ok(())
}

fn read_order(value: &Value<'_>) -> Result<Order, Problem> {
    const EXPECTED: &str = "\"shuffled\" or \"sequential\"";
    match value.text(EXPECTED)?.as_str() {
        "shuffled" => Ok(Order::Shuffled),
        "sequential" => Ok(Order::Sequential),
        other => Err(value.problem(format!(
            "order: {} is none (expected {EXPECTED})",
            shown(other)
        ))),
    }
}

fn read_threshold(value: &Value<'_>) -> Result<f64, Problem> {
    let text = value.text("a percentage like \"2%\"")?;
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    match number.and_then(plan::units::parse_percent) {
        Some(percent) if percent > 0.0 => Ok(percent / 100.0),
        _ => Err(value.problem(format!(
            "threshold: {} is no percentage (expected like \"2%\", above 0, at most 100%)",
            shown(&text)
        ))),
    }
}

fn read_targets(top: &mut Table<'_>, base: &Path, problems: &mut Problems) -> Vec<TargetSpec> {
    if !top.has("target") {
        problems.add(
            1,
            "no target: write [[target]] with name = \"...\" and url = \"http://...\"",
        );
    }
    let mut targets: Vec<TargetSpec> = Vec::new();
    for mut table in read_tables(top, "target", problems) {
        if !table.has("url") {
            problems.add(table.line, "[[target]] has no url = \"http://...\"");
            continue;
        }
        let url = table.read("url", problems, |value| {
            let url = value.text("a URL in quotes")?;
            let parsed = Target::parse(&url);
            parsed.map_err(|error| value.problem(format!("url: {error}")))?;
            Ok(url)
        });
        let name = table.read("name", problems, |value| {
            read_name(value, "a name in quotes")
        });
        let Some(url) = url else { continue };
        let target = TargetSpec {
            name: name.unwrap_or_else(|| url.clone()),
            url,
            line: table.line,
            load: read_options(table.rest(), base, problems),
        };
        if targets.iter().any(|known| known.name == target.name) {
            let name = shown(&target.name);
            problems.add(
                table.line,
                format!("two targets are called {name}: give each a name of its own"),
            );
            continue;
        }
        targets.push(target);
    }
    targets
}

fn read_profiles(top: &mut Table<'_>, base: &Path, problems: &mut Problems) -> Vec<Profile> {
    let mut profiles: Vec<Profile> = Vec::new();
    for mut table in read_tables(top, "profile", problems) {
        if !table.has("name") {
            problems.add(table.line, "[[profile]] has no name = \"...\"");
        }
        let name = table.read("name", problems, |value| {
            read_name(value, "a name in quotes")
        });
        let load = read_options(table.rest(), base, problems);
        let Some(name) = name else { continue };
        if profiles.iter().any(|known| known.name == name) {
            let name = shown(&name);
            problems.add(table.line, format!("two profiles are called {name}"));
            continue;
        }
        profiles.push(Profile {
            name,
            load,
            line: table.line,
        });
    }
    profiles
}

const HOOK_KEYS: [&str; 2] = ["run", "timeout"];

fn read_hooks(top: &mut Table<'_>, problems: &mut Problems) -> Hooks {
    const KEYS: [&str; 8] = [
        "setup", "restart", "ready", "settle", "before", "after", "teardown", "timeout",
    ];
    let Some(mut table) = read_table(top, "hooks", problems) else {
        return Hooks::default();
    };
    let limit = table
        .read("timeout", problems, read_limit)
        .unwrap_or(HOOK_LIMIT);
    let mut hook = |key: &str| {
        let value = table.take(key)?;
        read_hook(&value, limit, problems)
    };
    let (setup, restart, before) = (hook("setup"), hook("restart"), hook("before"));
    let (after, teardown) = (hook("after"), hook("teardown"));
    let hooks = Hooks {
        setup,
        restart,
        before,
        after,
        teardown,
        ready: table
            .take("ready")
            .and_then(|value| read_ready(&value, problems)),
        settle: table
            .read("settle", problems, Value::time)
            .unwrap_or_default(),
    };
    table.refuse_rest(&KEYS, problems);
    hooks
}

/// A time in which something must be done: more than none.
pub(super) fn read_limit(value: &Value<'_>) -> Result<Duration, Problem> {
    let limit = value.time()?;
    if limit.is_zero() {
        return Err(value.problem(format!("{}: must be more than zero", value.key)));
    }
    Ok(limit)
}

/// A command, or a table with it and its limit.
fn read_hook(value: &Value<'_>, limit: Duration, problems: &mut Problems) -> Option<Hook> {
    const EXPECTED: &str = "a command in quotes, or { run = \"command\", timeout = \"60s\" }";
    let (command, limit) = if value.is_table() {
        let mut table = problems.keep(value.table(format!("hook {}", value.key), EXPECTED))?;
        if !table.has("run") {
            problems.add(value.line, format!("{}: no run = \"command\"", value.key));
        }
        let command = table.read("run", problems, |value| value.text("a command in quotes"));
        let limit = table.read("timeout", problems, read_limit).unwrap_or(limit);
        table.refuse_rest(&HOOK_KEYS, problems);
        (command?, limit)
    } else {
        (problems.keep(value.text(EXPECTED))?, limit)
    };
    Some(Hook {
        command,
        limit,
        line: value.line,
    })
}

fn read_ready(value: &Value<'_>, problems: &mut Problems) -> Option<Ready> {
    const EXPECTED: &str = "{ url = \"http://...\", within = \"10s\" }";
    let mut table = problems.keep(value.table("ready", EXPECTED))?;
    let url = table.read("url", problems, |value| {
        let url = value.text("a URL in quotes")?;
        let parsed = Target::parse(&url);
        parsed.map_err(|error| value.problem(format!("url: {error}")))?;
        Ok(url)
    });
    let within = table
        .read("within", problems, read_limit)
        .unwrap_or(READY_WITHIN);
    let status = table.read("status", problems, |value| value.count(100..=599));
    table.refuse_rest(&["url", "within", "status"], problems);
    Some(Ready {
        url,
        within,
        status: status.and_then(|status| status.try_into().ok()),
    })
}

fn read_telemetry(top: &mut Table<'_>, problems: &mut Problems) -> Option<TelemetrySpec> {
    let mut table = read_table(top, "telemetry", problems)?;
    let line = table.line;
    let sockets = table.take("sockets").and_then(|value| match value.truth() {
        // All of them: a filter that lets everything through.
        Some(true) => Some(String::new()),
        Some(false) => None,
        None => problems.keep(value.text("a filter like \"sport = :80\", or true for all sockets")),
    });
    let interval = table.read("interval", problems, read_limit);
    let counters = table.read("counters", problems, Value::boolean);
    table.refuse_rest(&["sockets", "interval", "counters"], problems);
    let spec = TelemetrySpec {
        sockets,
        interval: interval.unwrap_or(TELEMETRY_INTERVAL),
        counters: counters.unwrap_or(false),
    };
    if spec.sockets.is_none() && !spec.counters && interval.is_some() {
        problems.add(
            line,
            "[telemetry] asks for nothing: set sockets or counters",
        );
    }
    (spec.sockets.is_some() || spec.counters).then_some(spec)
}

/// What a selection may name, with the levels of each.
fn selectable(spec: &Spec) -> Vec<(&str, Vec<&str>)> {
    let mut known: Vec<(&str, Vec<&str>)> = spec
        .factors
        .iter()
        .map(|factor| {
            let levels = factor.levels.iter().map(|level| level.name.as_str());
            (factor.name.as_str(), levels.collect())
        })
        .collect();
    if !spec.profiles.is_empty() {
        let names = spec.profiles.iter().map(|profile| profile.name.as_str());
        known.push(("profile", names.collect()));
    }
    known.push((
        "target",
        spec.targets
            .iter()
            .map(|target| target.name.as_str())
            .collect(),
    ));
    known
}

fn read_exclusions(top: &mut Table<'_>, spec: &Spec, problems: &mut Problems) -> Vec<Selection> {
    const EXPECTED: &str = "a list like [{ buffers = 262144, connections = 400 }]";
    let Some(value) = top.take("exclude") else {
        return Vec::new();
    };
    let Some(elements) = problems.keep(value.list(EXPECTED)) else {
        return Vec::new();
    };
    let mut exclusions = Vec::new();
    for element in elements {
        let Some(table) = problems.keep(element.table("exclude", EXPECTED)) else {
            continue;
        };
        let Some(selection) = read_selection(table, spec, problems) else {
            continue;
        };
        if selection.levels.is_empty() {
            problems.add(
                element.line,
                "exclude: an empty table would leave out every cell",
            );
        } else {
            exclusions.push(selection);
        }
    }
    exclusions
}

fn read_baseline(top: &mut Table<'_>, spec: &Spec, problems: &mut Problems) -> Option<Baseline> {
    const EXPECTED: &str = "a table like { buffers = 262144, every = 5 }";
    let value = top.take("baseline")?;
    let mut table = problems.keep(value.table("baseline", EXPECTED))?;
    let every = read_u32(&mut table, "every", 1..=MAX_CELLS as u64, problems);
    let cell = read_selection(table, spec, problems)?;
    Some(Baseline {
        cell,
        every: every.unwrap_or(BASELINE_EVERY),
    })
}

fn read_selection(mut table: Table<'_>, spec: &Spec, problems: &mut Problems) -> Option<Selection> {
    let known = selectable(spec);
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let problems_before = problems.0.len();
    let mut chosen: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for value in table.rest() {
        let Some(at) = names.iter().position(|name| *name == value.key) else {
            problems.add(
                value.line,
                super::document::unknown(&value.key, &table.name, &names),
            );
            continue;
        };
        let mut levels = Vec::new();
        for element in value.one_or_more() {
            let level = problems.keep(super::factors::level_text(&element));
            let Some(level) = level else { continue };
            if known[at].1.contains(&level.as_str()) {
                levels.push(level);
            } else {
                problems.add(
                    element.line,
                    format!(
                        "{}: {} has no level {} (there are: {})",
                        table.name,
                        value.key,
                        shown(&level),
                        known[at].1.join(", ")
                    ),
                );
            }
        }
        chosen.insert(at, levels);
    }
    let levels = chosen
        .into_iter()
        .map(|(at, levels)| (names[at].to_owned(), levels));
    (problems.0.len() == problems_before).then(|| Selection {
        levels: levels.collect(),
        line: table.line,
    })
}

/// What only the whole plan shows.
fn check_whole(spec: &Spec, problems: &mut Problems) {
    check_factor_names(spec, problems);
    check_same_things(spec, problems);
    check_layers(spec, problems);
    // Of a plan with holes the cells would be misleading.
    if problems.0.is_empty() {
        check_cells(spec, problems);
    }
}

fn check_factor_names(spec: &Spec, problems: &mut Problems) {
    let mut variables: BTreeMap<String, &str> = BTreeMap::new();
    for factor in &spec.factors {
        let own = variable(&factor.name);
        if RESERVED.iter().any(|name| variable(name) == own) {
            problems.add(
                factor.line,
                format!(
                    "a factor cannot be called {}: choose another name",
                    shown(&factor.name)
                ),
            );
        }
        if let Some(other) = variables.insert(own.clone(), &factor.name) {
            problems.add(
                factor.line,
                if other == factor.name {
                    format!("two factors are called {}", shown(other))
                } else {
                    format!(
                        "the factors {} and {} would share the variable {own}: rename one",
                        shown(other),
                        shown(&factor.name)
                    )
                },
            );
        }
    }
}

/// Two factors that set the same thing would overwrite each other.
fn check_same_things(spec: &Spec, problems: &mut Problems) {
    let mut set: BTreeMap<String, &str> = BTreeMap::new();
    for factor in &spec.factors {
        let things = match &factor.kind {
            FactorKind::Sysctl { keys } => keys
                .iter()
                .filter_map(|key| Some(crate::sysctl_path(key)?.display().to_string()))
                .collect(),
            FactorKind::Option { option } => vec![format!("--{option}")],
            FactorKind::File { path, .. } => vec![without_detours(path).display().to_string()],
            FactorKind::Command { .. } => Vec::new(),
        };
        for thing in things {
            if let Some(other) = set.insert(thing.clone(), &factor.name) {
                problems.add(
                    factor.line,
                    if other == factor.name {
                        format!("{}: names {thing} twice", factor.name)
                    } else {
                        format!("the factors {other} and {} both set {thing}", factor.name)
                    },
                );
            }
        }
    }
}

/// The path without `.` and `..` in it. Where it leads over links is not looked at.
fn without_detours(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            component => plain.push(component),
        }
    }
    plain
}

/// An option that a factor varies and a profile or target fixes: the profile would not be what it says.
fn check_layers(spec: &Spec, problems: &mut Problems) {
    let profiles = spec.profiles.iter().map(|p| ("profile", &p.name, &p.load));
    let targets = spec.targets.iter().map(|t| ("target", &t.name, &t.load));
    for (what, name, load) in profiles.chain(targets) {
        for option in load.iter() {
            let varied = spec.factors.iter().find(|factor| {
                matches!(&factor.kind, FactorKind::Option { option: own } if *own == option.name)
            });
            if let Some(factor) = varied {
                problems.add(
                    option.line,
                    format!(
                        "{} is set by the {what} {} and varied by the factor {}: leave it to one of them",
                        option.name,
                        shown(name),
                        shown(&factor.name)
                    ),
                );
            }
        }
    }
}

fn check_cells(spec: &Spec, problems: &mut Problems) {
    let count = design::crossed(spec);
    if count > MAX_CELLS {
        problems.add(
            1,
            format!("{count} combinations of levels, profiles and targets: at most {MAX_CELLS} are tried"),
        );
        return;
    }
    let cells = design::cells(spec);
    if cells.is_empty() {
        problems.add(1, "exclude leaves out every cell: nothing is left to run");
        return;
    }
    let everything = design::all_cells(spec);
    for exclusion in &spec.exclude {
        if !everything
            .iter()
            .any(|cell| design::selects(exclusion, cell))
        {
            problems.add(exclusion.line, "exclude: no cell is like this");
        }
    }
    if let Some(baseline) = &spec.baseline {
        let chosen = cells
            .iter()
            .filter(|cell| design::selects(&baseline.cell, cell))
            .count();
        if chosen != 1 {
            let varied = selectable(spec);
            let several = varied.iter().filter(|(_, levels)| levels.len() > 1);
            let names: Vec<_> = several.map(|(name, _)| *name).collect();
            problems.add(
                baseline.cell.line,
                format!(
                    "baseline: chooses {chosen} cells, expected one: name a level of each of {}",
                    names.join(", ")
                ),
            );
        }
    }
    let trials = design::trials(spec);
    if trials > MAX_TRIALS {
        problems.add(1, format!("{trials} trials: the limit is {MAX_TRIALS}"));
    }
}
