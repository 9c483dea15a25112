//! Which trial an experiment makes next: the conversation between an experiment and its design.

mod search;

use std::time::Duration;

use results::Trial;

use crate::design::Planned;

pub use search::Searches;

/// Decides, after each trial, which one is made next.
///
/// A policy that is given the same trials names the same ones again. That is how an experiment is
/// resumed.
pub trait Policy {
    /// The next trial, or `None` when the experiment is over. The answer stays the same until that
    /// trial is recorded.
    fn next(&mut self) -> Option<Planned>;

    /// Takes the trial that [`Self::next`] has named. What the policy makes of it is noted in the
    /// trial, which is saved afterwards.
    fn record(&mut self, trial: &mut Trial);

    /// What is still to be made, as far as it is known; `nominal` is the duration of a trial's run.
    fn left(&self, nominal: &dyn Fn(&Planned) -> Duration) -> Left;
}

/// What an experiment still has to make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Left {
    /// Number of trials to be made.
    pub trials: usize,
    /// The nominal duration of their runs.
    pub time: Duration,
    /// Set if the experiment may end before all of them are made.
    pub limit: Option<Limit>,
}

/// When an experiment that may end early ends at the latest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// The time until no further round begins, whatever trials take; `None` if nothing limits it.
    pub budget: Option<Duration>,
    /// The nominal duration of the trials that are made even so: the rest of a round.
    pub round: Duration,
}

/// Decides when a fixed design may end early. It is asked between rounds.
pub trait StoppingRule {
    /// Takes a trial that was made.
    fn record(&mut self, trial: &Trial);

    /// Whether no further round is needed.
    fn is_met(&self) -> bool;

    /// The most rounds that are still needed, as far as the trials show; `None` if they do not.
    fn rounds_left(&self) -> Option<usize> {
        None
    }

    /// The time until no further round is made, whatever the trials show; `None` without a budget.
    fn budget_left(&self) -> Option<Duration> {
        None
    }
}

/// A design that is fixed from the start, and may end early after any round.
pub struct Fixed<'a> {
    /// The trials that were not made yet, in order.
    trials: &'a [Planned],
    rule: Option<&'a mut dyn StoppingRule>,
    /// Round of the last trial that was recorded.
    round: Option<u32>,
}

impl<'a> Fixed<'a> {
    /// Makes these trials in their order.
    #[must_use]
    pub fn new(trials: &'a [Planned]) -> Self {
        Self {
            trials,
            rule: None,
            round: None,
        }
    }

    /// Ends after the first round that meets the rule. The rule has taken the trials of an earlier
    /// start.
    #[must_use]
    pub fn until(self, rule: &'a mut dyn StoppingRule) -> Self {
        Self {
            rule: Some(rule),
            ..self
        }
    }

    /// The rest of the current round, or the next one if it is complete, and trials of as many more
    /// rounds as make `rounds` complete ones.
    fn of_next_rounds(&self, rounds: usize) -> &[Planned] {
        let Some(first) = self.trials.first() else {
            return &[];
        };
        let is_begun = self.round == Some(first.round);
        let more = rounds.saturating_sub(usize::from(!is_begun));
        let last = u32::try_from(more).unwrap_or(u32::MAX);
        let last = first.round.saturating_add(last);
        let end = self.trials.partition_point(|it| it.round <= last);
        &self.trials[..end]
    }

    fn is_over(&self) -> bool {
        let is_new_round = |planned: &Planned| self.round != Some(planned.round);
        let rule = self.rule.as_ref().filter(|rule| rule.is_met());
        rule.is_some() && self.trials.first().is_some_and(is_new_round)
    }
}

impl Policy for Fixed<'_> {
    fn next(&mut self) -> Option<Planned> {
        let next = self.trials.first().filter(|_| !self.is_over());
        next.cloned()
    }

    fn record(&mut self, trial: &mut Trial) {
        self.round = Some(trial.round);
        if let Some(rule) = &mut self.rule {
            rule.record(trial);
        }
        self.trials = self.trials.get(1..).unwrap_or_default();
    }

    fn left(&self, nominal: &dyn Fn(&Planned) -> Duration) -> Left {
        if self.is_over() {
            return Left::default();
        }
        let time_of = |rounds: usize| self.of_next_rounds(rounds).iter().map(nominal).sum();
        let Some(rule) = &self.rule else {
            return Left {
                trials: self.trials.len(),
                time: time_of(usize::MAX),
                limit: None,
            };
        };
        Left {
            trials: self.trials.len(),
            time: time_of(rule.rounds_left().unwrap_or(usize::MAX)),
            limit: Some(Limit {
                budget: rule.budget_left(),
                round: time_of(0),
            }),
        }
    }
}
