//! The legend of a picture: a sample and a name for each of several marks.

use presentation::words::cut;
use presentation::{Chart, Mark, Marks};

use super::colors::Colors;
use super::svg::{Anchor, Stroke, Svg, path_of, width_of};
use super::{marks, shapes};

const SAMPLE: f64 = 26.0;
const ROW: f64 = 22.0;
const BETWEEN: f64 = 16.0;
const NAME_CHARS_MAX: usize = 48;

/// Entries with their places below the title.
pub(super) struct Legend<'a> {
    entries: Vec<(&'a Marks, String, [f64; 2])>,
    height: f64,
    /// Whether lines have shapes, since there are several.
    has_shapes: bool,
}

impl<'a> Legend<'a> {
    /// Marks with the same name are one entry: a line and its band. One entry needs no legend.
    pub(super) fn of(chart: &'a Chart, width: f64) -> Self {
        let mut shown: Vec<&Marks> = Vec::new();
        for marks in &chart.marks {
            match shown.iter_mut().find(|other| other.name == marks.name) {
                Some(other) if other.mark == Mark::Band => *other = marks,
                Some(_) => {}
                None => shown.push(marks),
            }
        }
        if shown.len() < 2 {
            shown.clear();
        }
        let (mut x, mut y) = (0.0, 0.0);
        let mut entries = Vec::new();
        for marks in shown {
            let name = cut(&marks.name, NAME_CHARS_MAX);
            let needed = SAMPLE + 6.0 + width_of(&name);
            if x > 0.0 && x + needed > width {
                (x, y) = (0.0, y + ROW);
            }
            entries.push((marks, name, [x, y]));
            x += needed + BETWEEN;
        }
        Self {
            height: if entries.is_empty() {
                0.0
            } else {
                y + ROW + 6.0
            },
            entries,
            has_shapes: marks::have_company(chart),
        }
    }

    pub(super) fn height(&self) -> f64 {
        self.height
    }

    pub(super) fn draw(&self, svg: &mut Svg, colors: &Colors, [left, top]: [f64; 2]) {
        for (marks, name, [x, y]) in &self.entries {
            let (x, y) = (left + x, top + y + ROW / 2.0);
            self.sample(svg, colors, marks, [x, y]);
            svg.text([x + SAMPLE + 6.0, y], Anchor::Start, &colors.ink, name);
        }
    }

    fn sample(&self, svg: &mut Svg, colors: &Colors, marks: &Marks, [x, y]: [f64; 2]) {
        let color = colors.series(marks.color);
        let opacity = if marks.is_faint { 0.55 } else { 1.0 };
        let middle = [x + SAMPLE / 2.0, y];
        let block = [x + 3.0, y - 5.0, SAMPLE - 6.0, 10.0];
        let stroke = Stroke {
            width: 2.0,
            is_dashed: marks::is_dashed(marks),
            opacity,
            ..Stroke::thin(color)
        };
        let shape = shapes::outline(shapes::index_of(marks.color), middle, 3.8);
        match marks.mark {
            Mark::Bars => svg.rect(block, color, opacity),
            Mark::Area | Mark::Band | Mark::Span => svg.rect(block, color, 0.3 * opacity),
            Mark::Dots if marks.is_hollow => {
                svg.shape(&shape, &colors.surface, opacity, Some(color));
            }
            Mark::Dots => svg.shape(&shape, color, opacity, None),
            Mark::Interval => {
                svg.line(
                    &path_of(&[[middle[0], y - 7.0], [middle[0], y + 7.0]]),
                    stroke,
                );
                svg.shape(&shape, color, opacity, None);
            }
            Mark::Line | Mark::Step | Mark::Path => {
                svg.line(&path_of(&[[x + 1.0, y], [x + SAMPLE - 1.0, y]]), stroke);
                if self.has_shapes || marks.mark == Mark::Path {
                    svg.shape(&shape, color, opacity, None);
                }
            }
        }
    }
}
