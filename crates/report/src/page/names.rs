//! Names of runs, and the line that says what a page is of.

use std::collections::BTreeMap;
use std::path::Path;

use analysis::{FILE_FACTOR, Observation, distinct};
use presentation::words;
use results::RunResult;

use super::PageSubject;

/// Longer names are cut: they would fill a legend.
pub(crate) const NAME_CHARS_MAX: usize = 60;

/// The line of a page names at most this many files.
const NAMED_FILES_MAX: usize = 4;

/// The line of a page has at most this many URLs.
const NAMED_URLS_MAX: usize = 2;

/// A short name for each run, no two equal: its levels, profile and target as far as they differ,
/// with a number where several runs have the same.
pub(crate) fn of_runs(observations: &[&Observation]) -> Vec<String> {
    let server = same_server(observations.iter().map(|run| run.target.as_deref()));
    let base = |run: &&Observation| {
        let levels = run.settings.iter().map(|setting| setting.level.as_str());
        let [profile, target] = parts_apart(run, observations);
        let target = target.map(|target| target.strip_prefix(server).unwrap_or(target));
        let parts: Vec<&str> = levels
            .chain(profile)
            .chain(target)
            .filter(|part| !part.is_empty())
            .collect();
        if parts.is_empty() {
            file_stem(&run.source)
        } else {
            words::cut(&parts.join(", "), NAME_CHARS_MAX)
        }
    };
    let bases: Vec<String> = observations.iter().map(base).collect();
    let mut totals: BTreeMap<&str, u32> = BTreeMap::new();
    for base in &bases {
        *totals.entry(base).or_default() += 1;
    }
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut names = Vec::with_capacity(bases.len());
    for base in &bases {
        let number = seen.entry(base).or_default();
        *number += 1;
        names.push(match totals.get(base.as_str()) {
            Some(total) if *total > 1 && base.is_empty() => format!("run {number}"),
            Some(total) if *total > 1 => format!("{base} \u{b7} run {number}"),
            _ if base.is_empty() => "the run".to_owned(),
            _ => base.clone(),
        });
    }
    names
}

/// Profile and target of a run, each only if runs of the same levels differ in it.
pub(crate) fn parts_apart<'a>(run: &'a Observation, all: &[&Observation]) -> [Option<&'a str>; 2] {
    let parts: [fn(&Observation) -> Option<&str>; 2] =
        [|run| run.profile.as_deref(), |run| run.target.as_deref()];
    parts.map(|part| {
        let mut like = all.iter().filter(|other| other.settings == run.settings);
        let differs = like.any(|other| part(other) != part(run));
        part(run).filter(|_| differs)
    })
}

/// Scheme, host and port, if all targets have the same ones; otherwise nothing.
pub(crate) fn same_server<'a>(targets: impl Iterator<Item = Option<&'a str>>) -> &'a str {
    let server = |target: Option<&'a str>| {
        let target = target?;
        let host_at = target.find("://")? + 3;
        let path_at = host_at + target[host_at..].find('/')?;
        Some(&target[..path_at])
    };
    let mut servers = targets.map(server);
    match servers.next().flatten() {
        Some(first) if servers.all(|server| server == Some(first)) => first,
        _ => "",
    }
}

/// The name of a file without folder and extension: `results/new-1.json` is `new-1`.
fn file_stem(source: &str) -> String {
    let path = Path::new(source);
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    words::cut(&stem.to_string_lossy(), NAME_CHARS_MAX)
}

/// What a page is of: its experiment or target, load, and when and where it was measured.
pub(crate) fn subtitle(subject: &PageSubject<'_>) -> String {
    let experiments = subject.experiments.iter();
    let names: Vec<String> = experiments
        .map(|experiment| experiment.name.clone())
        .filter(|name| !name.is_empty())
        .collect();
    let name = (!names.is_empty()).then(|| words::list(&names));
    match subject.observations {
        [] => String::new(),
        [run] => {
            let parts = name.into_iter().chain([target_of(run)]);
            parts.chain(about(run)).collect::<Vec<_>>().join(SEPARATOR)
        }
        several => {
            let what = name.unwrap_or_else(|| number_and_target(several));
            let span = span(several, &what);
            let parts = [what].into_iter().chain(urls(several)).chain(span);
            parts.collect::<Vec<_>>().join(SEPARATOR)
        }
    }
}

/// Between the parts of a line.
const SEPARATOR: &str = " \u{b7} ";

fn target_of(run: &Observation) -> String {
    match (&run.result, &run.target) {
        (Some(result), _) => result.plan.target.url.clone(),
        (None, Some(target)) => target.clone(),
        (None, None) => file_stem(&run.source),
    }
}

/// The URLs of targets that have names, if there are few.
fn urls(runs: &[Observation]) -> Option<String> {
    let named = |run: &Observation| {
        let url = &run.result.as_ref()?.plan.target.url;
        (run.target.as_ref() != Some(url)).then(|| url.clone())
    };
    let urls = distinct(runs.iter().filter_map(named));
    (1..=NAMED_URLS_MAX)
        .contains(&urls.len())
        .then(|| words::list(&urls))
}

fn about(run: &Observation) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(run.settings.iter().map(ToString::to_string));
    match &run.result {
        Some(result) => {
            parts.push(result.plan.load_in_words());
            parts.push(result.plan.end_in_words());
            parts.extend(when_and_where(result));
        }
        None => {
            parts.extend(run.profile.clone());
            parts.push(run.source.clone());
            parts.extend(run.started_at().map(words::moment));
        }
    }
    parts
}

fn number_and_target(runs: &[Observation]) -> String {
    let number = words::counted(runs.len() as u64, "run");
    let mut targets = runs.iter().filter_map(|run| run.target.as_deref());
    if let Some(first) = targets.next()
        && targets.all(|target| target == first)
    {
        return format!("{number} of {first}");
    }
    let settings = runs.iter().flat_map(|run| &run.settings);
    let files = settings.filter(|setting| setting.factor == FILE_FACTOR);
    let files = distinct(files.map(|setting| setting.level.clone()));
    match files.len() {
        2..=NAMED_FILES_MAX => format!("{number} of {}", words::list(&files)),
        _ => number,
    }
}

/// The number of runs, if `what` does not have it, when they were started, and where.
fn span(runs: &[Observation], what: &str) -> Vec<String> {
    let mut starts: Vec<&str> = runs.iter().filter_map(Observation::started_at).collect();
    starts.sort_unstable();
    starts.dedup();
    let number = words::counted(runs.len() as u64, "run");
    let mut parts = Vec::new();
    if !what.contains(&number) {
        parts.push(number);
    }
    match starts.as_slice() {
        [] => {}
        [one] => parts.push(words::moment(one)),
        [first, .., last] => parts.push(format!(
            "started from {} to {}",
            words::moment(first),
            words::moment(last)
        )),
    }
    let mut machines: Vec<&str> = runs
        .iter()
        .filter_map(|run| run.result.as_ref()?.environment.hostname.as_deref())
        .collect();
    machines.sort_unstable();
    machines.dedup();
    if let [machine] = machines.as_slice() {
        parts.push(format!("from {machine}"));
    }
    parts
}

/// When a run was started, on which machine, and with which version.
fn when_and_where(result: &RunResult) -> Vec<String> {
    let environment = &result.environment;
    let mut parts = Vec::new();
    if let Some(moment) = &environment.started_at {
        parts.push(words::moment(moment));
    }
    if let Some(machine) = &environment.hostname {
        parts.push(format!("from {machine}"));
    }
    if !environment.wrkbench_version.is_empty() {
        parts.push(format!("wrkbench {}", environment.wrkbench_version));
    }
    parts
}

#[cfg(test)]
mod tests {
    use results::Setting;

    use super::*;

    fn run(source: &str, levels: &[&str]) -> Observation {
        let setting = |level: &&str| Setting {
            factor: "file".to_owned(),
            level: (*level).to_owned(),
        };
        Observation {
            source: source.to_owned(),
            settings: levels.iter().map(setting).collect(),
            run: 1,
            ..Observation::default()
        }
    }

    fn names(runs: &[Observation]) -> Vec<String> {
        of_runs(&runs.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_run_is_named_by_what_tells_it_apart() {
        assert_eq!(
            names(&[
                run("d/new-1.json", &["new"]),
                run("d/new-2.json", &["new"]),
                run("d/old.json", &["old"])
            ]),
            ["new \u{b7} run 1", "new \u{b7} run 2", "old"]
        );
        assert_eq!(
            names(&[run("d/a.json", &[]), run("d/b.json", &[])]),
            ["a", "b"]
        );
        assert_eq!(names(&[run("", &[]), run("", &[])]), ["run 1", "run 2"]);
    }

    #[test]
    fn a_profile_or_target_is_in_the_name_only_where_it_tells_runs_apart() {
        let with = |target: &str| Observation {
            profile: Some("2 threads".to_owned()),
            target: Some(target.to_owned()),
            ..run("a.json", &["x"])
        };
        assert_eq!(
            names(&[with("http://a/"), with("http://b/")]),
            ["x, http://a/", "x, http://b/"]
        );
        assert_eq!(
            names(&[with("http://a/b?c"), with("http://a/d")]),
            ["x, /b?c", "x, /d"]
        );
        let other = Observation {
            target: Some("http://b/".to_owned()),
            ..run("b.json", &["y"])
        };
        assert_eq!(names(&[with("http://a/"), other]), ["x", "y"]);
        assert_eq!(
            names(&[with("http://a/"), with("http://a/")]),
            ["x \u{b7} run 1", "x \u{b7} run 2"]
        );
    }
}
