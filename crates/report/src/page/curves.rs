//! Curves of a recording: percentiles, distributions, and rates and latencies over time. Each has a
//! bounded number of points, however long the run was.

use judging::episodes::Stall;
use presentation::{Axis, Mark, Marks, Scale, Unit};
use results::is_thin;
use results::{Histogram, Interval, RunResult};

use super::quantities::scale;

/// Buckets of a distribution over the range of its samples.
const BUCKETS: f64 = 60.0;

/// Narrower buckets would show how histograms store samples, which is in steps of 1/1024.
const BUCKET_RATIO_MIN: f64 = 1.01;

/// Wider buckets would hide the shape of the distribution: this is ten for each power of ten.
const BUCKET_RATIO_MAX: f64 = 1.258_925_411_794_167_2;

/// The points of [`Marks`].
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Curve {
    /// Ascending; unit of the horizontal axis.
    pub(crate) x: Vec<f64>,
    /// As long as `x`.
    pub(crate) y: Vec<Option<f64>>,
}

impl Curve {
    /// Adds a point; a value that is not finite counts as unknown.
    pub(crate) fn push(&mut self, x: f64, y: Option<f64>) {
        self.x.push(rounded(x));
        self.y.push(y.filter(|y| y.is_finite()).map(rounded));
    }

    /// Ends the curve before the first value that is below the one before it.
    pub(crate) fn end_before_fall(&mut self) {
        let fall = self.y.windows(2).position(|pair| pair[1] < pair[0]);
        if let Some(at) = fall {
            self.x.truncate(at + 1);
            self.y.truncate(at + 1);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.y.iter().all(Option::is_none)
    }

    /// Whether it has two values at least.
    pub(crate) fn is_line(&self) -> bool {
        self.y.iter().flatten().nth(1).is_some()
    }

    /// The least and the greatest value.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let mut values = self.y.iter().flatten().copied();
        let first = values.next()?;
        Some(values.fold((first, first), |(least, most), value| {
            (least.min(value), most.max(value))
        }))
    }

    pub(crate) fn marks(self, name: impl Into<String>, mark: Mark, color: usize) -> Marks {
        Marks {
            x: self.x,
            y: self.y,
            ..Marks::new(name, mark, color)
        }
    }
}

/// In seven digits: more are noise of binary fractions and make the page large.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let digits_before = value.abs().log10().floor() as i32 + 1;
    // Powers of ten are exact up to 22; no page has larger values.
    match 7 - digits_before {
        0 => value.round(),
        after @ 1..=22 => {
            let scale = 10_f64.powi(after);
            (value * scale).round() / scale
        }
        after @ -22..=-1 => {
            let scale = 10_f64.powi(-after);
            (value / scale).round() * scale
        }
        _ => value,
    }
}

/// The median of several curves, at each x that at least half of them have. They may differ in
/// length.
pub(crate) fn median_curve(curves: &[Curve]) -> Curve {
    let longest = curves.iter().max_by_key(|curve| curve.x.len());
    let mut line = Curve::default();
    for (at, x) in longest.iter().flat_map(|curve| curve.x.iter().enumerate()) {
        let with_x = || curves.iter().filter(|curve| curve.x.get(at) == Some(x));
        if with_x().count() * 2 < curves.len() {
            continue;
        }
        let values: Vec<f64> = with_x().filter_map(|curve| curve.y[at]).collect();
        line.push(*x, analysis::median(&values));
    }
    line
}

pub(crate) fn time_axis() -> Axis {
    Axis::from_zero("Time since start", Unit::Seconds)
}

/// A vertical axis of times; logarithmic where values are far apart.
pub(crate) fn latency_axis<'a>(label: &str, curves: impl IntoIterator<Item = &'a Curve>) -> Axis {
    let ranges = curves.into_iter().filter_map(Curve::range);
    let scale = scale(ranges);
    Axis {
        label: label.to_owned(),
        unit: Unit::Microseconds,
        from_zero: scale == Scale::Linear,
        scale,
    }
}

/// The percentiles at which a curve has points: 0, then 18 for each nine up to 99.99999.
fn percents() -> Vec<f64> {
    let mut percents = vec![0.0];
    for nine in 0..7_i32 {
        let scale = 10_f64.powi(nine);
        // From 5 % to 90 % of what the nines before leave.
        for step in 1..=18_i32 {
            let percent = 100.0 - 5.0 * f64::from(20 - step) / scale;
            // 99.9, not 99.9000000000001.
            let grain = scale * 10.0;
            percents.push((percent * grain).round() / grain);
        }
    }
    percents
}

/// Latency in microseconds by percentile. It ends where fewer than ten samples are above; beyond,
/// only the maximum is known.
pub(crate) fn by_percentile(samples: &Histogram) -> Curve {
    let mut curve = Curve::default();
    if samples.is_empty() {
        return curve;
    }
    let percents: Vec<f64> = percents()
        .into_iter()
        .filter(|percent| *percent == 0.0 || !is_thin(*percent, samples.count()))
        .collect();
    let values_ns = samples.values_at_percentiles(&percents);
    for (percent, value_ns) in percents.into_iter().zip(values_ns) {
        curve.push(percent, Some(value_ns as f64 / 1e3));
    }
    curve
}

/// The share of each histogram's samples, in percent, in buckets that have the same width on a
/// logarithmic axis and are the same for all histograms. A value holds from its x to the next; the
/// last one ends the curve.
pub(crate) fn distributions(histograms: &[&Histogram]) -> Distributions {
    // A sample of 0 ns has no place on a logarithmic axis; it counts as 1 ns.
    let least = histograms.iter().filter_map(|samples| samples.min_ns());
    let least = least.min().unwrap_or(1).max(1) as f64;
    let most = histograms.iter().filter_map(|samples| samples.max_ns());
    let most = most.max().unwrap_or(1).max(1);
    let ratio = (most as f64 / least)
        .powf(1.0 / BUCKETS)
        .clamp(BUCKET_RATIO_MIN, BUCKET_RATIO_MAX);
    let bucket_of = |value_ns: u64| ((value_ns.max(1) as f64 / least).ln() / ratio.ln()) as usize;
    let edge_us = |bucket: usize| least * ratio.powf(bucket as f64) / 1e3;
    let curve = |samples: &&Histogram| {
        let mut counts = vec![0_u64; bucket_of(most) + 1];
        for (value_ns, count) in samples.distinct() {
            if let Some(bucket) = counts.get_mut(bucket_of(value_ns)) {
                *bucket = bucket.saturating_add(count);
            }
        }
        let mut curve = Curve::default();
        for (bucket, count) in counts.iter().enumerate() {
            let share = *count as f64 / samples.count().max(1) as f64;
            curve.push(edge_us(bucket), Some(share * 100.0));
        }
        curve.push(edge_us(counts.len()), Some(0.0));
        curve
    };
    Distributions {
        curves: histograms.iter().map(curve).collect(),
        width_ratio: ratio,
    }
}

/// The result of [`distributions`].
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Distributions {
    /// Microseconds and percent, one for each histogram.
    pub(crate) curves: Vec<Curve>,
    /// End of a bucket divided by its start.
    pub(crate) width_ratio: f64,
}

/// Rates over the window, in steps of equal length except for the last, which ends with the window.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OverTime {
    /// Length of a step, seconds.
    pub(crate) step_s: f64,
    /// Responses per second in each step.
    pub(crate) requests_per_sec: Curve,
    /// Errors per second in each step.
    pub(crate) errors_per_sec: Curve,
    /// Bytes of responses per second.
    pub(crate) bytes_per_sec: Curve,
    /// Number of errors in the window.
    pub(crate) errors: u64,
    /// The steps with errors; adjacent ones with the same share of errors are one.
    pub(crate) error_spans: Vec<ErrorSpan>,
}

/// Adjacent steps with errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ErrorSpan {
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    pub(crate) errors: u64,
    pub(crate) answered: u64,
}

impl ErrorSpan {
    /// Errors among all requests that ended, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        let ended = self.errors.saturating_add(self.answered);
        self.errors as f64 / ended.max(1) as f64
    }

    /// The share as it is drawn, in steps of 1 %.
    pub(crate) fn height(&self) -> f64 {
        (self.share() * 100.0).ceil() / 100.0
    }
}

impl OverTime {
    fn add_errors(&mut self, span: ErrorSpan) {
        match self.error_spans.last_mut() {
            Some(last) if last.end_s == span.begin_s && last.height() == span.height() => {
                last.end_s = span.end_s;
                last.errors = last.errors.saturating_add(span.errors);
                last.answered = last.answered.saturating_add(span.answered);
            }
            _ => self.error_spans.push(span),
        }
    }
}

/// Rates over time, to the end of the window, in about `points_max` points. A step without events
/// has the rate 0.
pub(crate) fn rates(result: &RunResult, points_max: u64) -> OverTime {
    const NS_PER_MS: u64 = 1_000_000;
    let series = &result.recording.series;
    let window_ms = result.window.duration_ns as f64 / NS_PER_MS as f64;
    if window_ms <= 0.0 || series.rows().is_empty() {
        return OverTime::default();
    }
    let interval_ms = series.interval_ms();
    let intervals = (window_ms / interval_ms as f64).ceil().max(1.0) as u64;
    let joined = intervals.div_ceil(points_max.max(1)).max(1);
    let step_ms = interval_ms.saturating_mul(joined);
    // The last step is not a whole one. If it is much shorter it joins the one before, since its
    // rate would be noise.
    let whole = (window_ms / step_ms as f64).floor() as u64;
    let rest = window_ms / step_ms as f64 - whole as f64;
    let steps = (whole + u64::from(rest >= 0.5)).max(1);
    let mut totals = vec![[0_u64; 3]; usize::try_from(steps).unwrap_or(1)];
    let last = totals.len() - 1;
    for row in series.rows() {
        let at = usize::try_from(row.start_ms / step_ms).map_or(last, |at| at.min(last));
        for (total, more) in totals[at]
            .iter_mut()
            .zip([row.answered, row.errors, row.bytes])
        {
            *total = total.saturating_add(more);
        }
    }
    let mut over_time = OverTime {
        step_s: step_ms as f64 / 1e3,
        ..OverTime::default()
    };
    for (at, [answered, errors, bytes]) in totals.iter().enumerate() {
        let begin_ms = at as f64 * step_ms as f64;
        let end_ms = if at == last {
            window_ms
        } else {
            begin_ms + step_ms as f64
        };
        let length_s = (end_ms - begin_ms) / 1e3;
        let middle_s = (begin_ms + end_ms) / 2e3;
        let per_sec = |total: u64| (length_s > 0.0).then(|| total as f64 / length_s);
        over_time
            .requests_per_sec
            .push(middle_s, per_sec(*answered));
        over_time.errors_per_sec.push(middle_s, per_sec(*errors));
        over_time.bytes_per_sec.push(middle_s, per_sec(*bytes));
        over_time.errors = over_time.errors.saturating_add(*errors);
        if *errors > 0 {
            over_time.add_errors(ErrorSpan {
                begin_s: rounded(begin_ms / 1e3),
                end_s: rounded(end_ms / 1e3),
                errors: *errors,
                answered: *answered,
            });
        }
    }
    over_time
}

/// Latency of the responses of each step, microseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LatencyOverTime {
    /// Length of a step, seconds.
    pub(crate) step_s: f64,
    /// Median of the latency in each step.
    pub(crate) p50: Curve,
    /// The highest percentile for which most steps have enough samples, with its values.
    pub(crate) high: Option<(f64, Curve)>,
    /// The slowest request of each step.
    pub(crate) max: Curve,
    /// Whether `max` is a lower bound: the age of requests that waited for the end of a stall.
    pub(crate) is_bound: Vec<bool>,
}

/// Latency over time in at most `points_max` points. A step with fewer than ten samples above a
/// percentile has no value for it. If the server stalled in a step, most of its responses belong to
/// requests sent before it. Its percentiles are not known then, and its slowest request is at least
/// as old as the stall.
pub(crate) fn latencies(
    result: &RunResult,
    stalls: &[Stall],
    points_max: usize,
) -> LatencyOverTime {
    let intervals = &result.recording.intervals;
    let joined = intervals.rows().len().div_ceil(points_max.max(1)).max(1);
    // One histogram at a time: each takes a quarter of a MiB.
    let steps: Vec<JoinedIntervals> = intervals
        .rows()
        .chunks(joined)
        .map(JoinedIntervals::of)
        .collect();
    let step_s = intervals.interval_ms() as f64 * joined as f64 / 1e3;
    let window_s = result.window.duration_ns as f64 / 1e9;
    let some = steps.iter().filter(|step| step.count > 0).count();
    let mostly = |at: &usize| {
        let enough = steps.iter().filter(|step| step.has_enough(*at)).count();
        enough > 0 && enough * 4 >= some * 3
    };
    let high = (0..HIGH.len()).find(mostly);
    let ends_s = |at: usize| {
        let begin_s = at as f64 * step_s;
        (begin_s, (begin_s + step_s).min(window_s.max(begin_s)))
    };
    let stalled = |at: usize| {
        let (begin_s, end_s) = ends_s(at);
        let is_most = |stall: &&Stall| stall.share_of(begin_s, end_s) > 0.5;
        stalls.iter().find(is_most)
    };
    let line = |value: &dyn Fn(usize, &JoinedIntervals) -> Option<u64>| {
        let mut curve = Curve::default();
        for (at, step) in steps.iter().enumerate() {
            let (begin_s, end_s) = ends_s(at);
            let value_ns = value(at, step);
            curve.push((begin_s + end_s) / 2.0, value_ns.map(|ns| ns as f64 / 1e3));
        }
        curve
    };
    let known = |at: usize, step: &JoinedIntervals| step.count > 0 && stalled(at).is_none();
    let timeout_ns = u64::try_from(result.plan.timeout.as_nanos()).unwrap_or(u64::MAX);
    let age_ns = |at: usize| {
        let stall = stalled(at)?;
        let age_s = stall.end_s.min(ends_s(at).1) - stall.begin_s;
        Some(((age_s * 1e9) as u64).min(timeout_ns))
    };
    LatencyOverTime {
        step_s,
        p50: line(&|at, step| known(at, step).then_some(step.p50_ns)),
        high: high.map(|high| {
            let has = |at: usize, step: &JoinedIntervals| known(at, step) && step.has_enough(high);
            (
                HIGH[high],
                line(&|at, step| has(at, step).then_some(step.high_ns[high])),
            )
        }),
        max: line(&|at, step| step.max_ns.max(age_ns(at))),
        is_bound: (0..steps.len())
            .map(|at| age_ns(at) > steps[at].max_ns)
            .collect(),
    }
}

/// Candidates for the upper line, the preferred one first.
const HIGH: [f64; 3] = [99.0, 95.0, 90.0];

/// Adjacent intervals that make one point.
struct JoinedIntervals {
    count: u64,
    p50_ns: u64,
    /// The percentiles of [`HIGH`], nanoseconds.
    high_ns: [u64; HIGH.len()],
    max_ns: Option<u64>,
}

impl JoinedIntervals {
    fn of(rows: &[Interval]) -> Self {
        let mut samples = Histogram::new();
        for (value_ns, count) in rows.iter().flat_map(|row| &row.samples) {
            samples.record_n(*value_ns, *count);
        }
        let [first, second, third] = HIGH;
        let values = samples.values_at_percentiles(&[50.0, first, second, third]);
        let value = |at: usize| values.get(at).copied().unwrap_or(0);
        Self {
            count: samples.count(),
            p50_ns: value(0),
            high_ns: [value(1), value(2), value(3)],
            max_ns: samples.max_ns(),
        }
    }

    fn has_enough(&self, high: usize) -> bool {
        self.count > 0 && !is_thin(HIGH[high], self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        let mut curve = Curve::default();
        for (x, y) in points {
            curve.push(*x, Some(*y));
        }
        curve
    }

    #[test]
    fn points_have_seven_digits() {
        for (value, expected) in [
            (1.0 / 3.0, 0.333_333_3),
            (123_456_789.0, 123_456_800.0),
            (99.999_95, 99.999_95),
            (1e-9, 1e-9),
            (-2.5, -2.5),
            (0.0, 0.0),
            (1e300, 1e300),
        ] {
            assert_eq!(rounded(value), expected, "{value}");
        }
        assert_eq!(curve(&[(1.0, f64::NAN)]).y, [None]);
    }

    #[test]
    fn percentiles_have_short_names_and_ascend() {
        let percents = percents();
        assert!(percents.is_sorted_by(|a, b| a < b));
        for percent in [0.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 99.9999] {
            assert!(percents.contains(&percent), "{percent}");
        }
        assert!(
            percents
                .iter()
                .all(|percent| percent.to_string().len() <= 11)
        );
    }

    #[test]
    fn the_median_of_curves_is_taken_where_half_of_them_have_a_value() {
        let lines = [
            curve(&[(0.0, 1.0), (1.0, 5.0), (2.0, 9.0)]),
            curve(&[(0.0, 3.0), (1.0, 7.0)]),
            curve(&[(0.0, 2.0)]),
        ];
        let median = median_curve(&lines);
        assert_eq!(median.x, [0.0, 1.0]);
        assert_eq!(median.y, [Some(2.0), Some(6.0)]);
        assert!(median_curve(&[]).is_empty());
    }
}
