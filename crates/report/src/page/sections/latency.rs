//! Latency by percentile, and its distribution.

use std::collections::BTreeMap;

use analysis::Observation;
use presentation::tables::{self, columns, number_column, table};
use presentation::words::{capital, counted, percentile, sentences, time_ns, time_us};
use presentation::{Axis, Block, Chart, Height, Mark, Marks, Section, Tone, Unit, color, words};
use results::cells;
use results::is_thin;
use results::metric::{self, Time};
use results::{Histogram, Measured, Recording, RunResult, Summary};

use crate::page::curves::{self, Curve, Distributions};
use crate::page::lines::{self, LineChart, NAMED_GROUPS_MAX};
use crate::page::runs::{Group, Runs, facet_title};

/// Percentiles in the description of a chart.
const DESCRIBED: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// Percentiles of more groups are in the table of averages.
const COLUMNS_MAX: usize = 4;

/// Samples with their name: a kind of time of a single run, or the latency of a group.
struct Times {
    name: String,
    color: usize,
    samples: Histogram,
    /// One for each of [`Summary::PERCENTILES`].
    percentiles: Vec<Option<Measured>>,
}

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let times = times(runs);
    let charts = match runs.single() {
        Some(run) => chart_of_run(run, &times).into_iter().collect(),
        None => charts(runs),
    };
    if charts.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::Charts { charts }];
    if (1..=COLUMNS_MAX).contains(&times.len()) {
        blocks.push(percentiles(&times));
    }
    if !times.is_empty() {
        blocks.push(moments(&times));
    }
    Some(Section::new("latency", "Latency", lead(runs), blocks))
}

/// Latency, and at a rate service time, of a single run; otherwise the latency of each group.
fn times(runs: &Runs<'_>) -> Vec<Times> {
    let mut times = Vec::new();
    let is_single = runs.single().is_some();
    for (group, recording) in runs.recordings().take(NAMED_GROUPS_MAX) {
        let has_rate = recording.counters.due > 0;
        let name = match (is_single, has_rate) {
            (true, true) => "Response time",
            (true, false) => "Service time",
            (false, _) if group.full_name.is_empty() => "All runs",
            (false, _) => &group.full_name,
        };
        times.push(Times {
            name: name.to_owned(),
            color: if is_single {
                color::LATENCY
            } else {
                group.color
            },
            samples: recording.latency(),
            percentiles: percentiles_of(Time::LATENCY, recording),
        });
        if is_single && has_rate {
            times.push(Times {
                name: "Service time".to_owned(),
                color: color::SERVICE_TIME,
                samples: recording.uncorrected(),
                percentiles: percentiles_of(Time::SERVICE_TIME, recording),
            });
        }
    }
    times.retain(|times| !times.samples.is_empty());
    times
}

fn lead(runs: &Runs<'_>) -> String {
    let has = |with_rate: bool| {
        let mut results = runs.results();
        results.any(|(_, result)| (result.recording.counters.due > 0) == with_rate)
    };
    let kinds = match (has(true), has(false)) {
        (true, _) => {
            "Response time counts from when a request was due and includes the wait for a slow \
             server. Service time counts from when it was sent"
        }
        (false, true) => {
            "Service time counts from when a request was sent to the last byte of its response. In \
             a closed loop a stalled server is sent no requests, so that its stall delays few of \
             them. To measure how long users would wait, set a rate (-R)"
        }
        (false, false) => {
            "Percentiles as the reports name them; lines between them are not measured"
        }
    };
    let mixed = match (has(true), has(false), runs.single()) {
        (true, true, _) => "Runs with a rate show response time, closed-loop runs service time",
        _ => "",
    };
    let together = if runs.groups.iter().any(|group| group.runs.len() > 1) {
        "Percentiles of a group are those of all samples of its runs together"
    } else {
        ""
    };
    let ends = if runs.results().next().is_some() {
        "A line ends where fewer than ten samples are above"
    } else {
        ""
    };
    let bounds = runs.single_result().map_or_else(String::new, bounds);
    sentences([kinds, mixed, lines::legend(runs), together, ends, &bounds])
}

fn bounds(result: &RunResult) -> String {
    let recording = &result.recording;
    match (recording.unanswered.count(), recording.timed_out.count()) {
        (0, 0) => String::new(),
        (0, requests) => format!(
            "{} timed out and count with their age at the timeout",
            counted(requests, "request")
        ),
        (requests, _) => format!(
            "{} had no response and count with their age, which is a lower bound",
            counted(requests, "request")
        ),
    }
}

fn chart_of_run(run: &Observation, times: &[Times]) -> Option<Chart> {
    let mut marks = Vec::new();
    let mut curves = Vec::new();
    let mut described = Vec::new();
    for of in times {
        let Times {
            name,
            color,
            samples,
            ..
        } = of;
        let line = curves::by_percentile(samples);
        let maximum = Curve {
            x: vec![100.0],
            y: vec![samples.max_ns().map(|ns| ns as f64 / 1e3)],
        };
        curves.extend([line.clone(), maximum.clone()]);
        marks.push(line.marks(name.clone(), Mark::Line, *color));
        marks.push(Marks {
            labels: vec![format!("slowest of {}", counted(samples.count(), "sample"))],
            ..maximum.marks(format!("{name}, slowest"), Mark::Dots, *color)
        });
        described.push(description(of));
    }
    if run.result.is_none() {
        for of in Time::all().map(Time::name) {
            let line = curve_of_values(&run.values, of);
            if !line.is_line() {
                continue;
            }
            let name = capital(&of.replace('_', " "));
            let points = line.x.iter().zip(line.y.iter().flatten());
            let points = points.map(|(x, us)| format!("{} {}", percentile(*x), time_us(*us)));
            described.push(format!(
                "{name}: {}.",
                points.collect::<Vec<_>>().join(", ")
            ));
            curves.push(line.clone());
            marks.push(line.marks(name, Mark::Line, color::LATENCY + marks.len()));
        }
    }
    (!marks.is_empty()).then(|| Chart {
        id: "latency-by-percentile".to_owned(),
        title: "Latency by percentile".to_owned(),
        description: described.join(" "),
        x: lines::percentile_axis(),
        y: curves::latency_axis("Latency", &curves),
        marks,
        height: Height::Tall,
        ..Chart::default()
    })
}

fn charts(runs: &Runs<'_>) -> Vec<Chart> {
    let chart = LineChart {
        id: "latency-by-percentile",
        title: "Latency by percentile",
        x: lines::percentile_axis(),
        unit: Unit::Microseconds,
        height: Height::Tall,
    };
    let of_group = |group: &Group<'_>, curves: &[Curve]| match group.recording() {
        Some(recording) => curves::by_percentile(&recording.latency()),
        None => {
            // Percentiles rise. Where some curves have ended, the median of the others may not.
            let mut median = curves::median_curve(curves);
            median.end_before_fall();
            median
        }
    };
    let of_run = |run: &Observation| match run.result.as_deref() {
        Some(result) => curves::by_percentile(&result.recording.latency()),
        None => curve_of_values(&run.values, "latency"),
    };
    chart.charts_with(runs, |run| Some(of_run(run.run)), &of_group)
}

fn percentiles_of(time: Time, recording: &Recording) -> Vec<Option<Measured>> {
    let samples = time.samples(recording);
    let percentile = |percent| samples.as_ref()?.percentile(percent);
    Summary::PERCENTILES.map(percentile).into()
}

/// The percentiles that a report names.
fn curve_of_values(values: &BTreeMap<String, f64>, of: &str) -> Curve {
    let mut points: Vec<(f64, f64)> = values
        .iter()
        .filter_map(|(name, value)| {
            let (whose, percent) = metric::percentile_of(name)?;
            (whose == of).then_some((percent, *value))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut curve = Curve::default();
    for (percent, value_us) in points {
        curve.push(percent, Some(value_us));
    }
    curve
}

fn description(times: &Times) -> String {
    let Times { name, samples, .. } = times;
    let mut parts: Vec<String> = DESCRIBED
        .into_iter()
        .filter(|percent| !is_thin(*percent, samples.count()))
        .map(|percent| {
            let value = time_ns(samples.value_at_percentile(percent));
            format!("{} {value}", percentile(percent))
        })
        .collect();
    parts.push(format!(
        "slowest {}",
        time_ns(samples.max_ns().unwrap_or(0))
    ));
    format!(
        "{name} of {}: {}.",
        counted(samples.count(), "sample"),
        parts.join(", ")
    )
}

fn percentiles(times: &[Times]) -> Block {
    let mut columns = vec![number_column("Percentile")];
    for times in times {
        columns.extend([&*times.name, "Samples above"].map(number_column));
    }
    let rows = Summary::PERCENTILES
        .into_iter()
        .enumerate()
        .map(|(at, percent)| {
            let mut row = vec![tables::value(percentile(percent), percent)];
            for Times {
                samples,
                percentiles,
                ..
            } in times
            {
                let cell = cells::measured(percentiles[at], time_us);
                let is_thin = is_thin(percent, samples.count());
                row.push(tables::toned_if(is_thin, Tone::Warning, cell));
                let above = (100.0 - percent) / 100.0 * samples.count() as f64;
                row.push(tables::value(
                    words::count((above + 1e-6).floor() as u64),
                    above,
                ));
            }
            row
        });
    let caption = "Percentiles (marked: fewer than ten samples above; \u{2265}: a lower bound)";
    table(caption, columns, rows)
}

fn moments(times: &[Times]) -> Block {
    let numbers = [
        "Samples",
        "Mean",
        "St. dev.",
        "Fastest",
        "Slowest",
        "Within 1 st. dev.",
    ];
    let columns = columns(&["Latency"], &numbers);
    let rows = times.iter().map(|Times { name, samples, .. }| {
        vec![
            tables::text(name.clone()),
            tables::count(samples.count()),
            cells::mean(samples),
            tables::time_us(Some(samples.stdev_ns() / 1e3)),
            tables::time_ns(samples.min_ns()),
            tables::time_ns(samples.max_ns()),
            tables::known(samples.within_stdev_percent(), |percent| {
                words::percent(percent / 100.0)
            }),
        ]
    });
    table("Mean and spread", columns, rows)
}

pub(super) fn distribution(runs: &Runs<'_>) -> Option<Section> {
    let mut width_ratio = 1.0;
    let all = times(runs);
    let mut charts = Vec::new();
    for (number, facet) in runs.facets.iter().enumerate() {
        let is_of_facet = |times: &&Times| {
            runs.single().is_some()
                || runs.groups.len() == 1
                || runs
                    .groups_of(facet)
                    .any(|group| group.full_name == times.name)
        };
        let times: Vec<&Times> = all.iter().filter(is_of_facet).collect();
        if times.is_empty() {
            continue;
        }
        let samples: Vec<&Histogram> = times.iter().map(|times| &times.samples).collect();
        let found: Distributions = curves::distributions(&samples);
        width_ratio = found.width_ratio.max(width_ratio);
        let mark = if times.len() == 1 {
            Mark::Area
        } else {
            Mark::Step
        };
        let quartiles = |times: &&Times| {
            let [low, high] =
                [25.0, 75.0].map(|percent| time_ns(times.samples.value_at_percentile(percent)));
            format!(
                "{}: half of the samples are between {low} and {high}.",
                times.name
            )
        };
        charts.push(Chart {
            id: runs.facet_id("latency-distribution", number),
            title: facet_title("Distribution of latency", facet),
            description: times.iter().map(quartiles).collect::<Vec<_>>().join(" "),
            x: Axis::log_time("Latency"),
            y: Axis::from_zero("Share of samples per bucket", Unit::Percent),
            marks: times
                .iter()
                .zip(found.curves)
                .map(|(times, curve)| curve.marks(times.name.clone(), mark, times.color))
                .collect(),
            ..Chart::default()
        });
    }
    let lead = format!(
        "The share of samples in each bucket of latency. Each bucket is {} wider than the one \
         before. Several peaks mean several kinds of responses.",
        words::percent(width_ratio - 1.0)
    );
    let blocks = vec![Block::Charts { charts }];
    (width_ratio > 1.0).then(|| Section::new("distribution", "Distribution", lead, blocks))
}
