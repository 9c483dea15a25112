//! Go's benchmark format, which benchstat reads:
//! <https://golang.org/design/14313-benchmark-format>.
//!
//! A line for each run; runs of one thing have the same name, so that benchstat takes them for repetitions.
//! Runs that failed have no line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use analysis::compare::Better;
use analysis::{Observation, quantity};

use super::Export;

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
    for run in export.runs().iter().filter(|run| run.failure.is_none()) {
        let Some(requests) = run.value(quantity::REQUESTS) else {
            continue;
        };
        let pairs: Vec<String> = MEASURES
            .iter()
            .filter_map(|measure| {
                let value = run.value(measure.quantity)? * measure.factor;
                value
                    .is_finite()
                    .then(|| format!("{value} {}", measure.unit))
            })
            .collect();
        if pairs.is_empty() {
            continue;
        }
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

fn cpu_model(run: &Observation) -> Option<String> {
    let model = run.result.as_deref()?.environment.cpu_model.as_deref()?;
    let model = word_breaks(model);
    (!model.is_empty()).then_some(model)
}

/// Single blanks in place of whatever else parts words, line ends among them.
fn word_breaks(text: &str) -> String {
    let plain = text.replace(char::is_control, " ");
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names that were given, so that cutting does not make two things one.
#[derive(Default)]
struct Names {
    cut: BTreeMap<String, usize>,
}

impl Names {
    /// `HTTP/buffers=262144/target=php/connections=200/threads=2`
    fn of(&mut self, run: &Observation) -> String {
        let mut parts = vec!["HTTP".to_owned()];
        let levels = run.settings.iter();
        parts.extend(levels.map(|setting| part(&setting.factor, &setting.level)));
        // Of a result without a plan it is threads and connections again.
        let profile = run.profile.iter().filter(|_| run.trial.is_some());
        parts.extend(profile.map(|profile| part("profile", profile)));
        parts.extend(run.target.iter().map(|target| part("target", target)));
        for what in ["connections", "threads"] {
            let value = run.value(what).map(|value| value.to_string());
            // Something must follow the other names, whose last `-2` would be taken for GOMAXPROCS.
            let value = value.as_deref().unwrap_or("unknown");
            parts.push(part(what, value));
        }
        let name = parts.join("/");
        match name.char_indices().nth(NAME_CHARS_MAX) {
            None => name,
            Some((end, _)) => {
                let cut = name[..end].to_owned();
                let next = self.cut.len() + 1;
                let number = *self.cut.entry(name).or_insert(next);
                format!("{cut}~{number}/cut=yes")
            }
        }
    }
}

/// `key=value`: a name has no blanks, and slashes part it.
fn part(key: &str, value: &str) -> String {
    format!("{}={}", word(key).replace('=', "_"), word(value))
}

fn word(text: &str) -> String {
    let parts = |c: char| c.is_whitespace() || c.is_control() || c == '/';
    text.replace(parts, "_")
}
