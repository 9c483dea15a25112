//! Ends an experiment when its differences are known.

use analysis::sequential::Looks;
use experiment::StoppingRule;
use results::Trial;

/// The rule of an experiment with `until`.
pub(super) struct Until(pub(super) Looks);

impl StoppingRule for Until {
    fn record(&mut self, trial: &Trial) {
        self.0.record(trial);
    }

    fn is_met(&self) -> bool {
        self.0.is_enough()
    }
}
