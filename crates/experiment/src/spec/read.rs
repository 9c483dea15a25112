//! Reads an experiment file into a [`Spec`].

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use files::outputs::folder_of;
use judging::Criterion;
use plan::{Arrivals, MAX_CONNECTIONS, TelemetrySpec};
use results::{Order, PLACE_FACTOR, SearchOver, Stopping};
use serde::Deserialize;
use toml::Spanned;
use toml::de::DeTable;

use super::factors::{level_text, read_factor};
use super::options::read_options;
use super::places::read_places;
use super::problems::{Problems, SpecError};
use super::searched::refuse_overruled;
use super::section::{Section, fields_of};
use super::selection::selectable;
use super::suggestions::{TOP_OF_FILE, shown, unknown};
use super::value::{
    ArrivalsName, Command, Conditions, HostName, Limit, Metrics, Name, NumberIn, OverName,
    Percentage, Places, Rate, Sockets, TableEntry, Text, Time, Url, Value, one_or_more,
};
use super::{
    Baseline, Hook, Hooks, LoadOptions, MAX_CELLS, MAX_FILE_BYTES, MAX_ROUNDS, MAX_TRIALS,
    PlaceMode, PlaceSpec, Profile, Ready, SearchSpec, Selection, Spec, TargetSpec, variable,
};
use crate::design;
use crate::factor::FactorKind;

/// Default time limit of hooks.
const HOOK_LIMIT: Duration = Duration::from_secs(60);
/// Default time to wait until a server is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Default interval of samples.
const TELEMETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Default precision of a search.
const SEARCH_PRECISION: f64 = 0.02;
/// Default budget of a search.
const SEARCH_BUDGET: Duration = Duration::from_secs(600);
/// Default length of a run of a search.
const SEARCH_RUN: Duration = Duration::from_secs(6);
/// The condition that every search has: a server that refuses quickly does not carry a rate. If it
/// has one of its own about errors or about statuses, the other one of these is added.
const SEARCH_FAILED: &str = "failed<0.1%";
const SEARCH_ERRORS: &str = "errors<0.1%";
const SEARCH_STATUSES: &str = "status<0.1%";
/// Default number of other cells between repeats of the baseline.
const BASELINE_EVERY: u32 = 5;

/// Tables of the file.
pub(super) const SECTIONS: [&str; 8] = [
    "load",
    "target",
    "profile",
    "place",
    "factor",
    "hooks",
    "search",
    "telemetry",
];

/// Names that factors cannot have, because selections or environment variables use them.
const RESERVED: [&str; 8] = [
    "target", "profile", "every", "url", "plan_dir", "level", "trial", "round",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TopKeys {
    name: Option<Name>,
    rounds: Option<NumberIn<u32, 1, { MAX_ROUNDS as u64 }>>,
    results: Option<Text>,
    seed: Option<NumberIn<u64, 0, { i64::MAX as u64 }>>,
    order: Order,
    retries: Option<NumberIn<u32, 0, 10>>,
    max_failures: Option<NumberIn<u32, 0, 100_000>>,
    threshold: Option<Percentage>,
    judge: Option<Metrics>,
    until: Option<UntilKeys>,
    places: Option<Spanned<Places>>,
    exclude: Option<Spanned<Value>>,
    baseline: Option<Spanned<Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TargetKeys {
    name: Option<Name>,
    url: Option<Url>,
    before: Option<Spanned<Command>>,
    after: Option<Spanned<Command>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table like { precision = \"2%\", budget = \"10m\" }"
)]
struct UntilKeys {
    precision: Option<Percentage>,
    decided: bool,
    budget: Option<Limit>,
}

impl UntilKeys {
    fn into_stopping(self) -> Stopping {
        let ms = |Limit(time): Limit| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Stopping {
            precision: self.precision.map(|Percentage(share)| share),
            when_decided: self.decided,
            budget_ms: self.budget.map(ms),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SearchKeys {
    slo: Option<Conditions>,
    over: Option<OverName>,
    max_connections: Option<NumberIn<u32, 1, { MAX_CONNECTIONS as u64 }>>,
    precision: Option<Percentage>,
    budget: Option<Limit>,
    run: Option<Limit>,
    rate: Option<Rate>,
    arrivals: Option<ArrivalsName>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ProfileKeys {
    name: Option<Name>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HookKeys {
    setup: Option<Spanned<Command>>,
    restart: Option<Spanned<Command>>,
    ready: Option<ReadyKeys>,
    settle: Option<Time>,
    before: Option<Spanned<Command>>,
    after: Option<Spanned<Command>>,
    teardown: Option<Spanned<Command>>,
    timeout: Option<Limit>,
}

#[derive(Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table like { url = \"http://...\", within = \"10s\" }"
)]
struct ReadyKeys {
    url: Option<Url>,
    within: Option<Limit>,
    status: Option<NumberIn<u16, 100, 599>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TelemetryKeys {
    sockets: Option<Sockets>,
    interval: Option<Limit>,
    counters: bool,
}

/// The text of an experiment file, and its folder as an absolute path: commands that undo changes
/// may run in another directory.
pub(super) fn file_text(file: &Path) -> Result<(String, PathBuf), SpecError> {
    let refuse = |text: String| SpecError::new(file, None, text);
    let bytes = files::read(file, MAX_FILE_BYTES)
        .map_err(|error| refuse(format!("cannot read the file ({error})")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let text = "not UTF-8 text: not an experiment file".to_owned();
        SpecError::new(file, Some(line), text)
    })?;
    let folder = std::path::absolute(folder_of(file))
        .map_err(|error| refuse(format!("cannot find the file's folder ({error})")))?;
    Ok((text, folder))
}

/// The keys and tables of a file.
pub(super) fn top_of_file<'a>(
    text: &'a str,
    file: &Path,
    problems: &Problems,
) -> Result<Section<'a>, SpecError> {
    let root = DeTable::parse(text).map_err(|error| {
        let message = error.message().trim().replace('\n', ", ");
        let line = error.span().map(|span| problems.line(span.start));
        SpecError::new(file, line, format!("not TOML: {message}"))
    })?;
    Ok(Section::new(TOP_OF_FILE, 1, root.into_inner()))
}

pub(super) fn read(text: &str, file: &Path, folder: &Path) -> Result<Spec, SpecError> {
    let mut problems = Problems::new(text);
    let top = top_of_file(text, file, &problems)?;
    let spec = read_top(top, text, file, folder, &mut problems);
    check_whole(&spec, &mut problems);
    problems.into_result(file)?;
    Ok(spec)
}

fn read_top(
    mut top: Section<'_>,
    text: &str,
    file: &Path,
    folder: &Path,
    problems: &mut Problems,
) -> Spec {
    refuse_missing(&top, problems);
    let load = match top.section("load", problems) {
        Some(mut load) => read_options(load.rest(problems), folder, problems),
        None => LoadOptions::default(),
    };
    let targets = read_targets(top.sections("target", problems), folder, problems);
    let profiles = read_profiles(top.sections("profile", problems), folder, problems);
    let places = read_places(top.sections("place", problems), &targets, problems);
    let factors = top.sections("factor", problems).into_iter();
    let factors = factors
        .filter_map(|section| read_factor(section, folder, problems))
        .collect();
    let hooks = top.section("hooks", problems);
    let telemetry = top.section("telemetry", problems);
    let search = top.section("search", problems);
    let keys: TopKeys = top.read(problems);
    refuse_useless(&keys, &places, search.as_ref(), problems);
    let results = keys.results.as_ref().map_or("results", |Text(text)| text);
    let mut spec = Spec {
        name: keys.name.map_or_else(String::new, |Name(name)| name),
        rounds: keys.rounds.map_or(1, |NumberIn(rounds)| rounds),
        results: folder.join(results),
        seed: keys.seed.map(|NumberIn(seed)| seed),
        order: keys.order,
        retries: keys.retries.map_or(1, |NumberIn(retries)| retries),
        max_failures: keys
            .max_failures
            .map_or(super::MAX_FAILURES, |NumberIn(n)| n),
        threshold: keys.threshold.map(|Percentage(share)| share),
        judge: keys.judge.map_or_else(Vec::new, |Metrics(metrics)| metrics),
        until: keys.until.map(UntilKeys::into_stopping),
        load,
        targets,
        profiles,
        places,
        place_mode: keys
            .places
            .map_or_else(PlaceMode::default, |mode| mode.into_inner().0),
        factors,
        exclude: Vec::new(),
        baseline: None,
        hooks: hooks.map_or_else(Hooks::default, |section| read_hooks(section, problems)),
        search: search.and_then(|section| read_search(section, problems)),
        telemetry: telemetry.and_then(|section| read_telemetry(section, problems)),
        text: text.to_owned(),
        file: file.to_owned(),
        folder: folder.to_owned(),
    };
    // These name levels, so they are read last.
    if let Some(value) = keys.exclude {
        spec.exclude = read_exclusions(&value, &spec, problems);
    }
    if let Some(value) = keys.baseline {
        spec.baseline = read_baseline(&value, &spec, problems);
    }
    refuse_overruled(&spec, problems);
    refuse_unknown(top, problems);
    spec
}

fn refuse_missing(top: &Section<'_>, problems: &mut Problems) {
    if !top.has("name") {
        problems.add(1, "name is missing: name = \"what is tried\"");
    }
    if !top.has("target") {
        problems.add(
            1,
            "no target: write [[target]] with name = \"...\" and url = \"http://...\"",
        );
    }
}

/// Refuses keys that have no effect: `places` without a place, and `until` with a search.
fn refuse_useless(
    keys: &TopKeys,
    places: &[PlaceSpec],
    search: Option<&Section<'_>>,
    problems: &mut Problems,
) {
    if let Some(mode) = keys.places.as_ref().filter(|_| places.is_empty()) {
        let text = "places: there is no [[place]] with name = \"...\"";
        problems.add(problems.line(mode.span().start), text);
    }
    if let (Some(section), Some(_)) = (search, &keys.until) {
        let text = "until does not go with [search], which ends by its own precision and budget";
        problems.add(section.line, text);
    }
}

fn refuse_unknown(mut top: Section<'_>, problems: &mut Problems) {
    let known = [fields_of::<TopKeys>(), &SECTIONS].concat();
    for (key, value) in top.rest(problems) {
        let mut text = unknown(key.get_ref(), TOP_OF_FILE, &known);
        let is_table = |element: &Spanned<Value>| element.get_ref().as_table().is_some();
        if let Some(list) = value.get_ref().as_list()
            && !list.iter().any(is_table)
        {
            text.push_str(&format!(
                "; to vary an option of the load, write [[factor]] and under it {} = [...]",
                key.get_ref()
            ));
        }
        problems.add(problems.line(key.span().start), text);
    }
}

fn read_targets(
    sections: Vec<Section<'_>>,
    folder: &Path,
    problems: &mut Problems,
) -> Vec<TargetSpec> {
    let mut targets: Vec<TargetSpec> = Vec::new();
    for mut section in sections {
        let line = section.line;
        if !section.has("url") {
            problems.add(line, "[[target]] has no url = \"http://...\"");
            continue;
        }
        let keys: TargetKeys = section.read(problems);
        let load = read_options(section.rest(problems), folder, problems);
        let Some(Url(url)) = keys.url else { continue };
        let name = keys.name.map_or_else(|| url.clone(), |Name(name)| name);
        if targets.iter().any(|known| known.name == name) {
            let name = shown(&name);
            let text = format!("two targets are called {name}: give each its own name");
            problems.add(line, text);
            continue;
        }
        targets.push(TargetSpec {
            name,
            url,
            load,
            before: hook(keys.before, HOOK_LIMIT, problems),
            after: hook(keys.after, HOOK_LIMIT, problems),
            line,
        });
    }
    targets
}

fn read_profiles(
    sections: Vec<Section<'_>>,
    folder: &Path,
    problems: &mut Problems,
) -> Vec<Profile> {
    let mut profiles: Vec<Profile> = Vec::new();
    for mut section in sections {
        let line = section.line;
        if !section.has("name") {
            problems.add(line, "[[profile]] has no name = \"...\"");
        }
        let keys: ProfileKeys = section.read(problems);
        let load = read_options(section.rest(problems), folder, problems);
        let Some(Name(name)) = keys.name else {
            continue;
        };
        if profiles.iter().any(|known| known.name == name) {
            let name = shown(&name);
            problems.add(line, format!("two profiles are called {name}"));
            continue;
        }
        profiles.push(Profile { name, load, line });
    }
    profiles
}

fn read_hooks(section: Section<'_>, problems: &mut Problems) -> Hooks {
    let keys: HookKeys = section.read_all(problems);
    let limit = keys.timeout.map_or(HOOK_LIMIT, |Limit(limit)| limit);
    let hook = |command| hook(command, limit, problems);
    Hooks {
        setup: hook(keys.setup),
        restart: hook(keys.restart),
        before: hook(keys.before),
        after: hook(keys.after),
        teardown: hook(keys.teardown),
        ready: keys.ready.map(|ready| Ready {
            url: ready.url.map(|Url(url)| url),
            within: ready.within.map_or(READY_WITHIN, |Limit(within)| within),
            status: ready.status.map(|NumberIn(status)| status),
        }),
        settle: keys.settle.map_or(Duration::ZERO, |Time(time)| time),
    }
}

fn hook(command: Option<Spanned<Command>>, limit: Duration, problems: &Problems) -> Option<Hook> {
    let command = command?;
    let line = problems.line(command.span().start);
    let (Text(run), timeout, host) = match command.into_inner() {
        Command::Line(run) => (run, None, None),
        Command::Limited { run, timeout, host } => (run, timeout, host),
    };
    Some(Hook {
        command: run,
        limit: timeout.map_or(limit, |Limit(limit)| limit),
        host: host.map(|HostName(host)| host),
        line,
    })
}

fn read_search(section: Section<'_>, problems: &mut Problems) -> Option<SearchSpec> {
    let line = section.line;
    let has_conditions = section.has("slo");
    let keys: SearchKeys = section.read_all(problems);
    let Some(Conditions(mut slo)) = keys.slo else {
        if !has_conditions {
            let text = "[search] has no slo = [\"p99<50ms\", \"failed<0.1%\"]";
            problems.add(line, text);
        }
        return None;
    };
    let is_any = |is_about: fn(&Criterion) -> bool| slo.iter().any(is_about);
    let missing = match [
        is_any(Criterion::is_about_failures),
        is_any(Criterion::is_about_statuses),
    ] {
        [false, false] => SEARCH_FAILED,
        [false, true] => SEARCH_ERRORS,
        [true, false] => SEARCH_STATUSES,
        [true, true] => "",
    };
    slo.extend(Criterion::parse_list(missing).unwrap_or_default());
    let over = keys.over.map_or(SearchOver::Rate, |OverName(over)| over);
    let (own, given) = match over {
        SearchOver::Rate => (
            "connections",
            &[("max_connections", keys.max_connections.is_some())][..],
        ),
        SearchOver::Connections => (
            "rate",
            &[
                ("rate", keys.rate.is_some()),
                ("arrivals", keys.arrivals.is_some()),
            ][..],
        ),
    };
    for (key, _) in given.iter().filter(|(_, is_given)| *is_given) {
        let text = format!(
            "[search] {key} does not go with a search over {} (it needs over = \"{own}\")",
            over.name()
        );
        problems.add(line, text);
    }
    Some(SearchSpec {
        slo,
        over,
        connections_max: keys.max_connections.map(|NumberIn(most)| most),
        precision: keys
            .precision
            .map_or(SEARCH_PRECISION, |Percentage(share)| share),
        budget: keys.budget.map_or(SEARCH_BUDGET, |Limit(budget)| budget),
        run: keys.run.map_or(SEARCH_RUN, |Limit(run)| run),
        rate_per_sec: keys.rate.map(|Rate(rate)| rate),
        arrivals: keys
            .arrivals
            .map_or(Arrivals::Poisson, |ArrivalsName(it)| it),
    })
}

fn read_telemetry(section: Section<'_>, problems: &mut Problems) -> Option<TelemetrySpec> {
    let line = section.line;
    let keys: TelemetryKeys = section.read_all(problems);
    let sockets = match keys.sockets {
        None | Some(Sockets::All(false)) => None,
        // An empty filter matches all sockets.
        Some(Sockets::All(true)) => Some(String::new()),
        Some(Sockets::Matching(filter)) => Some(filter),
    };
    let is_wanted = sockets.is_some() || keys.counters;
    if !is_wanted && keys.interval.is_some() {
        let text = "[telemetry] records nothing: set sockets or counters";
        problems.add(line, text);
    }
    is_wanted.then(|| TelemetrySpec {
        sockets,
        interval: keys.interval.map_or(TELEMETRY_INTERVAL, |Limit(time)| time),
        counters: keys.counters,
    })
}

fn read_exclusions(value: &Spanned<Value>, spec: &Spec, problems: &mut Problems) -> Vec<Selection> {
    const EXPECTED: &str = "a list like [{ buffers = 262144, connections = 400 }]";
    let line = problems.line(value.span().start);
    let list = value.get_ref().list(EXPECTED);
    let list = problems.keep(line, "exclude", list).unwrap_or_default();
    let mut exclusions = Vec::new();
    for element in list {
        let line = problems.line(element.span().start);
        match element.get_ref().as_table() {
            None => problems.add(line, format!("exclude: expected {EXPECTED}")),
            Some([]) => problems.add(line, "exclude: an empty table would leave out every cell"),
            Some(entries) => {
                exclusions.extend(read_selection("exclude", line, entries, spec, problems));
            }
        }
    }
    exclusions
}

fn read_baseline(value: &Spanned<Value>, spec: &Spec, problems: &mut Problems) -> Option<Baseline> {
    let line = problems.line(value.span().start);
    let Some(entries) = value.get_ref().as_table() else {
        let text = "baseline: expected a table like { buffers = 262144, every = 5 }";
        problems.add(line, text);
        return None;
    };
    let is_every = |(key, _): &&TableEntry| key.get_ref() == "every";
    let every = entries.iter().find(is_every).and_then(|(_, value)| {
        type Every = NumberIn<u32, 1, { MAX_CELLS as u64 }>;
        let line = problems.line(value.span().start);
        problems.keep(line, "every", Every::try_from(value.get_ref().clone()))
    });
    let levels: Vec<TableEntry> = entries.iter().filter(|it| !is_every(it)).cloned().collect();
    Some(Baseline {
        cell: read_selection("baseline", line, &levels, spec, problems)?,
        every: every.map_or(BASELINE_EVERY, |NumberIn(every)| every),
    })
}

fn read_selection(
    name: &str,
    line: usize,
    entries: &[TableEntry],
    spec: &Spec,
    problems: &mut Problems,
) -> Option<Selection> {
    let selectable = selectable(spec);
    let names: Vec<&str> = selectable.iter().map(|(name, _)| *name).collect();
    let problems_before = problems.count();
    let mut chosen: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (key, value) in entries {
        let key_line = problems.line(key.span().start);
        let key = key.get_ref();
        let Some(at) = names.iter().position(|name| name == key) else {
            problems.add(key_line, unknown(key, name, &names));
            continue;
        };
        let known = &selectable[at].1;
        let mut levels = Vec::new();
        for element in one_or_more(value) {
            let line = problems.line(element.span().start);
            let level = level_text(element.get_ref());
            let Some(level) = problems.keep(line, name, level) else {
                continue;
            };
            if known.contains(&level.as_str()) {
                levels.push(level);
            } else {
                let (level, known) = (shown(&level), known.join(", "));
                let text = format!("{name}: {key} has no level {level} (known: {known})");
                problems.add(line, text);
            }
        }
        chosen.insert(at, levels);
    }
    let levels = chosen
        .into_iter()
        .map(|(at, levels)| (names[at].to_owned(), levels));
    (problems.count() == problems_before).then(|| Selection {
        levels: levels.collect(),
        line,
    })
}

/// Checks that involve several tables.
fn check_whole(spec: &Spec, problems: &mut Problems) {
    check_factor_names(spec, problems);
    check_same_resources(spec, problems);
    check_layers(spec, problems);
    // The cells of an incomplete experiment would be misleading.
    if problems.count() == 0 {
        check_cells(spec, problems);
    }
}

fn check_factor_names(spec: &Spec, problems: &mut Problems) {
    let mut variables: BTreeMap<String, &str> = BTreeMap::new();
    for factor in &spec.factors {
        let own = variable(&factor.name);
        let is_of_places = !spec.places.is_empty() && variable(PLACE_FACTOR) == own;
        let name = shown(&factor.name);
        if is_of_places || RESERVED.iter().any(|name| variable(name) == own) {
            let text = format!("a factor cannot be called {name}: choose another name");
            problems.add(factor.line, text);
        }
        if let Some(other) = variables.insert(own.clone(), &factor.name) {
            let is_same = other == factor.name;
            let other = shown(other);
            let text = if is_same {
                format!("two factors are called {name}")
            } else {
                format!("the factors {other} and {name} would share the variable {own}: rename one")
            };
            problems.add(factor.line, text);
        }
    }
}

/// Two factors that set the same resource would overwrite each other.
fn check_same_resources(spec: &Spec, problems: &mut Problems) {
    let mut set: BTreeMap<String, &str> = BTreeMap::new();
    for factor in &spec.factors {
        let resources = match &factor.kind {
            FactorKind::Sysctl { keys } => keys
                .iter()
                .filter_map(|key| Some(crate::sysctl_path(key)?.display().to_string()))
                .collect(),
            FactorKind::Option { option } => vec![format!("--{option}")],
            FactorKind::File { path, .. } => vec![without_detours(path).display().to_string()],
            FactorKind::Command { .. } => Vec::new(),
        };
        let on = |resource| crate::remote::name_on(factor.host.as_deref(), resource);
        for resource in resources.iter().map(|resource: &String| on(resource)) {
            let name = &factor.name;
            if let Some(other) = set.insert(resource.clone(), name) {
                let text = if other == name {
                    format!("{name}: names {resource} twice")
                } else {
                    format!("the factors {other} and {name} both set {resource}")
                };
                problems.add(factor.line, text);
            }
        }
    }
}

/// The path without `.` and `..`; links are not resolved.
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

/// Refuses options that a factor varies and a profile or target sets.
fn check_layers(spec: &Spec, problems: &mut Problems) {
    let profiles = spec.profiles.iter().map(|p| ("profile", &p.name, &p.load));
    let targets = spec.targets.iter().map(|t| ("target", &t.name, &t.load));
    for (what, name, load) in profiles.chain(targets) {
        for option in load.iter() {
            let varied = spec.factors.iter().find(|factor| {
                matches!(&factor.kind, FactorKind::Option { option: own } if *own == option.name)
            });
            if let Some(factor) = varied {
                let (option_name, name, factor) = (&option.name, shown(name), shown(&factor.name));
                let text = format!(
                    "{option_name} is set by the {what} {name} and varied by the factor {factor}: \
                     remove one of them"
                );
                problems.add(option.line, text);
            }
        }
    }
}

fn check_cells(spec: &Spec, problems: &mut Problems) {
    let count = design::crossed(spec);
    if count > MAX_CELLS {
        let places = if spec.places.is_empty() {
            ""
        } else {
            "places, "
        };
        let text = format!(
            "{count} combinations of {places}levels, profiles and targets: the limit is {MAX_CELLS}"
        );
        return problems.add(1, text);
    }
    let cells = design::cells(spec);
    if cells.is_empty() {
        return problems.add(1, "exclude leaves out every cell: nothing is left to run");
    }
    let everything = design::all_cells(spec);
    for exclusion in &spec.exclude {
        if !everything.iter().any(|cell| exclusion.selects(cell)) {
            problems.add(exclusion.line, "exclude: no cell has these levels");
        }
    }
    if let Some(baseline) = &spec.baseline {
        let chosen = cells.iter().filter(|cell| baseline.cell.selects(cell));
        let chosen = chosen.count();
        if chosen != 1 {
            let varied = selectable(spec);
            let several = varied.iter().filter(|(_, levels)| levels.len() > 1);
            let names: Vec<_> = several.map(|(name, _)| *name).collect();
            let names = names.join(", ");
            let text = format!(
                "baseline: matches {chosen} cells, expected one: give a level of each of {names}"
            );
            problems.add(baseline.cell.line, text);
        }
    }
    let trials = design::trials(spec);
    if trials > MAX_TRIALS {
        problems.add(1, format!("{trials} trials: the limit is {MAX_TRIALS}"));
    }
}
