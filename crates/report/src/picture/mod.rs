//! One chart as a picture: an SVG file with everything inside, for a text or a slide.
//!
//! The scripts of a page draw the same chart on a canvas; scales, ticks and shapes here follow
//! theirs (`assets/scales.js`, `units.js` and `draw.js`).

mod colors;
mod legend;
mod marks;
mod plot;
mod scales;
mod shapes;
mod svg;
mod ticks;

use std::io::{self, Write};

use colors::Colors;
pub use colors::Theme;
use legend::Legend;
use plot::Plot;
use presentation::{Block, Chart, Page};
use svg::Svg;

/// Width of a picture, in CSS pixels.
const WIDTH: f64 = 960.0;

/// Space between the edge and what is drawn.
const MARGIN: f64 = 24.0;

const TITLE_HEIGHT: f64 = 30.0;

/// All charts of a page, in its order.
pub fn charts(page: &Page) -> impl Iterator<Item = &Chart> {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    blocks.flat_map(|block| match block {
        Block::Charts { charts } => charts.as_slice(),
        _ => &[],
    })
}

/// The chart with this name, or else the first one whose name begins with it: `latency` is
/// `latency-by-percentile`.
#[must_use]
pub fn chart_named<'a>(page: &'a Page, name: &str) -> Option<&'a Chart> {
    let is_start = |id: &str| {
        let rest = id.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with('-'))
    };
    charts(page)
        .find(|chart| chart.id == name)
        .or_else(|| charts(page).find(|chart| is_start(&chart.id)))
}

/// Writes a chart as an SVG file.
///
/// # Errors
/// Those of the writer.
pub fn render(chart: &Chart, theme: Theme, output: &mut dyn Write) -> io::Result<()> {
    let colors = Colors::of(theme)?;
    let legend = Legend::of(chart, WIDTH - 2.0 * MARGIN);
    let top = MARGIN + TITLE_HEIGHT + legend.height();
    let plot = Plot::of(chart, MARGIN, top, WIDTH - 2.0 * MARGIN);
    let height = plot.end() + MARGIN;
    let mut svg = Svg::new(WIDTH, height, &chart.title, &chart.description);
    svg.rect([0.0, 0.0, WIDTH, height], &colors.surface, 1.0);
    svg.title([MARGIN, MARGIN + 12.0], &colors.ink, &chart.title);
    legend.draw(&mut svg, &colors, [MARGIN, MARGIN + TITLE_HEIGHT]);
    plot.draw(&mut svg, &colors);
    output.write_all(svg.finish().as_bytes())
}
