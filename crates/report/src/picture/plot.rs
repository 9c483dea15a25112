//! The plot of a picture: its place, its axes, and where values are in it.

use presentation::words::cut;
use presentation::{Axis, Chart, Height, Mark, Marks, Scale, Side, Unit};

use super::colors::Colors;
use super::marks;
use super::scales::{Fit, Scaled, Tick};
use super::svg::{Anchor, FONT_SIZE, Stroke, Svg, path_of, width_of};

/// Room for a tick and its text.
const TICK_WIDTH: f64 = 80.0;
const TICK_HEIGHT: f64 = 38.0;

/// Height of a line of text with the space around it.
const LINE: f64 = 20.0;

const NAME_CHARS_MAX: usize = 24;

/// Names that do not fit side by side are slanted.
const SLANT_DEG: f64 = 32.0;

/// Where even slanted names would overlap, only some are drawn.
const SLANTED_APART: f64 = 18.0;

/// Marks that begin and end at the edges of the plot.
const TO_THE_EDGE: [Mark; 5] = [Mark::Line, Mark::Step, Mark::Area, Mark::Band, Mark::Span];

/// A scale with the range that is drawn.
pub(super) struct DrawnScale<'a> {
    scaled: Scaled<'a>,
    range: [f64; 2],
}

/// A chart with the place of its plot.
pub(super) struct Plot<'a> {
    pub(super) chart: &'a Chart,
    x: DrawnScale<'a>,
    left_axis: DrawnScale<'a>,
    right_axis: Option<DrawnScale<'a>>,
    /// The space for axes and plot together.
    outer: [f64; 3],
    /// Left, top, width and height.
    pub(super) place: [f64; 4],
    ticks_x: Vec<Tick>,
}

impl<'a> Plot<'a> {
    /// In the space that begins at `left` and `top`.
    pub(super) fn of(chart: &'a Chart, left: f64, top: f64, width: f64) -> Self {
        let height = match chart.height {
            Height::Low => 200.0,
            Height::Normal => 340.0,
            Height::Tall => 420.0,
        };
        let x = Scaled::of(
            &chart.x,
            chart.marks.iter().flat_map(|marks| marks.x.clone()),
        );
        let x_range = range_x(chart, &x);
        let mut plot = Self {
            chart,
            left_axis: axis_y(chart, &chart.y, Side::Left),
            right_axis: chart
                .y_right
                .as_ref()
                .map(|axis| axis_y(chart, axis, Side::Right)),
            x: DrawnScale {
                scaled: x,
                range: x_range,
            },
            outer: [left, top, width],
            place: [left, top + LINE + 8.0, width, height],
            ticks_x: Vec::new(),
        };
        let room = |ticks: Vec<Tick>| {
            let widths = ticks.iter().map(|(_, text)| width_of(text));
            widths.fold(24.0, f64::max) + 10.0
        };
        let from = room(plot.ticks_y(Side::Left));
        let until = match plot.right_axis {
            Some(_) => room(plot.ticks_y(Side::Right)),
            None => 22.0,
        };
        plot.place[0] += from;
        plot.place[2] -= from + until;
        let most = (plot.place[2] / TICK_WIDTH).max(2.0);
        plot.ticks_x = plot.x.scaled.ticks(plot.x.range, most);
        plot
    }

    /// Where the space ends that axes and plot take.
    pub(super) fn end(&self) -> f64 {
        let label = if self.chart.x.label.is_empty() {
            0.0
        } else {
            LINE
        };
        self.bottom() + self.height_of_ticks() + label
    }

    pub(super) fn bottom(&self) -> f64 {
        self.place[1] + self.place[3]
    }

    pub(super) fn draw(&self, svg: &mut Svg, colors: &Colors) {
        self.draw_axes(svg, colors);
        let [left, top, width, height] = self.place;
        // Slightly larger, so that points on its edge are whole.
        let edge = [left - 6.0, top - 6.0, width + 12.0, height + 12.0];
        svg.clip(&format!("plot-of-{}", self.chart.id), edge);
        for marks in &self.chart.marks {
            marks::draw(self, marks, svg, colors);
        }
        marks::draw_texts(self, svg, colors);
        svg.end_clip();
    }

    /// The place of a value of the horizontal axis; `None` for what cannot be drawn.
    pub(super) fn at_x(&self, value: f64) -> Option<f64> {
        let [left, _, width, _] = self.place;
        Some(left + share(&self.x, self.x.scaled.forward(value)?) * width)
    }

    /// The place of a value of a vertical axis.
    pub(super) fn at_y(&self, side: Side, value: f64) -> Option<f64> {
        let drawn = self.vertical(side);
        Some(self.bottom() - share(drawn, drawn.scaled.forward(value)?) * self.place[3])
    }

    /// How wide a distance of coordinates of the horizontal axis is.
    pub(super) fn width_of(&self, distance: f64) -> f64 {
        let [min, max] = self.x.range;
        (distance / (max - min) * self.place[2]).abs()
    }

    pub(super) fn coordinate_x(&self, value: f64) -> Option<f64> {
        self.x.scaled.forward(value)
    }

    fn vertical(&self, side: Side) -> &DrawnScale<'a> {
        match (side, &self.right_axis) {
            (Side::Right, Some(right)) => right,
            _ => &self.left_axis,
        }
    }

    fn ticks_y(&self, side: Side) -> Vec<Tick> {
        let drawn = self.vertical(side);
        let most = (self.place[3] / TICK_HEIGHT).max(2.0);
        drawn.scaled.ticks(drawn.range, most)
    }

    fn draw_axes(&self, svg: &mut Svg, colors: &Colors) {
        let [left, _, width, _] = self.place;
        let (right, bottom) = (left + width, self.bottom());
        let Chart {
            y, y_right, title, ..
        } = self.chart;
        // A label that repeats the title is left out.
        if !y.label.eq_ignore_ascii_case(title) || y_right.is_some() {
            let at = [self.outer[0], self.outer[1] + LINE / 2.0];
            svg.text(at, Anchor::Start, &colors.muted, &y.label);
        }
        for (at, text) in self.ticks_y(Side::Left) {
            let y = bottom - share(&self.left_axis, at) * self.place[3];
            svg.line(
                &path_of(&[[left, y], [right, y]]),
                Stroke::thin(&colors.grid),
            );
            svg.text([left - 8.0, y], Anchor::End, &colors.muted, &text);
        }
        if let (Some(axis), Some(drawn)) = (y_right, &self.right_axis) {
            let at = [self.outer[0] + self.outer[2], self.outer[1] + LINE / 2.0];
            svg.text(at, Anchor::End, &colors.muted, &axis.label);
            for (at, text) in self.ticks_y(Side::Right) {
                let y = bottom - share(drawn, at) * self.place[3];
                svg.text([right + 8.0, y], Anchor::Start, &colors.muted, &text);
            }
        }
        self.draw_ticks_x(svg, colors);
        svg.line(
            &path_of(&[[left, bottom], [right, bottom]]),
            Stroke::thin(&colors.line),
        );
        if let Some(zero) = self.zero_of_changes() {
            svg.line(
                &path_of(&[[left, zero], [right, zero]]),
                Stroke::thin(&colors.muted),
            );
        }
        let label = [left + width / 2.0, self.end() - LINE / 2.0];
        svg.text(label, Anchor::Middle, &colors.muted, &self.chart.x.label);
    }

    fn draw_ticks_x(&self, svg: &mut Svg, colors: &Colors) {
        let [left, top, width, _] = self.place;
        let bottom = self.bottom();
        let is_slanted = self.is_slanted();
        let every = if is_slanted {
            (SLANTED_APART / self.room_of_name()).ceil().max(1.0) as usize
        } else {
            1
        };
        for (at, text) in self.ticks_x.iter().step_by(every) {
            let x = left + share(&self.x, *at) * width;
            if !self.has_names() {
                svg.line(
                    &path_of(&[[x, top], [x, bottom]]),
                    Stroke::thin(&colors.grid),
                );
            }
            let text = cut(text, NAME_CHARS_MAX);
            if is_slanted {
                let place = [x + 4.0, bottom + FONT_SIZE];
                svg.text(place, Anchor::Slanted(SLANT_DEG), &colors.muted, &text);
            } else {
                let place = [x, bottom + LINE / 2.0 + 4.0];
                svg.text(place, Anchor::Middle, &colors.muted, &text);
            }
        }
    }

    /// The height at which changes are zero.
    fn zero_of_changes(&self) -> Option<f64> {
        let axis = &self.chart.y;
        let is_change = axis.unit == Unit::ChangePercent && axis.scale == Scale::Linear;
        let [min, max] = self.left_axis.range;
        (is_change && min <= 0.0 && max >= 0.0).then_some(())?;
        self.at_y(Side::Left, 0.0)
    }

    fn has_names(&self) -> bool {
        matches!(self.chart.x.scale, Scale::Names(_))
    }

    fn room_of_name(&self) -> f64 {
        self.width_of(1.0)
    }

    fn widest_name(&self) -> f64 {
        let widths = self.ticks_x.iter();
        let widths = widths.map(|(_, text)| width_of(&cut(text, NAME_CHARS_MAX)));
        widths.fold(0.0, f64::max)
    }

    fn is_slanted(&self) -> bool {
        self.has_names() && self.widest_name() + 12.0 > self.room_of_name()
    }

    fn height_of_ticks(&self) -> f64 {
        if self.is_slanted() {
            LINE + self.widest_name() * SLANT_DEG.to_radians().sin()
        } else {
            LINE + 6.0
        }
    }
}

/// Where a coordinate is in the range, 0 to 1 within it.
fn share(drawn: &DrawnScale<'_>, coordinate: f64) -> f64 {
    let [min, max] = drawn.range;
    (coordinate - min) / (max - min)
}

fn extent(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let ends = values.map(|value| [value, value]);
    ends.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])])
}

/// From the first to the last point that is drawn, with space for what is wider than a point.
fn range_x(chart: &Chart, x: &Scaled<'_>) -> [f64; 2] {
    const EDGE: f64 = 0.03;
    let points = chart.marks.iter().flat_map(|marks| {
        let is_shown = |at: &usize| {
            let known = |values: &[Option<f64>]| values.get(*at).copied().flatten().is_some();
            known(&marks.y) || (known(&marks.low) && known(&marks.high))
        };
        let shown = (0..marks.x.len()).filter(is_shown);
        shown.map(|at| marks.x[at]).collect::<Vec<_>>()
    });
    let Some([min, max]) = extent(points.filter_map(|value| x.forward(value))) else {
        return [0.0, 1.0];
    };
    let is_named = matches!(chart.x.scale, Scale::Names(_));
    if is_named || min == max {
        return x.range([min, max], Fit::default());
    }
    let tight = Fit {
        is_tight: true,
        ..Fit::default()
    };
    let [low, high] = x.range([min, max], tight);
    if chart
        .marks
        .iter()
        .all(|marks| TO_THE_EDGE.contains(&marks.mark))
    {
        return [low, high];
    }
    let bars = marks::bar_step(chart, |value| x.forward(value)).map_or(0.0, |step| step * 0.6);
    let room = ((max - min) * EDGE).max(bars);
    [low - room, high + room]
}

fn axis_y<'a>(chart: &'a Chart, axis: &'a Axis, side: Side) -> DrawnScale<'a> {
    let of_side: Vec<&Marks> = chart
        .marks
        .iter()
        .filter(|marks| marks.side == side)
        .collect();
    let values = || {
        let all = of_side.iter();
        let all = all.flat_map(|marks| marks.y.iter().chain(&marks.low).chain(&marks.high));
        all.copied().flatten()
    };
    let scaled = Scaled::of(axis, values());
    let fit = Fit {
        from_zero: of_side
            .iter()
            .any(|it| matches!(it.mark, Mark::Bars | Mark::Area)),
        is_tight: false,
    };
    let known = extent(values().filter_map(|value| scaled.forward(value)));
    let range = scaled.range(known.unwrap_or([0.0, 1.0]), fit);
    DrawnScale { scaled, range }
}
