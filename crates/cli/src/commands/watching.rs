//! Progress of a run on stderr: a line that is overwritten, or a new line every ten seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use live::line::{self, TrialName};
use outputs::Output;
use plan::RunPlan;
use results::snapshot::{Snapshot, SnapshotInterval};
use results::{Histogram, PartRecordings};
use runner::Observer;

use super::terminal::{StatusLine, Terminal, is_stderr_free};
use crate::console::Console;

/// Without a new snapshot for this long, the line is redrawn so that its time advances.
const REDRAW_AFTER: Duration = Duration::from_millis(1_300);
const REDRAW_EVERY: Duration = Duration::from_secs(1);

/// The progress display for stderr: one line on a terminal; elsewhere a line every ten seconds, or
/// none for a short run.
pub(super) fn display<'a>(
    plan: &RunPlan,
    stop: &Arc<AtomicBool>,
    console: &'a Console,
) -> Option<Box<dyn Output + 'a>> {
    match Terminal::of_stderr(console) {
        Some(terminal) => Some(Box::new(RunLine::new(terminal, plan, None, stop.clone()))),
        None => line::PlainLines::of(plan).map(|lines| {
            let plan = plan.clone();
            Box::new(LineObserver {
                lines,
                plan,
                console,
            }) as Box<dyn Output>
        }),
    }
}

/// Shows a run on one line of a terminal.
pub(super) struct RunLine {
    line: StatusLine,
    plan: RunPlan,
    trial: Option<TrialName>,
    stop: Arc<AtomicBool>,
    latest: Option<Snapshot>,
    /// Age of the latest snapshot when it was last drawn.
    drawn_at: Duration,
}

impl RunLine {
    /// `trial` names the trial of a sweep. The line disappears when `stop` is set.
    pub(super) fn new(
        terminal: Terminal,
        plan: &RunPlan,
        trial: Option<TrialName>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self {
            line: StatusLine::new(terminal),
            plan: plan.clone(),
            trial,
            stop,
            latest: None,
            drawn_at: Duration::ZERO,
        }
    }

    fn draw(&mut self, since: Duration) {
        let Some(snapshot) = &self.latest else { return };
        self.drawn_at = since;
        self.line.draw(|columns, appearance| {
            line::line(
                &self.plan,
                snapshot,
                since,
                self.trial.as_ref(),
                columns,
                appearance,
            )
        });
    }
}

impl Observer for RunLine {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        // Reuse the histogram: allocating one each second would cost more than the rest.
        let mut latency = self.latest.take().unwrap_or_default().last.latency;
        latency.clear();
        latency.merge(&snapshot.last.latency);
        self.latest = Some(Snapshot {
            counters: snapshot.counters,
            statuses: snapshot.statuses.clone(),
            errors: snapshot.errors.clone(),
            agents: snapshot.agents.clone(),
            // By far the largest parts, and not shown.
            latency: Histogram::new(),
            send_lag: Histogram::new(),
            parts: PartRecordings::default(),
            last: SnapshotInterval {
                latency,
                parts: PartRecordings::default(),
                ..snapshot.last
            },
            ..*snapshot
        });
        self.draw(Duration::ZERO);
    }

    fn turn(&mut self, since: Duration) {
        if self.stop.load(Ordering::Relaxed) {
            // A second Ctrl-C ends the process without a chance to erase the line.
            self.line.erase();
        } else if since > REDRAW_AFTER && since > self.drawn_at + REDRAW_EVERY {
            self.draw(since);
        }
    }
}

impl Output for RunLine {}

/// Shows a run as separate lines.
struct LineObserver<'a> {
    lines: line::PlainLines,
    plan: RunPlan,
    console: &'a Console,
}

impl Observer for LineObserver<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        let line = self.lines.line(&self.plan, snapshot);
        if let Some(line) = line.filter(|_| is_stderr_free()) {
            self.console.tell(line);
        }
    }
}

impl Output for LineObserver<'_> {}
