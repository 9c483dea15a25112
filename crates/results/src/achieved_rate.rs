//! The rate that the plan asks for, and the rate that the run achieved.

use std::time::Duration;

use plan::Pacing;
use serde::{Deserialize, Serialize};

use crate::{Counted, RunResult};

/// Rates of a run with a schedule, in requests per second over the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AchievedRate {
    /// The rate that the plan asks for; its mean over the window if it changes.
    pub asked_per_sec: f64,
    /// Requests due per second. With even arrivals this is the rate asked for, to within one
    /// request.
    pub due_per_sec: f64,
    /// Requests sent per second.
    pub sent_per_sec: f64,
    /// Requests sent in percent of those due, 0..=100; `None` if nothing was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_percent: Option<f64>,
}

impl AchievedRate {
    /// Computes the rates; `None` in a closed loop, which has no schedule, or if the window has no
    /// length.
    #[must_use]
    pub fn of(result: &RunResult) -> Option<Self> {
        Self::of_counted(Counted::of(result))
    }

    /// As [`Self::of`], also for a run in progress.
    pub(crate) fn of_counted(run: Counted<'_>) -> Option<Self> {
        if run.duration_ns == 0 {
            return None;
        }
        let window = Duration::from_nanos(run.duration_ns);
        let asked_per_sec = match &run.plan.pacing {
            // Multiplying and dividing by the window would round it.
            Pacing::Constant { rate_per_sec, .. } => *rate_per_sec,
            pacing => pacing.requests_until(window)? / window.as_secs_f64(),
        };
        let counters = &run.recording.counters;
        Some(Self {
            asked_per_sec,
            due_per_sec: run.per_sec(counters.due),
            sent_per_sec: run.per_sec(counters.sent),
            sent_percent: crate::summary::percent(counters.sent, counters.due),
        })
    }
}
