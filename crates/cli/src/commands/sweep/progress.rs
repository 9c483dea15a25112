//! What is seen of a sweep while it runs, on stderr.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use experiment::{Event, Planned};
use live::line;
use plan::RunPlan;
use report::sweep::{Place, begins, failed, finished, places};
use results::Cell;
use runner::Observer;

use super::super::tell;
use super::super::terminal::{StatusLine, Terminal};
use super::super::watching::RunLine;

/// Writes a line for each event; what only says how something goes on, only where it can be overwritten.
pub(super) struct Progress<'a> {
    program: &'a str,
    quiet: bool,
    terminal: Option<Terminal>,
    line: Option<StatusLine>,
    /// Which trial is on.
    place: Option<line::Place>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(program: &'a str, quiet: bool) -> Self {
        let terminal = Terminal::of_stderr().filter(|_| !quiet);
        Self {
            program,
            quiet,
            terminal,
            line: terminal.map(StatusLine::new),
            place: None,
        }
    }

    /// Who watches the run of the trial that is on, until `stop` is raised.
    pub(super) fn observer<'s>(
        &self,
        plan: &RunPlan,
        stop: &'s AtomicBool,
    ) -> Option<Box<dyn Observer + 's>> {
        let line = RunLine::new(self.terminal?, plan, self.place.clone(), stop);
        Some(Box::new(line))
    }

    pub(super) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Begins {
                planned,
                attempt,
                progress,
            } => {
                let place = place(progress, &planned.cell, planned.round);
                let [_, whole, number] = places(place, attempt, progress.time_left());
                let texts = [begins(place, attempt, progress.time_left()), whole, number];
                if let Some(line) = &mut self.line {
                    line.draw(|columns, _| line::waiting(&texts, columns));
                }
                self.place = Some(places(place, attempt, progress.time_left()));
            }
            Event::Finished {
                trial,
                result,
                progress,
            } => {
                // It counts already.
                let place = Place {
                    trial: progress.done(),
                    ..place(progress, &trial.cell, trial.round)
                };
                if !self.quiet {
                    self.line(&finished(place, result, progress.time_left()));
                }
            }
            Event::Failed {
                planned: Planned { cell, round, .. },
                reason,
                again,
                progress,
            } => self.line(&failed(place(progress, cell, *round), reason, again)),
            Event::Note(text) => {
                self.erase();
                tell(self.program, format_args!("note: {text}"));
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.erase();
        let _ = writeln!(io::stderr(), "{line}");
    }

    fn erase(&mut self) {
        if let Some(line) = &mut self.line {
            line.erase();
        }
    }
}

/// Of a trial that is not over yet.
fn place<'c>(progress: &experiment::Progress, cell: &'c Cell, round: u32) -> Place<'c> {
    Place {
        trial: progress.done() + 1,
        trials: progress.total(),
        round,
        rounds: progress.rounds(),
        cell,
    }
}
