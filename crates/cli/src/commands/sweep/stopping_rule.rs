//! Ends an experiment when its differences are known.

use std::time::Duration;

use analysis::sequential::Looks;
use experiment::StoppingRule;
use results::Trial;

/// The rule of an experiment with `until`. After each round, [`Looks`] tells whether the
/// differences are known or the budget is used up, and then no further round is made.
pub(super) struct SequentialStoppingRule(pub(super) Looks);

impl StoppingRule for SequentialStoppingRule {
    fn record(&mut self, trial: &Trial) {
        self.0.record(trial);
    }

    fn is_met(&self) -> bool {
        self.0.is_enough()
    }

    fn rounds_left(&self) -> Option<usize> {
        self.0.rounds_left()
    }

    fn budget_left(&self) -> Option<Duration> {
        self.0.budget_left_ms().map(Duration::from_millis)
    }
}
