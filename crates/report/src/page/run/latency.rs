//! How long requests took: by percentile, and how the samples spread.

use judging::ThinPercentiles;
use results::{Histogram, RunResult, Summary};

use super::color;
use super::verdict::{bounded, capital, latency_name};
use crate::page::curves::{self, Curve, Distributions};
use crate::page::tables::{self, chart, number_column, words_column};
use crate::page::{
    Axis, Block, Chart, Height, Mark, Marks, Scale, Section, TableBlock, Tone, Unit, words,
};

/// In words for who cannot see the chart.
const TOLD: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// One kind of time.
struct Times {
    name: &'static str,
    color: usize,
    samples: Histogram,
}

/// Nothing without a sample.
pub(super) fn sections(result: &RunResult) -> Vec<Section> {
    let times = times(result);
    if times.is_empty() {
        return Vec::new();
    }
    vec![by_percentile(result, &times), distribution(&times)]
}

/// The run's latency, and with a rate the service time beside it.
fn times(result: &RunResult) -> Vec<Times> {
    let recording = &result.recording;
    let mut times = vec![Times {
        name: latency_name(result),
        color: color::LATENCY,
        samples: recording.latency(),
    }];
    if recording.counters.due > 0 {
        times.push(Times {
            name: "service time",
            color: color::SERVICE_TIME,
            samples: recording.uncorrected(),
        });
    }
    times.retain(|times| !times.samples.is_empty());
    times
}

fn by_percentile(result: &RunResult, times: &[Times]) -> Section {
    let curves: Vec<Curve> = times
        .iter()
        .map(|times| curves::by_percentile(&times.samples))
        .collect();
    let maxima: Vec<Curve> = times.iter().map(|times| maximum(&times.samples)).collect();
    let y = curves::latency_axis("Latency", curves.iter().chain(&maxima));
    let mut marks = Vec::new();
    for ((times, curve), maximum) in times.iter().zip(curves).zip(maxima) {
        let name = capital(times.name);
        marks.push(curve.marks(name.clone(), Mark::Line, times.color));
        marks.push(Marks {
            labels: vec![format!(
                "the slowest of {}",
                words::counted(times.samples.count(), "sample")
            )],
            ..maximum.marks(format!("{name}, slowest"), Mark::Dots, times.color)
        });
    }
    let percentiles = Chart {
        id: "latency-by-percentile".to_owned(),
        title: "Latency by percentile".to_owned(),
        description: times.iter().map(in_words).collect::<Vec<_>>().join(" "),
        x: curves::percentile_axis(),
        y,
        marks,
        height: Height::Tall,
        ..Chart::default()
    };
    Section {
        id: "latency".to_owned(),
        title: "Latency".to_owned(),
        lead: explanation(result),
        blocks: vec![chart(percentiles), table(result, times), moments(times)],
        is_folded: false,
    }
}

fn maximum(samples: &Histogram) -> Curve {
    Curve {
        x: vec![100.0],
        y: vec![samples.max_ns().map(|ns| ns as f64 / 1e3)],
    }
}

fn explanation(result: &RunResult) -> String {
    let recording = &result.recording;
    let timed_out = recording.timed_out.count();
    let unanswered = recording.unanswered.count();
    let kinds = if recording.counters.due > 0 {
        "Response time counts from the moment that a request was due, so it has the wait that a slow server \
         leaves behind; service time counts from its sending."
            .to_owned()
    } else {
        "Service time, from the sending of a request to the last byte of its answer. In a closed loop there is \
         no other: a connection sends only when it has its answer, so while the server stands still nothing is \
         sent and nothing is late. How long users would wait is measured with a rate (-R)."
            .to_owned()
    };
    let bounds = match (unanswered, timed_out) {
        (0, 0) => String::new(),
        (0, requests) => format!(
            "{} had no answer in time and stand here with their age when they were given up",
            words::counted(requests, "request")
        ),
        (requests, _) => format!(
            "{} had no answer and stand here with their age, a lower bound",
            words::counted(requests, "request")
        ),
    };
    words::sentences([
        kinds.as_str(),
        "The line ends where fewer than ten samples lie above; beyond it only the slowest is known",
        bounds.as_str(),
    ])
}

fn in_words(times: &Times) -> String {
    let samples = &times.samples;
    let mut parts = Vec::new();
    for percent in TOLD {
        if ThinPercentiles::among(&[percent], samples.count()).is_none() {
            let value = words::time_ns(samples.value_at_percentile(percent));
            parts.push(format!("{} {value}", words::percentile(percent)));
        }
    }
    let max = words::time_ns(samples.max_ns().unwrap_or(0));
    parts.push(format!("slowest {max}"));
    format!(
        "{} of {}: {}.",
        capital(times.name),
        words::counted(samples.count(), "sample"),
        parts.join(", ")
    )
}

fn table(result: &RunResult, times: &[Times]) -> Block {
    let mut columns = vec![number_column("Percentile")];
    for times in times {
        columns.push(number_column(capital(times.name)));
        columns.push(number_column("Samples above"));
    }
    let bounds = result.recording.lower_bounds(&Summary::PERCENTILES);
    let mut rows = Vec::new();
    for (percent, is_bound) in Summary::PERCENTILES.into_iter().zip(bounds) {
        let mut row = vec![tables::value(words::percentile(percent), percent)];
        for Times { samples, color, .. } in times {
            let count = samples.count();
            let thin = ThinPercentiles::among(&[percent], count);
            let value_ns = samples.value_at_percentile(percent);
            // Of service time only what was answered is in it.
            let is_bound = match percent {
                100.0 => result.recording.max_is_of_unanswered(),
                _ => is_bound,
            } && *color == color::LATENCY;
            let cell = tables::value(bounded(value_ns, is_bound), value_ns as f64 / 1e3);
            let above = (100.0 - percent) / 100.0 * count as f64;
            let tone = if thin.is_some() {
                Tone::Warning
            } else {
                Tone::Neutral
            };
            row.push(tables::toned(cell, tone));
            row.push(tables::value(
                words::count((above + 1e-6).floor() as u64),
                above,
            ));
        }
        rows.push(row);
    }
    Block::Table(TableBlock {
        caption: "Percentiles (marked: fewer than ten samples above, mostly chance; \u{2265}: a lower bound)"
            .to_owned(),
        columns,
        rows,
    })
}

fn moments(times: &[Times]) -> Block {
    let mut columns = vec![words_column("Time")];
    columns.extend(
        [
            "Samples",
            "Mean",
            "St. dev.",
            "Fastest",
            "Slowest",
            "Within 1 st. dev.",
        ]
        .map(number_column),
    );
    let rows = times.iter().map(|Times { name, samples, .. }| {
        let within = samples.within_stdev_percent();
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        vec![
            tables::text(capital(name)),
            tables::count(samples.count()),
            tables::time_us(Some(samples.mean_ns() / 1e3)),
            tables::time_us(Some(samples.stdev_ns() / 1e3)),
            tables::time_us(us(samples.min_ns())),
            tables::time_us(us(samples.max_ns())),
            tables::known(within, |percent| words::percent(percent / 100.0)),
        ]
    });
    Block::Table(TableBlock {
        caption: "Mean and spread".to_owned(),
        columns,
        rows: rows.collect(),
    })
}

fn distribution(times: &[Times]) -> Section {
    let samples: Vec<&Histogram> = times.iter().map(|times| &times.samples).collect();
    let Distributions {
        curves,
        width_ratio,
    } = curves::distributions(&samples);
    let is_alone = times.len() == 1;
    let mark = if is_alone { Mark::Area } else { Mark::Step };
    let marks = times
        .iter()
        .zip(curves)
        .map(|(times, curve)| curve.marks(capital(times.name), mark, times.color))
        .collect();
    let middle = |times: &Times| {
        let [low, high] =
            [25.0, 75.0].map(|percent| words::time_ns(times.samples.value_at_percentile(percent)));
        format!(
            "Half of the samples of {} lie from {low} to {high}.",
            times.name
        )
    };
    let spread = Chart {
        id: "latency-distribution".to_owned(),
        title: "Distribution of latency".to_owned(),
        description: times.iter().map(middle).collect::<Vec<_>>().join(" "),
        x: Axis {
            label: "Latency".to_owned(),
            unit: Unit::Microseconds,
            scale: Scale::Log,
            from_zero: false,
        },
        y: Axis {
            label: "Share of the samples in each bucket".to_owned(),
            unit: Unit::Percent,
            scale: Scale::Linear,
            from_zero: true,
        },
        marks,
        ..Chart::default()
    };
    Section {
        id: "distribution".to_owned(),
        title: "Distribution".to_owned(),
        lead: format!(
            "How many samples took how long. Each bucket ends {} above its begin, so buckets of slow answers are \
             wider in time; several humps are several kinds of answers.",
            words::percent(width_ratio - 1.0)
        ),
        blocks: vec![chart(spread)],
        is_folded: false,
    }
}
