//! What is seen of a run while it is on: a line that is written over, or one every ten seconds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use live::line::{Place, Plain, line};
use plan::RunPlan;
use results::Histogram;
use results::snapshot::{Interval, Snapshot};
use runner::Observer;

use super::tell;
use super::terminal::{StatusLine, Terminal, is_stderr_free};

/// Without a new snapshot for so long the line is drawn again, so that its time goes on.
const REDRAW_AFTER: Duration = Duration::from_millis(1_300);
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// Who watches a run, as stderr is: the line of a terminal, lines now and then elsewhere, nobody when the run is short.
pub(super) fn observer<'a>(
    plan: &RunPlan,
    stop: &'a AtomicBool,
    program: &'a str,
) -> Option<Box<dyn Observer + 'a>> {
    match Terminal::of_stderr() {
        Some(terminal) => Some(Box::new(RunLine::new(terminal, plan, None, stop))),
        None => Plain::of(plan).map(|lines| {
            let plan = plan.clone();
            Box::new(PlainLines {
                lines,
                plan,
                program,
            }) as Box<dyn Observer>
        }),
    }
}

/// A run in the line of a terminal.
pub(super) struct RunLine<'a> {
    line: StatusLine,
    plan: RunPlan,
    place: Option<Place>,
    stop: &'a AtomicBool,
    latest: Option<Snapshot>,
    /// How old the latest snapshot was when it was drawn.
    drawn_at: Duration,
}

impl<'a> RunLine<'a> {
    /// Until `stop` is raised; `place` tells which trial of a sweep it is.
    pub(super) fn new(
        terminal: Terminal,
        plan: &RunPlan,
        place: Option<Place>,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            line: StatusLine::new(terminal),
            plan: plan.clone(),
            place,
            stop,
            latest: None,
            drawn_at: Duration::ZERO,
        }
    }

    fn draw(&mut self, since: Duration) {
        let Some(snapshot) = &self.latest else { return };
        self.drawn_at = since;
        self.line.draw(|columns, look| {
            line(
                &self.plan,
                snapshot,
                since,
                self.place.as_ref(),
                columns,
                look,
            )
        });
    }
}

impl Observer for RunLine<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        // Memory that is new each second would cost more than all the rest of the line.
        let mut latency = self.latest.take().unwrap_or_default().last.latency;
        latency.clear();
        latency.merge(&snapshot.last.latency);
        self.latest = Some(Snapshot {
            counters: snapshot.counters,
            statuses: snapshot.statuses.clone(),
            errors: snapshot.errors.clone(),
            // The largest part of it by far, and in no line.
            latency: Histogram::new(),
            last: Interval {
                latency,
                ..snapshot.last
            },
            ..*snapshot
        });
        self.draw(Duration::ZERO);
    }

    fn turn(&mut self, since: Duration) {
        if self.stop.load(Ordering::Relaxed) {
            // A second Ctrl-C ends the process on the spot.
            self.line.erase();
        } else if since > REDRAW_AFTER && since > self.drawn_at + REDRAW_EVERY {
            self.draw(since);
        }
    }
}

/// A run in lines that stay.
struct PlainLines<'a> {
    lines: Plain,
    plan: RunPlan,
    program: &'a str,
}

impl Observer for PlainLines<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        let line = self.lines.line(&self.plan, snapshot);
        if let Some(line) = line.filter(|_| is_stderr_free()) {
            tell(self.program, line);
        }
    }
}
