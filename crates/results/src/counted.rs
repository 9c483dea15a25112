//! What the metrics of a run are computed from, during the run and at its end.

use plan::RunPlan;

use crate::{Recording, RunResult};

/// The counts of a window, whether it has ended or not.
///
/// Metrics are computed from this, not from a [`RunResult`], so that a run in progress has the
/// same ones by the same formulas:
///
/// ```
/// use plan::{RunPlan, Target};
/// use results::{Counted, Metric, Recording};
///
/// let plan = RunPlan::new(Target::parse("http://localhost/").unwrap());
/// let mut recording = Recording::new();
/// recording.counters.answered = 300;
/// let counted = Counted { plan: &plan, recording: &recording, duration_ns: 3_000_000_000 };
/// let rate = Metric::named("requests_per_sec").so_far(counted);
/// assert_eq!(rate.map(|rate| rate.value), Some(100.0));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Counted<'r> {
    /// The plan of the run.
    pub plan: &'r RunPlan,
    /// What was recorded within the window.
    pub recording: &'r Recording,
    /// The length of the window, or of its part so far, nanoseconds.
    pub duration_ns: u64,
}

impl<'r> Counted<'r> {
    /// The counts of a run that has ended.
    #[must_use]
    pub const fn of(result: &'r RunResult) -> Self {
        Self {
            plan: &result.plan,
            recording: &result.recording,
            duration_ns: result.window.duration_ns,
        }
    }

    /// A total per second of the window; 0 if the window has no length.
    #[must_use]
    pub fn per_sec(self, total: u64) -> f64 {
        match self.duration_ns {
            0 => 0.0,
            duration_ns => total as f64 / (duration_ns as f64 / 1e9),
        }
    }
}
