//! Values over time, as columns or as lines.

use std::time::Duration;

use plan::units;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line as Stroke, Points};

use super::history::Point;
use crate::look::{BAD, FAINT};

/// Room for the values of the axis, the blank after them included: `999.5k`, `100ms`.
const LABEL_COLUMNS: u16 = 7;

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// From 0 to this value.
    Linear { top: f64 },
    /// Between these values, both above 0.
    Log { bottom: f64, top: f64 },
}

impl Scale {
    /// One that holds everything from 0 to the greatest value.
    pub(super) fn linear(greatest: f64) -> Self {
        Self::Linear {
            top: round_up(greatest),
        }
    }

    /// One that holds these values, the least of which is above 0.
    pub(super) fn log(least: f64, greatest: f64) -> Self {
        let bottom = round_down(least);
        Self::Log {
            bottom,
            top: round_up(greatest).max(bottom * 2.0),
        }
    }

    /// Height of a value, 0 to 1.
    fn height(self, value: f64) -> f64 {
        let height = match self {
            Self::Linear { top } => value / top,
            Self::Log { bottom, top } if value > 0.0 => {
                (value / bottom).log10() / (top / bottom).log10()
            }
            Self::Log { .. } => 0.0,
        };
        height.clamp(0.0, 1.0)
    }

    /// Values worth a label, the most important ones first.
    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { top } => vec![top, 0.0, top / 2.0],
            Self::Log { bottom, top } => {
                let decade = |power: i32| 10_f64.powi(power);
                let first = bottom.log10().ceil() as i32;
                let last = top.log10().floor() as i32;
                [top, bottom]
                    .into_iter()
                    .chain((first..=last).map(decade))
                    .collect()
            }
        }
    }
}

/// 1, 2, 2.5 or 5 times a power of ten, and not less.
fn round_up(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 1.0;
    }
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0].map(|step| step * decade);
    let fits = steps.into_iter().find(|step| *step >= value);
    fits.unwrap_or(decade * 10.0)
}

/// 1, 2 or 5 times a power of ten, and not more.
fn round_down(value: f64) -> f64 {
    if !(value > 0.0 && value.is_finite()) {
        return 1.0;
    }
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [5.0, 2.0].map(|step| step * decade);
    let fits = steps.into_iter().find(|step| *step <= value);
    fits.unwrap_or(decade)
}

/// How much time a plot of so many columns shows. A run that fits is shown with its end from the
/// first second on; otherwise a column is a second, then two, four and so on, so that the picture is
/// redrawn in another scale as seldom as can be.
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

/// Columns that the values themselves have in an area.
pub(super) fn columns(area: Rect) -> u16 {
    area.width.saturating_sub(LABEL_COLUMNS)
}

/// Draws the labels of both axes and gives the room for the values.
pub(super) fn axes(
    area: Rect,
    scale: Scale,
    label: impl Fn(f64) -> String,
    span_s: f64,
    buffer: &mut Buffer,
) -> Rect {
    let inner = Rect {
        x: area.x + LABEL_COLUMNS.min(area.width),
        width: columns(area),
        height: area.height.saturating_sub(1),
        ..area
    };
    if inner.is_empty() {
        return inner;
    }
    let mut taken = Vec::new();
    for value in scale.ticks() {
        let y = row_of(inner, scale.height(value));
        if taken.contains(&y) {
            continue;
        }
        taken.push(y);
        let width = usize::from(LABEL_COLUMNS) - 1;
        let text = format!("{:>width$.width$}", label(value));
        buffer.set_stringn(area.x, y, text, width, FAINT);
    }
    let end = seconds(span_s);
    let end_width = u16::try_from(end.chars().count()).unwrap_or(u16::MAX);
    let y = inner.bottom();
    buffer.set_string(inner.x, y, "0s", FAINT);
    if end_width + 3 < inner.width {
        buffer.set_string(inner.right() - end_width, y, end, FAINT);
        let middle = seconds(span_s / 2.0);
        let x = inner.x + inner.width / 2;
        if inner.width > 40 {
            buffer.set_string(x, y, middle, FAINT);
        }
    }
    inner
}

/// `30s`, `1m30s`, `2.5s`.
fn seconds(seconds: f64) -> String {
    units::time(Duration::from_millis((seconds * 1000.0).round() as u64))
}

fn row_of(inner: Rect, height: f64) -> u16 {
    let rows = f64::from(inner.height.saturating_sub(1));
    inner.bottom() - 1 - (height * rows).round() as u16
}

/// What happened in the time of each column: answers per second and whether there were errors; `None`
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

/// Draws the rates as columns; those with errors have a sign at their foot.
pub(super) fn bars(
    inner: Rect,
    rates: &[Option<(f64, bool)>],
    scale: Scale,
    style: Style,
    buffer: &mut Buffer,
) {
    const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    for (x, rate) in (inner.x..inner.right()).zip(rates) {
        let Some((per_sec, has_errors)) = *rate else {
            continue;
        };
        let mut left = (scale.height(per_sec) * f64::from(inner.height) * 8.0).round() as usize;
        if per_sec > 0.0 {
            left = left.max(1);
        }
        for y in inner.rows().rev().map(|row| row.y) {
            let here = left.min(8);
            buffer.set_string(x, y, EIGHTHS[here], style);
            left -= here;
        }
        if has_errors {
            buffer.set_string(x, inner.bottom() - 1, "!", BAD);
        }
    }
}

/// Draws a faint line where nothing else is, at a height that changes over time.
pub(super) fn backdrop(
    inner: Rect,
    value_at: impl Fn(f64) -> Option<f64>,
    scale: Scale,
    span_s: f64,
    buffer: &mut Buffer,
) {
    for (at, x) in (inner.x..inner.right()).enumerate() {
        let middle_s = (at as f64 + 0.5) * span_s / f64::from(inner.width);
        let Some(value) = value_at(middle_s) else {
            continue;
        };
        let y = row_of(inner, scale.height(value));
        if buffer[(x, y)].symbol() == " " {
            buffer.set_string(x, y, "╌", FAINT);
        }
    }
}

/// Draws a line through the values of the points; it is broken where a point has none.
pub(super) fn line(
    inner: Rect,
    points: &[Point],
    value_of: impl Fn(&Point) -> Option<f64>,
    scale: Scale,
    (span_s, style): (f64, Style),
    buffer: &mut Buffer,
) {
    let colour = style.fg.unwrap_or_default();
    let place = |point: &Point| {
        let value = value_of(point)?;
        let middle_s = f64::midpoint(point.from_s, point.to_s);
        Some((middle_s / span_s, scale.height(value)))
    };
    let places: Vec<Option<(f64, f64)>> = points.iter().map(place).collect();
    let dots: Vec<(f64, f64)> = places.iter().flatten().copied().collect();
    let strokes = places.windows(2).filter_map(|pair| match *pair {
        [Some((x1, y1)), Some((x2, y2))] => Some(Stroke::new(x1, y1, x2, y2, colour)),
        _ => None,
    });
    let strokes: Vec<Stroke> = strokes.collect();
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, 1.0])
        .y_bounds([0.0, 1.0])
        .paint(|context| {
            context.draw(&Points {
                coords: &dots,
                color: colour,
            });
            for stroke in &strokes {
                context.draw(stroke);
            }
        })
        .render(inner, buffer);
}

/// A value of an axis: `30k`, `2.5M`, `750`.
pub(super) fn count_label(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    // What is left of 2.4999999999999996 by binary arithmetic.
    format!("{}{unit}", (value * 1000.0).round() / 1000.0)
}

/// The same of a time in nanoseconds: `2.5ms`, `1s`.
pub(super) fn time_label(value_ns: f64) -> String {
    units::time(Duration::from_nanos(value_ns.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_values_that_hold_everything() {
        for (value, up, down) in [
            (29_543.4, 50_000.0, 20_000.0),
            (1.0, 1.0, 1.0),
            (0.3, 0.5, 0.2),
            (2.2e9, 2.5e9, 2e9),
            (99.0, 100.0, 50.0),
        ] {
            assert!((round_up(value) / up - 1.0).abs() < 1e-9, "{value}");
            assert!((round_down(value) / down - 1.0).abs() < 1e-9, "{value}");
        }
        assert_eq!(round_up(0.0), 1.0);
        assert_eq!(round_up(f64::NAN), 1.0);
    }

    #[test]
    fn a_logarithmic_axis_has_a_label_at_each_power_of_ten() {
        let scale = Scale::log(1.6e5, 9.3e7);
        let labels: Vec<String> = scale.ticks().into_iter().map(time_label).collect();
        assert_eq!(labels, ["100ms", "100us", "100us", "1ms", "10ms", "100ms"]);
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
        // A run that went on beyond its end, since it waits for its last answers.
        assert_eq!(span_s(60, whole(10), 10.5), 60.0);
    }

    #[test]
    fn a_column_has_the_mean_rate_of_the_time_that_it_covers() {
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
        assert_eq!(time_label(2_500_000.0), "2.5ms");
    }
}
