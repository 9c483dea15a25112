//! Rates, latencies and errors over time.

use std::time::Duration;

use judging::episodes::{self, Stall};
use plan::Pacing;
use presentation::words::{capital, percentile, sentences};
use presentation::{
    Axis, Block, Chart, Height, Mark, Marks, Section, TIME_GROUP, Unit, color, tables, words,
};
use results::RunResult;

use super::{course, latency_name};
use crate::page::curves::{self, Curve, ErrorSpan, LatencyOverTime, OverTime};
use crate::page::lines::{self, LineChart};
use crate::page::runs::Runs;

/// With smaller responses, bytes per second show nothing that requests per second do not.
const LARGE_RESPONSE_BYTES: f64 = 16_384.0;

/// The description of a chart has this number of stalls.
const STALLS_DESCRIBED: usize = 3;

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let (lead, charts) = match runs.single_result() {
        Some(result) => of_run(result, lines::points_max(runs)),
        None => of_groups(runs),
    };
    let blocks: Vec<Block> = charts.into_iter().map(tables::chart).collect();
    (!blocks.is_empty()).then(|| Section::new("over-time", "Over time", lead, blocks))
}

fn of_groups(runs: &Runs<'_>) -> (String, Vec<Chart>) {
    let points_max = lines::points_max(runs);
    let latencies = |result: &RunResult| {
        curves::latencies(result, &episodes::stalls_of(result), points_max as usize)
    };
    let rates = |result: &RunResult| curves::rates(result, points_max);
    type OfResult<'a> = &'a dyn Fn(&RunResult) -> Option<Curve>;
    let wanted: [(&str, &str, Unit, OfResult<'_>); 5] = [
        (
            "requests-over-time",
            "Requests per second",
            Unit::RequestsPerSec,
            &|result| Some(rates(result).requests_per_sec),
        ),
        (
            "p50-over-time",
            "p50 latency",
            Unit::Microseconds,
            &|result| Some(latencies(result).p50),
        ),
        // Another percentile than p99 cannot be compared with p99 of other runs.
        (
            "p99-over-time",
            "p99 latency",
            Unit::Microseconds,
            &|result| {
                let (percent, curve) = latencies(result).high?;
                (percent == 99.0).then_some(curve)
            },
        ),
        (
            "errors-over-time",
            "Errors per second",
            Unit::Number,
            &|result| {
                let rates = rates(result);
                (rates.errors > 0).then_some(rates.errors_per_sec)
            },
        ),
        (
            "bytes-over-time",
            "Throughput",
            Unit::BytesPerSec,
            &|result| has_large_responses(result).then(|| rates(result).bytes_per_sec),
        ),
    ];
    let charts: Vec<Chart> = wanted
        .into_iter()
        .flat_map(|(id, title, unit, of_result)| {
            LineChart::over_time(id, title, unit)
                .charts(runs, |run| of_result(run.run.result.as_deref()?))
        })
        .collect();
    let has_p99 = charts.iter().any(|chart| chart.id.starts_with("p99"));
    let thin = if has_p99 {
        "p99 is drawn where a step has enough samples"
    } else {
        ""
    };
    (sentences([lines::legend(runs), thin]), charts)
}

fn of_run(result: &RunResult, points_max: u64) -> (String, Vec<Chart>) {
    let stalls = episodes::stalls_of(result);
    let over_time = curves::rates(result, points_max);
    let latency = curves::latencies(result, &stalls, points_max as usize);
    let mut charts = Vec::new();
    if over_time.requests_per_sec.is_line() {
        charts.push(with_spans(
            requests(result, &over_time),
            &stalls,
            &over_time,
        ));
    }
    if latency.p50.is_line() {
        charts.push(with_spans(latencies(result, &latency), &stalls, &over_time));
    }
    if over_time.errors > 0 {
        charts.push(errors(&over_time));
    }
    if has_large_responses(result) && !over_time.bytes_per_sec.is_empty() {
        charts.push(bytes(&over_time));
    }
    let mut steps = format!("Rates in steps of {}", seconds(over_time.step_s));
    if latency.p50.is_line() {
        steps += &format!(", latencies in steps of {}", seconds(latency.step_s));
    }
    let lower = match &latency.high {
        Some((percent, _)) if *percent < 99.0 => format!(
            "{} is the highest percentile for which most steps have enough samples",
            percentile(*percent)
        ),
        _ => String::new(),
    };
    let no_errors = match result.recording.errors.events() {
        0 => "There were no errors",
        _ => "",
    };
    (sentences([steps.as_str(), &lower, no_errors]), charts)
}

fn has_large_responses(result: &RunResult) -> bool {
    let counters = &result.recording.counters;
    counters.bytes as f64 / counters.responses().max(1) as f64 >= LARGE_RESPONSE_BYTES
}

fn seconds(seconds: f64) -> String {
    words::duration_ns((seconds * 1e9).round() as u64)
}

/// A chart over time with an axis from zero.
fn chart(id: &str, title: &str, description: String, unit: Unit, marks: Vec<Marks>) -> Chart {
    Chart {
        id: format!("{id}-over-time"),
        title: title.to_owned(),
        description,
        x: curves::time_axis(),
        y: Axis::from_zero(title, unit),
        marks,
        group: Some(TIME_GROUP.to_owned()),
        ..Chart::default()
    }
}

fn requests(result: &RunResult, over_time: &OverTime) -> Chart {
    let curve = &over_time.requests_per_sec;
    let (least, most) = curve.range().unwrap_or_default();
    let mut marks = Vec::new();
    let end_s = result.window.duration_ns as f64 / 1e9;
    if let Some(target) = target_rate(&result.plan.pacing, end_s) {
        marks.push(Marks {
            is_dashed: true,
            ..target.marks("Target rate", Mark::Line, color::TARGET_RATE)
        });
    }
    marks.push(curve.clone().marks("Requests/s", Mark::Line, color::RATE));
    let description = format!(
        "Requests per second over {}: from {} to {}, {} on average.",
        seconds(end_s),
        words::number(least),
        words::number(most),
        words::number(result.requests_per_sec())
    );
    chart(
        "requests",
        "Requests per second",
        description,
        Unit::RequestsPerSec,
        marks,
    )
}

/// The target rate over the window; `None` for a closed loop.
fn target_rate(pacing: &Pacing, end_s: f64) -> Option<Curve> {
    let mut curve = Curve::default();
    for (at_s, per_sec) in pacing.rate_curve(Duration::ZERO)?.segments(end_s).flatten() {
        go_to(&mut curve, at_s, per_sec, end_s);
    }
    Some(curve)
}

/// Adds a point. The second point of a jump is slightly later, since x must ascend.
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
    let name = capital(latency_name(result));
    let high = high
        .as_ref()
        .map(|(percent, curve)| (percentile(*percent), curve));
    let mut marks = vec![Marks {
        is_faint: true,
        labels: labels_of_bounds(is_bound),
        ..max.clone().marks("Slowest", Mark::Line, color::MAX)
    }];
    if let Some((name, high)) = &high {
        marks.push(
            (*high)
                .clone()
                .marks(name, Mark::Line, color::HIGH_PERCENTILE),
        );
    }
    marks.push(p50.clone().marks("p50", Mark::Line, color::LATENCY));
    let high = high.iter().map(|(name, curve)| (name.as_str(), *curve));
    let all: Vec<(&str, &Curve)> = [("p50", p50)]
        .into_iter()
        .chain(high)
        .chain([("slowest", max)])
        .collect();
    let ranges: Vec<String> = all
        .iter()
        .filter_map(|(name, curve)| {
            let (least, most) = curve.range()?;
            Some(format!(
                "{name} from {} to {}",
                words::time_us(least),
                words::time_us(most)
            ))
        })
        .collect();
    Chart {
        y: curves::latency_axis(&name, all.into_iter().map(|(_, curve)| curve)),
        ..chart(
            "latency",
            &format!("{name} over time"),
            format!("{}.", capital(&ranges.join(", "))),
            Unit::Microseconds,
            marks,
        )
    }
}

fn labels_of_bounds(is_bound: &[bool]) -> Vec<String> {
    if !is_bound.contains(&true) {
        return Vec::new();
    }
    let label = |is_bound: &bool| match is_bound {
        true => "lower bound: age of a request without a response".to_owned(),
        false => String::new(),
    };
    is_bound.iter().map(label).collect()
}

/// The chart with stalls and errors behind its lines.
fn with_spans(mut chart: Chart, stalls: &[Stall], over_time: &OverTime) -> Chart {
    let errors = &over_time.error_spans;
    if let Some(worst) = errors.iter().max_by(|a, b| a.share().total_cmp(&b.share())) {
        let label = |span: &ErrorSpan| {
            format!(
                "{} and {}, {}",
                words::counted(span.errors, "error"),
                words::counted(span.answered, "response"),
                words::percent(span.share())
            )
        };
        let ends = errors.iter().map(|span| (span.begin_s, span.end_s));
        let labels = errors.iter().map(label).collect();
        let errors = Marks {
            heights: errors.iter().map(ErrorSpan::height).collect(),
            ..spans("Errors (full height: 100 %)", color::ERRORS, ends, labels)
        };
        chart.marks.insert(0, errors);
        chart.description += &format!(
            " Highest share of errors at {}: {} of the requests that ended then.",
            seconds(worst.begin_s),
            words::percent(worst.share())
        );
    }
    if !stalls.is_empty() {
        let described: Vec<String> = stalls
            .iter()
            .take(STALLS_DESCRIBED)
            .map(course::span)
            .collect();
        let ends = stalls.iter().map(|stall| (stall.begin_s, stall.end_s));
        let labels = stalls.iter().map(course::span).collect();
        let stalled = spans("Stalled", color::STALL, ends, labels);
        chart.marks.insert(0, stalled);
        chart.description += &format!(" Stalled {}.", words::list(&described));
    }
    chart
}

fn spans(
    name: &str,
    color: usize,
    ends: impl Iterator<Item = (f64, f64)>,
    labels: Vec<String>,
) -> Marks {
    let (x, until): (Vec<f64>, Vec<f64>) = ends.unzip();
    Marks {
        y: vec![None; x.len()],
        x,
        until,
        labels,
        ..Marks::new(name, Mark::Span, color)
    }
}

fn errors(over_time: &OverTime) -> Chart {
    let curve = &over_time.errors_per_sec;
    let most = curve.range().map_or(0.0, |range| range.1);
    let description = format!(
        "{}, at most {} per second.",
        words::counted(over_time.errors, "error"),
        words::number(most)
    );
    let marks = vec![curve.clone().marks("Errors/s", Mark::Bars, color::ERRORS)];
    Chart {
        height: Height::Low,
        ..chart(
            "errors",
            "Errors per second",
            description,
            Unit::Number,
            marks,
        )
    }
}

fn bytes(over_time: &OverTime) -> Chart {
    let curve = &over_time.bytes_per_sec;
    let (least, most) = curve.range().unwrap_or_default();
    let description = format!(
        "Bytes of responses per second: from {} to {}.",
        words::bytes_per_sec(least),
        words::bytes_per_sec(most)
    );
    let marks = vec![curve.clone().marks("Bytes/s", Mark::Line, color::BYTES)];
    Chart {
        height: Height::Low,
        ..chart("bytes", "Throughput", description, Unit::BytesPerSec, marks)
    }
}
