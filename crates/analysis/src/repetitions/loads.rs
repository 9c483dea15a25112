//! Runs with different loads are not repetitions of each other, whatever their names are.

use std::collections::{BTreeMap, BTreeSet};

use plan::{OptionName, OptionValue};
use results::RunResult;

use super::{by_cell, limited};
use crate::notes::quote;
use crate::{LoadPart, Observation};

/// With more loads of the same name, each further run is a load of its own, since a search among
/// them would take long.
const LOADS_MAX: usize = 200;

/// Gives runs of the same name but different load distinct names (`-t2 -c10 -T5s`), and renumbers
/// them. Returns a note for each load that was kept apart.
pub(crate) fn keep_apart(observations: &mut [Observation]) -> Vec<String> {
    let mut notes = Vec::new();
    for indexes in by_cell(observations) {
        let loads = loads(observations, &indexes);
        if loads.len() < 2 {
            continue;
        }
        let options = options(&loads);
        for (at, (load, option)) in loads.iter().zip(options).enumerate() {
            if at > 0 {
                let source = |load: &DistinctLoad| &observations[load.runs[0]].source;
                let (one, other) = (source(&loads[0]), source(load));
                let words = in_words(&loads[0], load);
                notes.push(format!("{one} and {other}: not averaged: {words}"));
            }
            rename(observations, &load.runs, &option);
        }
    }
    limited(notes, "more loads of the same name are kept apart")
}

/// The parts in which the loads of two sides of a comparison differ, `timeout 2s / 5s`, if each
/// side has a single load. The destination of the requests is left out, since the names show it.
#[must_use]
pub fn unlike_loads(base: &[Observation], new: &[Observation]) -> Option<String> {
    let load = |runs: &[Observation]| {
        let good = (0..runs.len()).filter(|run| runs[*run].failure.is_none());
        let mut loads = loads(runs, &good.collect::<Vec<_>>());
        let mut load = loads.pop().filter(|_| loads.is_empty())?;
        load.parts.retain(|_, part| !part.is_part_of_url);
        Some(load)
    };
    let words = in_words(&load(base)?, &load(new)?);
    (!words.is_empty()).then_some(words)
}

struct DistinctLoad {
    /// The known parts of the load; each from the first run that has it.
    parts: BTreeMap<&'static str, LoadPart>,
    /// Indexes among all runs.
    runs: Vec<usize>,
}

/// The different loads of runs with the same name, in order of appearance.
fn loads(observations: &[Observation], indexes: &[usize]) -> Vec<DistinctLoad> {
    let mut loads: Vec<DistinctLoad> = Vec::new();
    for &index in indexes {
        let parts = parts(&observations[index]);
        let is_searched = loads.len() < LOADS_MAX;
        let is_same = |load: &&mut DistinctLoad| differences(&load.parts, &parts).next().is_none();
        match loads.iter_mut().filter(|_| is_searched).find(is_same) {
            Some(load) => {
                load.runs.push(index);
                for (key, part) in parts {
                    load.parts.entry(key).or_insert(part);
                }
            }
            None => loads.push(DistinctLoad {
                parts,
                runs: vec![index],
            }),
        }
    }
    loads
}

/// The known parts of a run's load.
fn parts(run: &Observation) -> BTreeMap<&'static str, LoadPart> {
    let result = run.result.as_deref();
    let parts = result.map_or_else(|| run.noted_load.clone(), of_result);
    parts.into_iter().map(|part| (part.label, part)).collect()
}

/// The load of a saved result: its plan, with the backend that was used in place of the requested
/// one.
fn of_result(result: &RunResult) -> Vec<LoadPart> {
    let is_epoll = result.backend.name == "epoll";
    let backend = if is_epoll { "epoll" } else { "uring" };
    let mut options = result.plan.load_options();
    for option in &mut options {
        if option.name == OptionName::BACKEND {
            option.value = OptionValue::Text(backend.to_owned());
        }
    }
    options.into_iter().map(LoadPart::from).collect()
}

/// The parts that both have and that differ, in pairs. A part that only one of them has is not a
/// difference.
fn differences<'a>(
    one: &'a BTreeMap<&'static str, LoadPart>,
    other: &'a BTreeMap<&'static str, LoadPart>,
) -> impl Iterator<Item = (&'a LoadPart, &'a LoadPart)> {
    one.iter()
        .filter_map(|(key, part)| Some((part, other.get(key)?)))
        .filter(|(one, other)| one.value != other.value)
}

/// For each load, the options that distinguish it from the others.
fn options(loads: &[DistinctLoad]) -> Vec<String> {
    let others = loads.iter();
    let differing = others.flat_map(|load| differences(&loads[0].parts, &load.parts));
    let differing: BTreeSet<&'static str> = differing.map(|(one, _)| one.label).collect();
    let mut seen = BTreeSet::new();
    let own_options = |(number, load): (usize, &DistinctLoad)| {
        let parts = differing.iter().filter_map(|what| load.parts.get(what));
        let options = parts.map(|part| part.option.as_str());
        let options: Vec<&str> = options.filter(|option| !option.is_empty()).collect();
        let options = options.join(" ");
        // Long values are shortened, and may then look the same.
        let is_new = seen.insert(options.clone());
        if is_new {
            options
        } else {
            format!("{options} (load {number})")
        }
    };
    (1..).zip(loads).map(own_options).collect()
}

/// The differences between two loads in words: `timeout 2s / 5s`.
fn in_words(one: &DistinctLoad, other: &DistinctLoad) -> String {
    let words = differences(&one.parts, &other.parts).map(|(one, other)| {
        let (one_text, other_text) = (quote(&one.text), quote(&other.text));
        format!("{} {one_text} / {other_text}", one.label)
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Appends options to the names of runs, and renumbers them from 1 unless their numbers are rounds.
fn rename(observations: &mut [Observation], runs: &[usize], options: &str) {
    for (number, &index) in (1..).zip(runs) {
        let run = &mut observations[index];
        run.profile_without_load = run.profile.take();
        let profile = run.profile_without_load.as_deref().unwrap_or_default();
        let profile = format!("{profile} {options}").trim().to_owned();
        run.profile = Some(profile).filter(|profile| !profile.is_empty());
        if run.round.is_none() && run.cell.is_none() {
            run.run = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u32, parts: &[(&'static str, &str, &str)]) -> Observation {
        let parts = parts.iter();
        Observation {
            source: format!("n:{number}"),
            profile: Some("-t2 -c10".to_owned()),
            run: number,
            noted_load: parts
                .map(|(label, text, flag)| {
                    let value = OptionValue::Text((*text).to_owned());
                    match *label {
                        "path" => LoadPart::of_option(OptionName::PATH, value),
                        "body" => LoadPart::of_option(OptionName::BODY, value),
                        label => LoadPart::other(label, text, &format!("{flag}{text}")),
                    }
                })
                .collect(),
            ..Observation::default()
        }
    }

    fn profiles(runs: &[Observation]) -> Vec<(&str, u32)> {
        runs.iter()
            .map(|run| (run.profile.as_deref().unwrap_or_default(), run.run))
            .collect()
    }

    #[test]
    fn runs_with_different_loads_get_distinct_names_and_a_note() {
        let of = |timeout| [("timeout", timeout, "-T"), ("tool", "wrk2", "")];
        let mut runs = [run(1, &of("2s")), run(2, &of("5s")), run(3, &of("2s"))];
        let notes = keep_apart(&mut runs);
        assert_eq!(notes, ["n:1 and n:2: not averaged: timeout 2s / 5s"]);
        assert_eq!(
            profiles(&runs),
            [
                ("-t2 -c10 -T2s", 1),
                ("-t2 -c10 -T5s", 1),
                ("-t2 -c10 -T2s", 2)
            ]
        );
        // The names are distinct now.
        assert_eq!(keep_apart(&mut runs), [""; 0]);
    }

    #[test]
    fn the_loads_of_two_sides_are_compared_if_each_side_has_only_one() {
        let of = |timeout, path| run(1, &[("timeout", timeout, "-T"), ("path", path, "")]);
        let failed = Observation {
            failure: Some("gone".to_owned()),
            ..of("9s", "/")
        };
        let base = [of("2s", "/a"), of("2s", "/a"), failed];
        let unlike = |new: &[Observation]| unlike_loads(&base, new);
        assert_eq!(
            unlike(&[of("5s", "/b")]).as_deref(),
            Some("timeout 2s / 5s")
        );
        assert_eq!(unlike(&[of("2s", "/b")]), None);
        assert_eq!(unlike(&[of("2s", "/"), of("5s", "/")]), None);
        assert_eq!(unlike(&[]), None);
    }

    #[test]
    fn an_unknown_part_of_a_load_is_not_a_difference() {
        let mut runs = [
            run(1, &[("timeout", "2s", "-T")]),
            run(2, &[]),
            run(3, &[("duration", "10s", "-d")]),
            run(4, &[("tool", "wrk2", "")]),
        ];
        assert_eq!(keep_apart(&mut runs), [""; 0]);
        assert_eq!(profiles(&runs)[3], ("-t2 -c10", 4));
    }

    #[test]
    fn values_that_look_the_same_when_shortened_still_distinguish_loads() {
        let long = "x".repeat(100);
        let other = format!("{}y", &long[1..]);
        let mut runs = [
            run(1, &[("body", &long, "--body ")]),
            run(2, &[("body", &other, "--body ")]),
        ];
        assert_eq!(keep_apart(&mut runs).len(), 1);
        assert!(runs[1].profile.as_deref().unwrap().ends_with("(load 2)"));
    }

    #[test]
    fn many_loads_of_one_name_are_kept_apart_quickly() {
        let mut runs: Vec<Observation> = (0..10_000)
            .map(|number| run(number, &[("timeout", &format!("{number}s"), "-T")]))
            .collect();
        assert_eq!(keep_apart(&mut runs).len(), super::super::NOTES_MAX + 1);
        let names: BTreeSet<_> = runs.iter().map(|run| &run.profile).collect();
        assert_eq!(names.len(), runs.len());
    }
}
