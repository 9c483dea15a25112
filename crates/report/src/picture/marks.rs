//! The marks of a picture.

use presentation::{Chart, Mark, Marks};

use super::colors::{Colors, SERIES};
use super::plot::Plot;
use super::shapes;
use super::svg::{Anchor, FONT_SIZE, Stroke, Svg, path_of, width_of};

/// Opacities of marks that are context, and of filled areas.
const FAINT: f64 = 0.45;
const FAINT_POINT: f64 = 0.55;
const FILL: f64 = 0.22;
const SPAN_FILL: f64 = 0.16;

/// Height of the foot of a span, which is visible even if the span is narrow or low.
const SPAN_FOOT: f64 = 4.0;
const SPAN_WIDTH_MIN: f64 = 2.0;

/// Distance of the shapes on a line, and of points that all get one.
const SHAPES_APART: f64 = 96.0;
const POINTS_APART: f64 = 26.0;

const BAR_WIDTH_MAX: f64 = 48.0;

/// Half the width of the ends of an interval.
const END: f64 = 6.0;

type Point = [f64; 2];

/// Whether lines need shapes to be told apart.
pub(super) fn have_company(chart: &Chart) -> bool {
    let is_line = |marks: &&Marks| matches!(marks.mark, Mark::Line | Mark::Step);
    chart.marks.iter().filter(is_line).count() > 1
}

/// After the last colour they repeat with dashes.
pub(super) fn is_dashed(marks: &Marks) -> bool {
    marks.is_dashed || marks.color >= SERIES
}

/// The smallest distance of bars, 1 without neighbours; `None` without bars.
pub(super) fn bar_step(chart: &Chart, forward: impl Fn(f64) -> Option<f64>) -> Option<f64> {
    let bars = chart.marks.iter().filter(|it| it.mark == Mark::Bars);
    let mut at: Vec<f64> = bars
        .flat_map(|marks| marks.x.iter().filter_map(|x| forward(*x)))
        .collect();
    at.sort_by(f64::total_cmp);
    at.dedup();
    at.first()?;
    let gaps = at.windows(2).map(|pair| pair[1] - pair[0]);
    Some(gaps.reduce(f64::min).unwrap_or(1.0))
}

/// Where and how marks are drawn.
struct Pen<'a, 'b> {
    plot: &'a Plot<'b>,
    marks: &'a Marks,
    color: &'a str,
    surface: &'a str,
    opacity: f64,
}

pub(super) fn draw(plot: &Plot<'_>, marks: &Marks, svg: &mut Svg, colors: &Colors) {
    let pen = Pen {
        plot,
        marks,
        color: colors.series(marks.color),
        surface: &colors.surface,
        opacity: match (marks.is_faint, marks.mark) {
            (false, _) => 1.0,
            (true, Mark::Dots) => FAINT_POINT,
            (true, _) => FAINT,
        },
    };
    match marks.mark {
        Mark::Line => pen.line(svg, false),
        Mark::Step => pen.line(svg, true),
        Mark::Area => pen.area(svg),
        Mark::Dots => pen.dots(svg),
        Mark::Bars => pen.bars(svg),
        Mark::Interval => pen.intervals(svg),
        Mark::Band => pen.band(svg),
        Mark::Path => {
            for points in pen.stretches(&marks.y) {
                svg.line(&path_of(&points), pen.stroke());
            }
            pen.intervals(svg);
        }
        Mark::Span => pen.spans(svg),
    }
}

/// The short names of points: below to the right, or where else there is room, or nowhere.
pub(super) fn draw_texts(plot: &Plot<'_>, svg: &mut Svg, colors: &Colors) {
    let mut taken: Vec<[f64; 4]> = Vec::new();
    let with_texts = plot.chart.marks.iter().filter(|it| !it.texts.is_empty());
    let spots = with_texts.flat_map(|marks| {
        let points = marks.x.iter().zip(&marks.y).zip(&marks.texts);
        points.filter_map(|((x, y), text)| {
            Some((
                [plot.at_x(*x)?, plot.at_y(marks.side, (*y)?)?],
                text.as_str(),
            ))
        })
    });
    let spots: Vec<(Point, &str)> = spots.collect();
    taken.extend(
        spots
            .iter()
            .map(|([x, y], _)| [x - 5.0, y - 5.0, 10.0, 10.0]),
    );
    for ([x, y], text) in spots.iter().filter(|(_, text)| !text.is_empty()) {
        let (width, height) = (width_of(text), FONT_SIZE + 1.0);
        let (right, left) = (x + 8.0, x - 8.0 - width);
        let (above, below) = (y - 4.0 - height, y + 4.0);
        let places = [[right, below], [left, above], [right, above], [left, below]];
        let free = places.into_iter().find(|[at, top]| {
            let place = [*at, *top, width, height];
            is_within(place, plot.place) && !taken.iter().any(|other| overlap(place, *other))
        });
        if let Some([at, top]) = free {
            taken.push([at, top, width, height]);
            svg.text([at, top + height / 2.0], Anchor::Start, &colors.ink, text);
        }
    }
}

fn overlap(a: [f64; 4], b: [f64; 4]) -> bool {
    a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3]
}

fn is_within(inner: [f64; 4], outer: [f64; 4]) -> bool {
    inner[0] >= outer[0]
        && inner[1] >= outer[1]
        && inner[0] + inner[2] <= outer[0] + outer[2]
        && inner[1] + inner[3] <= outer[1] + outer[3]
}

impl Pen<'_, '_> {
    fn stroke(&self) -> Stroke<'_> {
        Stroke {
            color: self.color,
            width: if self.marks.is_faint { 1.25 } else { 2.0 },
            is_dashed: is_dashed(self.marks),
            opacity: self.opacity,
        }
    }

    /// The place of a point with one of its values.
    fn point(&self, at: usize, values: &[Option<f64>]) -> Option<Point> {
        let y = values.get(at).copied().flatten()?;
        Some([
            self.plot.at_x(self.marks.x[at])?,
            self.plot.at_y(self.marks.side, y)?,
        ])
    }

    /// Sequences of adjacent known points.
    fn stretches(&self, values: &[Option<f64>]) -> Vec<Vec<Point>> {
        let points: Vec<Option<Point>> = (0..self.marks.x.len())
            .map(|at| self.point(at, values))
            .collect();
        let known = points.split(Option::is_none);
        let known = known.filter(|points| !points.is_empty());
        known
            .map(|points| points.iter().flatten().copied().collect())
            .collect()
    }

    fn shape(&self, svg: &mut Svg, place: Point, radius: f64, is_hollow: bool) {
        let path = shapes::outline(shapes::index_of(self.marks.color), place, radius);
        if is_hollow {
            svg.shape(&path, self.surface, self.opacity, Some(self.color));
        } else {
            svg.shape(&path, self.color, self.opacity, None);
        }
    }

    fn line(&self, svg: &mut Svg, is_step: bool) {
        let found = self.stretches(&self.marks.y);
        for points in &found {
            let path = if is_step {
                path_of(&steps(points))
            } else {
                path_of(points)
            };
            svg.line(&path, self.stroke());
        }
        let count: usize = found.iter().map(Vec::len).sum();
        let [left, _, width, _] = self.plot.place;
        let has_all = !is_step && width / count.max(1) as f64 >= POINTS_APART;
        let mut next = if have_company(self.plot.chart) {
            left + (self.marks.color * 29) as f64 % SHAPES_APART
        } else {
            f64::INFINITY
        };
        for points in &found {
            for place in points {
                // A point without neighbours has no line: it is drawn as a dot.
                let is_alone = points.len() == 1;
                if is_alone || has_all || place[0] >= next {
                    let radius = if is_alone || !self.marks.is_faint {
                        3.0
                    } else {
                        2.0
                    };
                    self.shape(svg, *place, radius, false);
                    if place[0] >= next {
                        next = place[0] + SHAPES_APART;
                    }
                }
            }
        }
    }

    fn area(&self, svg: &mut Svg) {
        let bottom = self.plot.bottom();
        for points in self.stretches(&self.marks.y) {
            let (Some(first), Some(last)) = (points.first(), points.last()) else {
                continue;
            };
            if points.len() == 1 {
                self.shape(svg, *first, 3.0, false);
                continue;
            }
            let line = steps(&points);
            let mut filled = vec![[first[0], bottom]];
            filled.extend(&line);
            filled.push([last[0], bottom]);
            svg.shape(
                &(path_of(&filled) + "Z"),
                self.color,
                self.opacity * FILL,
                None,
            );
            let stroke = Stroke {
                width: 1.5,
                ..self.stroke()
            };
            svg.line(&path_of(&line), stroke);
        }
    }

    fn dots(&self, svg: &mut Svg) {
        let radius = if self.marks.x.len() > 300 { 2.5 } else { 3.75 };
        for place in (0..self.marks.x.len()).filter_map(|at| self.point(at, &self.marks.y)) {
            self.shape(svg, place, radius, self.marks.is_hollow);
        }
    }

    /// Bars at the same place are side by side.
    fn bars(&self, svg: &mut Svg) {
        let chart = self.plot.chart;
        let of_bars: Vec<&Marks> = chart
            .marks
            .iter()
            .filter(|it| it.mark == Mark::Bars)
            .collect();
        let order = of_bars
            .iter()
            .position(|other| std::ptr::eq(*other, self.marks));
        let number = of_bars.len() as f64;
        let step = bar_step(chart, |value| self.plot.coordinate_x(value)).unwrap_or(1.0);
        let slot = (BAR_WIDTH_MAX * number).min(self.plot.width_of(step) * 0.8);
        let width = (slot / number).max(1.0);
        let shift = (order.unwrap_or(0) as f64 - (number - 1.0) / 2.0) * width;
        let bottom = self.plot.bottom();
        let zero = self
            .plot
            .at_y(self.marks.side, 0.0)
            .map_or(bottom, |zero| zero.min(bottom));
        let gap = if width > 6.0 { 1.0 } else { 0.0 };
        for [x, y] in (0..self.marks.x.len()).filter_map(|at| self.point(at, &self.marks.y)) {
            // Zero is drawn as a line; an unknown value is not drawn.
            let height = (zero - y).abs().max(1.5);
            let top = if y > zero { zero } else { zero - height };
            let place = [
                x + shift - width / 2.0 + gap / 2.0,
                top,
                width - gap,
                height,
            ];
            svg.rect(place, self.color, self.opacity);
        }
    }

    fn intervals(&self, svg: &mut Svg) {
        let marks = self.marks;
        for at in 0..marks.x.len() {
            let ends = [&marks.low, &marks.high].map(|values| self.point(at, values));
            if let [Some(low), Some(high)] = ends {
                let solid = Stroke {
                    is_dashed: false,
                    ..self.stroke()
                };
                let stroke = if marks.mark == Mark::Path {
                    solid
                } else {
                    self.stroke()
                };
                svg.line(&path_of(&[low, high]), stroke);
                for [x, y] in [low, high] {
                    svg.line(&path_of(&[[x - END, y], [x + END, y]]), solid);
                }
            }
            if let Some(place) = self.point(at, &marks.y) {
                self.shape(svg, place, 4.5, false);
            }
        }
    }

    fn band(&self, svg: &mut Svg) {
        let Marks { low, high, .. } = self.marks;
        let both = |values: &[Option<f64>]| -> Vec<Option<f64>> {
            let ends = low.iter().zip(high).zip(values);
            ends.map(|((low, high), value)| low.and(*high).and(*value))
                .collect()
        };
        let [lows, highs] = [low, high].map(|values| self.stretches(&both(values)));
        for (mut low, high) in lows.into_iter().zip(highs) {
            low.extend(high.iter().rev());
            svg.shape(
                &(path_of(&low) + "Z"),
                self.color,
                self.opacity * FILL,
                None,
            );
        }
    }

    fn spans(&self, svg: &mut Svg) {
        let bottom = self.plot.bottom();
        for (at, (from, until)) in self.marks.x.iter().zip(&self.marks.until).enumerate() {
            let (Some(left), Some(right)) = (self.plot.at_x(*from), self.plot.at_x(*until)) else {
                continue;
            };
            let width = (right - left).max(SPAN_WIDTH_MIN);
            let share = self.marks.heights.get(at).copied().unwrap_or(1.0);
            let height = self.plot.place[3] * share;
            let place = [left, bottom - height, width, height];
            svg.rect(place, self.color, self.opacity * SPAN_FILL);
            let foot = [left, bottom - SPAN_FOOT, width, SPAN_FOOT];
            svg.rect(foot, self.color, self.opacity);
        }
    }
}

/// Each value holds until the next.
fn steps(points: &[Point]) -> Vec<Point> {
    let mut line: Vec<Point> = Vec::with_capacity(points.len() * 2);
    for [x, y] in points {
        if let Some([_, before]) = line.last().copied() {
            line.push([*x, before]);
        }
        line.push([*x, *y]);
    }
    line
}
