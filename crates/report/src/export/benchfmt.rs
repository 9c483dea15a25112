//! Go's benchmark format, which benchstat reads:
//! <https://golang.org/design/14313-benchmark-format>.
//!
//! A line for each run; runs of one thing have the same name, so that benchstat takes them for repetitions.
//! Runs that failed have no line.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use analysis::compare::Better;
use analysis::{Observation, quantity};

use super::{Export, names, trusted};

/// benchstat's scanner gives up on lines of 64 KiB.
const NAME_CHARS_MAX: usize = 400;

/// A quantity in a unit of the format.
struct Measure {
    quantity: &'static str,
    unit: &'static str,
    /// From the quantity's unit to this one.
    factor: f64,
    better: Better,
}

const fn time(quantity: &'static str, unit: &'static str) -> Measure {
    Measure {
        quantity,
        unit,
        factor: 1e3,
        better: Better::Lower,
    }
}

/// Names of units are benchstat's where it knows them: it shows `ns` as seconds.
const MEASURES: [Measure; 9] = [
    time(quantity::LATENCY_MEAN_US, "ns/op"),
    time("latency_p50_us", "p50-ns/op"),
    time("latency_p90_us", "p90-ns/op"),
    time("latency_p99_us", "p99-ns/op"),
    time("latency_p99.9_us", "p99.9-ns/op"),
    time("latency_max_us", "max-ns/op"),
    Measure {
        quantity: quantity::REQUESTS_PER_SEC,
        unit: "req/s",
        factor: 1.0,
        better: Better::Higher,
    },
    Measure {
        quantity: quantity::BYTES_PER_SEC,
        unit: "B/s",
        factor: 1.0,
        better: Better::Higher,
    },
    Measure {
        quantity: quantity::ERRORS,
        unit: "errors",
        factor: 1.0,
        better: Better::Lower,
    },
];

/// Writes what is better of each unit, and the runs.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    for measure in &MEASURES {
        let better = match measure.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => continue,
        };
        writeln!(output, "Unit {} better={better}", measure.unit)?;
    }
    let mut names = Names::default();
    let mut cpu = None;
    for run in export.by_cell() {
        let Some((requests, pairs)) = numbers(run) else {
            continue;
        };
        let model = cpu_model(run);
        // A line holds until the next one of its kind; an empty one takes it back.
        if model != cpu {
            writeln!(output, "cpu: {}", model.as_deref().unwrap_or_default())?;
            cpu = model;
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

/// Whether there is anything to say of this run.
pub(super) fn has_line(run: &Observation) -> bool {
    numbers(run).is_some()
}

/// Answers, and what else was measured, each with its unit. `None` of a run that failed.
fn numbers(run: &Observation) -> Option<(f64, Vec<String>)> {
    if run.failure.is_some() {
        return None;
    }
    let requests = run.value(quantity::REQUESTS)?;
    let pairs: Vec<String> = MEASURES
        .iter()
        .filter_map(|measure| {
            let value = trusted(run, measure.quantity)? * measure.factor;
            Some(format!("{} {}", short(value), measure.unit))
        })
        .collect();
    (!pairs.is_empty()).then_some((requests, pairs))
}

/// Six decimals without zeros at their end: behind them is the noise of binary fractions.
fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn cpu_model(run: &Observation) -> Option<String> {
    let model = run.result.as_deref()?.environment.cpu_model.as_deref()?;
    let model = word_breaks(&names::short(model));
    (!model.is_empty()).then_some(model)
}

/// Single blanks in place of whatever else parts words.
fn word_breaks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names that were given: what differs only in what a name cannot hold, or behind where it is cut, must not
/// become repetitions of one thing.
#[derive(Default)]
struct Names {
    given: BTreeMap<Vec<(String, String)>, String>,
    taken: BTreeSet<String>,
}

impl Names {
    /// `HTTP/buffers=262144/target=php/connections=200/threads=2`
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

/// `-2` at the end of a name would be taken for the number of processors.
fn ends_like_gomaxprocs(name: &str) -> bool {
    let rest = name.trim_end_matches(|c: char| c.is_ascii_digit());
    rest.len() < name.len() && rest.ends_with('-')
}

/// What the run is one of: levels, names, and the load.
fn parts(run: &Observation) -> Vec<(String, String)> {
    let levels = run.settings.iter();
    let levels = levels.map(|setting| (setting.factor.clone(), setting.level.clone()));
    // Of a result without a plan it is threads and connections again.
    let profile = run.profile.iter().filter(|_| run.trial.is_some());
    let profile = profile.map(|profile| ("profile".to_owned(), profile.clone()));
    let target = run.target.iter();
    let target = target.map(|target| ("target".to_owned(), target.clone()));
    let load = ["connections", "threads"].map(|what| {
        let value = run.value(what).map(|value| value.to_string());
        // Something must follow the other names, whose last `-2` would be taken for GOMAXPROCS.
        (
            what.to_owned(),
            value.unwrap_or_else(|| "unknown".to_owned()),
        )
    });
    // With another rate it is another load.
    let rate = run.value("rate").map(short);
    let rate = rate.map(|rate| ("rate".to_owned(), rate));
    let named = levels.chain(profile).chain(target);
    named.chain(rate).chain(load).collect()
}

/// `key=value`: a name has no blanks, and slashes part it.
fn part(key: &str, value: &str) -> String {
    format!("{}={}", word(key).replace('=', "_"), word(value))
}

fn word(text: &str) -> String {
    let parts = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    text.replace(parts, "_")
}
