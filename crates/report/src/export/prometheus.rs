//! Prometheus' text exposition format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Names, units and kinds are by its conventions: seconds, totals of what was counted in the run, a
//! histogram of the latency. Samples have no timestamps: a run is over when it is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use analysis::{Observation, quantity};
use results::{Histogram, Verdict};

use super::{Export, names, trusted};

/// Upper ends of the histogram's buckets in each decade from 10 us to 100 s; the same for all runs, so that
/// their buckets can be added up.
const BUCKETS_PER_DECADE: [u64; 6] = [10, 15, 20, 30, 50, 70];
const DECADES: u32 = 7;

/// A metric with its samples.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    /// The part of the name behind it, labels, value.
    samples: Vec<(&'static str, String, String)>,
}

/// Names with values, in the order in which they are written.
type Labels = Vec<(String, String)>;

/// Writes the metrics that there are samples of.
pub(super) fn render(export: &Export<'_>, output: &mut dyn Write) -> io::Result<()> {
    let runs = export.runs();
    let labels = labels_of(runs);
    let runs: Vec<(&Observation, &Labels)> = runs.iter().zip(&labels).collect();
    let mut families = totals(&runs);
    families.extend([
        errors(&runs),
        statuses(&runs),
        percentiles(&runs),
        latency(&runs),
        failed(&runs),
        limited(&runs),
    ]);
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let Family {
            name,
            kind,
            help,
            samples,
        } = family;
        writeln!(output, "# HELP {name} {help}")?;
        writeln!(output, "# TYPE {name} {kind}")?;
        for (part, labels, value) in samples {
            writeln!(output, "{name}{part}{labels} {value}")?;
        }
    }
    Ok(())
}

impl Family {
    fn new(name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind,
            help,
            samples: Vec::new(),
        }
    }

    fn add(&mut self, labels: &Labels, value: f64) {
        self.add_part("", labels, None, value.to_string());
    }

    fn add_part(
        &mut self,
        part: &'static str,
        labels: &Labels,
        more: Option<(&str, &str)>,
        value: String,
    ) {
        let labels = labels
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(more);
        let labels: Vec<String> = labels
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = format!("{{{}}}", labels.join(","));
        self.samples.push((part, labels, value));
    }
}

/// A metric that is a quantity of a run: its name, kind, help, the quantity, and the factor to its unit.
const QUANTITIES: [(&str, &str, &str, &str, f64); 11] = [
    (
        "wrkbench_requests_total",
        "counter",
        "Requests answered completely in the run.",
        quantity::REQUESTS,
        1.0,
    ),
    (
        "wrkbench_response_bytes_total",
        "counter",
        "Bytes of responses in the run.",
        quantity::BYTES,
        1.0,
    ),
    (
        "wrkbench_socket_errors_total",
        "counter",
        "Events of the four counters of errors that wrk has, in the run.",
        quantity::ERRORS,
        1.0,
    ),
    (
        "wrkbench_run_duration_seconds",
        "gauge",
        "Length of the time that the numbers cover.",
        quantity::DURATION_US,
        1e-6,
    ),
    (
        "wrkbench_requests_per_second",
        "gauge",
        "Answers per second of the run.",
        quantity::REQUESTS_PER_SEC,
        1.0,
    ),
    (
        "wrkbench_response_bytes_per_second",
        "gauge",
        "Bytes of responses per second of the run.",
        quantity::BYTES_PER_SEC,
        1.0,
    ),
    (
        "wrkbench_target_requests_per_second",
        "gauge",
        "The rate that was asked for.",
        "rate",
        1.0,
    ),
    (
        "wrkbench_connections",
        "gauge",
        "Connections that were asked for.",
        "connections",
        1.0,
    ),
    (
        "wrkbench_threads",
        "gauge",
        "Threads that made the load.",
        "threads",
        1.0,
    ),
    (
        "wrkbench_latency_mean_seconds",
        "gauge",
        "Mean latency of the run.",
        quantity::LATENCY_MEAN_US,
        1e-6,
    ),
    (
        "wrkbench_latency_max_seconds",
        "gauge",
        "Largest latency of the run.",
        "latency_max_us",
        1e-6,
    ),
];

fn totals(runs: &[(&Observation, &Labels)]) -> Vec<Family> {
    let of_quantity = |(name, kind, help, quantity, factor): (
        &'static str,
        &'static str,
        &'static str,
        &str,
        f64,
    )| {
        let mut family = Family::new(name, kind, help);
        for (run, labels) in runs {
            if let Some(value) = run.value(quantity).filter(|value| value.is_finite()) {
                family.add(labels, scaled(value, factor));
            }
        }
        family
    };
    QUANTITIES.into_iter().map(of_quantity).collect()
}

/// In seconds without the noise of binary fractions: 0.0042, not 0.004200000000000001. Behind a picosecond
/// nothing was measured.
fn scaled(value: f64, factor: f64) -> f64 {
    const PER_SECOND: f64 = 1e12;
    if factor == 1.0 {
        value
    } else {
        (value * factor * PER_SECOND).round() / PER_SECOND
    }
}

fn errors(runs: &[(&Observation, &Labels)]) -> Family {
    let mut family = Family::new(
        "wrkbench_errors_total",
        "counter",
        "Events of each kind of error in the run.",
    );
    for (run, labels) in runs {
        let errors = run
            .result
            .iter()
            .flat_map(|run| run.recording.errors.iter());
        for (kind, count) in errors {
            let value = count.events.to_string();
            family.add_part("", labels, Some(("kind", kind.name())), value);
        }
    }
    family
}

fn statuses(runs: &[(&Observation, &Labels)]) -> Family {
    let mut family = Family::new(
        "wrkbench_responses_total",
        "counter",
        "Answers by status in the run.",
    );
    for (run, labels) in runs {
        let statuses = run
            .result
            .iter()
            .flat_map(|run| run.recording.statuses.iter());
        for (status, count) in statuses {
            let status = status.to_string();
            family.add_part("", labels, Some(("status", &status)), count.to_string());
        }
    }
    family
}

/// Percentiles as the run has them, exact where a histogram would interpolate between its buckets. Not as a
/// summary, which would be of a time that goes on.
fn percentiles(runs: &[(&Observation, &Labels)]) -> Family {
    let mut family = Family::new(
        "wrkbench_latency_percentile_seconds",
        "gauge",
        "Percentiles of the latency of the run.",
    );
    for (run, labels) in runs {
        for name in run.values.keys() {
            let percent = quantity::percentile_of(name).filter(|(of, _)| *of == "latency");
            if let (Some((_, percent)), Some(value)) = (percent, trusted(run, name)) {
                let value = scaled(value, 1e-6).to_string();
                let percent = percent.to_string();
                family.add_part("", labels, Some(("percentile", &percent)), value);
            }
        }
    }
    family
}

fn latency(runs: &[(&Observation, &Labels)]) -> Family {
    let mut family = Family::new(
        "wrkbench_latency_seconds",
        "histogram",
        "Latency of the requests of the run; those without an answer count at the age at which they were given up.",
    );
    let ends = bucket_ends();
    for (run, labels) in runs {
        let Some(result) = run.result.as_deref() else {
            continue;
        };
        let latency = result.recording.latency();
        for ((_, end_s), count) in ends.iter().zip(cumulative(&latency, &ends)) {
            let count = count.to_string();
            family.add_part("_bucket", labels, Some(("le", end_s)), count);
        }
        let count = latency.count().to_string();
        family.add_part("_bucket", labels, Some(("le", "+Inf")), count.clone());
        let sum_s = latency.sum_ns() as f64 / 1e9;
        family.add_part("_sum", labels, None, sum_s.to_string());
        family.add_part("_count", labels, None, count);
    }
    family
}

/// Ends of buckets, in nanoseconds and as seconds in text.
fn bucket_ends() -> Vec<(u64, String)> {
    const FIRST_NS: u64 = 1_000;
    let of_decade = |decade: u32| {
        BUCKETS_PER_DECADE
            .into_iter()
            .map(move |part| part * FIRST_NS * 10_u64.pow(decade))
    };
    (0..DECADES)
        .flat_map(of_decade)
        .map(|end_ns| (end_ns, (end_ns as f64 / 1e9).to_string()))
        .collect()
}

/// Samples up to each end. A sample counts as the highest value of its bucket in the recording, at most
/// 1/1024 above itself.
fn cumulative(latency: &Histogram, ends: &[(u64, String)]) -> Vec<u64> {
    let mut samples = latency.distinct().peekable();
    let mut total = 0_u64;
    ends.iter()
        .map(|(end_ns, _)| {
            while let Some((_, count)) = samples.next_if(|(value_ns, _)| value_ns <= end_ns) {
                total = total.saturating_add(count);
            }
            total
        })
        .collect()
}

fn failed(runs: &[(&Observation, &Labels)]) -> Family {
    let mut family = Family::new(
        "wrkbench_run_failed",
        "gauge",
        "1 if the run failed and is in no average.",
    );
    for (run, labels) in runs {
        family.add(labels, f64::from(u8::from(run.failure.is_some())));
    }
    family
}

/// Nothing where it is not known.
fn limited(runs: &[(&Observation, &Labels)]) -> Family {
    let mut family = Family::new(
        "wrkbench_generator_limited",
        "gauge",
        "1 if the generator was the limit, so that the numbers are not the server's.",
    );
    for (run, labels) in runs {
        let verdict = run.result.as_deref().map(|run| &run.generator.verdict);
        match verdict {
            Some(Verdict::NotSaturated) => family.add(labels, 0.0),
            Some(Verdict::Saturated { .. }) => family.add(labels, 1.0),
            Some(Verdict::Unknown) | None => {}
        }
    }
    family
}

/// The labels of each run. No two runs have the same ones.
fn labels_of(runs: &[Observation]) -> Vec<Labels> {
    let factors = names::factors(runs);
    let label_names = label_names(&factors);
    let mut seen: BTreeMap<Labels, usize> = BTreeMap::new();
    let of_run = |run: &Observation| {
        let levels = factors.iter().zip(&label_names);
        let mut labels: Labels = levels
            .filter_map(|(factor, name)| {
                Some((name.clone(), names::level(run, factor)?.to_owned()))
            })
            .collect();
        let named = [("profile", &run.profile), ("target", &run.target)];
        labels.extend(
            named
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))),
        );
        labels.push(("run".to_owned(), run.run.to_string()));
        labels.push(("source".to_owned(), run.source.clone()));
        let times = seen.entry(labels.clone()).or_insert(0);
        *times += 1;
        if *times > 1 {
            labels.push(("repeat".to_owned(), times.to_string()));
        }
        labels
    };
    runs.iter().map(of_run).collect()
}

/// `factor_net_core_rmem_max`: what a label may be called, no two the same.
fn label_names(factors: &[&str]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let of_factor = |factor: &&str| {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        let name: String = factor.chars().take(NAME_CHARS_MAX).map(plain).collect();
        let base = format!("factor_{name}");
        let numbered = (2_u32..).map(|number| format!("{base}_{number}"));
        let free = std::iter::once(base.clone())
            .chain(numbered)
            .find(|name| !taken.contains(name))
            .unwrap_or(base);
        taken.insert(free.clone());
        free
    };
    factors.iter().map(of_factor).collect()
}

const NAME_CHARS_MAX: usize = 100;

/// A label's value between quotes.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
