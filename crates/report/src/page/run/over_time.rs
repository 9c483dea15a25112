//! How the run went over time.

use std::time::Duration;

use analysis::story::Stall;
use plan::Pacing;
use results::RunResult;

use super::verdict::{capital, latency_name};
use super::{TIME_GROUP, color, story};
use crate::page::curves::{self, Curve, ErrorSpan, LatencyOverTime, OverTime};
use crate::page::{Axis, Block, Chart, Height, Mark, Marks, Scale, Section, Unit, tables, words};

/// Below it the bytes of answers say nothing that their number does not.
const LARGE_ANSWER_BYTES: f64 = 16_384.0;

/// More stalls are not told one by one.
const STALLS_TOLD: usize = 3;

/// Nothing of a run without a window or without any event.
pub(super) fn section(result: &RunResult, stalls: &[Stall]) -> Option<Section> {
    let over_time = curves::rates(result);
    let latency = curves::latencies(result, stalls);
    let mut blocks: Vec<Block> = Vec::new();
    if over_time.requests_per_sec.is_line() {
        let chart = requests(result, &over_time);
        blocks.push(tables::chart(with_spans(chart, stalls, &over_time)));
    }
    if latency.p50.is_line() {
        let chart = latencies(result, &latency);
        blocks.push(tables::chart(with_spans(chart, stalls, &over_time)));
    }
    if over_time.errors > 0 {
        blocks.push(tables::chart(errors(&over_time)));
    }
    let counters = &result.recording.counters;
    let mean_bytes = counters.bytes as f64 / counters.answered.max(1) as f64;
    if mean_bytes >= LARGE_ANSWER_BYTES && !over_time.bytes_per_sec.is_empty() {
        blocks.push(tables::chart(bytes(&over_time)));
    }
    let mut steps = format!("Rates in steps of {}", seconds(over_time.step_s));
    if latency.p50.is_line() {
        steps += &format!(
            ", latencies of the answers that came in each {}",
            seconds(latency.step_s)
        );
    }
    let lower = match &latency.high {
        Some((percent, _)) if *percent < 99.0 => format!(
            "{} is the highest percentile that most of them have samples enough for",
            words::percentile(*percent)
        ),
        _ => String::new(),
    };
    let no_errors = if result.recording.errors.events() == 0 {
        "There were no errors"
    } else {
        ""
    };
    (!blocks.is_empty()).then(|| Section {
        id: "over-time".to_owned(),
        title: "Over time".to_owned(),
        lead: words::sentences([steps.as_str(), lower.as_str(), no_errors]),
        blocks,
        is_folded: false,
    })
}

fn seconds(seconds: f64) -> String {
    words::duration_ns((seconds * 1e9).round() as u64)
}

fn requests(result: &RunResult, over_time: &OverTime) -> Chart {
    let curve = &over_time.requests_per_sec;
    let (least, most) = curve.range().unwrap_or_default();
    let mut marks = Vec::new();
    let end_s = result.window.duration_ns as f64 / 1e9;
    if let Some(asked) = asked(&result.plan.pacing, end_s) {
        marks.push(Marks {
            is_dashed: true,
            ..asked.marks("Asked for", Mark::Line, color::ASKED)
        });
    }
    marks.push(curve.clone().marks("Requests/s", Mark::Line, color::RATE));
    Chart {
        id: "requests-over-time".to_owned(),
        title: "Requests per second".to_owned(),
        description: format!(
            "Answers per second over {}: from {} to {}, {} on average.",
            seconds(end_s),
            words::number(least),
            words::number(most),
            words::number(result.requests_per_sec())
        ),
        x: curves::time_axis(),
        y: Axis {
            label: "Requests/s".to_owned(),
            unit: Unit::RequestsPerSec,
            scale: Scale::Linear,
            from_zero: true,
        },
        marks,
        group: Some(TIME_GROUP.to_owned()),
        ..Chart::default()
    }
}

/// The rate that the plan asks for over the window; `None` for a closed loop.
fn asked(pacing: &Pacing, end_s: f64) -> Option<Curve> {
    let mut curve = Curve::default();
    for (at_s, per_sec) in pacing.rate_curve(Duration::ZERO)?.segments(end_s).flatten() {
        go_to(&mut curve, at_s, per_sec, end_s);
    }
    Some(curve)
}

/// Adds a point. A jump needs two, of which the second is a trace later: no moment has two values.
fn go_to(curve: &mut Curve, at_s: f64, per_sec: f64, end_s: f64) {
    let at_s = match curve.x.last() {
        Some(last_s) if at_s <= *last_s => {
            if curve.y.last() == Some(&Some(per_sec)) {
                return;
            }
            last_s + end_s * 1e-6
        }
        _ => at_s,
    };
    curve.x.push(at_s);
    curve.y.push(Some(per_sec));
}

fn latencies(result: &RunResult, latency: &LatencyOverTime) -> Chart {
    let LatencyOverTime {
        p50,
        high,
        max,
        is_bound,
        ..
    } = latency;
    let y = curves::latency_axis(
        &capital(latency_name(result)),
        [p50, max]
            .into_iter()
            .chain(high.iter().map(|(_, high)| high)),
    );
    let mut marks = vec![Marks {
        is_faint: true,
        labels: bounds(is_bound),
        ..max.clone().marks("Slowest", Mark::Line, color::MAX)
    }];
    if let Some((percent, high)) = high {
        let name = words::percentile(*percent);
        marks.push(high.clone().marks(name, Mark::Line, color::HIGH));
    }
    marks.push(p50.clone().marks("p50", Mark::Line, color::LATENCY));
    let range = |name: &str, curve: &Curve| {
        curve.range().map(|(least, most)| {
            format!(
                "{name} from {} to {}",
                words::time_us(least),
                words::time_us(most)
            )
        })
    };
    let ranges: Vec<String> = [
        range("p50", p50),
        high.as_ref()
            .and_then(|(percent, high)| range(&words::percentile(*percent), high)),
        range("the slowest", max),
    ]
    .into_iter()
    .flatten()
    .collect();
    Chart {
        id: "latency-over-time".to_owned(),
        title: format!("{} over time", capital(latency_name(result))),
        description: format!("Of each interval: {}.", ranges.join(", ")),
        x: curves::time_axis(),
        y,
        marks,
        group: Some(TIME_GROUP.to_owned()),
        ..Chart::default()
    }
}

/// What points are that are no latencies of responses.
fn bounds(is_bound: &[bool]) -> Vec<String> {
    if !is_bound.contains(&true) {
        return Vec::new();
    }
    let label = |is_bound: &bool| match is_bound {
        true => "at least: requests had waited so long without a response".to_owned(),
        false => String::new(),
    };
    is_bound.iter().map(label).collect()
}

/// The chart with stalls and errors behind what it shows.
fn with_spans(mut chart: Chart, stalls: &[Stall], over_time: &OverTime) -> Chart {
    let errors = &over_time.error_spans;
    if let Some(worst) = errors.iter().max_by(|a, b| a.share().total_cmp(&b.share())) {
        let label = |span: &ErrorSpan| {
            format!(
                "{} beside {}, {}",
                words::counted(span.errors, "error"),
                words::counted(span.answered, "response"),
                words::percent(span.share())
            )
        };
        chart.marks.insert(
            0,
            Marks {
                name: "Errors: full height is 100 %".to_owned(),
                mark: Mark::Span,
                x: errors.iter().map(|span| span.begin_s).collect(),
                y: vec![None; errors.len()],
                until: errors.iter().map(|span| span.end_s).collect(),
                heights: errors.iter().map(ErrorSpan::height).collect(),
                labels: errors.iter().map(label).collect(),
                color: color::ERRORS,
                ..Marks::default()
            },
        );
        chart.description += &format!(
            " Most errors at {}: {} of what ended there.",
            seconds(worst.begin_s),
            words::percent(worst.share())
        );
    }
    if !stalls.is_empty() {
        let told: Vec<String> = stalls.iter().take(STALLS_TOLD).map(story::span).collect();
        chart.marks.insert(
            0,
            Marks {
                name: "Stalled".to_owned(),
                mark: Mark::Span,
                x: stalls.iter().map(|stall| stall.begin_s).collect(),
                y: vec![None; stalls.len()],
                until: stalls.iter().map(|stall| stall.end_s).collect(),
                labels: stalls.iter().map(story::span).collect(),
                color: color::STALL,
                ..Marks::default()
            },
        );
        chart.description += &format!(" Stalled {}.", words::list(&told));
    }
    chart
}

fn errors(over_time: &OverTime) -> Chart {
    let most = over_time
        .errors_per_sec
        .range()
        .map_or(0.0, |range| range.1);
    Chart {
        id: "errors-over-time".to_owned(),
        title: "Errors per second".to_owned(),
        description: format!(
            "{} in all, at most {} per second.",
            words::counted(over_time.errors, "error"),
            words::number(most)
        ),
        x: curves::time_axis(),
        y: Axis {
            label: "Errors/s".to_owned(),
            unit: Unit::Number,
            scale: Scale::Linear,
            from_zero: true,
        },
        marks: vec![
            over_time
                .errors_per_sec
                .clone()
                .marks("Errors/s", Mark::Bars, color::ERRORS),
        ],
        height: Height::Low,
        group: Some(TIME_GROUP.to_owned()),
        ..Chart::default()
    }
}

fn bytes(over_time: &OverTime) -> Chart {
    let (least, most) = over_time.bytes_per_sec.range().unwrap_or_default();
    Chart {
        id: "bytes-over-time".to_owned(),
        title: "Throughput".to_owned(),
        description: format!(
            "Bytes of answers per second: from {} to {}.",
            words::bytes_per_sec(least),
            words::bytes_per_sec(most)
        ),
        x: curves::time_axis(),
        y: Axis {
            label: "Bytes/s".to_owned(),
            unit: Unit::BytesPerSec,
            scale: Scale::Linear,
            from_zero: true,
        },
        marks: vec![
            over_time
                .bytes_per_sec
                .clone()
                .marks("Bytes/s", Mark::Line, color::BYTES),
        ],
        height: Height::Low,
        group: Some(TIME_GROUP.to_owned()),
        ..Chart::default()
    }
}
