//! Reports the progress of a sweep on stderr.

use std::io::Write;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use experiment::{Event, Failure, OnWait, Planned, Waiting};
use live::grid::{self, TilePosition};
use live::line;
use outputs::Output;
use plan::{RunPlan, readable, units};
use report::so_far;
use report::sweep::{TimeLeft, TrialKind, TrialPosition, failed, finished, labels, started};
use results::snapshot::Snapshot;
use results::{Cell, SearchStep};
use runner::Observer;

use super::super::screen::Screen;
use super::super::terminal::{StatusLine, Terminal};
use super::super::watching::RunLine;
use crate::console::Console;

/// Reports, after the first signal, which command is still waited for: commands are not
/// interrupted.
pub(super) fn waiting(console: &Console, stop: Arc<AtomicBool>) -> OnWait {
    /// Shorter waits are not reported.
    const AT_FIRST: Duration = Duration::from_millis(500);
    const AGAIN_AFTER: Duration = Duration::from_secs(10);
    let console = console.clone();
    let mut last: Option<Duration> = None;
    Box::new(move |waiting| {
        let Waiting {
            command,
            elapsed,
            limit,
        } = waiting;
        // A shorter time means another command.
        last = last.filter(|last| *last <= elapsed);
        let is_due = last.map_or(elapsed >= AT_FIRST, |last| elapsed >= last + AGAIN_AFTER);
        if !stop.load(Ordering::Relaxed) || !is_due {
            return;
        }
        last = Some(elapsed);
        let command: String = command.escape_debug().take(COMMAND_CHARS).collect();
        let erase = if Terminal::of_stderr(&console).is_some() {
            "\r\x1b[K"
        } else {
            ""
        };
        let (elapsed, limit) = (elapsed.as_secs(), units::time(limit));
        let _ = writeln!(
            &console.stderr,
            "{erase}{}: waiting for `{command}` ({elapsed} s of at most {limit}) before \
             restoring; a second signal ends the sweep now, and the guardian restores",
            console.program
        );
    })
}

/// The most characters of a command that are shown.
const COMMAND_CHARS: usize = 60;

/// Estimates the disk space for the samples of all trials.
pub(super) fn samples_note(bytes: u64, trials: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let [one, all] = [1, trials].map(|runs| units::binary(bytes as f64 * runs as f64));
    let trials = readable::counted(trials as u64, "trial");
    format!(
        "the samples of this run take {one}, those of {trials} about {all} (a longer interval in \
         [telemetry] takes less)"
    )
}

/// Writes a line for each event; transient states are only shown on a terminal, where they are
/// overwritten.
pub(super) struct ProgressReporter<'a> {
    console: &'a Console,
    quiet: bool,
    terminal: Option<Terminal>,
    line: Option<StatusLine>,
    /// The trial that is running, in three lengths.
    place: Option<line::TrialName>,
    screen: Option<Screen>,
    /// Shows the run that is being made, until the signal.
    run: Option<Box<dyn Output + 'a>>,
    stop: Arc<AtomicBool>,
    /// Lines that are written when the screen is closed.
    waiting: Vec<String>,
}

impl<'a> ProgressReporter<'a> {
    /// Runs are shown until `stop` is set.
    pub(super) fn new(
        console: &'a Console,
        quiet: bool,
        (line, screen): (Option<Terminal>, Option<Screen>),
        stop: Arc<AtomicBool>,
    ) -> Self {
        let has_line = !quiet && screen.is_none();
        let terminal = line.filter(|_| has_line);
        Self {
            console,
            quiet,
            terminal,
            line: terminal.map(StatusLine::new),
            place: None,
            screen,
            run: None,
            stop,
            waiting: Vec::new(),
        }
    }

    /// The display of a run.
    fn display(&self, plan: &RunPlan) -> Option<Box<dyn Output + 'a>> {
        if let Some(screen) = &self.screen {
            screen.of_sweep(|grid| grid.start(plan.clone()));
            return Some(screen.display(plan));
        }
        let line = RunLine::new(self.terminal?, plan, self.place.clone(), self.stop.clone());
        Some(Box::new(line))
    }

    fn show(&mut self, event: &Event<'_>) {
        if let Some(screen) = &self.screen {
            screen.of_sweep(|grid| tell_grid(grid, event));
        }
        match *event {
            Event::Begins {
                planned,
                attempt,
                progress,
            } => {
                self.tell_start(place(progress, planned), attempt, time_left(progress));
            }
            Event::Finished {
                trial,
                result,
                progress,
            } => {
                // The trial already counts as done.
                let place = TrialPosition {
                    trial: progress.done(),
                    ..position(progress, &trial.cell, trial.round, trial.search.as_ref())
                };
                if !self.quiet {
                    self.line(&finished(place, result, time_left(progress)));
                    let step = trial.search.as_ref().filter(|step| step.outcome.is_none());
                    let range = step.and_then(|it| so_far(it.over, it.range()));
                    if let Some(range) = range {
                        self.line(&format!("  {range}"));
                    }
                }
            }
            Event::Failed {
                planned,
                failure,
                again,
                progress,
            } => {
                self.tell_failure(place(progress, planned), failure, again);
            }
            Event::Tries {
                planned,
                number,
                of,
            } => self.tell_start(trying(planned, number, of), 1, TimeLeft::default()),
            Event::TryFailed {
                planned,
                number,
                of,
                failure,
            } => self.tell_failure(trying(planned, number, of), failure, false),
            Event::Note(ref text) => self.line(&format!("{}: note: {text}", self.console.program)),
        }
    }

    fn tell_start(&mut self, place: TrialPosition<'_>, attempt: u32, left: TimeLeft) {
        let name = labels(place, attempt, left);
        let [_, whole, number] = name.clone();
        let texts = [started(place, attempt, left), whole, number];
        if let Some(line) = &mut self.line {
            line.draw(|columns, _| line::waiting(&texts, columns));
        }
        self.place = Some(name);
    }

    fn tell_failure(&mut self, place: TrialPosition<'_>, failure: &Failure, again: bool) {
        self.line(&failed(place, &failure.reason, again));
        for line in &failure.said {
            self.line(&format!("    {line}"));
        }
    }

    fn line(&mut self, line: &str) {
        if let Some(status) = &mut self.line {
            status.erase();
        }
        self.waiting.push(line.to_owned());
        if !self.screen.as_ref().is_some_and(Screen::is_open) {
            self.write_waiting();
        }
    }

    fn write_waiting(&mut self) {
        for line in mem::take(&mut self.waiting) {
            let _ = writeln!(&self.console.stderr, "{}", plan::printable(&line));
        }
    }
}

impl Observer for ProgressReporter<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        if let Some(run) = &mut self.run {
            run.snapshot(snapshot);
        }
    }

    fn turn(&mut self, since: Duration) {
        if let Some(run) = &mut self.run {
            run.turn(since);
        }
    }
}

impl Output for ProgressReporter<'_> {
    fn wants_snapshots(&self) -> bool {
        self.run.is_some()
    }

    fn event(&mut self, event: &outputs::Event<'_>) {
        match event {
            outputs::Event::Start(start) => self.run = self.display(start.plan),
            outputs::Event::End(_) => self.run = None,
            outputs::Event::Trial(event) => self.show(event),
            _ => {}
        }
    }
}

impl Drop for ProgressReporter<'_> {
    fn drop(&mut self) {
        self.run = None;
        self.screen = None;
        self.write_waiting();
    }
}

/// Passes an event on to the grid.
fn tell_grid(grid: &mut grid::Grid, event: &Event<'_>) {
    let spot = |cell: &Cell, round| TilePosition {
        cell: cell.number,
        round,
    };
    let far = |progress: &experiment::ExperimentProgress| grid::Progress {
        done: progress.done(),
        total: progress.total(),
        left: time_left(progress),
    };
    match event {
        Event::Begins {
            planned,
            attempt,
            progress,
        } => grid.begin(&planned.cell, planned.round, *attempt, far(progress)),
        Event::Finished {
            trial,
            result,
            progress,
        } => {
            let rate = result.requests_per_sec();
            grid.finish(spot(&trial.cell, trial.round), rate, far(progress));
        }
        Event::Failed {
            planned,
            failure,
            again,
            progress,
        } => {
            let place = place(progress, planned);
            grid.note(&failed(place, &failure.reason, *again));
            grid.fail(spot(&planned.cell, planned.round), *again, far(progress));
        }
        Event::Tries { planned, .. } => grid.try_out(&planned.cell),
        Event::TryFailed {
            planned,
            number,
            of,
            failure,
        } => grid.note(&failed(
            trying(planned, *number, *of),
            &failure.reason,
            false,
        )),
        Event::Note(text) => grid.note(text),
    }
}

fn time_left(progress: &experiment::ExperimentProgress) -> TimeLeft {
    TimeLeft {
        time: progress.time_left(),
        is_at_most: progress.may_end_early(),
    }
}

/// The name of the current trial.
fn place<'c>(progress: &experiment::ExperimentProgress, planned: &'c Planned) -> TrialPosition<'c> {
    position(
        progress,
        &planned.cell,
        planned.round,
        planned.step.as_ref(),
    )
}

/// The name of a try.
fn trying(planned: &Planned, number: usize, of: usize) -> TrialPosition<'_> {
    TrialPosition {
        kind: TrialKind::Try,
        trial: number,
        trials: of,
        round: 1,
        rounds: 1,
        cell: &planned.cell,
    }
}

fn position<'c>(
    progress: &experiment::ExperimentProgress,
    cell: &'c Cell,
    round: u32,
    step: Option<&'c SearchStep>,
) -> TrialPosition<'c> {
    TrialPosition {
        kind: step.map_or(TrialKind::Planned, TrialKind::Step),
        trial: progress.done() + 1,
        trials: progress.total(),
        round,
        rounds: progress.rounds(),
        cell,
    }
}
