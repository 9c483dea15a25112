//! The search of the highest rate: which run comes next, and when it ends.

use fastrand::Rng;

use crate::bracket::{Bracket, Direction};
use crate::check::Votes;
use crate::curve::Curve;
use crate::measure::{Conclusion, Measuring};
use crate::run::{
    Finding, Load, Measured, Phase, RATES, Record, RunLengths, SettingsError, Step, UnexpectedStep,
    cost_s, positive, readable, require,
};

/// What is searched for, and how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Half the width of the interval, as a share of the rate, at which the search is content;
    /// above 0 and below 1. 0.02 by default.
    pub precision: f64,
    /// What all runs may take together, in seconds. 600 by default.
    pub budget_s: f64,
    /// Duration of the closed loop in seconds. 5 by default.
    pub ceiling_s: f64,
    /// How long the other runs are.
    pub lengths: RunLengths,
    /// Orders the runs of a block.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            precision: 0.02,
            budget_s: 600.0,
            ceiling_s: 5.0,
            lengths: RunLengths::default(),
            seed: 0,
        }
    }
}

/// A rate and its 95 % confidence interval, in requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The rate at which a typical run just meets all conditions.
    pub rate: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Why no higher rate could be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The load generator could not make more.
    Generator,
    /// The closed loop made no more, by far.
    Ceiling,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The rate, as exactly as it was asked for.
    Found {
        /// The rate and its interval.
        estimate: Estimate,
        /// How many runs were fitted.
        runs: usize,
        /// How long each of them was, in seconds.
        duration_s: f64,
        /// Runs at the lower end of the interval. Fewer than three if the budget ended.
        confirmed: Votes,
    },
    /// The conditions hold at the highest rate that could be tried.
    AtLeast {
        /// That rate.
        rate: f64,
        /// Why it is the highest.
        bound: Bound,
        /// Runs at that rate. Fewer than three if the budget ended.
        confirmed: Votes,
    },
    /// The conditions fail even at the lowest rate that was tried.
    NotEven {
        /// That rate.
        rate: f64,
    },
    /// The closed loop had no response (or its rate is not one of a server), so that there is no
    /// rate to begin with.
    NoResponse,
    /// The budget ended, or the generator could not make even low rates.
    Undecided {
        /// What is known, if there is an interval.
        estimate: Option<Estimate>,
        /// The highest rate that a short run carried.
        carried: Option<f64>,
        /// The lowest rate that a short run did not carry.
        not_carried: Option<f64>,
        /// The standard deviation of the rate from run to run, as a share of it.
        spread: Option<f64>,
        /// About how many more runs it would take.
        runs_needed: Option<usize>,
    },
}

/// A search for the highest rate.
///
/// Make the run that [`next`](Self::next) asks for, hand its result to [`record`](Self::record),
/// and so on until there is an [`outcome`](Self::outcome). To continue an interrupted search,
/// record what there is.
#[derive(Debug, Clone)]
pub struct Search {
    settings: Settings,
    random: Rng,
    records: Vec<Record>,
    spent_s: f64,
    stage: Stage,
    confirmation: Option<Confirmation>,
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone)]
enum Stage {
    Ceiling,
    Bracket(Bracket),
    Measure(Box<Measuring>),
}

/// Runs at one rate, to see whether it is carried.
#[derive(Debug, Clone, Copy)]
struct Confirmation {
    rate: f64,
    duration_s: f64,
    votes: Votes,
    /// Whether the rate is the highest that can be tried, and not the end of an interval.
    is_top: bool,
}

/// Runs of a confirmation, of which most have to hold.
const CONFIRMATIONS: usize = 3;

impl Search {
    /// A search that has not begun.
    ///
    /// # Errors
    /// If a setting is out of its range.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        let precision = settings.precision;
        let is_share = precision > 0.0 && precision < 1.0;
        require(is_share, "precision", precision, "a number between 0 and 1")?;
        positive("budget", settings.budget_s)?;
        positive("length of the closed loop", settings.ceiling_s)?;
        settings.lengths.check()?;
        Ok(Self {
            settings,
            random: Rng::with_seed(settings.seed),
            records: Vec::new(),
            spent_s: 0.0,
            stage: Stage::Ceiling,
            confirmation: None,
            outcome: None,
        })
    }

    /// Takes the result of the run that [`next`](Self::next) asked for.
    ///
    /// # Errors
    /// If it asked for another, or for none.
    pub fn record(&mut self, step: Step, measured: Measured) -> Result<(), UnexpectedStep> {
        let expected = self.next().filter(|expected| step.is(expected));
        let step = expected.ok_or(UnexpectedStep {
            number: step.number,
        })?;
        self.spent_s += cost_s(&step, &measured);
        self.records.push(Record { step, measured });
        self.outcome = match step.load {
            Load::ClosedLoop => self.on_ceiling(&measured),
            Load::Rate(_) if self.confirmation.is_some() => self.on_confirmation(&measured),
            Load::Rate(rate) => self.on_run(rate, &measured),
        };
        if self
            .next()
            .is_some_and(|next| self.spent_s + next.duration_s > self.settings.budget_s)
        {
            self.outcome = Some(self.outcome_so_far());
        }
        Ok(())
    }

    /// The next run; `None` if the search has ended.
    #[must_use]
    pub fn next(&self) -> Option<Step> {
        if self.outcome.is_some() {
            return None;
        }
        let lengths = &self.settings.lengths;
        let (phase, load, duration_s) = match (&self.confirmation, &self.stage) {
            (Some(it), _) => (Phase::Confirm, Load::Rate(it.rate), it.duration_s),
            (None, Stage::Ceiling) => (
                Phase::Ceiling,
                Load::ClosedLoop,
                self.settings.ceiling_s.ceil(),
            ),
            (None, Stage::Bracket(bracket)) => {
                let Direction::Try(rate) = bracket.next() else {
                    return None;
                };
                let rate = readable(rate);
                (Phase::Bracket, Load::Rate(rate), lengths.short_s(rate))
            }
            (None, Stage::Measure(it)) => {
                (Phase::Measure, Load::Rate(it.next_rate()?), it.duration_s())
            }
        };
        Some(Step {
            number: self.records.len() + 1,
            phase,
            load,
            duration_s,
        })
    }

    /// How the search ended; `None` while it goes on.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// How it would end if the budget ended now.
    #[must_use]
    pub fn outcome_so_far(&self) -> Outcome {
        match (self.outcome, &self.confirmation) {
            (Some(outcome), _) => outcome,
            (None, Some(confirmation)) => self.confirmed(confirmation),
            (None, None) => self.undecided(),
        }
    }

    /// All runs so far.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// What all runs took together, in seconds.
    #[must_use]
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// What is known of the excess over the rate.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        match (&self.stage, self.outcome) {
            // What was found rests on the curve as it was before the confirmation.
            (Stage::Measure(measuring), Some(Outcome::Found { .. })) => measuring.curve().copied(),
            (Stage::Measure(measuring), _) => measuring.curve_now(),
            _ => None,
        }
    }

    fn on_ceiling(&mut self, measured: &Measured) -> Option<Outcome> {
        let ceiling = measured.achieved;
        if !RATES.contains(&ceiling) {
            return Some(Outcome::NoResponse);
        }
        self.stage = Stage::Bracket(Bracket::below(ceiling));
        None
    }

    fn on_run(&mut self, rate: f64, measured: &Measured) -> Option<Outcome> {
        let precision = self.settings.precision;
        match &mut self.stage {
            Stage::Ceiling => None,
            Stage::Bracket(bracket) => {
                bracket.record(rate, measured.finding());
                self.follow_bracket()
            }
            Stage::Measure(measuring) => {
                measuring.record(rate, measured);
                if measuring.next_rate().is_some() {
                    return None;
                }
                let conclusion = measuring.conclude(precision);
                self.follow_block(conclusion)
            }
        }
    }

    fn follow_bracket(&mut self) -> Option<Outcome> {
        let Stage::Bracket(bracket) = self.stage else {
            return None;
        };
        match bracket.next() {
            Direction::Try(_) => {}
            Direction::Between(low, high) => {
                let estimate = (low * high).sqrt();
                let duration_s = self.settings.lengths.full_s(estimate);
                let mut measuring = Measuring::around(bracket, estimate, duration_s);
                measuring.begin_block(&mut self.random);
                self.stage = Stage::Measure(Box::new(measuring));
            }
            Direction::HoldsAtTop(rate) => self.confirm(rate, true),
            Direction::FailsAtFloor(_) if bracket.generator_limited() => {
                return Some(self.undecided());
            }
            Direction::FailsAtFloor(rate) => return Some(Outcome::NotEven { rate }),
        }
        None
    }

    fn follow_block(&mut self, conclusion: Conclusion) -> Option<Outcome> {
        match conclusion {
            Conclusion::AnotherBlock => self.begin_block(),
            Conclusion::Precise(low) => self.confirm(low, false),
            Conclusion::HoldsAtTop(rate) => self.confirm(rate, true),
            Conclusion::FailsAtFloor(rate) => return Some(Outcome::NotEven { rate }),
        }
        None
    }

    fn begin_block(&mut self) {
        if let Stage::Measure(measuring) = &mut self.stage {
            measuring.begin_block(&mut self.random);
        }
    }

    fn confirm(&mut self, rate: f64, is_top: bool) {
        let rate = readable(rate);
        let duration_s = match &self.stage {
            Stage::Measure(measuring) => measuring.duration_s(),
            _ => self.settings.lengths.full_s(rate),
        };
        self.confirmation = Some(Confirmation {
            rate,
            duration_s,
            votes: Votes::default(),
            is_top,
        });
    }

    fn on_confirmation(&mut self, measured: &Measured) -> Option<Outcome> {
        let confirmation = self.confirmation.as_mut()?;
        confirmation.votes.count(measured.finding());
        let confirmation = *confirmation;
        let votes = confirmation.votes;
        if votes.runs() - votes.held > CONFIRMATIONS / 2 {
            self.confirmation = None;
            return self.on_refuted(&confirmation);
        }
        (votes.runs() == CONFIRMATIONS).then(|| self.confirmed(&confirmation))
    }

    /// The rate is not carried after all: what was seen of it counts like other runs.
    fn on_refuted(&mut self, refuted: &Confirmation) -> Option<Outcome> {
        let rate = refuted.rate;
        let seen = &self.records[self.records.len() - refuted.votes.runs()..];
        match &mut self.stage {
            Stage::Ceiling => None,
            Stage::Bracket(bracket) => {
                for record in seen {
                    bracket.record(rate, record.measured.finding());
                }
                self.follow_bracket()
            }
            Stage::Measure(measuring) => {
                for record in seen {
                    measuring.add(rate, &record.measured);
                }
                if refuted.is_top {
                    measuring.move_to(rate);
                }
                self.begin_block();
                None
            }
        }
    }

    fn confirmed(&self, confirmation: &Confirmation) -> Outcome {
        let (rate, confirmed) = (confirmation.rate, confirmation.votes);
        let measured = match &self.stage {
            Stage::Measure(measuring) => measuring.curve().and_then(estimate).zip(Some(measuring)),
            _ => None,
        };
        match measured {
            Some(((estimate, runs), measuring)) if !confirmation.is_top => Outcome::Found {
                estimate,
                runs,
                duration_s: measuring.duration_s(),
                confirmed,
            },
            _ => Outcome::AtLeast {
                rate,
                bound: self.bound(),
                confirmed,
            },
        }
    }

    fn bound(&self) -> Bound {
        let limited = |record: &Record| record.measured.finding() == Finding::GeneratorLimited;
        if self.records.iter().any(limited) {
            Bound::Generator
        } else {
            Bound::Ceiling
        }
    }

    fn undecided(&self) -> Outcome {
        let (carried, not_carried) = match &self.stage {
            Stage::Ceiling => (None, None),
            Stage::Bracket(bracket) => match bracket.ends() {
                (None, Some(rate)) => return Outcome::NotEven { rate },
                ends => ends,
            },
            Stage::Measure(measuring) => measuring.bracket().ends(),
        };
        let curve = self.curve();
        Outcome::Undecided {
            estimate: curve
                .as_ref()
                .and_then(estimate)
                .map(|(estimate, _)| estimate),
            carried,
            not_carried,
            spread: curve.and_then(|curve| curve.spread()),
            runs_needed: curve.and_then(|curve| curve.runs_needed(self.settings.precision)),
        }
    }
}

/// The estimate of a curve, and on how many runs it rests.
fn estimate(curve: &Curve) -> Option<(Estimate, usize)> {
    let (low, high) = curve.interval()?;
    let estimate = Estimate {
        rate: curve.root()?.exp(),
        low: low.exp(),
        high: high.exp(),
    };
    Some((estimate, curve.runs()))
}
