//! The same chart of each run in one: percentiles, rates and latencies over time, sockets.

use results::{RunResult, SocketMoment};

use super::{Drawn, LINES_MAX, Runs};
use crate::page::curves::{self, Curve};
use crate::page::run::{per_sec, socket_curve, values_by_percentile};
use crate::page::tables::chart;
use crate::page::{Axis, Block, Chart, Height, Mark, Marks, Scale, Section, Unit, words};

/// Points of each line over time: less than on a run's own page, since there are many lines.
const POINTS_MAX: u64 = 150;

/// Charts over time have their pointers coupled by this word.
const TIME_GROUP: &str = "time";

/// A chart of one curve for each run that has one.
struct Overlay {
    id: &'static str,
    title: String,
    /// What the curves are, for the description.
    what: &'static str,
    x: Axis,
    y_label: String,
    unit: Unit,
    show: fn(f64) -> String,
    height: Height,
    group: Option<String>,
}

impl Overlay {
    /// Nothing if no run has two points to draw a line between.
    fn of(self, runs: &Runs<'_>, curves: Vec<(&Drawn<'_>, Curve)>) -> Option<Chart> {
        let curves: Vec<(&Drawn<'_>, Curve)> = curves
            .into_iter()
            .filter(|(_, curve)| curve.is_line())
            .collect();
        if curves.is_empty() {
            return None;
        }
        let Self {
            id,
            title,
            what,
            x,
            y_label,
            unit,
            show,
            height,
            group,
        } = self;
        let y = if unit == Unit::Microseconds {
            curves::latency_axis(&y_label, curves.iter().map(|(_, curve)| curve))
        } else {
            Axis {
                label: y_label,
                unit,
                scale: Scale::Linear,
                from_zero: true,
            }
        };
        let range = curves
            .iter()
            .filter_map(|(_, curve)| curve.range())
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let said = range.map_or_else(String::new, |(least, most)| {
            format!(", from {} to {}", show(least), show(most))
        });
        let description = format!(
            "{what} of {}{said}. The table of runs has the values of each.",
            words::counted(curves.len() as u64, "run")
        );
        let marks = if curves.len() > LINES_MAX || runs.are_sides() {
            // Percentiles rise; where some of the lines have ended, the median of the others may not.
            many(runs, curves, x.scale == Scale::Nines)
        } else {
            few(curves)
        };
        Some(Chart {
            id: id.to_owned(),
            title,
            description,
            x,
            y,
            marks,
            height,
            group,
            ..Chart::default()
        })
    }
}

/// A line for each run.
fn few(curves: Vec<(&Drawn<'_>, Curve)>) -> Vec<Marks> {
    let line = |(drawn, curve): (&Drawn<'_>, Curve)| {
        curve.marks(drawn.name.clone(), Mark::Line, drawn.color)
    };
    curves.into_iter().map(line).collect()
}

/// A faint line for each run, under the medians of the groups; runs of unlike things have no median. Lines of a group
/// are one entry of the legend, and their labels say which run is which.
fn many(runs: &Runs<'_>, curves: Vec<(&Drawn<'_>, Curve)>, is_rising: bool) -> Vec<Marks> {
    let named = |group: &str, what: &str| match group {
        "" => crate::page::run::capital(what),
        group => format!("{group}, {what}"),
    };
    let mut marks = Vec::new();
    let mut medians = Vec::new();
    for (color, group) in runs.groups.iter().enumerate() {
        let (members, lines): (Vec<&Drawn<'_>>, Vec<Curve>) = curves
            .iter()
            .filter(|(drawn, _)| drawn.group == color)
            .cloned()
            .unzip();
        let mut median = curves::median_curve(&lines);
        if is_rising {
            median.end_before_fall();
        }
        let has_median = runs.are_groups_alike && lines.len() > 1 && median.is_line();
        let each = match lines.len() {
            1 => "the run",
            _ => "each run",
        };
        if has_median {
            let what = format!("median of {}", words::counted(lines.len() as u64, "run"));
            medians.push(median.marks(named(group, &what), Mark::Line, color));
        }
        for (drawn, line) in members.into_iter().zip(lines) {
            marks.push(Marks {
                is_faint: has_median,
                labels: vec![drawn.name.clone(); line.x.len()],
                ..line.marks(named(group, each), Mark::Line, color)
            });
        }
    }
    marks.append(&mut medians);
    marks
}

/// The results of the runs that have one.
fn results<'a>(runs: &'a Runs<'a>) -> impl Iterator<Item = (&'a Drawn<'a>, &'a RunResult)> {
    runs.drawn
        .iter()
        .filter_map(|drawn| Some((drawn, drawn.run.result.as_deref()?)))
}

/// Latency by percentile.
pub(super) fn latency(runs: &Runs<'_>) -> Option<Section> {
    let has_rate = results(runs).any(|(_, result)| result.recording.counters.due > 0);
    let has_none = results(runs).any(|(_, result)| result.recording.counters.due == 0);
    let curves: Vec<(&Drawn<'_>, Curve)> = runs
        .drawn
        .iter()
        .map(|drawn| {
            let curve = match drawn.run.result.as_deref() {
                Some(result) => curves::by_percentile(&result.recording.latency()),
                None => values_by_percentile(&drawn.run.values, "latency"),
            };
            (drawn, curve)
        })
        .collect();
    let by_percentile = Overlay {
        id: "latency-by-percentile",
        title: "Latency by percentile".to_owned(),
        what: "Latency by percentile",
        x: curves::percentile_axis(),
        y_label: "Latency".to_owned(),
        unit: Unit::Microseconds,
        show: words::time_us,
        height: Height::Tall,
        group: None,
    }
    .of(runs, curves)?;
    let kinds = match (has_rate, has_none) {
        (true, true) => {
            "Of runs with a rate it is response time, counted from when a request was due, of the others service \
             time, counted from its sending: these do not compare"
        }
        (true, false) => "Response time: it counts from the moment that a request was due",
        (false, true) => "Service time: it counts from the sending of a request",
        (false, false) => "As the reports say it",
    };
    Some(Section {
        id: "latency".to_owned(),
        title: "Latency".to_owned(),
        lead: words::sentences([
            kinds,
            "Each line ends where fewer than ten samples lie above; the slowest stands in the table",
        ]),
        blocks: vec![chart(by_percentile)],
        is_folded: false,
    })
}

/// Rates and latencies of all runs from their begin on.
pub(super) fn over_time(runs: &Runs<'_>) -> Option<Section> {
    let over_time = |id, title: &str, what, unit, show| Overlay {
        id,
        title: title.to_owned(),
        what,
        x: curves::time_axis(),
        y_label: title.to_owned(),
        unit,
        show,
        height: Height::Normal,
        group: Some(TIME_GROUP.to_owned()),
    };
    let mut requests = Vec::new();
    let mut errors = Vec::new();
    let mut medians = Vec::new();
    let mut highs = Vec::new();
    for (drawn, result) in results(runs) {
        let rates = curves::rates_in(result, POINTS_MAX);
        requests.push((drawn, rates.requests_per_sec));
        if rates.errors > 0 {
            errors.push((drawn, rates.errors_per_sec));
        }
        let stalls = analysis::story::stalls_of(result);
        let latency = curves::latencies_in(result, &stalls, POINTS_MAX as usize);
        medians.push((drawn, latency.p50));
        // What is not p99 of all would not compare.
        if let Some((99.0, high)) = latency.high {
            highs.push((drawn, high));
        }
    }
    let charts = [
        over_time(
            "requests-over-time",
            "Requests per second",
            "Answers per second over time",
            Unit::RequestsPerSec,
            words::number,
        )
        .of(runs, requests),
        over_time(
            "p50-over-time",
            "p50 over time",
            "Median latency of each interval",
            Unit::Microseconds,
            words::time_us,
        )
        .of(runs, medians),
        over_time(
            "p99-over-time",
            "p99 over time",
            "99th percentile of each interval",
            Unit::Microseconds,
            words::time_us,
        )
        .of(runs, highs),
        over_time(
            "errors-over-time",
            "Errors per second",
            "Errors per second over time",
            Unit::Number,
            words::number,
        )
        .of(runs, errors),
    ];
    let blocks: Vec<Block> = charts.into_iter().flatten().map(chart).collect();
    (!blocks.is_empty()).then(|| Section {
        id: "over-time".to_owned(),
        title: "Over time".to_owned(),
        lead: "Each run from the begin of its window. p99 is drawn where the intervals have samples enough."
            .to_owned(),
        blocks,
        is_folded: false,
    })
}

/// Sockets over time, of the runs that watched them.
pub(super) fn telemetry(runs: &Runs<'_>) -> Option<Section> {
    type Of = fn(&SocketMoment, f64) -> Option<f64>;
    type Wish = (&'static str, &'static str, Unit, fn(f64) -> String, Of);
    const WISHES: [Wish; 4] = [
        (
            "telemetry-rtt",
            "Round trip time, median",
            Unit::Microseconds,
            words::time_us,
            |row, _| row.rtt_p50_us,
        ),
        (
            "telemetry-cwnd",
            "Congestion window, median",
            Unit::Segments,
            words::number,
            |row, _| row.cwnd_p50,
        ),
        (
            "telemetry-retransmits",
            "Segments sent again per second",
            Unit::Number,
            words::number,
            |row, interval_s| per_sec(row.segments_retransmitted, interval_s),
        ),
        (
            "telemetry-delivery-rate",
            "Delivery rate of a socket, median",
            Unit::BytesPerSec,
            words::bytes_per_sec,
            |row, _| row.delivery_rate_p50_bytes_per_sec,
        ),
    ];
    let mut charts = Vec::new();
    for (id, title, unit, show, value) in WISHES {
        let curves = results(runs)
            .filter_map(|(drawn, result)| {
                let timeline = result.telemetry.as_ref()?.timeline.as_ref()?;
                Some((drawn, socket_curve(timeline, value)))
            })
            .collect();
        charts.extend(
            Overlay {
                id,
                title: title.to_owned(),
                what: title,
                x: curves::time_axis(),
                y_label: title.to_owned(),
                unit,
                show,
                height: Height::Low,
                group: Some(TIME_GROUP.to_owned()),
            }
            .of(runs, curves),
        );
    }
    (!charts.is_empty()).then(|| Section {
        id: "telemetry".to_owned(),
        title: "TCP telemetry".to_owned(),
        lead: "Sockets of the runs that watched them, over time.".to_owned(),
        blocks: charts
            .chunks(2)
            .map(|pair| Block::Charts {
                charts: pair.to_vec(),
            })
            .collect(),
        is_folded: false,
    })
}
