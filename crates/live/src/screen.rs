//! A run on the whole screen: what is known of it, and the picture of that.
//!
//! The model takes snapshots and keys; drawing reads it and changes nothing.

mod figures;
mod histogram;
mod history;
mod plot;
mod words;

use std::sync::Arc;
use std::time::Duration;

use plan::{RunPlan, units};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use results::snapshot::{Snapshot, Stage};

use crate::keys::Key;
use crate::line::{self, Place};
use crate::look::{BAD, BOLD, DOUBTFUL, FAINT, Look, MEDIAN, RATE, RATE_AREA, TAIL};
use crate::panel::{gauge, panel};
use history::{History, Point};
use plot::Scale;

/// The least size of a terminal for the screen; a smaller one shows the line.
pub const MIN_COLUMNS: u16 = 60;
/// See [`MIN_COLUMNS`].
pub const MIN_ROWS: u16 = 16;

/// Rows of the tables: a rule, a heading, six percentiles.
const TABLE_ROWS: u16 = 8;
/// The fewest rows of a plot: a rule, two for the values, one for the time.
const PLOT_ROWS: u16 = 4;
/// From so many columns on, plots stand side by side without getting too narrow.
const WIDE_COLUMNS: u16 = 100;
/// From so many rows on there is room for two plots above each other.
const TALL_ROWS: u16 = 26;
/// From so many columns on a histogram stands beside the two plots.
const THREE_PLOTS_COLUMNS: u16 = 132;
/// From so many rows on it has a place of its own below them.
const THREE_PLOTS_ROWS: u16 = 30;
/// From so many columns on a plot's title has room for a name beside two percentiles.
const NAMED_COLUMNS: u16 = 36;
/// Before anything is known.
const WAITING: &str = "waiting for the first responses";
/// A linear axis shows both lines well as long as the greatest value is no more than so many times the least.
const LINEAR_RATIO: f64 = 10.0;

/// A run that is on, as far as it is known.
#[derive(Debug, Clone)]
pub struct Model {
    plan: RunPlan,
    now: Picture,
    /// What is shown instead while the picture is held.
    held: Option<Picture>,
    is_helping: bool,
    /// The scale of latency is the other one than what fits.
    other_scale: bool,
    /// Where only one of them has room: the histogram, not latency over time.
    prefers_histogram: bool,
}

/// What is known at one moment.
#[derive(Debug, Clone, Default)]
struct Picture {
    history: History,
    latest: Option<Arc<Snapshot>>,
    /// Time since the latest snapshot.
    since: Duration,
}

impl Model {
    /// Of a run that has not begun.
    #[must_use]
    pub fn new(plan: RunPlan) -> Self {
        Self {
            plan,
            now: Picture::default(),
            held: None,
            is_helping: false,
            other_scale: false,
            prefers_histogram: false,
        }
    }

    /// Takes what is new.
    pub fn push(&mut self, snapshot: Snapshot) {
        let before = self.now.latest.as_ref().map(|latest| latest.stage);
        if before == Some(Stage::WarmingUp) && snapshot.stage == Stage::Measuring {
            // Nothing of a warm-up is in the numbers.
            self.now.history = History::default();
        }
        self.now.history.push(&snapshot);
        self.now.latest = Some(Arc::new(snapshot));
        self.now.since = Duration::ZERO;
    }

    /// Time that has passed since the latest snapshot.
    pub fn wait(&mut self, since: Duration) {
        self.now.since = since;
    }

    /// Does what a key asks for, as far as the picture is concerned.
    pub fn press(&mut self, key: Key) {
        match key {
            Key::Pause => {
                self.held = match self.held {
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

    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// The latest snapshot of the run, whatever is shown.
    pub(crate) fn latest(&self) -> Option<&Snapshot> {
        self.now.latest.as_deref()
    }

    /// What the line below a run without a screen says, in at most so many columns.
    pub(crate) fn line(&self, place: Option<&Place>, columns: usize, look: Look) -> Line<'static> {
        let picture = self.shown();
        match (&picture.latest, place) {
            (Some(latest), _) => {
                line::spans(&self.plan, latest, picture.since, place, columns, look)
            }
            (None, Some(place)) => Line::raw(line::waiting(place, columns)),
            (None, None) => Line::raw(WAITING),
        }
    }

    fn shown(&self) -> &Picture {
        self.held.as_ref().unwrap_or(&self.now)
    }
}

/// Draws a run.
pub fn draw(model: &Model, look: Look, area: Rect, buffer: &mut Buffer) {
    if area.width < MIN_COLUMNS || area.height < MIN_ROWS {
        let line = model.line(None, usize::from(area.width), look);
        draw_small(&line, model.is_held(), area, buffer);
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
            words::plan(&model.plan),
            usize::from(words.width) * usize::from(words_rows),
            FAINT,
        );
        draw_progress(model, progress, buffer);
        if model.is_helping {
            draw_help(rest, words::HELP, buffer);
        } else {
            draw_body(model, rest, buffer);
        }
        draw_keys(keys, rest, buffer);
    }
    look.finish(area, buffer);
}

/// The line of a run, and which key ends it, where there is no room for a screen.
pub(crate) fn draw_small(line: &Line<'_>, is_held: bool, area: Rect, buffer: &mut Buffer) {
    let hint = if is_held {
        Line::styled("held; p goes on, q stops", DOUBTFUL)
    } else {
        Line::styled("q stops and reports", FAINT)
    };
    // A row between them, so that the line is seen first.
    for (row, line) in area.rows().step_by(2).zip([line, &hint]) {
        buffer.set_line(row.x, row.y, line, row.width);
    }
}

fn draw_title(model: &Model, area: Rect, buffer: &mut Buffer) {
    let (state, style) = match model.shown().latest.as_ref().map(|it| it.stage) {
        _ if model.is_held() => ("PICTURE HELD", DOUBTFUL),
        None => ("starting", FAINT),
        Some(Stage::WarmingUp) => ("WARMING UP: not in the result", DOUBTFUL),
        Some(Stage::Measuring) => ("measuring", FAINT),
    };
    let name = Span::styled(" wrkbench ", BOLD.add_modifier(Modifier::REVERSED));
    title(area, name, &model.plan.target.url, (state, style), buffer);
}

/// A name at the left, what it is about beside it, the state at the right end.
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
    let picture = model.shown();
    let (share, text) = match &picture.latest {
        None => (0.0, WAITING.to_owned()),
        Some(latest) => words::progress(&model.plan, latest, picture.since),
    };
    gauge(area, share, &text, buffer);
}

/// What the keys do, as many as there is room for; `body` is where plots are drawn.
pub(crate) fn draw_keys(area: Rect, body: Rect, buffer: &mut Buffer) {
    let mut keys = vec![
        ("q", "stop and report"),
        ("p", "hold"),
        ("l", "log/linear"),
        ("?", "help"),
    ];
    if Places::of(body, body.height).histogram.is_none() {
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
        spans.push(Span::styled(format!("{what}  "), FAINT));
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

/// Plots and tables, as many as there is room for.
pub(crate) fn draw_body(model: &Model, area: Rect, buffer: &mut Buffer) {
    let tables_rows = match area.height {
        rows if rows >= TABLE_ROWS + PLOT_ROWS => TABLE_ROWS,
        _ => 0,
    };
    let [plots, tables] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(tables_rows)]).areas(area);
    let places = Places::of(plots, area.height);
    let shows_histogram = places.histogram.is_some() || model.prefers_histogram;
    let shows_latency = places.histogram.is_some() || !model.prefers_histogram;
    let picture = model.shown();
    let points: Vec<Point> = picture.history.points().collect();
    if plots.height >= PLOT_ROWS {
        let Places { rate, latency, .. } = places;
        // One scale of time for both, also where one of them is wider by a column.
        let columns = plot::columns(rate).min(plot::columns(latency));
        let span_s = time_span(model, &points, columns);
        draw_rate(model, &points, span_s, rate, buffer);
        if shows_latency {
            draw_latency(model, &points, span_s, latency, buffer);
        }
        if shows_histogram {
            let place = places.histogram.unwrap_or(latency);
            draw_histogram(model, place, buffer);
        }
    }
    if tables_rows > 0 {
        figures::draw(&model.plan, picture.latest.as_deref(), tables, buffer);
    }
}

/// Where the plots are drawn.
struct Places {
    rate: Rect,
    latency: Rect,
    /// Where there is room for a third one.
    histogram: Option<Rect>,
}

impl Places {
    /// Of this area, which is all or a part of a screen's body with so many rows.
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

/// The end of the run by its plan, if that is a time of the stage that it is in.
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
    let mut title = vec![Span::styled("requests/s", FAINT)];
    if let Some(latest) = latest.filter(|latest| latest.last.duration_ns > 0) {
        let per_sec = latest.last.requests_per_sec();
        let text = units::metric(per_sec);
        title.push(Span::styled(text, RATE.add_modifier(Modifier::BOLD)));
    }
    let warming_up = latest.is_some_and(|latest| latest.stage == Stage::WarmingUp);
    // A warm-up is made at the rate that the window begins with.
    let asked = |at_s: f64| {
        let at_s = if warming_up { 0.0 } else { at_s };
        model.plan.pacing.rate_per_sec_at(at_s)
    };
    if let Some(now) = points.last().and_then(|point| asked(point.to_s)) {
        let text = format!("of {} asked", units::metric(now));
        title.push(Span::styled(text, FAINT));
    }
    let inner = panel(area, &spaced(title), buffer);
    if points.is_empty() {
        return;
    }
    let rates = plot::rates(points, plot::columns(area), span_s);
    let asked_most = (0..=plot::columns(area))
        .filter_map(|at| asked(f64::from(at) * span_s / f64::from(plot::columns(area).max(1))))
        .fold(0.0, f64::max);
    let most = rates
        .iter()
        .flatten()
        .fold(asked_most, |most, (rate, _)| most.max(*rate));
    let scale = Scale::linear(most);
    let inner = plot::axes(inner, scale, plot::count_label, span_s, buffer);
    if inner.is_empty() {
        return;
    }
    plot::bars(inner, &rates, scale, RATE_AREA, buffer);
    plot::backdrop(inner, asked, scale, span_s, buffer);
}

/// The words of a title.
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
    let mut title = Vec::new();
    if area.width >= NAMED_COLUMNS {
        title.push(Span::styled(words::latency(&model.plan), FAINT));
    }
    if let Some(last) = latest
        .map(|latest| &latest.last)
        .filter(|it| !it.latency.is_empty())
    {
        let [p50, p99] = [50.0, 99.0].map(|percent| last.latency.value_at_percentile(percent));
        for (name, value_ns, style) in [("p50", p50, MEDIAN), ("p99", p99, TAIL)] {
            let text = format!("{name} {}", words::time_ns(value_ns));
            title.push(Span::styled(text, style.add_modifier(Modifier::BOLD)));
        }
    }
    if let Some(first) = points.first()
        && model.shown().history.is_joined()
    {
        let text = format!("greatest of each {:.0} s", first.to_s - first.from_s);
        title.push(Span::styled(text, FAINT));
    }
    let inner = panel(area, &spaced(title), buffer);
    let p50 = |point: &Point| point.p50_ns.map(|value| value as f64);
    let p99 = |point: &Point| point.p99_ns.map(|value| value as f64);
    if points.iter().all(|point| point.p50_ns.is_none()) {
        return;
    }
    let scale = latency_scale(
        points.iter().filter_map(p50).fold(f64::INFINITY, f64::min),
        points.iter().filter_map(p99).fold(0.0, f64::max),
        model.other_scale,
    );
    let inner = plot::axes(inner, scale, plot::time_label, span_s, buffer);
    if inner.is_empty() {
        return;
    }
    // The median last: where both share a cell it is its colour that is seen, as the tail is above it elsewhere.
    plot::line(inner, points, p99, scale, (span_s, TAIL), buffer);
    plot::line(inner, points, p50, scale, (span_s, MEDIAN), buffer);
}

/// How the latency of the window so far spreads.
fn draw_histogram(model: &Model, area: Rect, buffer: &mut Buffer) {
    let title = format!("{} histogram, so far", words::latency(&model.plan));
    let inner = panel(area, &Line::styled(title, FAINT), buffer);
    if let Some(latest) = model.shown().latest.as_deref() {
        histogram::draw(&latest.latency, model.other_scale, inner, buffer);
    }
}

/// Logarithmic when p99 is far above p50.
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

/// Style of a share of a CPU: more than 90 % is a limit.
pub(crate) fn cpu_style(share: f64) -> ratatui::style::Style {
    if share > figures::CPU_LIMIT {
        BAD
    } else {
        BOLD
    }
}

#[cfg(test)]
pub(crate) mod tests;
