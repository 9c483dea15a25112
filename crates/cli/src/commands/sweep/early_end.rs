//! Ends a run of a search as soon as it is certain that the conditions fail by far.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use judging::Criterion;
use results::snapshot::Snapshot;
use results::{SearchPhase, SearchStep};
use runner::Observer;

/// The conditions of a search, which a run may be certain to miss before it ends.
#[derive(Clone, Copy)]
pub(super) struct Requirements<'a> {
    conditions: &'a [Criterion],
    /// How many requests are due in the whole window.
    planned: f64,
}

impl<'a> Requirements<'a> {
    /// `None` for a run that never ends early. Only runs of the bracket do: the others are fitted,
    /// and cutting those that go badly would bias the fit.
    pub(super) fn of(step: Option<&SearchStep>, conditions: &'a [Criterion]) -> Option<Self> {
        let step = step.filter(|step| step.phase == SearchPhase::Bracket)?;
        Some(Self {
            conditions,
            planned: step.rate_per_sec? * step.duration_ms as f64 / 1e3,
        })
    }

    fn are_missed(&self, snapshot: &Snapshot) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|it| it.is_hopeless(&snapshot.latency, self.planned))
    }
}

/// Observes a run, and sets `stop` when it is hopeless or interrupted.
pub(super) struct EarlyEnd<'a> {
    /// Whoever else observes the run.
    pub(super) observer: Option<&'a mut dyn Observer>,
    pub(super) requirements: Requirements<'a>,
    /// Whether the user pressed Ctrl-C.
    pub(super) interrupted: &'a AtomicBool,
    pub(super) stop: &'a AtomicBool,
    pub(super) is_hopeless: bool,
}

impl Observer for EarlyEnd<'_> {
    fn snapshot(&mut self, snapshot: &Snapshot) {
        if let Some(observer) = &mut self.observer {
            observer.snapshot(snapshot);
        }
        self.is_hopeless |= self.requirements.are_missed(snapshot);
    }

    fn turn(&mut self, since: Duration) {
        if let Some(observer) = &mut self.observer {
            observer.turn(since);
        }
        if self.is_hopeless || self.interrupted.load(Ordering::Relaxed) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}
