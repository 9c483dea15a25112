//! What is seen of a sweep while it runs, on stderr.

use std::io::{self, IsTerminal, Write};

use experiment::{Event, Planned};
use report::sweep::{Place, begins, failed, finished};
use results::Cell;

use super::super::tell;

/// Writes a line for each event; what only says that something began, only where it can be overwritten.
pub(super) struct Progress<'a> {
    program: &'a str,
    quiet: bool,
    is_terminal: bool,
}

/// Back to the begin of the line, and erase it (ECMA-48: EL).
const ERASE: &str = "\r\x1b[K";

impl<'a> Progress<'a> {
    pub(super) fn new(program: &'a str, quiet: bool) -> Self {
        Self {
            program,
            quiet,
            is_terminal: io::stderr().is_terminal() && !quiet,
        }
    }

    pub(super) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Begins {
                planned,
                attempt,
                progress,
            } => {
                if self.is_terminal {
                    let place = place(progress, &planned.cell, planned.round);
                    let line = begins(place, attempt, progress.time_left());
                    let _ = write!(io::stderr(), "{ERASE}{line}");
                }
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

    fn line(&self, line: &str) {
        self.erase();
        let _ = writeln!(io::stderr(), "{line}");
    }

    fn erase(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "{ERASE}");
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
