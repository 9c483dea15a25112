//! The rate that the plan asks for, and the rate that the run achieved.

use std::time::Duration;

use plan::{Pacing, Stage};
use serde::{Deserialize, Serialize};

use crate::RunResult;

/// Rates of a run with a schedule, in requests per second over the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AchievedRate {
    /// What the plan asks for; the mean over the window if the rate changes.
    pub asked_per_sec: f64,
    /// Requests due. With even arrivals the same as asked for, up to one request.
    pub due_per_sec: f64,
    /// Requests sent.
    pub sent_per_sec: f64,
    /// Requests sent in percent of those due, 0..=100; `None` if nothing was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_percent: Option<f64>,
}

impl AchievedRate {
    /// `None` for a closed loop, which has no schedule, and for a window without length.
    #[must_use]
    pub fn of(result: &RunResult) -> Option<Self> {
        let duration_ns = result.window.duration_ns;
        if duration_ns == 0 {
            return None;
        }
        let asked_per_sec = asked_per_sec(&result.plan.pacing, Duration::from_nanos(duration_ns))?;
        let counters = &result.recording.counters;
        let per_sec = |total: u64| total as f64 / (duration_ns as f64 / 1e9);
        Some(Self {
            asked_per_sec,
            due_per_sec: per_sec(counters.due),
            sent_per_sec: per_sec(counters.sent),
            sent_percent: crate::summary::percent(counters.sent, counters.due),
        })
    }
}

fn asked_per_sec(pacing: &Pacing, window: Duration) -> Option<f64> {
    match pacing {
        Pacing::Closed => None,
        Pacing::Constant { rate_per_sec, .. } => Some(*rate_per_sec),
        Pacing::Stages { stages, .. } => Some(requests_due(stages, window) / window.as_secs_f64()),
    }
}

/// The integral of the rate over the window. After the last stage the rate stays as it is.
fn requests_due(stages: &[Stage], window: Duration) -> f64 {
    let mut left_s = window.as_secs_f64();
    let mut requests = 0.0;
    let mut rate_per_sec = 0.0;
    for stage in stages {
        let whole_s = stage.duration.as_secs_f64();
        let part_s = whole_s.min(left_s);
        let share = if whole_s > 0.0 { part_s / whole_s } else { 1.0 };
        rate_per_sec = stage.from_per_sec + (stage.to_per_sec - stage.from_per_sec) * share;
        requests += (stage.from_per_sec + rate_per_sec) / 2.0 * part_s;
        left_s -= part_s;
    }
    requests + rate_per_sec * left_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(from_per_sec: f64, to_per_sec: f64, seconds: u64) -> Stage {
        Stage {
            from_per_sec,
            to_per_sec,
            duration: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn a_rate_that_changes_is_averaged_over_the_window() {
        let stages = [stage(100.0, 100.0, 10), stage(0.0, 400.0, 20)];
        for (window_s, requests) in [
            (5, 500.0),
            (10, 1000.0),
            // Halfway up the ramp: from 0 to 200 in 10 s.
            (20, 2000.0),
            (30, 5000.0),
            // The last rate goes on.
            (40, 9000.0),
        ] {
            let due = requests_due(&stages, Duration::from_secs(window_s));
            assert!((due - requests).abs() < 1e-6, "{window_s} s: {due}");
        }
    }

    #[test]
    fn stages_without_length_neither_divide_by_zero_nor_count() {
        let stages = [stage(7.0, 50.0, 0), stage(10.0, 10.0, 1)];
        assert_eq!(requests_due(&stages, Duration::from_secs(2)), 20.0);
        assert_eq!(requests_due(&stages[..1], Duration::from_secs(2)), 100.0);
        assert_eq!(requests_due(&[], Duration::from_secs(2)), 0.0);
    }
}
