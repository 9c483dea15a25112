//! The full-screen view of a run.
//!
//! [`Model`] takes snapshots and keys; [`draw`] only reads it.

mod agents;
mod histogram;
mod history;
mod plot;
mod tables;
mod words;

use std::sync::Arc;
use std::time::Duration;

use plan::{RunPlan, readable};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use results::snapshot::{Snapshot, Stage};

use crate::appearance::{Appearance, BOLD, DIM, ERROR, MEDIAN, RATE, RATE_AREA, TAIL, WARNING};
use crate::keys::Key;
use crate::line::{self, TrialName};
use crate::numbers::rate;
use crate::panel::{gauge, panel};
use history::{History, Point};
use plot::{Plot, Scale, Series};

/// The smallest number of columns for the full view; smaller terminals show the progress line.
pub const MIN_COLUMNS: u16 = 60;
/// The smallest number of rows for the full view.
pub const MIN_ROWS: u16 = 16;

/// Rows of the tables: a title, a heading, six percentiles.
const TABLE_ROWS: u16 = 8;
/// The fewest rows of a plot: a title, two for the values, one for the time.
const PLOT_ROWS: u16 = 4;
/// With at least this many columns, plots are side by side.
const WIDE_COLUMNS: u16 = 100;
/// With at least this many rows, two plots fit above each other.
const TALL_ROWS: u16 = 26;
/// With at least this many columns, the histogram is beside the two plots.
const THREE_PLOTS_COLUMNS: u16 = 132;
/// With at least this many rows, the histogram is below the two plots.
const THREE_PLOTS_ROWS: u16 = 30;
const WAITING: &str = "waiting for the first responses";
/// Up to this ratio of the largest and the smallest value, a linear axis shows both well.
const LINEAR_RATIO: f64 = 10.0;

/// The state of the view.
#[derive(Debug, Clone)]
pub struct Model {
    plan: RunPlan,
    now: ScreenState,
    /// What is shown instead while the screen is frozen.
    frozen: Option<ScreenState>,
    is_helping: bool,
    /// Use the latency scale that would not be chosen automatically.
    other_scale: bool,
    /// Show the histogram instead of latency over time if only one fits.
    prefers_histogram: bool,
}

/// What is known of the run.
#[derive(Debug, Clone, Default)]
struct ScreenState {
    history: History,
    latest: Option<Arc<Snapshot>>,
    /// Age of the latest snapshot.
    since: Duration,
}

impl Model {
    /// The view of a run that has not started.
    #[must_use]
    pub fn new(plan: RunPlan) -> Self {
        Self {
            plan,
            now: ScreenState::default(),
            frozen: None,
            is_helping: false,
            other_scale: false,
            prefers_histogram: false,
        }
    }

    /// Adds the snapshot of another second.
    pub fn push(&mut self, snapshot: Snapshot) {
        let before = self.now.latest.as_ref().map(|latest| latest.stage);
        if before == Some(Stage::WarmingUp) && snapshot.stage == Stage::Measuring {
            // The result excludes the warm-up.
            self.now.history = History::default();
        }
        self.now.history.push(&snapshot);
        self.now.latest = Some(Arc::new(snapshot));
        self.now.since = Duration::ZERO;
    }

    /// Sets the age of the latest snapshot.
    pub fn wait(&mut self, since: Duration) {
        self.now.since = since;
    }

    /// Handles the keys that change the view.
    pub fn press(&mut self, key: Key) {
        match key {
            Key::Pause => {
                self.frozen = match self.frozen {
                    Some(_) => None,
                    None => Some(self.now.clone()),
                };
            }
            Key::Help => self.is_helping = !self.is_helping,
            Key::Close => self.is_helping = false,
            Key::Scale => self.other_scale = !self.other_scale,
            Key::Histogram => self.prefers_histogram = !self.prefers_histogram,
            Key::Quit | Key::Redraw | Key::Suspend => {}
        }
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// The latest snapshot, even if the screen is frozen.
    pub(crate) fn latest(&self) -> Option<&Snapshot> {
        self.now.latest.as_deref()
    }

    /// The progress line of the run.
    pub(crate) fn line(
        &self,
        trial: Option<&TrialName>,
        columns: usize,
        appearance: Appearance,
    ) -> Line<'static> {
        let state = self.shown();
        match (&state.latest, trial) {
            (Some(latest), _) => {
                line::spans(&self.plan, latest, state.since, trial, columns, appearance)
            }
            (None, Some(trial)) => Line::raw(line::waiting(trial, columns)),
            (None, None) => Line::raw(WAITING),
        }
    }

    fn shown(&self) -> &ScreenState {
        self.frozen.as_ref().unwrap_or(&self.now)
    }
}

/// Draws the view into the area of a screen.
pub fn draw(model: &Model, appearance: Appearance, area: Rect, buffer: &mut Buffer) {
    if area.width < MIN_COLUMNS || area.height < MIN_ROWS {
        let line = model.line(None, usize::from(area.width), appearance);
        draw_small(&line, model.is_frozen(), area, buffer);
    } else {
        let words_rows = u16::from(area.height >= 20);
        let [title, words, progress, rest, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(words_rows),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(area);
        draw_title(model, title, buffer);
        buffer.set_stringn(
            words.x,
            words.y,
            model.plan.load_in_words(),
            usize::from(words.width) * usize::from(words_rows),
            DIM,
        );
        draw_progress(model, progress, buffer);
        if model.is_helping {
            draw_help(rest, words::HELP, buffer);
        } else {
            draw_body(model, rest, buffer);
        }
        draw_keys(keys, rest, buffer);
    }
    appearance.apply(area, buffer);
}

/// Draws the progress line and which key ends the run.
pub(crate) fn draw_small(line: &Line<'_>, is_frozen: bool, area: Rect, buffer: &mut Buffer) {
    let hint = if is_frozen {
        Line::styled("frozen: p continues, q stops", WARNING)
    } else {
        Line::styled("q: stop and report", DIM)
    };
    // With an empty row in between.
    for (row, line) in area.rows().step_by(2).zip([line, &hint]) {
        buffer.set_line(row.x, row.y, line, row.width);
    }
}

fn draw_title(model: &Model, area: Rect, buffer: &mut Buffer) {
    let (state, style) = match model.shown().latest.as_ref().map(|it| it.stage) {
        _ if model.is_frozen() => ("FROZEN", WARNING),
        None => ("starting", DIM),
        Some(Stage::WarmingUp) => ("WARM-UP: not in the result", WARNING),
        Some(Stage::Measuring) => ("measuring", DIM),
    };
    let name = Span::styled(" wrkbench ", BOLD.add_modifier(Modifier::REVERSED));
    title(area, name, &model.plan.target.url, (state, style), buffer);
}

/// A name and a description at the left end, the state at the right end.
pub(crate) fn title(
    area: Rect,
    name: Span<'_>,
    about: &str,
    (state, style): (&str, ratatui::style::Style),
    buffer: &mut Buffer,
) {
    let state_width = u16::try_from(state.chars().count()).unwrap_or(u16::MAX);
    let (x, _) = buffer.set_span(area.x, area.y, &name, area.width);
    let room = area.right().saturating_sub(x + state_width + 3);
    buffer.set_stringn(x + 1, area.y, about, usize::from(room), BOLD);
    let x = area.right().saturating_sub(state_width + 1).max(area.x);
    buffer.set_stringn(x, area.y, state, usize::from(area.right() - x), style);
}

pub(crate) fn draw_progress(model: &Model, area: Rect, buffer: &mut Buffer) {
    let state = model.shown();
    let (share, text) = match &state.latest {
        None => (0.0, WAITING.to_owned()),
        Some(latest) => words::progress(&model.plan, latest, state.since),
    };
    gauge(area, share, &text, buffer);
}

/// The help line, with as many keys as fit; `body` is where plots are drawn.
pub(crate) fn draw_keys(area: Rect, body: Rect, buffer: &mut Buffer) {
    let mut keys = vec![
        ("q", "stop and report"),
        ("p", "freeze"),
        ("l", "log/linear"),
        ("?", "help"),
    ];
    if PlotAreas::of(body, body.height).histogram.is_none() {
        keys.push(("d", "histogram"));
    }
    let width = |(key, what): &(&str, &str)| key.len() + what.len() + 4;
    let mut room = usize::from(area.width);
    let mut spans = Vec::new();
    for (key, what) in keys.into_iter().take_while(|key| {
        let rest = room.checked_sub(width(key));
        room = rest.unwrap_or(0);
        rest.is_some()
    }) {
        spans.push(Span::styled(format!(" {key} "), BOLD));
        spans.push(Span::styled(format!("{what}  "), DIM));
    }
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}

pub(crate) fn draw_help(area: Rect, text: &[&str], buffer: &mut Buffer) {
    let inner = panel(area, &Line::styled("help", BOLD), buffer);
    for (row, text) in inner.rows().zip(text) {
        buffer.set_stringn(
            row.x + 1,
            row.y,
            text,
            usize::from(row.width) - 1,
            ratatui::style::Style::new(),
        );
    }
}

/// Draws plots and tables, as many as fit.
pub(crate) fn draw_body(model: &Model, area: Rect, buffer: &mut Buffer) {
    let state = model.shown();
    let fleet = state.latest.as_ref().map_or(&[][..], |it| &it.agents);
    let tables_rows = match area.height {
        rows if rows >= TABLE_ROWS + PLOT_ROWS => TABLE_ROWS,
        _ => 0,
    };
    // At least one agent fits, or none is shown.
    let agents_rows = match area.height.saturating_sub(tables_rows + PLOT_ROWS) {
        0 | 1 => 0,
        room => room.min(agents::rows(fleet)),
    };
    let [plots, agents, tables] = Layout::vertical([
        Constraint::Min(0),
        Constraint::Length(agents_rows),
        Constraint::Length(tables_rows),
    ])
    .areas(area);
    if agents_rows > 0 {
        agents::draw(fleet, agents, buffer);
    }
    let areas = PlotAreas::of(plots, area.height);
    let shows_histogram = areas.histogram.is_some() || model.prefers_histogram;
    let shows_latency = areas.histogram.is_some() || !model.prefers_histogram;
    let points: Vec<Point> = state.history.points().collect();
    if plots.height >= PLOT_ROWS {
        let PlotAreas { rate, latency, .. } = areas;
        // The same time axis for both, even if one is wider by a column.
        let columns = plot::columns(rate).min(plot::columns(latency));
        let span_s = time_span(model, &points, columns);
        draw_rate(model, &points, span_s, rate, buffer);
        if shows_latency {
            draw_latency(model, &points, span_s, latency, buffer);
        }
        if shows_histogram {
            draw_histogram(model, areas.histogram.unwrap_or(latency), buffer);
        }
    }
    if tables_rows > 0 {
        tables::draw(&model.plan, state.latest.as_deref(), tables, buffer);
    }
}

struct PlotAreas {
    rate: Rect,
    latency: Rect,
    /// If a third plot fits.
    histogram: Option<Rect>,
}

impl PlotAreas {
    /// Divides an area, which is all or part of a body with `body_rows` rows.
    fn of(area: Rect, body_rows: u16) -> Self {
        let halves = [Constraint::Fill(1); 2];
        let thirds = [Constraint::Fill(1); 3];
        let beside = Layout::horizontal(halves).spacing(1);
        let is_tall = body_rows >= THREE_PLOTS_ROWS;
        if area.width >= THREE_PLOTS_COLUMNS {
            let [rate, latency, histogram] = Layout::horizontal(thirds).spacing(1).areas(area);
            return Self {
                rate,
                latency,
                histogram: Some(histogram),
            };
        }
        let is_wide = area.width >= WIDE_COLUMNS;
        let (rate, latency, histogram) = match (is_wide, is_tall) {
            (true, true) => {
                let [above, histogram] = Layout::vertical(halves).areas(area);
                let [rate, latency] = beside.areas(above);
                (rate, latency, Some(histogram))
            }
            (false, true) => {
                let [rate, latency, histogram] = Layout::vertical(thirds).areas(area);
                (rate, latency, Some(histogram))
            }
            (false, false) if body_rows >= TALL_ROWS => {
                let [rate, latency] = Layout::vertical(halves).areas(area);
                (rate, latency, None)
            }
            (_, false) => {
                let [rate, latency] = beside.areas(area);
                (rate, latency, None)
            }
        };
        Self {
            rate,
            latency,
            histogram,
        }
    }
}

/// The planned duration of the current stage, if it has one.
fn whole(model: &Model) -> Option<Duration> {
    match model.shown().latest.as_ref().map(|it| it.stage) {
        Some(Stage::WarmingUp) => Some(model.plan.warmup),
        _ => model.plan.stop.duration,
    }
}

fn time_span(model: &Model, points: &[Point], columns: u16) -> f64 {
    let elapsed_s = points.last().map_or(0.0, |point| point.to_s);
    plot::span_s(columns, whole(model), elapsed_s)
}

fn draw_rate(model: &Model, points: &[Point], span_s: f64, area: Rect, buffer: &mut Buffer) {
    let latest = model.shown().latest.as_deref();
    let mut title = vec![Span::styled("requests/s", DIM)];
    if let Some(latest) = latest.filter(|latest| latest.last.duration_ns > 0) {
        let per_sec = latest.last.requests_per_sec();
        title.push(Span::styled(
            rate(per_sec),
            RATE.add_modifier(Modifier::BOLD),
        ));
    }
    let warming_up = latest.is_some_and(|latest| latest.stage == Stage::WarmingUp);
    let curve = model.plan.pacing.rate_curve(Duration::ZERO);
    // The warm-up runs at the initial rate of the window.
    let target = |at_s: f64| {
        let at_s = if warming_up { 0.0 } else { at_s };
        Some(curve.as_ref()?.rate_at(at_s))
    };
    if let Some(now) = points.last().and_then(|point| target(point.to_s)) {
        title.push(Span::styled(format!("target {}", rate(now)), DIM));
    }
    let inner = panel(area, &spaced(title), buffer);
    if points.is_empty() {
        return;
    }
    let rates = plot::rates(points, plot::columns(area), span_s);
    let target_most = (0..=plot::columns(area))
        .filter_map(|at| target(f64::from(at) * span_s / f64::from(plot::columns(area).max(1))))
        .fold(0.0, f64::max);
    let most = rates
        .iter()
        .flatten()
        .fold(target_most, |most, (rate, _)| most.max(*rate));
    let plot = Plot {
        area: inner,
        scale: Scale::linear(most),
        span_s,
        label: plot::count_label,
    };
    plot.columns(&rates, RATE_AREA, buffer);
    plot.target(target, buffer);
}

/// Joins the words of a title with spaces.
fn spaced(words: Vec<Span<'static>>) -> Line<'static> {
    let mut line = Line::default();
    for word in words {
        if !line.spans.is_empty() {
            line.push_span(Span::raw(" "));
        }
        line.push_span(word);
    }
    line
}

fn draw_latency(model: &Model, points: &[Point], span_s: f64, area: Rect, buffer: &mut Buffer) {
    let latest = model.shown().latest.as_deref();
    let mut title = vec![Span::styled(words::latency(&model.plan), DIM)];
    if let Some(last) = latest
        .map(|latest| &latest.last)
        .filter(|it| !it.latency.is_empty())
    {
        let [p50, p99] = [50.0, 99.0].map(|percent| last.latency.value_at_percentile(percent));
        for (name, value_ns, style) in [("p50", p50, MEDIAN), ("p99", p99, TAIL)] {
            let text = format!("{name} {}", readable::time_ns(value_ns));
            title.push(Span::styled(text, style.add_modifier(Modifier::BOLD)));
        }
    }
    if let Some(first) = points.first()
        && model.shown().history.is_joined()
    {
        let text = format!("maximum of each {:.0} s", first.to_s - first.from_s);
        title.push(Span::styled(text, DIM));
    }
    // The numbers are more important than the name.
    if spaced(title.clone()).width() > usize::from(area.width.saturating_sub(3)) {
        title.remove(0);
    }
    let inner = panel(area, &spaced(title), buffer);
    let p50: fn(&Point) -> Option<f64> = |point| point.p50_ns.map(|value| value as f64);
    let p99: fn(&Point) -> Option<f64> = |point| point.p99_ns.map(|value| value as f64);
    if points.iter().all(|point| point.p50_ns.is_none()) {
        return;
    }
    let scale = latency_scale(
        points.iter().filter_map(p50).fold(f64::INFINITY, f64::min),
        points.iter().filter_map(p99).fold(0.0, f64::max),
        model.other_scale,
    );
    let plot = Plot {
        area: inner,
        scale,
        span_s,
        label: plot::time_label,
    };
    let series = |value: fn(&Point) -> Option<f64>| -> Series {
        let middle_s = |point: &Point| f64::midpoint(point.from_s, point.to_s);
        let place = |point| value(point).map(|value| (middle_s(point), value));
        points.iter().map(place).collect()
    };
    // The median last, so that its colour shows where both lines share a cell.
    plot.lines(&[(series(p99), TAIL), (series(p50), MEDIAN)], buffer);
}

fn draw_histogram(model: &Model, area: Rect, buffer: &mut Buffer) {
    let title = format!("{} histogram", words::latency(&model.plan));
    let inner = panel(area, &Line::styled(title, DIM), buffer);
    if let Some(latest) = model.shown().latest.as_deref() {
        histogram::draw(&latest.latency, model.other_scale, inner, buffer);
    }
}

/// Logarithmic if the largest value is far above the smallest.
fn latency_scale(least: f64, greatest: f64, other: bool) -> Scale {
    if !least.is_finite() || least <= 0.0 {
        return Scale::linear(greatest.max(1e6));
    }
    let is_log = greatest / least > LINEAR_RATIO;
    if is_log == other {
        Scale::linear(greatest)
    } else {
        Scale::log(least, greatest)
    }
}

/// Highlights a CPU share above the limit.
pub(crate) fn cpu_style(share: f64) -> ratatui::style::Style {
    if share > tables::CPU_LIMIT {
        ERROR
    } else {
        BOLD
    }
}

#[cfg(test)]
pub(crate) mod tests;
