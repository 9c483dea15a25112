//! A sweep on the whole screen: a tile for each cell and round, and beneath it the trial that is running.

mod labels;
mod tiles;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use plan::{RunPlan, units};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use report::sweep::cell_name;
use results::Cell;
use results::snapshot::Snapshot;

use crate::keys::Key;
use crate::line;
use crate::look::{BOLD, DOUBTFUL, FAINT, Look};
use crate::panel::{gauge, panel};
use crate::screen::{
    MIN_COLUMNS, MIN_ROWS, Model, draw_body, draw_help, draw_keys, draw_progress, draw_small, title,
};
use labels::Labels;
use tiles::Tile;

/// Lines that are kept: more than a screen shows.
const MAX_NOTES: usize = 8;
/// Lines of them that are shown.
const NOTE_ROWS: usize = 3;
/// From so many rows on there is room for them.
const NOTES_FROM_ROWS: u16 = 24;
/// What the running trial needs to be shown in full: a rule, its progress, plots and tables.
const TRIAL_ROWS: u16 = 15;

const HELP: &[&str] = &[
    "q       end the sweep: the trial that runs is not kept, everything is put back",
    "        (--resume goes on with it), as after Ctrl-C",
    "p       hold the picture; the sweep goes on, p again shows it as it is",
    "l       latency on the other scale: logarithmic or linear",
    "d       latency as a histogram instead of over time",
    "Ctrl-L  draw everything anew      Ctrl-Z  suspend, load included",
    "",
    "+ -     requests/s 2 % above or below the median of all trials so far",
    "++ --   10 % and more; whether that is an effect or noise, the end of",
    "        the sweep says",
    "▶       running, with the requests/s of the last second",
];

/// A sweep that is on, as far as it is known.
#[derive(Debug, Clone)]
pub struct Grid {
    now: State,
    /// What is shown instead while the picture is held.
    held: Option<Box<State>>,
    is_helping: bool,
    has_other_scale: bool,
    has_histogram: bool,
}

/// Where a trial has its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// Number of the cell.
    pub cell: u32,
    /// The round, from 1.
    pub round: u32,
}

/// How far a sweep is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Trials that are over.
    pub done: usize,
    /// Of how many.
    pub total: usize,
    /// How long the rest will take, as far as that is known.
    pub left: Duration,
}

#[derive(Debug, Clone)]
struct State {
    name: String,
    labels: Labels,
    rounds: u32,
    tiles: BTreeMap<Spot, Tile>,
    progress: Progress,
    running: Option<Running>,
    /// The one before, until there is something to be seen of the next.
    before: Option<Running>,
    notes: VecDeque<String>,
}

/// The trial that is on.
#[derive(Debug, Clone)]
struct Running {
    spot: Spot,
    about: String,
    /// Since its run has started.
    model: Option<Model>,
}

impl State {
    fn model(&mut self) -> Option<&mut Model> {
        self.running.as_mut()?.model.as_mut()
    }
}

impl Grid {
    /// Of a sweep of these cells in so many rounds, in which nothing has run yet.
    #[must_use]
    pub fn new(name: &str, cells: &[Cell], rounds: u32) -> Self {
        Self {
            now: State {
                name: name.to_owned(),
                labels: Labels::of(cells),
                rounds,
                tiles: BTreeMap::new(),
                progress: Progress::default(),
                running: None,
                before: None,
                notes: VecDeque::new(),
            },
            held: None,
            is_helping: false,
            has_other_scale: false,
            has_histogram: false,
        }
    }

    /// A trial was made when the sweep ran before, with this rate (requests per second) if that is known.
    pub fn keep(&mut self, spot: Spot, requests_per_sec: Option<f64>) {
        let tile = self.now.tiles.entry(spot).or_default();
        tile.is_kept = true;
        tile.rates.extend(requests_per_sec);
    }

    /// A trial of this cell begins: its levels are set, servers restarted; `attempt` is from 1.
    pub fn begin(&mut self, cell: &Cell, round: u32, attempt: u32, progress: Progress) {
        let now = &mut self.now;
        now.progress = progress;
        let again = match attempt {
            0 | 1 => String::new(),
            attempt => format!(", attempt {attempt}"),
        };
        now.running = Some(Running {
            spot: Spot {
                cell: cell.number,
                round,
            },
            about: format!("round {round}, {}{again}", cell_name(cell)),
            model: None,
        });
    }

    /// The run of the trial starts, by this plan.
    pub fn start(&mut self, plan: RunPlan) {
        if let Some(running) = &mut self.now.running {
            let mut model = Model::new(plan);
            for (is_on, key) in [
                (self.has_other_scale, Key::Scale),
                (self.has_histogram, Key::Histogram),
            ] {
                if is_on {
                    model.press(key);
                }
            }
            running.model = Some(model);
        }
    }

    /// What the running trial has done.
    pub fn push(&mut self, snapshot: Snapshot) {
        if let Some(model) = self.now.model() {
            model.push(snapshot);
            self.now.before = None;
        }
    }

    /// Time that has passed since the latest snapshot.
    pub fn wait(&mut self, since: Duration) {
        if let Some(model) = self.now.model() {
            model.wait(since);
        }
    }

    /// A trial was measured.
    pub fn finish(&mut self, spot: Spot, requests_per_sec: f64, progress: Progress) {
        self.now.progress = progress;
        self.now.before = self.now.running.take();
        self.now
            .tiles
            .entry(spot)
            .or_default()
            .rates
            .push(requests_per_sec);
    }

    /// An attempt has failed, for good or to be tried once more.
    pub fn fail(&mut self, spot: Spot, again: bool, progress: Progress) {
        self.now.progress = progress;
        self.now.tiles.entry(spot).or_default().has_failed = !again;
    }

    /// Something that the user should know.
    pub fn note(&mut self, line: &str) {
        if self.now.notes.len() == MAX_NOTES {
            self.now.notes.pop_front();
        }
        self.now.notes.push_back(line.to_owned());
    }

    /// Does what a key asks for, as far as the picture is concerned.
    pub fn press(&mut self, key: Key) {
        match key {
            Key::Pause => {
                self.held = match self.held {
                    Some(_) => None,
                    None => Some(Box::new(self.now.clone())),
                };
            }
            Key::Help => self.is_helping = !self.is_helping,
            Key::Close => self.is_helping = false,
            Key::Scale | Key::Histogram => {
                let is_on = match key {
                    Key::Scale => &mut self.has_other_scale,
                    _ => &mut self.has_histogram,
                };
                *is_on = !*is_on;
                let held = self.held.as_mut().and_then(|held| held.model());
                for model in self.now.model().into_iter().chain(held) {
                    model.press(key);
                }
            }
            Key::Quit | Key::Redraw | Key::Suspend => {}
        }
    }
}

/// Draws a sweep.
pub fn draw(grid: &Grid, look: Look, area: Rect, buffer: &mut Buffer) {
    if area.width < MIN_COLUMNS || area.height < MIN_ROWS {
        let state = grid.held.as_deref().unwrap_or(&grid.now);
        draw_small(&line(state, look, area), grid.held.is_some(), area, buffer);
    } else {
        draw_all(grid, area, buffer);
    }
    look.finish(area, buffer);
}

/// The line of a sweep, where there is no room for more.
fn line(state: &State, look: Look, area: Rect) -> Line<'static> {
    let Progress { done, total, .. } = state.progress;
    let Some(running) = &state.running else {
        return Line::raw(format!("[{done}/{total}] no trial is running"));
    };
    let number = format!("[{}/{total}]", (done + 1).min(total));
    let place = [
        format!("{number} {}", running.about),
        format!("{number} round {}", running.spot.round),
        number,
    ];
    let columns = usize::from(area.width);
    match &running.model {
        Some(model) => model.line(Some(&place), columns, look),
        None => Line::raw(line::waiting(&place, columns)),
    }
}

fn draw_all(grid: &Grid, area: Rect, buffer: &mut Buffer) {
    let state = grid.held.as_deref().unwrap_or(&grid.now);
    let note_rows = match state.notes.len().min(NOTE_ROWS) {
        0 => 0,
        _ if area.height < NOTES_FROM_ROWS => 0,
        notes => u16::try_from(notes + 1).unwrap_or(u16::MAX),
    };
    let rest_rows = area.height.saturating_sub(3 + note_rows);
    let grid_rows = u16::try_from(state.labels.len() + 2)
        .unwrap_or(u16::MAX)
        .min(rest_rows.saturating_sub(TRIAL_ROWS).max(rest_rows / 2));
    let [head, progress, tiles, trial, notes, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(grid_rows),
        Constraint::Min(0),
        Constraint::Length(note_rows),
        Constraint::Length(1),
    ])
    .areas(area);
    let held = match grid.held {
        Some(_) => ("PICTURE HELD", DOUBTFUL),
        None => ("", FAINT),
    };
    let name = Span::styled(" wrkbench sweep ", BOLD.add_modifier(Modifier::REVERSED));
    title(head, name, &state.name, held, buffer);
    draw_sweep_progress(state.progress, progress, buffer);
    if grid.is_helping {
        draw_help(tiles.union(trial), HELP, buffer);
    } else {
        let live = state.running.as_ref().map(|running| {
            let latest = running.model.as_ref().and_then(Model::latest);
            let rate = latest.map(|it| it.last.requests_per_sec());
            (running.spot, rate)
        });
        tiles::draw(
            &state.labels,
            state.rounds,
            &state.tiles,
            live,
            tiles,
            buffer,
        );
        draw_trial(state, trial, buffer);
    }
    draw_notes(&state.notes, notes, buffer);
    draw_keys(keys, trial, buffer);
}

fn draw_sweep_progress(progress: Progress, area: Rect, buffer: &mut Buffer) {
    let Progress { done, total, left } = progress;
    let left = match left.as_secs() {
        0 => String::new(),
        seconds => format!(", {} left", units::time(Duration::from_secs(seconds))),
    };
    let share = done as f64 / total.max(1) as f64;
    gauge(
        area,
        share,
        &format!("{done} of {total} trials{left}"),
        buffer,
    );
}

/// The trial that runs; while there is nothing to be seen of it, the one before.
fn draw_trial(state: &State, area: Rect, buffer: &mut Buffer) {
    let about = match &state.running {
        Some(running) => Line::styled(running.about.as_str(), BOLD),
        None => Line::styled("no trial is running", FAINT),
    };
    let inner = panel(area, &about, buffer);
    let [progress, body] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(inner);
    if let Some(running) = &state.running {
        match &running.model {
            Some(model) => draw_progress(model, progress, buffer),
            None => gauge(progress, 0.0, "setting levels, starting servers", buffer),
        }
    }
    let shown = |running: &&Running| {
        running
            .model
            .as_ref()
            .is_some_and(|it| it.latest().is_some())
    };
    if let Some(Running {
        model: Some(model), ..
    }) = state.running.as_ref().filter(shown)
    {
        draw_body(model, body, buffer);
    } else if let Some(Running {
        about,
        model: Some(model),
        ..
    }) = &state.before
    {
        let title = format!("the trial before: {about}");
        let body = panel(body, &Line::styled(title, FAINT), buffer);
        draw_body(model, body, buffer);
    }
}

/// The last ones.
fn draw_notes(notes: &VecDeque<String>, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let inner = panel(area, &Line::styled("notes", FAINT), buffer);
    let first = notes.len().saturating_sub(usize::from(inner.height));
    for (row, note) in inner.rows().zip(notes.iter().skip(first)) {
        buffer.set_stringn(
            row.x,
            row.y,
            note,
            usize::from(row.width),
            ratatui::style::Style::new(),
        );
    }
}

#[cfg(test)]
mod tests;
