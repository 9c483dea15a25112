//! Progress of a run towards its end.

use std::time::Duration;

use plan::RunPlan;
use results::snapshot::{Snapshot, Stage};

/// Progress of the current stage: warm-up or window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunProgress {
    /// Time since the start of the stage, at most its duration.
    pub(crate) elapsed: Duration,
    /// Completed share of the stage, 0..=1; `None` if the run has no defined end.
    pub(crate) share: Option<f64>,
    pub(crate) end: StageEnd,
}

/// What ends a stage: time or requests, whichever is expected first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StageEnd {
    /// The warm-up ends after this time.
    WarmUp(Duration),
    /// The warm-up ends when the server has settled, or after this time.
    Settling(Duration),
    /// The window ends after this time.
    Time(Duration),
    /// The window has ended; responses are read for this time at most.
    Drain(Duration),
    /// The run ends after a number of requests.
    Requests {
        /// Requests answered or failed so far, at most `of`.
        made: u64,
        /// The number that was asked for.
        of: u64,
    },
    /// Only the user ends the run.
    Nothing,
}

impl RunProgress {
    /// `since` is the time since the snapshot.
    pub(crate) fn at(plan: &RunPlan, snapshot: &Snapshot, since: Duration) -> Self {
        let elapsed = Duration::from_nanos(snapshot.elapsed_ns).saturating_add(since);
        let by_time = |whole: Duration, end: StageEnd| Self {
            elapsed: elapsed.min(whole),
            share: Some(share(elapsed.as_secs_f64(), whole.as_secs_f64())),
            end,
        };
        if snapshot.stage == Stage::WarmingUp {
            let end = if plan.warmup_auto {
                StageEnd::Settling(plan.warmup)
            } else {
                StageEnd::WarmUp(plan.warmup)
            };
            return by_time(plan.warmup, end);
        }
        let by_requests = plan.stop.requests.map(|of| {
            let made = snapshot.counters.answered + snapshot.errors.exchanges();
            Self {
                elapsed,
                share: Some(share(made as f64, of as f64)),
                end: StageEnd::Requests {
                    made: made.min(of),
                    of,
                },
            }
        });
        let drain = plan.drain_limit();
        if let Some(duration) = plan.stop.duration
            && elapsed > duration
            && !drain.is_zero()
        {
            return Self {
                elapsed: elapsed.saturating_sub(duration).min(drain),
                share: Some(1.0),
                end: StageEnd::Drain(drain),
            };
        }
        let by_time = plan.stop.duration.map(|it| by_time(it, StageEnd::Time(it)));
        let ends = [by_requests, by_time].into_iter().flatten();
        ends.reduce(|one, other| if one.share >= other.share { one } else { other })
            .unwrap_or(Self {
                elapsed,
                share: None,
                end: StageEnd::Nothing,
            })
    }

    /// Whole seconds of `whole` that are left, rounded up, so that 0 appears only at the end. (A
    /// snapshot arrives some milliseconds after its second.)
    pub(crate) fn left(&self, whole: Duration) -> Duration {
        let left = whole.saturating_sub(self.elapsed);
        Duration::from_secs(left.as_secs_f64().ceil() as u64)
    }
}

/// The share of a whole; an empty whole counts as complete.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).clamp(0.0, 1.0)
    } else {
        1.0
    }
}
