//! Names and numbers of the runs of several files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use regex_lite::Regex;
use results::{Setting, metric};

use super::file_name;
use crate::Observation;
use crate::notes::regex;
use crate::repetitions::renumber_duplicates;

/// The name of the runs of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Label {
    /// The parent folder, which distinguishes files of the same name.
    folder: String,
    /// The name within that folder, without a number at its end.
    name: String,
    /// The name with a number that may or may not count runs, and that number.
    numbered: Option<(String, u64)>,
}

/// Runs that share a label.
type Group = (Label, Vec<Observation>);

/// The factor whose levels are files, when runs of several files are combined.
pub const FILE_FACTOR: &str = "file";

/// A name with a number at its end.
static NUMBERED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?P<name>.*?)(?P<separators>[-_. ]*)(?P<number>\d+)$"));

/// The name before a number that counts runs, whichever it is.
static ROUND: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)(?:^|[-_. ])(?:run|r|round|trial|rep)$"));

/// The label of the runs of a path: a folder as it is given, a file without its extension. Files
/// that name their own runs get the label of their folder, and so do trials of a sweep.
fn of_runs(path: &Path, runs: &[Observation]) -> Label {
    let mut label = of_path(path);
    if !runs.is_empty() && runs.iter().all(|run| run.cell.is_some()) {
        (label.name, label.numbered) = (String::new(), None);
    }
    label
}

fn of_path(path: &Path) -> Label {
    let parent = path.parent().unwrap_or_else(|| Path::new(""));
    let label = |folder: &Path, name: &str, numbered| Label {
        folder: folder.display().to_string(),
        name: name.to_owned(),
        numbered,
    };
    if path.is_dir() {
        return label(path, "", None);
    }
    if file_name::settings_and_run(path).is_some() {
        return label(parent, "", None);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let Some(parts) = NUMBERED.captures(&stem) else {
        return label(parent, &stem, None);
    };
    let (name, separators) = (&parts["name"], &parts["separators"]);
    // `nginx-1.24` has a version, and `wrk2` is a name.
    let is_name = separators.ends_with('.') || separators.is_empty() && !name.is_empty();
    match parts["number"].parse() {
        Ok(_) if ROUND.is_match(name) => label(parent, name, None),
        Ok(number) if !is_name => label(parent, name, Some((stem.to_string(), number))),
        _ => label(parent, &stem, None),
    }
}

impl Label {
    fn shown(&self, with_folder: bool) -> String {
        let folder = if with_folder {
            self.folder.as_str()
        } else {
            ""
        };
        let parts = [folder, &self.name].into_iter();
        let parts = parts.filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("/")
    }
}

/// Decides whether numbers at the ends of names count runs, as in `new-1.json` and `new-2.json`:
/// only if they are 1, 2, 3 and so on. `c-100.txt` and `c-200.txt` are of different things.
fn resolve_numbers(groups: &mut [Group]) {
    let key = |label: &Label| (label.folder.clone(), label.name.clone());
    let mut numbers: BTreeMap<(String, String), BTreeSet<u64>> = BTreeMap::new();
    for (label, _) in groups.iter() {
        let number = label.numbered.as_ref().map(|(_, number)| *number);
        numbers.entry(key(label)).or_default().extend(number);
    }
    for (label, _) in groups {
        let known = &numbers[&key(label)];
        // `gzip-0.txt` and `gzip-1.txt` are without and with.
        let first = u64::from(known.len() < 3 || !known.contains(&0));
        let count_runs = known.iter().copied().eq(first..first + known.len() as u64);
        if let Some((whole, _)) = label.numbered.take().filter(|_| !count_runs) {
            label.name = whole;
        }
    }
}

/// Combines the runs of several paths. If their labels differ, the label becomes a setting.
/// `written` says when a file was written, if this is known.
pub(super) fn join<P: AsRef<Path>>(
    parts: Vec<(P, Vec<Observation>)>,
    written: fn(&Path) -> Option<SystemTime>,
) -> Vec<Observation> {
    let parts = parts.into_iter().filter(|(_, runs)| !runs.is_empty());
    let mut times = Vec::new();
    let groups = parts.map(|(path, runs)| {
        let written = written(path.as_ref());
        times.extend(runs.iter().map(|run| ended(run, written)));
        (of_runs(path.as_ref(), &runs), runs)
    });
    let mut groups: Vec<Group> = groups.collect();
    resolve_numbers(&mut groups);
    let differ = |part: fn(&Label) -> (&str, &str)| {
        let mut pairs = groups.windows(2);
        pairs.any(|pair| part(&pair[0].0) != part(&pair[1].0))
    };
    let names_differ = differ(|label| (&label.folder, &label.name));
    let folders_differ = differ(|label| (&label.folder, ""));
    let several = groups.len() > 1;
    let mut observations = Vec::new();
    for (label, mut group) in groups {
        let level = label.shown(folders_differ);
        for observation in group.iter_mut().filter(|_| names_differ) {
            let (factor, level) = (FILE_FACTOR.to_owned(), level.clone());
            observation.settings.insert(0, Setting { factor, level });
        }
        observations.append(&mut group);
    }
    if several {
        renumber_duplicates(&mut observations);
        order_by_time(&mut observations, &times);
    }
    observations
}

/// When a run ended, and how long it took if only its file says when.
type Time = (SystemTime, Duration);

fn ended(run: &Observation, written: Option<SystemTime>) -> Option<Time> {
    let took_us = run.value(metric::DURATION_US).unwrap_or_default();
    let took = Duration::try_from_secs_f64(took_us / 1e6).unwrap_or_default();
    let Some(began_ms) = run.began_unix_ms() else {
        return Some((written?, took));
    };
    let began = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(began_ms))?;
    Some((began.checked_add(took)?, Duration::ZERO))
}

/// Orders the runs of several files by time, if all times are known and each run fits between that
/// of the run before and its own: a checkout or a copy writes the files of long runs within a
/// moment, in the order of their names. Positions within one file say nothing about several files.
/// Trials have their order in the sweep.
fn order_by_time(observations: &mut [Observation], times: &[Option<Time>]) {
    if observations.iter().any(|run| run.cell.is_some()) {
        return;
    }
    let mut order: Vec<_> = times.iter().copied().zip(observations).collect();
    order.sort_by_key(|(time, _)| *time);
    // The duration that wrk reports may be slightly longer than the time between two writes.
    let follows = |before: Option<Time>, after: Option<Time>| {
        let ((before, _), (ended, took)) = before.zip(after)?;
        let between = ended.duration_since(before).ok()?;
        Some(!between.is_zero() && between >= took.mul_f64(0.9))
    };
    let mut pairs = order.windows(2);
    let is_known = pairs.all(|pair| follows(pair[0].0, pair[1].0) == Some(true));
    for (position, (_, run)) in (1..).zip(order) {
        run.position = is_known.then_some(position);
    }
}

/// A number, or what is between numbers.
static PART: LazyLock<Regex> = LazyLock::new(|| regex(r"0*(\d+)|\D+"));

/// A key that sorts in natural order: `r2` before `r10`, `262144` before `16777216`.
pub(super) fn natural(text: &str) -> Vec<(usize, String)> {
    let parts = PART.captures_iter(text).map(|part| match part.get(1) {
        Some(number) => (number.len(), number.as_str().to_owned()),
        None => (usize::MAX, part[0].to_owned()),
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u32) -> Observation {
        Observation {
            run: number,
            ..Observation::default()
        }
    }

    #[test]
    fn names_are_in_natural_order() {
        let mut names = [
            "r10",
            "r2",
            "r",
            "b-16777216-1",
            "b-262144-10",
            "b-262144-9",
            "r2x",
        ];
        names.sort_by_key(|name| natural(name));
        assert_eq!(
            names,
            [
                "b-262144-9",
                "b-262144-10",
                "b-16777216-1",
                "r",
                "r2",
                "r2x",
                "r10"
            ]
        );
    }

    #[test]
    fn files_that_differ_only_in_a_number_are_repetitions() {
        let name = |path: &str| {
            let mut groups = vec![(of_path(Path::new(path)), vec![run(1)])];
            resolve_numbers(&mut groups);
            groups.remove(0).0.name
        };
        assert_eq!(name("a/new-1.json"), "new");
        assert_eq!(name("new-2.json"), "new-2");
        assert_eq!(name("before.json"), "before");
        assert_eq!(name("wrk2.txt"), "wrk2");
        assert_eq!(name("run12.txt"), "run");
        assert_eq!(name("c100-run-3.txt"), "c100-run");
        assert_eq!(name("1.txt"), "");
        assert_eq!(name("t/b-rmem-1-1.json"), "");
        let joined = |paths: [&str; 2]| -> Vec<(u32, Option<String>)> {
            let runs = join(paths.map(|path| (path, vec![run(1)])).into(), |_| None);
            let level = |run: &Observation| run.settings.first().map(|s| s.level.clone());
            runs.iter().map(|run| (run.run, level(run))).collect()
        };
        let some = |level: &str| Some(level.to_owned());
        assert_eq!(
            joined(["a/new-1.json", "a/new-2.json"]),
            [(1, None), (2, None)]
        );
        for (one, other) in [
            ("nginx-1.18", "nginx-1.24"),
            ("c-100", "c-200"),
            ("kernel-5", "kernel-6"),
            ("128", "4096"),
            ("workers_1", "workers_4"),
        ] {
            let paths = [one, other].map(|name| format!("a/{name}.txt"));
            let found = joined([&paths[0], &paths[1]]);
            assert_eq!(found, [(1, some(one)), (1, some(other))]);
        }
        assert_eq!(
            joined(["a/x.json", "a/y.json"]),
            [(1, some("x")), (1, some("y"))]
        );
        assert_eq!(
            joined(["a/x-1.json", "b/x-1.json"]),
            [(1, some("a/x")), (1, some("b/x"))]
        );
        assert_eq!(
            joined(["a/t-rmem-1-1.json", "b/t-rmem-1-1.json"]),
            [(1, some("a")), (1, some("b"))]
        );
    }

    #[test]
    fn run_numbers_stay_unless_two_are_equal() {
        let numbers = |runs: &[u32]| -> Vec<u32> {
            let parts = runs.iter();
            let parts = parts.map(|number| ("x.json", vec![run(*number)]));
            join(parts.collect(), |_| None)
                .iter()
                .map(|run| run.run)
                .collect()
        };
        assert_eq!(numbers(&[1, 3, 5]), [1, 3, 5]);
        assert_eq!(numbers(&[1, 3, 3]), [1, 2, 3]);
    }
}
