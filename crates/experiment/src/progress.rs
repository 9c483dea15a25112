//! How much of an experiment is done, and how long the rest will take.

use std::time::Duration;

/// Counts and durations of the finished and remaining trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentProgress {
    total: usize,
    rounds: u32,
    /// Nominal durations of the remaining trials, last trial first.
    nominal_left: Vec<Duration>,
    /// Sum of the nominal durations of the finished trials.
    nominal_made: Duration,
    made: u32,
    spent: Duration,
}

impl ExperimentProgress {
    /// For an experiment of `total` trials in `rounds` rounds; the remaining trials have these
    /// nominal durations.
    pub(crate) fn new(
        total: usize,
        rounds: u32,
        remaining: impl DoubleEndedIterator<Item = Duration>,
    ) -> Self {
        Self {
            total,
            rounds,
            nominal_left: remaining.rev().collect(),
            nominal_made: Duration::ZERO,
            made: 0,
            spent: Duration::ZERO,
        }
    }

    /// A trial has ended; it took this long including all its attempts.
    pub(crate) fn advance(&mut self, took: Duration) {
        if let Some(nominal) = self.nominal_left.pop() {
            self.nominal_made += nominal;
            self.made += 1;
            self.spent += took;
        }
    }

    /// A trial has ended, but its duration means nothing because the program was suspended
    /// meanwhile.
    pub(crate) fn skip(&mut self) {
        self.nominal_left.pop();
    }

    /// Trials of the whole experiment.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Finished trials, including those of an earlier start.
    #[must_use]
    pub fn done(&self) -> usize {
        self.total - self.nominal_left.len()
    }

    /// Rounds of the whole experiment.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Estimate of the remaining time: the nominal durations, scaled by how much longer the trials
    /// took so far. The first estimate is too short because restarts and waits are not known yet;
    /// for runs without a duration (`-n`) there is none before the first trial.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        let nominal: Duration = self.nominal_left.iter().sum();
        if self.made == 0 {
            return nominal;
        }
        if self.nominal_made.is_zero() {
            let left = u32::try_from(self.nominal_left.len()).unwrap_or(u32::MAX);
            return (self.spent / self.made).saturating_mul(left);
        }
        nominal.mul_f64(self.spent.as_secs_f64() / self.nominal_made.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn the_remaining_time_follows_the_real_durations_of_trials() {
        let nominal = [10, 10, 20].map(seconds);
        let mut progress = ExperimentProgress::new(5, 2, nominal.into_iter());
        assert_eq!(
            (progress.done(), progress.total(), progress.rounds()),
            (2, 5, 2)
        );
        assert_eq!(progress.time_left(), seconds(40));
        progress.advance(seconds(15));
        assert_eq!((progress.done(), progress.time_left()), (3, seconds(45)));
        progress.advance(seconds(25));
        assert_eq!((progress.done(), progress.time_left()), (4, seconds(40)));
        progress.advance(seconds(1));
        progress.advance(seconds(1));
        assert_eq!((progress.done(), progress.time_left()), (5, seconds(0)));
    }

    #[test]
    fn a_trial_during_a_suspension_does_not_change_the_estimate() {
        let mut progress = ExperimentProgress::new(3, 1, [10, 10, 10].map(seconds).into_iter());
        progress.advance(seconds(12));
        progress.skip();
        assert_eq!((progress.done(), progress.time_left()), (2, seconds(12)));
    }

    #[test]
    fn without_nominal_durations_the_estimate_is_the_average_of_the_others() {
        let mut progress = ExperimentProgress::new(3, 1, [Duration::ZERO; 3].into_iter());
        assert_eq!(progress.time_left(), Duration::ZERO);
        progress.advance(seconds(4));
        assert_eq!(progress.time_left(), seconds(8));
    }
}
