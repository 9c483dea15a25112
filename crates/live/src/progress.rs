//! How far a run is.

use std::time::Duration;

use plan::RunPlan;
use results::snapshot::{Snapshot, Stage};

/// A run at one moment, on its way to what ends its stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RunProgress {
    /// Since the begin of the stage, and no longer than it lasts.
    pub(crate) elapsed: Duration,
    /// How much of the stage is over, 0..=1; `None` when that cannot be known.
    pub(crate) share: Option<f64>,
    /// What ends it.
    pub(crate) end: End,
}

/// What ends a stage: time or requests, whichever is first as things go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The warm-up is over after this time.
    WarmUp(Duration),
    /// The window is over after this time.
    Time(Duration),
    /// So many requests are made.
    Requests {
        /// Answered or failed so far, and not more than are asked for.
        made: u64,
        /// Asked for.
        of: u64,
    },
    /// The user.
    Nothing,
}

impl RunProgress {
    /// `since` is the time since the snapshot.
    pub(crate) fn at(plan: &RunPlan, snapshot: &Snapshot, since: Duration) -> Self {
        let elapsed = Duration::from_nanos(snapshot.elapsed_ns).saturating_add(since);
        let by_time = |whole: Duration, end: End| Self {
            elapsed: elapsed.min(whole),
            share: Some(share(elapsed.as_secs_f64(), whole.as_secs_f64())),
            end,
        };
        if snapshot.stage == Stage::WarmingUp {
            return by_time(plan.warmup, End::WarmUp(plan.warmup));
        }
        let by_requests = plan.stop.requests.map(|of| {
            let made = snapshot.counters.answered + snapshot.errors.exchanges();
            Self {
                elapsed,
                share: Some(share(made as f64, of as f64)),
                end: End::Requests {
                    made: made.min(of),
                    of,
                },
            }
        });
        let by_time = plan.stop.duration.map(|it| by_time(it, End::Time(it)));
        let ends = [by_requests, by_time].into_iter().flatten();
        ends.reduce(|one, other| if one.share >= other.share { one } else { other })
            .unwrap_or(Self {
                elapsed,
                share: None,
                end: End::Nothing,
            })
    }

    /// Whole seconds of `whole` to come, rounded up: there are none left only when it is over, and a snapshot comes
    /// some milliseconds after its second.
    pub(crate) fn left(&self, whole: Duration) -> Duration {
        let left = whole.saturating_sub(self.elapsed);
        Duration::from_secs(left.as_secs_f64().ceil() as u64)
    }
}

/// All of nothing is made from the begin on.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).clamp(0.0, 1.0)
    } else {
        1.0
    }
}
