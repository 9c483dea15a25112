//! The full-screen view of a sweep: a tile for each cell and round, and below it the current trial.

mod labels;
mod tiles;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use plan::{RunPlan, readable};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use report::sweep::{TimeLeft, cell_name};
use results::Cell;
use results::snapshot::Snapshot;

use crate::appearance::{Appearance, BOLD, DIM, WARNING};
use crate::keys::Key;
use crate::line;
use crate::numbers::clock;
use crate::panel::{gauge, panel};
use crate::screen::{
    MIN_COLUMNS, MIN_ROWS, Model, draw_body, draw_help, draw_keys, draw_progress, draw_small, title,
};
use labels::Labels;
use tiles::Tile;

/// Notes that are kept: more than the screen shows.
const MAX_NOTES: usize = 8;
const NOTE_ROWS: usize = 3;
/// With at least this many rows, notes are shown.
const NOTES_FROM_ROWS: u16 = 24;
/// Rows for the current trial in full: a title, its progress, plots and tables.
const TRIAL_ROWS: u16 = 15;

const HELP: &[&str] = &[
    "q       end the sweep, like Ctrl-C: the current trial is discarded, settings are",
    "        restored, and --resume can continue it",
    "p       freeze the screen; the sweep continues (p again to unfreeze)",
    "l       latency scale: logarithmic or linear",
    "d       latency as a histogram instead of over time",
    "Ctrl-L  redraw                    Ctrl-Z  suspend, including the load",
    "",
    "+ -     requests/s 2 % above or below the median of all trials so far",
    "++ --   10 % or more; the results at the end of the sweep tell whether",
    "        this is an effect or noise",
    "▶       running, with the requests/s of the last second",
];

/// The state of the view.
#[derive(Debug, Clone)]
pub struct Grid {
    now: GridState,
    /// What is shown instead while the screen is frozen.
    frozen: Option<Box<GridState>>,
    is_helping: bool,
    has_other_scale: bool,
    has_histogram: bool,
}

/// The tile of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TilePosition {
    /// The number of the cell.
    pub cell: u32,
    /// Number of the round, from 1.
    pub round: u32,
}

/// Progress of the sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of completed trials.
    pub done: usize,
    /// Number of all trials; an estimate if the sweep makes searches.
    pub total: usize,
    /// Estimated remaining time.
    pub left: TimeLeft,
}

#[derive(Debug, Clone)]
struct GridState {
    name: String,
    labels: Labels,
    rounds: u32,
    tiles: BTreeMap<TilePosition, Tile>,
    progress: Progress,
    running: Option<RunningTrial>,
    /// The previous trial, shown until the current one has data.
    before: Option<RunningTrial>,
    notes: VecDeque<String>,
}

/// The current trial, from setting its levels to its result.
#[derive(Debug, Clone)]
struct RunningTrial {
    position: TilePosition,
    about: String,
    /// Set when its run starts.
    model: Option<Model>,
}

impl GridState {
    fn model(&mut self) -> Option<&mut Model> {
        self.running.as_mut()?.model.as_mut()
    }
}

impl Grid {
    /// A sweep in which nothing has run yet.
    #[must_use]
    pub fn new(name: &str, cells: &[Cell], rounds: u32) -> Self {
        Self {
            now: GridState {
                name: name.to_owned(),
                labels: Labels::of(cells),
                rounds,
                tiles: BTreeMap::new(),
                progress: Progress::default(),
                running: None,
                before: None,
                notes: VecDeque::new(),
            },
            frozen: None,
            is_helping: false,
            has_other_scale: false,
            has_histogram: false,
        }
    }

    /// Marks a trial that was kept from an earlier, interrupted sweep, with its rate if known.
    pub fn keep(&mut self, position: TilePosition, requests_per_sec: Option<f64>) {
        let tile = self.now.tiles.entry(position).or_default();
        tile.is_kept = true;
        tile.rates.extend(requests_per_sec);
    }

    /// A trial of this cell begins: levels are set and servers restarted. `attempt` is from 1.
    pub fn begin(&mut self, cell: &Cell, round: u32, attempt: u32, progress: Progress) {
        self.now.progress = progress;
        let again = match attempt {
            0 | 1 => String::new(),
            attempt => format!(", attempt {attempt}"),
        };
        self.run(
            cell,
            round,
            format!("round {round}, {}{again}", cell_name(cell)),
        );
    }

    /// A short run of a cell starts, before the first trial.
    pub fn try_out(&mut self, cell: &Cell) {
        self.run(cell, 1, format!("try of {}", cell_name(cell)));
    }

    fn run(&mut self, cell: &Cell, round: u32, about: String) {
        self.now.running = Some(RunningTrial {
            position: TilePosition {
                cell: cell.number,
                round,
            },
            about,
            model: None,
        });
    }

    /// The run of the trial starts.
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

    /// Adds a snapshot of the current trial.
    pub fn push(&mut self, snapshot: Snapshot) {
        if let Some(model) = self.now.model() {
            model.push(snapshot);
            self.now.before = None;
        }
    }

    /// Sets the age of the latest snapshot.
    pub fn wait(&mut self, since: Duration) {
        if let Some(model) = self.now.model() {
            model.wait(since);
        }
    }

    /// A trial has completed.
    pub fn finish(&mut self, position: TilePosition, requests_per_sec: f64, progress: Progress) {
        self.now.progress = progress;
        self.now.before = self.now.running.take();
        self.now
            .tiles
            .entry(position)
            .or_default()
            .rates
            .push(requests_per_sec);
    }

    /// An attempt has failed; `again` if it will be retried.
    pub fn fail(&mut self, position: TilePosition, again: bool, progress: Progress) {
        self.now.progress = progress;
        self.now.tiles.entry(position).or_default().has_failed = !again;
    }

    /// Adds a message for the user.
    pub fn note(&mut self, line: &str) {
        if self.now.notes.len() == MAX_NOTES {
            self.now.notes.pop_front();
        }
        self.now.notes.push_back(line.to_owned());
    }

    /// Handles the keys that change the view.
    pub fn press(&mut self, key: Key) {
        match key {
            Key::Pause => {
                self.frozen = match self.frozen {
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
                let frozen = self.frozen.as_mut().and_then(|frozen| frozen.model());
                for model in self.now.model().into_iter().chain(frozen) {
                    model.press(key);
                }
            }
            Key::Quit | Key::Redraw | Key::Suspend => {}
        }
    }
}

/// Draws the view into the area of a screen.
pub fn draw(grid: &Grid, appearance: Appearance, area: Rect, buffer: &mut Buffer) {
    if area.width < MIN_COLUMNS || area.height < MIN_ROWS {
        let state = grid.frozen.as_deref().unwrap_or(&grid.now);
        draw_small(
            &line(state, appearance, area),
            grid.frozen.is_some(),
            area,
            buffer,
        );
    } else {
        draw_all(grid, area, buffer);
    }
    appearance.apply(area, buffer);
}

/// The progress line, for small terminals.
fn line(state: &GridState, appearance: Appearance, area: Rect) -> Line<'static> {
    let Progress { done, total, .. } = state.progress;
    let Some(running) = &state.running else {
        return Line::raw(format!("[{done}/{total}] no trial is running"));
    };
    let number = format!("[{}/{total}]", (done + 1).min(total));
    let name = [
        format!("{number} {}", running.about),
        format!("{number} round {}", running.position.round),
        number,
    ];
    let columns = usize::from(area.width);
    match &running.model {
        Some(model) => model.line(Some(&name), columns, appearance),
        None => Line::raw(line::waiting(&name, columns)),
    }
}

fn draw_all(grid: &Grid, area: Rect, buffer: &mut Buffer) {
    let state = grid.frozen.as_deref().unwrap_or(&grid.now);
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
    let frozen = match grid.frozen {
        Some(_) => ("FROZEN", WARNING),
        None => ("", DIM),
    };
    let name = Span::styled(" wrkbench sweep ", BOLD.add_modifier(Modifier::REVERSED));
    title(head, name, &state.name, frozen, buffer);
    draw_sweep_progress(state.progress, progress, buffer);
    if grid.is_helping {
        draw_help(tiles.union(trial), HELP, buffer);
    } else {
        let live = state.running.as_ref().map(|running| {
            let latest = running.model.as_ref().and_then(Model::latest);
            let rate = latest.map(|it| it.last.requests_per_sec());
            (running.position, rate)
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
    let left = left.text(clock);
    let left = left.map_or_else(String::new, |left| format!(", {left}"));
    let trials = readable::counted(total as u64, "trial");
    let share = done as f64 / total.max(1) as f64;
    gauge(
        area,
        share,
        &format!("{} of {trials}{left}", readable::count(done as u64)),
        buffer,
    );
}

/// Draws the current trial, or the previous one until there is data.
fn draw_trial(state: &GridState, area: Rect, buffer: &mut Buffer) {
    let about = match &state.running {
        Some(running) => Line::styled(running.about.as_str(), BOLD),
        None => Line::styled("no trial is running", DIM),
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
    let shown = |running: &&RunningTrial| {
        running
            .model
            .as_ref()
            .is_some_and(|it| it.latest().is_some())
    };
    if let Some(RunningTrial {
        model: Some(model), ..
    }) = state.running.as_ref().filter(shown)
    {
        draw_body(model, body, buffer);
    } else if let Some(RunningTrial {
        about,
        model: Some(model),
        ..
    }) = &state.before
    {
        let title = format!("previous trial: {about}");
        let body = panel(body, &Line::styled(title, DIM), buffer);
        draw_body(model, body, buffer);
    }
}

fn draw_notes(notes: &VecDeque<String>, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let inner = panel(area, &Line::styled("notes", DIM), buffer);
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
