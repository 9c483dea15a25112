//! Texts of the run screen.

use std::time::Duration;

use plan::RunPlan;
use plan::readable::{count, counted};
use results::snapshot::Snapshot;

use crate::numbers::{clock, whole_seconds};
use crate::progress::{RunProgress, StageEnd};

/// What the keys and signs mean.
pub(super) const HELP: &[&str] = &[
    "q       stop the run and print the report, like Ctrl-C",
    "p       freeze the screen; the run continues (p again to unfreeze)",
    "l       latency scale: logarithmic or linear",
    "d       latency as a histogram or over time, if only one fits",
    "Ctrl-L  redraw                    Ctrl-Z  suspend, including the load",
    "",
    "!       errors in the time of this column",
    "~       fewer than ten samples above this percentile",
    "╌       target rate",
    "CPU     busiest worker thread; above 95 % and without a rate the load",
    "        generator is saturated: the server may be faster than shown",
];

/// The kind of latency that is shown: with a rate, it is measured from when a request was due.
pub(super) fn latency(plan: &RunPlan) -> &'static str {
    if plan.pacing.is_open() {
        "response time"
    } else {
        "latency"
    }
}

/// The completed share of the run, 0 to 1, and a text. `since` is the age of the snapshot.
pub(super) fn progress(plan: &RunPlan, latest: &Snapshot, since: Duration) -> (f64, String) {
    let progress = RunProgress::at(plan, latest, since);
    let elapsed = whole_seconds(progress.elapsed);
    let words = match progress.end {
        StageEnd::WarmUp(whole) => format!("warm-up: {elapsed} of {}", clock(whole)),
        StageEnd::Settling(most) => format!("warm-up: {elapsed} of at most {}", clock(most)),
        StageEnd::Time(whole) => {
            let left = clock(progress.left(whole));
            format!("{elapsed} of {}, {left} left", clock(whole))
        }
        StageEnd::Drain(most) => format!(
            "reading the last responses: {elapsed} of at most {}",
            clock(most)
        ),
        StageEnd::Requests { made, of } if plan.stop.duration.is_none() => {
            format!("{elapsed}, {} of {}", count(made), counted(of, "request"))
        }
        StageEnd::Requests { made, of } => format!("{} of {}", count(made), counted(of, "request")),
        StageEnd::Nothing => elapsed,
    };
    (progress.share.unwrap_or(0.0), words)
}
