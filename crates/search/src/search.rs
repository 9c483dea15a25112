//! The search of the highest rate: which run comes next, and when it ends.

use fastrand::Rng;

use crate::bracket::{Bracket, Direction};
use crate::check::Votes;
use crate::connections::{Connections, Pool};
use crate::curve::Curve;
use crate::measure::{Conclusion, Fitted, Measuring};
use crate::run::{
    Finding, Load, Measured, Phase, RATES, Record, RunLengths, SettingsError, Step, UnexpectedStep,
    cost_s, is_machine_disturbed, positive, readable, require,
};

/// How exact a search has to be, how long it may take, and what its runs are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The search ends when half the width of the interval, as a share of the rate, is at most
    /// this; above 0 and below 1. 0.02 by default.
    pub precision: f64,
    /// Time that all runs may take together, in seconds. 600 by default.
    pub budget_s: f64,
    /// Duration of a closed loop in seconds. 2 by default.
    pub ceiling_s: f64,
    /// How many connections the runs have, and how many they get if these limit the rate.
    pub connections: Connections,
    /// How long the other runs are.
    pub lengths: RunLengths,
    /// Seed of the random order of the runs of a block.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            precision: 0.02,
            budget_s: 600.0,
            ceiling_s: 2.0,
            connections: Connections::default(),
            lengths: RunLengths::default(),
            seed: 0,
        }
    }
}

/// A rate and its 95 % confidence interval, in requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The rate at which, in the long run, all conditions are just met.
    pub rate: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// Why no higher rate could be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The load generator could not make more.
    Generator,
    /// All connections that a run may have were in use.
    Connections,
    /// The rate is already well above that of the closed loop, so no higher one is tried.
    Ceiling,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// The closed loop had no good response, or its rate was out of range.
    NoResponse,
    /// No run in which conditions failed was free of the load generator's influence.
    Generator,
    /// In several runs in a row conditions failed, and the load generator was disturbed: it was the
    /// machine, at any rate.
    Disturbed,
    /// Several runs in a row had no result.
    Lost,
    /// The server changed while it was measured, so no rate agrees with all runs.
    Drift {
        /// By how much the rate within the conditions changed, as ln; negative if it fell.
        ln_change: f64,
        /// The time over which it changed, in seconds.
        time_s: f64,
    },
    /// The runs contradict each other.
    Disagree,
    /// The budget was used up before there was an answer.
    Budget,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The rate, with an interval that agrees with all runs.
    Found {
        /// The rate and its interval.
        estimate: Estimate,
        /// How many runs were fitted.
        runs: usize,
        /// How long each of them was, in seconds.
        duration_s: f64,
        /// About how many more runs it would take to reach the precision asked for; `None` if it is
        /// reached.
        runs_needed: Option<usize>,
    },
    /// The conditions hold at the highest rate that could be tried.
    AtLeast {
        /// The highest rate that could be tried, requests per second.
        rate: f64,
        /// Why it is the highest.
        bound: Bound,
        /// Runs at that rate. Fewer than three if the budget ended.
        confirmed: Votes,
    },
    /// The conditions fail even at the lowest rate that was tried.
    NotEven {
        /// The lowest rate that was tried, requests per second.
        rate: f64,
    },
    /// There is no answer.
    Undecided(Why),
}

/// The range that contains the answer according to the runs so far. Every run up to `carried` held,
/// and every run from `not_carried` on failed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Range {
    /// The highest rate that was carried, and below which none failed.
    pub carried: Option<f64>,
    /// The lowest rate that was not carried, and above which none was.
    pub not_carried: Option<f64>,
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
    pool: Pool,
    stage: Stage,
    confirmation: Option<Confirmation>,
    /// The fit that the answer rests on.
    found: Option<Fitted>,
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone)]
enum Stage {
    Ceiling,
    Bracket(Bracket),
    Measure(Box<Measuring>),
}

/// Runs at the highest rate that can be tried, to see whether it is carried.
#[derive(Debug, Clone, Copy)]
struct Confirmation {
    rate: f64,
    duration_s: f64,
    votes: Votes,
}

/// The number of runs of a confirmation; more than half of them have to hold.
const CONFIRMATIONS: usize = 3;

/// After this many runs in a row without a result, the search ends.
const LOST_MAX: usize = 5;

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
            pool: Pool::new(settings.connections),
            stage: Stage::Ceiling,
            confirmation: None,
            found: None,
            outcome: None,
        })
    }

    /// Takes the result of the run that [`next`](Self::next) asked for.
    ///
    /// # Errors
    ///
    /// If it is the result of another run, or if none was asked for.
    pub fn record(&mut self, step: Step, measured: Measured) -> Result<(), UnexpectedStep> {
        let expected = self.next().filter(|expected| step.is(expected));
        let step = expected.ok_or(UnexpectedStep {
            number: step.number,
        })?;
        // All connections in use are the limit of the client, unless more make no difference.
        let is_short = self.pool.is_short() && measured.waited_for_connection;
        let measured = Measured {
            generator_limited: measured.generator_limited || is_short,
            ..measured
        };
        self.spent_s += cost_s(&step, &measured);
        self.records.push(Record {
            step,
            measured: measured.clone(),
        });
        self.outcome = match step.load {
            _ if measured.finding() == Finding::Lost => self.on_lost(),
            Load::ClosedLoop => self.on_ceiling(&measured),
            Load::Rate(_) if self.confirmation.is_some() => self.on_confirmation(&measured),
            Load::Rate(rate) => self.on_run(rate, &measured),
        };
        if self.outcome.is_none() && is_machine_disturbed(&self.records) {
            self.outcome = Some(self.without_machine());
        }
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
            (Some(confirmation), _) => (
                Phase::Confirm,
                Load::Rate(confirmation.rate),
                confirmation.duration_s,
            ),
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
            connections: self.pool.connections(),
        })
    }

    /// How the search ended; `None` while it goes on.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }

    /// How the search would end if the budget ended now.
    #[must_use]
    pub fn outcome_so_far(&self) -> Outcome {
        match (self.outcome, &self.confirmation) {
            (Some(outcome), _) => outcome,
            (None, Some(confirmation)) if confirmation.votes.held > 0 => {
                self.confirmed(confirmation)
            }
            (None, _) => self.without_budget(),
        }
    }

    /// All runs so far.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Time that all runs took together, in seconds.
    #[must_use]
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// The rate of the best closed loop, good responses per second.
    #[must_use]
    pub fn ceiling(&self) -> Option<f64> {
        self.pool.ceiling()
    }

    /// The curve of the share beyond the limit over the rate; `None` before there is a fit.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        match (&self.found, &self.stage) {
            (Some(found), _) => Some(found.curve),
            (None, Stage::Measure(measuring)) => measuring.fitted().map(|fitted| fitted.curve),
            _ => None,
        }
    }

    /// The range that contains the answer according to the runs so far, as if they had no noise:
    /// narrow if they agree, wide if they do not.
    #[must_use]
    pub fn range(&self) -> Range {
        let rates = |wanted| {
            let findings = self.findings();
            findings.filter(move |it| it.1 == wanted).map(|it| it.0)
        };
        let lowest_failed = rates(Finding::Failed).fold(f64::INFINITY, f64::min);
        let highest_held = rates(Finding::Held).fold(f64::NEG_INFINITY, f64::max);
        Range {
            carried: rates(Finding::Held)
                .filter(|rate| *rate < lowest_failed)
                .reduce(f64::max),
            not_carried: rates(Finding::Failed)
                .filter(|rate| *rate > highest_held)
                .reduce(f64::min),
        }
    }

    /// All runs at a fixed rate: the rate, and what the run shows about it.
    fn findings(&self) -> impl Iterator<Item = (f64, Finding)> {
        self.records
            .iter()
            .filter_map(|record| match record.step.load {
                Load::Rate(rate) => Some((rate, record.measured.finding())),
                Load::ClosedLoop => None,
            })
    }

    fn on_lost(&mut self) -> Option<Outcome> {
        let recent = self.records.iter().rev().take(LOST_MAX);
        let lost = recent.filter(|it| it.measured.finding() == Finding::Lost);
        // Otherwise the same run is made again.
        (lost.count() == LOST_MAX).then_some(Outcome::Undecided(Why::Lost))
    }

    fn on_ceiling(&mut self, measured: &Measured) -> Option<Outcome> {
        if !RATES.contains(&measured.achieved) {
            return Some(Outcome::Undecided(Why::NoResponse));
        }
        if !self.pool.record(measured.achieved) {
            let ceiling = self.pool.ceiling()?;
            self.stage = Stage::Bracket(Bracket::below(ceiling));
        }
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
                measuring.record(rate, measured, self.spent_s);
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
                let mut at_s = 0.0;
                for record in &self.records {
                    at_s += cost_s(&record.step, &record.measured);
                    if let Load::Rate(rate) = record.step.load {
                        measuring.add(rate, &record.measured, at_s);
                    }
                }
                measuring.begin_block(&mut self.random);
                self.stage = Stage::Measure(Box::new(measuring));
            }
            Direction::HoldsAtTop(rate) => self.confirm(rate),
            Direction::FailsAtFloor(_) => return Some(self.fails_everywhere(bracket.has_failed())),
        }
        None
    }

    fn follow_block(&mut self, conclusion: Conclusion) -> Option<Outcome> {
        match conclusion {
            Conclusion::AnotherBlock => self.begin_block(),
            Conclusion::Precise(fitted) => return self.answer(&fitted, None),
            Conclusion::HoldsAtTop(rate) => self.confirm(rate),
            Conclusion::FailsAtFloor(_) => return Some(self.fails_everywhere(true)),
            Conclusion::Refuted => return Some(Outcome::Undecided(self.why_refuted())),
        }
        None
    }

    /// The conditions held at no rate. It was the server if a run failed that the generator did not
    /// spoil.
    fn fails_everywhere(&self, has_failed: bool) -> Outcome {
        match self.range() {
            Range {
                carried: None,
                not_carried: Some(rate),
            } if has_failed => Outcome::NotEven { rate },
            _ if has_failed => Outcome::Undecided(self.why_refuted()),
            _ => Outcome::Undecided(Why::Generator),
        }
    }

    fn why_refuted(&self) -> Why {
        let drift = match &self.stage {
            Stage::Measure(measuring) => measuring.drift(),
            _ => None,
        };
        drift.map_or(Why::Disagree, |drift| Why::Drift {
            ln_change: drift.ln_change,
            time_s: drift.time_s,
        })
    }

    fn begin_block(&mut self) {
        if let Stage::Measure(measuring) = &mut self.stage {
            measuring.begin_block(&mut self.random);
        }
    }

    fn confirm(&mut self, rate: f64) {
        let rate = readable(rate);
        let duration_s = match &self.stage {
            Stage::Measure(measuring) => measuring.duration_s(),
            _ => self.settings.lengths.full_s(rate),
        };
        self.confirmation = Some(Confirmation {
            rate,
            duration_s,
            votes: Votes::default(),
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

    /// The rate is not carried after all. Its runs count like all others.
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
                    measuring.add(rate, &record.measured, self.spent_s);
                }
                measuring.move_to(rate);
                self.begin_block();
                None
            }
        }
    }

    fn confirmed(&self, confirmation: &Confirmation) -> Outcome {
        Outcome::AtLeast {
            rate: confirmation.rate,
            bound: self.bound(),
            confirmed: confirmation.votes,
        }
    }

    /// How the search ends when the machine is disturbed all the time: with the rate that was
    /// carried, if there is one.
    fn without_machine(&self) -> Outcome {
        let Some(rate) = self.range().carried else {
            return Outcome::Undecided(Why::Disturbed);
        };
        let mut confirmed = Votes::default();
        for (_, finding) in self.findings().filter(|(tried, _)| *tried == rate) {
            confirmed.count(finding);
        }
        Outcome::AtLeast {
            rate,
            bound: Bound::Generator,
            confirmed,
        }
    }

    fn bound(&self) -> Bound {
        let limited =
            |record: &&Record| record.is_spoiled() && matches!(record.step.load, Load::Rate(_));
        let mut limited = self.records.iter().filter(limited).peekable();
        if limited.peek().is_none() {
            return Bound::Ceiling;
        }
        match self.pool.is_short() && limited.all(|it| it.measured.waited_for_connection) {
            true => Bound::Connections,
            false => Bound::Generator,
        }
    }

    fn answer(&mut self, fitted: &Fitted, runs_needed: Option<usize>) -> Option<Outcome> {
        let outcome = self.found(fitted, runs_needed);
        self.found = Some(*fitted);
        outcome
    }

    fn found(&self, fitted: &Fitted, runs_needed: Option<usize>) -> Option<Outcome> {
        let (low, high) = fitted.interval?;
        let Stage::Measure(measuring) = &self.stage else {
            return None;
        };
        Some(Outcome::Found {
            estimate: Estimate {
                rate: fitted.root.exp(),
                low: low.exp(),
                high: high.exp(),
            },
            runs: fitted.curve.runs(),
            duration_s: measuring.duration_s(),
            runs_needed,
        })
    }

    /// The outcome if no further run is made.
    fn without_budget(&self) -> Outcome {
        if let Stage::Measure(measuring) = &self.stage
            && let Some(fitted) = measuring.fitted()
            && fitted.interval.is_some()
        {
            let needed = fitted.curve.runs_needed(self.settings.precision);
            let found = measuring
                .is_sound(&fitted)
                .then(|| self.found(&fitted, needed.or(Some(1))));
            if let Some(found) = found.flatten() {
                return found;
            }
        }
        if let why @ Why::Drift { .. } = self.why_refuted() {
            return Outcome::Undecided(why);
        }
        let is_known = |range: Range| range.carried.is_some() || range.not_carried.is_some();
        match self.range() {
            Range {
                carried: None,
                not_carried: Some(rate),
            } if self.findings().all(|(_, it)| it != Finding::Held) => Outcome::NotEven { rate },
            range if is_known(range) || self.records.len() < 2 => Outcome::Undecided(Why::Budget),
            _ if self.bound() == Bound::Generator => Outcome::Undecided(Why::Generator),
            _ => Outcome::Undecided(Why::Budget),
        }
    }
}
