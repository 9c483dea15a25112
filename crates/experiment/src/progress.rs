//! How much of an experiment is done, and how long the rest will take.

use std::time::Duration;

use crate::policy::Left;

/// Counts and durations of the finished and remaining trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentProgress {
    rounds: u32,
    /// Finished trials, including those of an earlier start.
    done: usize,
    left: Left,
    /// Sum of the nominal durations of the trials that count for the estimate.
    nominal_made: Duration,
    made: u32,
    spent: Duration,
}

impl ExperimentProgress {
    /// For an experiment of `rounds` rounds, of which `done` trials were made by an earlier start.
    pub(crate) fn new(rounds: u32, done: usize, left: Left) -> Self {
        Self {
            rounds,
            done,
            left,
            nominal_made: Duration::ZERO,
            made: 0,
            spent: Duration::ZERO,
        }
    }

    /// A trial of this nominal duration has ended. `took` is its duration with all its attempts, or
    /// `None` if that means nothing because the program was suspended meanwhile.
    pub(crate) fn advance(&mut self, nominal: Duration, took: Option<Duration>, left: Left) {
        self.done += 1;
        self.left = left;
        if let Some(took) = took {
            self.nominal_made += nominal;
            self.made += 1;
            self.spent += took;
        }
    }

    /// Trials of the whole experiment.
    #[must_use]
    pub fn total(&self) -> usize {
        self.done + self.left.trials
    }

    /// Finished trials, including those of an earlier start.
    #[must_use]
    pub fn done(&self) -> usize {
        self.done
    }

    /// Rounds of the whole experiment.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// How long a trial of this nominal duration takes, by those that were made.
    pub(crate) fn expected(&self, nominal: Duration) -> Duration {
        if self.nominal_made.is_zero() {
            return nominal;
        }
        nominal.mul_f64(self.spent.as_secs_f64() / self.nominal_made.as_secs_f64())
    }

    /// Estimate of the remaining time: the nominal durations, scaled by how much longer the trials
    /// took so far. The first estimate is too short because restarts and waits are not known yet;
    /// for runs without a duration (`-n`) there is none before the first trial.
    ///
    /// What a budget allows is exceeded only by the rest of a round, which is made even so.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        let limit = self.left.limit;
        let most = limit.and_then(|it| Some(it.budget?.max(self.expected(it.round))));
        self.by_trials().min(most.unwrap_or(Duration::MAX))
    }

    /// Whether the experiment may end earlier than [`Self::time_left`] says.
    #[must_use]
    pub fn may_end_early(&self) -> bool {
        self.left.limit.is_some()
    }

    fn by_trials(&self) -> Duration {
        let nominal = self.left.time;
        if self.made == 0 {
            return nominal;
        }
        if self.nominal_made.is_zero() {
            let left = u32::try_from(self.left.trials).unwrap_or(u32::MAX);
            return (self.spent / self.made).saturating_mul(left);
        }
        self.expected(nominal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Limit;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn left(trials: usize, time: u64) -> Left {
        Left {
            trials,
            time: seconds(time),
            limit: None,
        }
    }

    #[test]
    fn the_time_left_is_within_the_budget_but_for_the_rest_of_a_round() {
        let after = |budget: Option<u64>, round: u64, time: u64| {
            let mut progress = ExperimentProgress::new(9, 0, left(18, 180));
            let limit = Limit {
                budget: budget.map(seconds),
                round: seconds(round),
            };
            let left = Left {
                limit: Some(limit),
                ..left(17, time)
            };
            // A trial takes twice as long as its run.
            progress.advance(seconds(10), Some(seconds(20)), left);
            assert!(progress.may_end_early());
            progress.time_left()
        };
        for (budget, round, time, expected) in [
            (Some(100), 10, 170, 100),
            (Some(1_000), 10, 170, 340),
            (Some(5), 10, 170, 20),
            (Some(0), 20, 170, 40),
            (None, 10, 170, 340),
            (Some(100), 10, 10, 20),
        ] {
            let case = format!("{budget:?} {round} {time}");
            assert_eq!(after(budget, round, time), seconds(expected), "{case}");
        }
        assert!(!ExperimentProgress::new(1, 0, left(1, 1)).may_end_early());
    }

    #[test]
    fn the_remaining_time_follows_the_real_durations_of_trials() {
        let mut progress = ExperimentProgress::new(2, 2, left(3, 40));
        assert_eq!(
            (progress.done(), progress.total(), progress.rounds()),
            (2, 5, 2)
        );
        assert_eq!(progress.time_left(), seconds(40));
        progress.advance(seconds(10), Some(seconds(15)), left(2, 30));
        assert_eq!((progress.done(), progress.time_left()), (3, seconds(45)));
        progress.advance(seconds(10), Some(seconds(25)), left(1, 20));
        assert_eq!((progress.done(), progress.time_left()), (4, seconds(40)));
        progress.advance(seconds(20), Some(seconds(1)), left(0, 0));
        assert_eq!((progress.done(), progress.time_left()), (5, seconds(0)));
    }

    #[test]
    fn a_trial_during_a_suspension_does_not_change_the_estimate() {
        let mut progress = ExperimentProgress::new(1, 0, left(3, 30));
        progress.advance(seconds(10), Some(seconds(12)), left(2, 20));
        progress.advance(seconds(10), None, left(1, 10));
        assert_eq!((progress.done(), progress.time_left()), (2, seconds(12)));
    }

    #[test]
    fn without_nominal_durations_the_estimate_is_the_average_of_the_others() {
        let mut progress = ExperimentProgress::new(1, 0, left(3, 0));
        assert_eq!(progress.time_left(), Duration::ZERO);
        progress.advance(Duration::ZERO, Some(seconds(4)), left(2, 0));
        assert_eq!(progress.time_left(), seconds(8));
    }
}
