//! Plots over time: rates as columns, latencies as lines.

use std::time::Duration;

use plan::readable;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, Sparkline, Widget};

use super::history::Point;
use crate::appearance::{DIM, ERROR};
use crate::numbers::clock;

/// Width of the labels of the value axis: `999.5k`, `100 ms`.
const LABEL_COLUMNS: u16 = 6;
/// The labels and the axis itself.
const AXIS_COLUMNS: u16 = LABEL_COLUMNS + 1;

/// The scale of the value axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// From 0 to `top`.
    Linear { top: f64 },
    /// From 10 to the power of `bottom` to 10 to the power of `top`.
    Log { bottom: i32, top: i32 },
}

impl Scale {
    /// Holds all values from 0 to `greatest`.
    pub(super) fn linear(greatest: f64) -> Self {
        Self::Linear {
            top: round_up(greatest),
        }
    }

    /// Holds all values from `least`, which must be above 0, to `greatest`.
    pub(super) fn log(least: f64, greatest: f64) -> Self {
        let bottom = least.log10().floor() as i32;
        Self::Log {
            bottom,
            top: (greatest.log10().ceil() as i32).max(bottom + 1),
        }
    }

    /// Height of a value, 0 to 1.
    fn height(self, value: f64) -> f64 {
        let height = match self {
            Self::Linear { top } => value / top,
            Self::Log { bottom, top } if value > 0.0 => {
                (value.log10() - f64::from(bottom)) / f64::from(top - bottom)
            }
            Self::Log { .. } => 0.0,
        };
        height.clamp(0.0, 1.0)
    }

    /// Values at equal distances on the axis, as many as fit into `rows`.
    fn ticks(self, rows: u16) -> Vec<f64> {
        match self {
            Self::Linear { top } if rows < 3 => vec![0.0, top],
            Self::Linear { top } => vec![0.0, top / 2.0, top],
            Self::Log { bottom, top } => {
                let has_room = top - bottom < i32::from(rows);
                let step = if has_room { 1 } else { top - bottom };
                let powers = (bottom..=top).step_by(usize::try_from(step).unwrap_or(1));
                powers.map(|power| 10_f64.powi(power)).collect()
            }
        }
    }
}

/// The next higher of 1, 2, 2.5 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 1.0;
    }
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0].map(|step| step * decade);
    let fits = steps.into_iter().find(|step| *step >= value);
    fits.unwrap_or(decade * 10.0)
}

/// The time that a plot with this many columns shows, in seconds. If the whole run fits, it is
/// shown from the first second on. Otherwise a column is one second, then two, four and so on, so
/// that the time axis changes as rarely as possible.
pub(super) fn span_s(columns: u16, whole: Option<Duration>, elapsed_s: f64) -> f64 {
    let columns = f64::from(columns.max(1));
    let whole_s = whole.map(|whole| whole.as_secs_f64());
    if let Some(whole_s) = whole_s.filter(|whole_s| *whole_s <= columns && elapsed_s <= *whole_s) {
        return whole_s;
    }
    let mut span_s = columns;
    while span_s < elapsed_s {
        span_s *= 2.0;
    }
    match whole_s {
        Some(whole_s) if elapsed_s <= whole_s => span_s.min(whole_s),
        _ => span_s,
    }
}

/// Columns that are left for the values.
pub(super) fn columns(area: Rect) -> u16 {
    area.width.saturating_sub(AXIS_COLUMNS)
}

/// Times (seconds) and values of a line, with gaps.
pub(super) type Series = Vec<Option<(f64, f64)>>;

/// The plots of one area, with their axes.
pub(super) struct Plot<L> {
    pub(super) area: Rect,
    pub(super) scale: Scale,
    /// Seconds from the left to the right end.
    pub(super) span_s: f64,
    /// Formats a value of the axis.
    pub(super) label: L,
}

impl<L: Fn(f64) -> String> Plot<L> {
    /// Where the values are drawn: right of the axis, above the times.
    fn inner(&self) -> Rect {
        Rect {
            x: self.area.x + AXIS_COLUMNS.min(self.area.width),
            width: columns(self.area),
            height: self.area.height.saturating_sub(1),
            ..self.area
        }
    }

    /// Draws the axes and a line through the values of each series; a line has gaps where points
    /// have no value.
    pub(super) fn lines(&self, series: &[(Series, Style)], buffer: &mut Buffer) {
        let inner = self.inner();
        if inner.is_empty() {
            return;
        }
        let place = |(at_s, value): &(f64, f64)| (at_s / self.span_s, self.scale.height(*value));
        let pieces: Vec<(Vec<(f64, f64)>, Style)> = series
            .iter()
            .flat_map(|(points, style)| {
                let pieces = points.split(Option::is_none);
                pieces.map(|piece| (piece.iter().flatten().map(place).collect(), *style))
            })
            .collect();
        let datasets = pieces.iter().map(|(piece, style)| {
            Dataset::default()
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(*style)
                .data(piece)
        });
        let width = usize::from(LABEL_COLUMNS);
        let ticks = self.scale.ticks(inner.height);
        let labels = ticks
            .iter()
            .map(|value| format!("{:>width$.width$}", (self.label)(*value)));
        let values = Axis::default().bounds([0.0, 1.0]).style(DIM).labels(labels);
        // Chart's own time labels would take two rows.
        let chart = Rect {
            height: inner.height,
            ..self.area
        };
        Chart::new(datasets.collect())
            .x_axis(Axis::default().bounds([0.0, 1.0]))
            .y_axis(values)
            .legend_position(None)
            .render(chart, buffer);
        self.times(inner, buffer);
    }

    /// The labels of the time axis, below the values.
    fn times(&self, inner: Rect, buffer: &mut Buffer) {
        let time = |seconds: f64| clock(Duration::from_millis((seconds * 1000.0).round() as u64));
        let y = inner.bottom();
        buffer.set_string(inner.x, y, "0 s", DIM);
        let end = time(self.span_s);
        let end_width = u16::try_from(end.chars().count()).unwrap_or(u16::MAX);
        if end_width + 4 < inner.width {
            buffer.set_string(inner.right() - end_width, y, end, DIM);
        }
        if inner.width > 40 {
            let middle = time(self.span_s / 2.0);
            buffer.set_string(inner.x + inner.width / 2, y, middle, DIM);
        }
    }

    /// Draws the axes and the rates as columns. Columns with errors are marked at the bottom.
    pub(super) fn columns(&self, rates: &[Option<(f64, bool)>], style: Style, buffer: &mut Buffer) {
        self.lines(&[], buffer);
        let inner = self.inner();
        let eighths = u64::from(inner.height) * 8;
        let height = |(per_sec, _): (f64, bool)| {
            let height = (self.scale.height(per_sec) * eighths as f64).round() as u64;
            height.max(u64::from(per_sec > 0.0))
        };
        Sparkline::default()
            .data(rates.iter().map(|rate| rate.map(height)))
            .max(eighths)
            .style(style)
            .render(inner, buffer);
        for (x, rate) in (inner.x..inner.right()).zip(rates) {
            if rate.is_some_and(|(_, has_errors)| has_errors) {
                buffer.set_string(x, inner.bottom() - 1, "!", ERROR);
            }
        }
    }

    /// Draws a dashed line for a target value over time, where nothing else is.
    pub(super) fn target(&self, value_at: impl Fn(f64) -> Option<f64>, buffer: &mut Buffer) {
        let inner = self.inner();
        for (at, x) in (inner.x..inner.right()).enumerate() {
            let middle_s = (at as f64 + 0.5) * self.span_s / f64::from(inner.width);
            let Some(value) = value_at(middle_s).filter(|_| inner.height > 0) else {
                continue;
            };
            let rows = f64::from(inner.height - 1);
            let y = inner.bottom() - 1 - (self.scale.height(value) * rows).round() as u16;
            if buffer[(x, y)].symbol() == " " {
                buffer.set_string(x, y, "╌", DIM);
            }
        }
    }
}

/// The mean rate of responses in the time of each column, and whether there were errors; `None`
/// where nothing is known.
pub(super) fn rates(points: &[Point], columns: u16, span_s: f64) -> Vec<Option<(f64, bool)>> {
    let step_s = span_s / f64::from(columns.max(1));
    let column = |at: u16| {
        let from_s = f64::from(at) * step_s;
        let to_s = from_s + step_s;
        let first = points.partition_point(|point| point.to_s <= from_s);
        let (mut answered, mut covered_s, mut has_errors) = (0.0, 0.0, false);
        for point in points[first..].iter().take_while(|p| p.from_s < to_s) {
            let length_s = point.to_s - point.from_s;
            let shared_s = point.to_s.min(to_s) - point.from_s.max(from_s);
            if length_s <= 0.0 || shared_s <= 0.0 {
                continue;
            }
            answered += point.answered as f64 * shared_s / length_s;
            covered_s += shared_s;
            has_errors |= point.errors > 0;
        }
        (covered_s > 0.0).then(|| (answered / covered_s, has_errors))
    };
    (0..columns).map(column).collect()
}

/// A count on an axis: `30k`, `2.5M`, `750`.
pub(super) fn count_label(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    // Rounded because of values like 2.4999999999999996.
    format!("{}{unit}", (value * 1000.0).round() / 1000.0)
}

/// A time in nanoseconds on an axis: `2.5 ms`, `1 s`.
pub(super) fn time_label(value_ns: f64) -> String {
    match value_ns {
        0.0 => "0 s".to_owned(),
        _ => readable::time_us(value_ns / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_ends_at_a_round_value() {
        for (value, top) in [
            (29_543.4, 50_000.0),
            (1.0, 1.0),
            (0.3, 0.5),
            (2.2e9, 2.5e9),
            (99.0, 100.0),
        ] {
            assert!((round_up(value) / top - 1.0).abs() < 1e-9, "{value}");
        }
        assert_eq!(round_up(0.0), 1.0);
        assert_eq!(round_up(f64::NAN), 1.0);
    }

    #[test]
    fn a_logarithmic_axis_has_a_label_at_each_power_of_ten_if_they_fit() {
        let scale = Scale::log(1.6e5, 9.3e7);
        let labels =
            |rows| -> Vec<String> { scale.ticks(rows).into_iter().map(time_label).collect() };
        assert_eq!(labels(4), ["100 us", "1 ms", "10 ms", "100 ms"]);
        assert_eq!(labels(3), ["100 us", "100 ms"]);
        assert_eq!(scale.height(1e6), 1.0 / 3.0);
        assert_eq!(scale.height(0.0), 0.0);
    }

    #[test]
    fn a_short_run_is_shown_whole_and_a_long_one_by_doubling() {
        let whole = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(span_s(60, whole(10), 3.0), 10.0);
        assert_eq!(span_s(60, whole(100), 3.0), 60.0);
        assert_eq!(span_s(60, whole(100), 61.0), 100.0);
        assert_eq!(span_s(60, None, 60.0), 60.0);
        assert_eq!(span_s(60, None, 60.1), 120.0);
        assert_eq!(span_s(60, None, 1000.0), 1920.0);
        // A run can exceed its duration while it waits for its last responses.
        assert_eq!(span_s(60, whole(10), 10.5), 60.0);
    }

    #[test]
    fn a_column_has_the_mean_rate_of_its_time() {
        let point = |from_s, to_s, answered, errors| Point {
            from_s,
            to_s,
            answered,
            errors,
            p50_ns: None,
            p99_ns: None,
        };
        let points = [point(0.0, 1.0, 100, 0), point(1.0, 2.0, 300, 1)];
        let wide = rates(&points, 4, 4.0);
        assert_eq!(
            wide,
            [Some((100.0, false)), Some((300.0, true)), None, None]
        );
        assert_eq!(rates(&points, 1, 2.0), [Some((200.0, true))]);
        assert_eq!(rates(&points, 1, 4.0), [Some((200.0, true))]);
        assert_eq!(rates(&[], 1, 4.0), [None]);
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(count_label(25_000.0), "25k");
        assert_eq!(count_label(2_500_000.0), "2.5M");
        assert_eq!(count_label(0.0), "0");
        assert_eq!(count_label(0.5), "0.5");
        assert_eq!(time_label(2_500_000.0), "2.5 ms");
        assert_eq!(time_label(0.0), "0 s");
    }
}
