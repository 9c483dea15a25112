//! Go's benchmark format, which benchstat reads:
//! <https://golang.org/design/14313-benchmark-format>.
//!
//! A line for each run; repetitions have the same name, as benchstat expects. Runs that failed have
//! no line. Target and file are not part of a name: if there are several they are configuration
//! lines, so that `-col target` shows them side by side; if there is one it is a comment, so that
//! two exports pair.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use analysis::compare::Better;
use analysis::{FILE_FACTOR, Observation};
use results::metric;

use super::{Export, names, trusted};

/// benchstat's scanner gives up on lines of 64 KiB.
const NAME_CHARS_MAX: usize = 400;

/// A metric in a unit of the format.
struct Measure {
    metric: &'static str,
    unit: &'static str,
    /// Factor from the metric's unit to this one.
    factor: f64,
    better: Better,
}

const fn time(metric: &'static str, unit: &'static str) -> Measure {
    Measure {
        metric,
        unit,
        factor: 1e3,
        better: Better::Lower,
    }
}

/// Units that benchstat knows have its names: it shows `ns` as seconds.
const MEASURES: [Measure; 9] = [
    time(metric::LATENCY_MEAN_US, "ns/op"),
    time("latency_p50_us", "p50-ns/op"),
    time("latency_p90_us", "p90-ns/op"),
    time("latency_p99_us", "p99-ns/op"),
    time("latency_p99.9_us", "p99.9-ns/op"),
    time("latency_max_us", "max-ns/op"),
    Measure {
        metric: metric::REQUESTS_PER_SEC,
        unit: "req/s",
        factor: 1.0,
        better: Better::Higher,
    },
    Measure {
        metric: metric::BYTES_PER_SEC,
        unit: "B/s",
        factor: 1.0,
        better: Better::Higher,
    },
    Measure {
        metric: metric::ERRORS,
        unit: "errors",
        factor: 1.0,
        better: Better::Lower,
    },
];

/// Writes the direction of each unit, and the runs.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    for measure in &MEASURES {
        let better = match measure.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => continue,
        };
        writeln!(output, "Unit {} better={better}", measure.unit)?;
    }
    let runs = export.by_cell();
    let mut names = Names::default();
    let mut configuration = [
        Configuration::new("cpu", cpu_model),
        Configuration::new("target", |run| run.target.clone()),
        Configuration::new(FILE_FACTOR, |run| {
            names::level(run, FILE_FACTOR).map(str::to_owned)
        }),
    ];
    for key in &mut configuration[1..] {
        key.write_comment(&runs, output)?;
    }
    for run in runs {
        let Some((requests, pairs)) = numbers(run) else {
            continue;
        };
        for key in &mut configuration {
            key.write(run, output)?;
        }
        writeln!(
            output,
            "Benchmark{} {requests:.0} {}",
            names.of(run),
            pairs.join(" ")
        )?;
    }
    Ok(())
}

/// Whether the run has a line.
pub(super) fn has_line(run: &Observation) -> bool {
    numbers(run).is_some()
}

/// Responses, and other metrics with their units. `None` for a run that failed.
fn numbers(run: &Observation) -> Option<(f64, Vec<String>)> {
    if run.failure.is_some() {
        return None;
    }
    let requests = run.value(metric::REQUESTS)?;
    let pairs: Vec<String> = MEASURES
        .iter()
        .filter_map(|measure| {
            // The format has no mark for a lower bound.
            let known = trusted(run, measure.metric).filter(|known| !known.is_lower_bound)?;
            let value = known.value * measure.factor;
            Some(format!("{} {}", short(value), measure.unit))
        })
        .collect();
    (!pairs.is_empty()).then_some((requests, pairs))
}

/// In six decimals without zeros at the end; more are noise of binary fractions.
fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn cpu_model(run: &Observation) -> Option<String> {
    let model = run.result.as_deref()?.environment.cpu_model.as_deref()?;
    let model = word_breaks(&names::short(model));
    (!model.is_empty()).then_some(model)
}

/// A line `key: value`, which holds for the lines below it until the next line with the same key.
struct Configuration {
    key: &'static str,
    value_of: fn(&Observation) -> Option<String>,
    /// Values with their text; different values have different texts.
    written: Vec<(String, String)>,
    /// The value that holds now.
    current: Option<String>,
    is_comment: bool,
}

impl Configuration {
    fn new(key: &'static str, value_of: fn(&Observation) -> Option<String>) -> Self {
        Self {
            key,
            value_of,
            written: Vec::new(),
            current: None,
            is_comment: false,
        }
    }

    /// If all runs have one value it is a comment, by which benchstat does not split.
    fn write_comment(&mut self, runs: &[&Observation], output: &mut dyn Write) -> io::Result<()> {
        let runs = runs.iter().filter(|run| has_line(run));
        let mut values: Vec<Option<String>> = runs.map(|run| (self.value_of)(run)).collect();
        values.sort_unstable();
        values.dedup();
        let [only] = values.as_slice() else {
            return Ok(());
        };
        self.is_comment = true;
        match only {
            Some(only) => writeln!(
                output,
                "# {}: {}",
                self.key,
                word_breaks(&names::short(only))
            ),
            None => Ok(()),
        }
    }

    /// Writes the line if the value changes; an empty value clears it.
    fn write(&mut self, run: &Observation, output: &mut dyn Write) -> io::Result<()> {
        let value = (self.value_of)(run);
        if self.is_comment || value == self.current {
            return Ok(());
        }
        let written = value.as_deref().map(|value| self.written(value));
        writeln!(output, "{}: {}", self.key, written.unwrap_or_default())?;
        self.current = value;
        Ok(())
    }

    fn written(&mut self, value: &str) -> String {
        if let Some((_, written)) = self.written.iter().find(|(known, _)| known == value) {
            return written.clone();
        }
        let base = match word_breaks(&names::short(value)) {
            // An empty value would clear the line before it.
            empty if empty.is_empty() => "unnamed".to_owned(),
            base => base,
        };
        let is_taken = |text: &String| self.written.iter().any(|(_, written)| written == text);
        let numbered = (2_u32..).map(|number| format!("{base} (no {number})"));
        let free = std::iter::once(base.clone())
            .chain(numbered)
            .find(|text| !is_taken(text));
        let written = free.unwrap_or(base);
        self.written.push((value.to_owned(), written.clone()));
        written
    }
}

/// With single blanks between words.
fn word_breaks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names of runs. Runs that differ only in characters that a name cannot have, or after the cut,
/// must not become repetitions.
#[derive(Default)]
struct Names {
    given: BTreeMap<Vec<(String, String)>, String>,
    taken: BTreeSet<String>,
}

impl Names {
    /// `HTTP/buffers=262144/connections=200/threads=2`
    fn of(&mut self, run: &Observation) -> String {
        let parts = parts(run);
        if let Some(name) = self.given.get(&parts) {
            return name.clone();
        }
        let words = parts.iter().map(|(key, value)| part(key, value));
        let words: Vec<String> = std::iter::once("HTTP".to_owned()).chain(words).collect();
        let whole = words.join("/");
        let whole = if ends_like_gomaxprocs(&whole) {
            format!("{whole}/load=unknown")
        } else {
            whole
        };
        let base = match whole.char_indices().nth(NAME_CHARS_MAX) {
            Some((end, _)) => format!("{}/cut=yes", &whole[..end]),
            None => whole,
        };
        let numbered = (2_u32..).map(|number| format!("{base}/same=no{number}"));
        let name = std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| !self.taken.contains(name))
            .unwrap_or(base);
        self.taken.insert(name.clone());
        self.given.insert(parts, name.clone());
        name
    }
}

/// `-2` at the end of a name would be read as the number of processors.
fn ends_like_gomaxprocs(name: &str) -> bool {
    let rest = name.trim_end_matches(|c: char| c.is_ascii_digit());
    rest.len() < name.len() && rest.ends_with('-')
}

/// Levels, profile and load of a run.
fn parts(run: &Observation) -> Vec<(String, String)> {
    let levels = run.settings.iter();
    let levels = levels.filter(|setting| setting.factor != FILE_FACTOR);
    let levels = levels.map(|setting| (setting.factor.clone(), setting.level.clone()));
    // Without an experiment the profile is threads and connections.
    let profile = run.profile.iter().filter(|_| run.trial.is_some());
    let profile = profile.map(|profile| ("profile".to_owned(), profile.clone()));
    let load = ["connections", "threads"].map(|what| {
        let value = run.value(what).map(|value| value.to_string());
        // Something must follow the other names, whose last `-2` would be read as GOMAXPROCS.
        (
            what.to_owned(),
            value.unwrap_or_else(|| "unknown".to_owned()),
        )
    });
    let rate = run.value("rate").map(short);
    let rate = rate.map(|rate| ("rate".to_owned(), rate));
    let named = levels.chain(profile);
    named.chain(rate).chain(load).collect()
}

/// `key=value`; a name has no blanks, and slashes separate its parts.
fn part(key: &str, value: &str) -> String {
    format!("{}={}", word(key).replace('=', "_"), word(value))
}

fn word(text: &str) -> String {
    let parts = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    text.replace(parts, "_")
}
