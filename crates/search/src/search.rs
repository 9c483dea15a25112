//! The search of the highest rate, or number of connections: which run comes next, and when it
//! ends.
//!
//! After each run, all of them together say how likely each rate is ([`Belief`]). The next run is
//! made where it tells most: in the middle of what is likely while that is wide, in short runs,
//! then around the limit in runs that count.

use fastrand::Rng;

use crate::belief::{Belief, Curve, Evidence};
use crate::bounds::Bounds;
use crate::change::{Change, Drift};
use crate::check::Votes;
use crate::connections::{Connections, Pool};
use crate::run::{
    Finding, Load, Measured, Phase, PlannedStep, RATES, Record, RunLengths, SettingsError,
    UnexpectedStep, cost_s, is_machine_disturbed, positive, readable, require,
};

/// What a search finds the highest value of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Over {
    /// The rate, in requests per second.
    #[default]
    Rate,
    /// The number of connections in a closed loop, each of which is a user who sends again as soon
    /// as there is a response.
    Connections,
}

/// How exact a search has to be, how long it may take, and what its runs are like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// What is searched for.
    pub over: Over,
    /// The search ends when half the width of the interval, as a share of the rate, is at most
    /// this; above 0 and below 1. 0.02 by default.
    pub precision: f64,
    /// Time that all runs may take together, in seconds. 600 by default.
    pub budget_s: f64,
    /// Duration of a closed loop in seconds, when nothing is known about the server. 2 by default.
    pub ceiling_s: f64,
    /// How many connections the runs have, and how many they get if these limit the rate. In a
    /// search over connections: the first number that is tried, and the largest.
    pub connections: Connections,
    /// How long the other runs are.
    pub lengths: RunLengths,
    /// Seed of the random order of the runs of a block.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            over: Over::Rate,
            precision: 0.02,
            budget_s: 600.0,
            ceiling_s: 2.0,
            connections: Connections::default(),
            lengths: RunLengths::default(),
            seed: 0,
        }
    }
}

/// A load and its 95 % confidence interval, in requests per second, or in whole connections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The rate at which, in the long run, all conditions are just met, or the largest number of
    /// connections at which they are.
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
    /// No more connections were allowed.
    Most,
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
    /// The server may have changed while it was measured, so no rate agrees with all runs.
    Drift {
        /// By how much the rate within the conditions changed, as ln; negative if it fell.
        ln_change: f64,
        /// The 95 % interval of that.
        interval: (f64, f64),
        /// The time over which it changed, in seconds.
        time_s: f64,
    },
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
        /// The highest rate that could be tried, requests per second; or connections.
        rate: f64,
        /// Why it is the highest.
        bound: Bound,
        /// Runs at that rate. Fewer than three if the budget ended.
        confirmed: Votes,
    },
    /// The conditions fail even at the lowest rate that was tried.
    NotEven {
        /// The lowest rate that was tried, requests per second; or connections.
        rate: f64,
    },
    /// There is no answer.
    Undecided(Why),
}

/// The range that contains the answer according to the runs so far: the 95 % interval, with an end
/// for each side that is within the rates that were tried.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Range {
    /// The lower end, requests per second or connections.
    pub carried: Option<f64>,
    /// The upper end, requests per second or connections.
    pub not_carried: Option<f64>,
}

/// A search for the highest rate, or the largest number of connections.
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
    /// The runs before this one are left out: the server has changed since.
    since: usize,
    /// What the others show; `None` before the first.
    belief: Option<Belief>,
    /// The next run, if the closed loops are done.
    plan: Option<Plan>,
    /// With how many runs a change of the server was first suspected, if it still is.
    suspected_at: Option<usize>,
    /// The rest of a block of runs around the limit, each as the share beyond the limit that is
    /// expected there, divided by the allowed one.
    block: Vec<usize>,
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone)]
enum Stage {
    /// With the bounds that contradict the closed loops before, if there are any.
    Ceiling(Option<Bounds>),
    Loads(Bounds),
}

/// A run at a rate, or with a number of connections.
#[derive(Debug, Clone, Copy)]
struct Plan {
    phase: Phase,
    rate: f64,
    duration_s: f64,
    /// How often the load generator has spoiled this run.
    spoiled: usize,
    /// Of a confirmation: its runs so far.
    votes: Votes,
}

/// The number of runs of a confirmation; more than half of them have to hold.
const CONFIRMATIONS: usize = 3;

/// After this many runs in a row without a result, the search ends.
const LOST_MAX: usize = 5;

/// [`RunLengths::requests_min`] is the number of requests of which so many are beyond the limit if
/// the share is the allowed one.
const EXPECTED_PER_RUN: f64 = 10.0;

/// Runs are short while half the interval, as ln, is more than this: they show roughly where the
/// rate is.
const FAR: f64 = 1.0;

/// While half the interval is more than this, runs are made where the rate may be; then where the
/// share has certain values.
const NEAR: f64 = 0.2;

/// The runs of a block are made at rates with these shares beyond the limit, divided by the allowed
/// one. More than the allowed share tells more in the same time, but an overloaded server little.
const BLOCK: [f64; 4] = [0.6, 1.0, 1.4, 2.0];

/// The fewest runs that count behind an interval: if it is as narrow as asked for, there is time
/// for more, which show whether the server changes meanwhile.
const RUNS_MIN: usize = 6;
const RUNS_IF_PRECISE: usize = 12;

/// A run that the load generator spoils is repeated so often before the rate counts as one that it
/// does not make: a short run, and one that counts. Another program may have disturbed some.
const SPOILED_SHORT_MAX: usize = 2;
const SPOILED_MAX: usize = 5;

/// A rate counts as the highest that can be tried if the next one is not this factor above.
const NARROW: f64 = 1.12;

/// A run has at most this many times the connections that were carried so far: nobody wants to
/// flood a server.
const STEP_MAX: f64 = 2.0;

/// A run of a search over connections takes at most this share of the budget, unless the least
/// duration is longer.
const CLOSED_LOOP_MAX: f64 = 0.05;

/// Logarithms of whole numbers are not exact.
const ROUNDING: f64 = 1e-6;

/// The rate is taken to be beyond the top, or the floor, with this probability.
const SURE: f64 = 0.9;

/// An interval that is wider than this to both sides, as ln, is no answer.
const WIDEST: f64 = 0.35;

/// A change of the server is named if it still shows after so many more runs. It is looked for
/// after each run, so chance shows one now and then, and further runs take that back.
const RUNS_TO_CONFIRM: usize = 3;

/// What was measured before a change of the server is left out if that was in this part of the
/// budget: the server warmed up, for example. Later, no rate is that of the server.
const EARLY: f64 = 0.25;

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
        let (stage, plan) = match settings.over {
            Over::Rate => (Stage::Ceiling(None), None),
            Over::Connections => {
                let bounds = Bounds::of_connections(settings.connections);
                let length_s = settings.ceiling_s.ceil();
                let connections = settings.connections.first.max(1);
                let first = Plan::run(Phase::Bracket, connections.into(), length_s);
                (Stage::Loads(bounds), Some(first))
            }
        };
        Ok(Self {
            settings,
            random: Rng::with_seed(settings.seed),
            records: Vec::new(),
            spent_s: 0.0,
            pool: Pool::new(settings.connections),
            stage,
            since: 0,
            belief: None,
            plan,
            suspected_at: None,
            block: Vec::new(),
            outcome: None,
        })
    }

    /// Takes the result of the run that [`next`](Self::next) asked for.
    ///
    /// # Errors
    ///
    /// If it is the result of another run, or if none was asked for.
    pub fn record(&mut self, step: PlannedStep, measured: Measured) -> Result<(), UnexpectedStep> {
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
        let finding = measured.finding();
        self.records.push(Record {
            step,
            measured: measured.clone(),
        });
        self.outcome = match step.phase {
            _ if finding == Finding::Lost => self.on_lost(),
            Phase::Ceiling => self.on_ceiling(&measured),
            _ => self.on_run(finding),
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
    pub fn next(&self) -> Option<PlannedStep> {
        if self.outcome.is_some() {
            return None;
        }
        let mut connections = self.pool.connections();
        let (phase, load, duration_s) = match (&self.stage, &self.plan) {
            (Stage::Ceiling(_), _) => (
                Phase::Ceiling,
                Load::ClosedLoop,
                self.settings.ceiling_s.ceil(),
            ),
            (Stage::Loads(_), plan) => {
                let plan = plan.as_ref()?;
                let load = match self.settings.over {
                    Over::Rate => Load::Rate(plan.rate),
                    Over::Connections => {
                        connections = plan.rate as u32;
                        Load::ClosedLoop
                    }
                };
                (plan.phase, load, plan.duration_s)
            }
        };
        Some(PlannedStep {
            number: self.records.len() + 1,
            phase,
            load,
            duration_s,
            connections,
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
        match (self.outcome, &self.plan) {
            (Some(outcome), _) => outcome,
            (None, Some(plan)) if plan.votes.held > 0 => self.confirmed(plan),
            (None, _) => self.without_budget(),
        }
    }

    /// All runs so far.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// How many of the first runs are left out, because the server changed after them.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.since
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

    /// The curve of the share beyond the limit over the rate; `None` before it means something.
    #[must_use]
    pub fn curve(&self) -> Option<Curve> {
        let belief = self.belief.filter(|it| it.half_width() <= WIDEST)?;
        Some(Curve::of(&belief))
    }

    /// The range that contains the answer according to the runs so far.
    #[must_use]
    pub fn range(&self) -> Range {
        let Some(belief) = &self.belief else {
            return Range::default();
        };
        let tried = || self.evidence().map(|run| run.ln_rate);
        let lowest = tried().fold(f64::INFINITY, f64::min);
        let highest = tried().fold(f64::NEG_INFINITY, f64::max);
        Range {
            carried: Some(belief.low)
                .filter(|it| *it >= lowest)
                .map(|ln| self.reported(ln)),
            not_carried: Some(belief.high).filter(|it| *it <= highest).map(|ln| {
                match self.settings.over {
                    Over::Rate => ln.exp(),
                    Over::Connections => (ln.exp() - ROUNDING).ceil(),
                }
            }),
        }
    }

    /// What the runs at a rate show, except those that the generator spoiled, whether the
    /// conditions held in them or not. Otherwise only the better ones of them would count.
    fn evidence(&self) -> impl Iterator<Item = Evidence> {
        let per_request = EXPECTED_PER_RUN / self.settings.lengths.requests_min.max(1.0);
        let mut at_s = 0.0;
        let timed = self.records.iter().map(move |record| {
            at_s += cost_s(&record.step, &record.measured);
            (at_s, record)
        });
        let counted = timed.skip(self.since);
        counted.filter_map(move |(at_s, record)| match record.step.judged() {
            Some(rate) if !record.measured.generator_limited => {
                let readings = record.measured.readings.iter().map(|it| it.sane());
                let worst = readings.max_by(|a, b| a.relative.total_cmp(&b.relative))?;
                Some(Evidence {
                    ln_rate: rate.ln(),
                    relative: worst.relative,
                    expected: worst.requests * per_request,
                    at_s,
                })
            }
            _ => None,
        })
    }

    /// The runs at a rate that count: the rate, and what the run shows about it.
    fn findings(&self) -> impl Iterator<Item = (f64, Finding)> {
        let counted = self.records.iter().skip(self.since);
        counted.filter_map(|record| Some((record.step.judged()?, record.measured.finding())))
    }

    /// The highest rate that was carried, and the lowest that was not, as if runs had no noise.
    fn carried(&self) -> Option<f64> {
        let held = self.findings().filter(|it| it.1 == Finding::Held);
        held.map(|it| it.0).reduce(f64::max)
    }

    fn not_carried(&self) -> Option<f64> {
        let failed = self.findings().filter(|it| it.1 == Finding::Failed);
        failed.map(|it| it.0).reduce(f64::min)
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
        if self.pool.record(measured.achieved) {
            return None;
        }
        let ceiling = self.pool.ceiling()?;
        let Stage::Ceiling(contradicting) = self.stage else {
            return None;
        };
        self.stage = Stage::Loads(match contradicting {
            None => Bounds::below(ceiling),
            Some(mut bounds) => {
                bounds.raise(ceiling);
                bounds
            }
        });
        self.proceed()
    }

    fn on_run(&mut self, finding: Finding) -> Option<Outcome> {
        let (Stage::Loads(bounds), Some(plan)) = (&mut self.stage, &mut self.plan) else {
            return None;
        };
        if plan.phase == Phase::Confirm {
            plan.votes.count(finding);
            let (votes, plan) = (plan.votes, *plan);
            if votes.runs() - votes.held <= CONFIRMATIONS / 2 {
                return (votes.runs() == CONFIRMATIONS).then(|| self.confirmed(&plan));
            }
        } else if finding == Finding::GeneratorLimited {
            plan.spoiled += 1;
            let most = match plan.phase {
                Phase::Bracket => SPOILED_SHORT_MAX,
                _ => SPOILED_MAX,
            };
            if plan.spoiled < most {
                // The same run is made again.
                return None;
            }
            bounds.limit(plan.rate);
        }
        self.proceed()
    }

    /// Judges all runs, then ends or plans the next one.
    fn proceed(&mut self) -> Option<Outcome> {
        let Stage::Loads(bounds) = self.stage else {
            return None;
        };
        self.plan = None;
        let mut evidence: Vec<Evidence> = self.evidence().collect();
        let change =
            Change::of(&evidence).filter(|change| !self.left_out_before(change, &mut evidence));
        let prior = bounds.prior();
        self.belief = (!evidence.is_empty()).then(|| Belief::of(&evidence, &prior));
        let Some(belief) = self.belief else {
            return self.without_evidence(&bounds);
        };
        let changed = change
            .map(|it| it.why(self.spent_s))
            .or_else(|| Drift::of(&evidence, &belief).map(|it| it.why()));
        if let Some(why) = self.confirmed_change(changed, evidence.len()) {
            return Some(Outcome::Undecided(why));
        }
        if self
            .carried()
            .is_some_and(|rate| bounds.is_contradicted_by(rate))
        {
            self.pool.repeat();
            self.stage = Stage::Ceiling(Some(bounds));
            return None;
        }
        if self.is_precise(&belief)
            && self.is_enough(&belief, RUNS_IF_PRECISE)
            && self.suspected_at.is_none()
        {
            return self.found(&belief, None);
        }
        if belief.above_top > SURE || self.is_beyond_generator(&belief, &bounds) {
            self.at_top(&bounds);
            return None;
        }
        if belief.below_floor > SURE {
            match self.settings.over {
                Over::Rate => return Some(self.fails_everywhere()),
                Over::Connections if self.not_carried() <= Some(bounds.floor()) => {
                    return Some(self.fails_everywhere());
                }
                // One connection is tried before it is said not to be carried.
                Over::Connections => {
                    self.plan = Some(self.short(bounds.floor()));
                    return None;
                }
            }
        }
        self.plan = Some(self.run_near(&belief, &bounds));
        None
    }

    /// Leaves out the runs before a change, from the search and from its evidence; false if the
    /// change was too late, or not the first.
    fn left_out_before(&mut self, change: &Change, evidence: &mut Vec<Evidence>) -> bool {
        let changed_s = evidence.get(change.at).map_or(0.0, |run| run.at_s);
        if changed_s > EARLY * self.settings.budget_s || self.since > 0 {
            return false;
        }
        self.leave_out(change.at);
        evidence.drain(..change.at);
        self.suspected_at = None;
        true
    }

    /// The change that these runs show, if enough of them were made since it was first suspected.
    fn confirmed_change(&mut self, changed: Option<Why>, runs: usize) -> Option<Why> {
        if changed.is_none() {
            self.suspected_at = None;
        }
        changed.filter(|_| {
            let suspected_at = *self.suspected_at.get_or_insert(runs);
            runs >= suspected_at + RUNS_TO_CONFIRM
        })
    }

    /// Whether the rate may be one that the load generator does not make, and a rate just below
    /// what it makes was carried.
    fn is_beyond_generator(&self, belief: &Belief, bounds: &Bounds) -> bool {
        let below = self.carried().filter(|it| *it <= bounds.top());
        let is_near = below.is_some_and(|it| self.is_next(it, bounds.top()));
        bounds.is_generator_limited() && is_near && belief.high >= bounds.top().ln()
    }

    /// The run that tells most.
    fn run_near(&mut self, belief: &Belief, bounds: &Bounds) -> Plan {
        let is_far = belief.half_width() > FAR;
        if let Some(plan) = is_far.then(|| self.run_between()).flatten() {
            return plan;
        }
        if is_far {
            return self.short(self.possible(belief.median.exp(), bounds));
        }
        let place = self.place();
        let ln_rate = if belief.half_width() > NEAR {
            belief.quantiles[place]
        } else {
            belief.median + BLOCK[place].ln() / belief.slope
        };
        let rate = match self.settings.over {
            Over::Rate => ln_rate.exp(),
            // Both numbers around the limit are tried, even if one of them is much closer.
            Over::Connections if place < BLOCK.len() / 2 => ln_rate.exp().floor(),
            Over::Connections => ln_rate.exp().ceil(),
        };
        self.full(Phase::Measure, self.possible(rate, bounds))
    }

    /// In a search over connections: a run between the largest number that was carried and the
    /// smallest that was not, or with one of the two if there is none between them. `None` if the
    /// runs disagree.
    fn run_between(&mut self) -> Option<Plan> {
        if self.settings.over == Over::Rate {
            return None;
        }
        let (carried, not_carried) = (self.carried()?, self.not_carried()?);
        if not_carried - carried > 1.0 {
            let middle = (carried * not_carried).sqrt();
            let most = not_carried - 1.0;
            return Some(self.short(middle.clamp(carried + 1.0, most)));
        }
        (carried < not_carried).then(|| {
            let is_low = self.place() < BLOCK.len() / 2;
            self.full(Phase::Measure, if is_low { carried } else { not_carried })
        })
    }

    /// The next run of a block, as an index of [`BLOCK`].
    fn place(&mut self) -> usize {
        if self.block.is_empty() {
            // The order is random, so that what a run leaves behind does not look like an effect
            // of the rate.
            self.block = vec![0, 1, 2, 3];
            self.random.shuffle(&mut self.block);
        }
        self.block.pop().unwrap_or(1)
    }

    /// A run that narrows the range down.
    fn short(&self, rate: f64) -> Plan {
        let length_s = match self.settings.over {
            Over::Rate => self.settings.lengths.short_s(rate),
            Over::Connections => self.closed_s(Phase::Bracket, rate),
        };
        Plan::run(Phase::Bracket, self.rounded(rate), length_s)
    }

    /// A run that counts.
    fn full(&self, phase: Phase, rate: f64) -> Plan {
        let length_s = match self.settings.over {
            Over::Rate => self.settings.lengths.full_s(rate),
            Over::Connections => self.closed_s(phase, rate),
        };
        Plan::run(phase, self.rounded(rate), length_s)
    }

    /// The rate, or a whole number of connections.
    fn rounded(&self, rate: f64) -> f64 {
        match self.settings.over {
            Over::Rate => readable(rate),
            Over::Connections => rate.round().max(1.0),
        }
    }

    /// How long a run with so many connections is, by what the run with the closest number of them
    /// made: the server answers at least that much per second, or per second and connection.
    fn closed_s(&self, phase: Phase, connections: f64) -> f64 {
        let runs = self.records.iter().filter_map(|record| {
            let tried = record.step.judged()?;
            let per_sec = record.measured.achieved * (connections / tried).min(1.0);
            (per_sec > 0.0).then_some(((connections / tried).ln().abs(), per_sec))
        });
        let closest = runs.min_by(|a, b| a.0.total_cmp(&b.0));
        let (lengths, most_s) = (
            self.settings.lengths,
            self.settings.budget_s * CLOSED_LOOP_MAX,
        );
        match closest {
            None => lengths.full_s.ceil(),
            Some((_, per_sec)) => lengths.closed_s(phase, connections, per_sec, most_s),
        }
    }

    /// Whether no load between the two, of which one was carried, is worth a run.
    fn is_next(&self, carried: f64, top: f64) -> bool {
        let is_adjacent = self.settings.over == Over::Connections && top - carried <= 1.0;
        is_adjacent || top / carried <= NARROW
    }

    /// What a search says about a load on a logarithmic axis: of a number of connections between
    /// two, the lower one is carried.
    fn reported(&self, ln_rate: f64) -> f64 {
        match self.settings.over {
            Over::Rate => ln_rate.exp(),
            Over::Connections => (ln_rate.exp() + ROUNDING).floor(),
        }
    }

    /// The upper end of an interval, at which the conditions fail.
    fn reported_high(&self, ln_rate: f64) -> f64 {
        match self.settings.over {
            Over::Rate => ln_rate.exp(),
            Over::Connections => (ln_rate.exp() - ROUNDING).floor(),
        }
    }

    /// Whether the interval is as narrow as asked for. One of two neighboring numbers of
    /// connections is as exact as it gets.
    fn is_precise(&self, belief: &Belief) -> bool {
        let width = self.reported_high(belief.high) - self.reported(belief.low);
        let is_adjacent = self.settings.over == Over::Connections && width <= 1.0;
        is_adjacent || belief.half_width() <= self.settings.precision
    }

    /// This rate, or the highest one that can be tried.
    fn possible(&self, rate: f64, bounds: &Bounds) -> f64 {
        let rate = match self.settings.over {
            Over::Rate => rate,
            Over::Connections => {
                let known = self.carried().unwrap_or_else(|| bounds.first());
                let most = known.max(bounds.floor()) * STEP_MAX;
                rate.clamp(bounds.floor(), most).round()
            }
        };
        if rate < bounds.top() {
            return rate;
        }
        match (bounds.is_generator_limited(), self.carried()) {
            (false, _) => bounds.top(),
            (true, Some(carried)) if carried < bounds.top() => (carried * bounds.top()).sqrt(),
            (true, _) => bounds.top() / 2.0,
        }
    }

    /// No run at a rate counts so far. Those that the generator delayed, and in which the
    /// conditions held nevertheless, lead to the rate that it makes.
    fn without_evidence(&mut self, bounds: &Bounds) -> Option<Outcome> {
        if self.carried().is_some() {
            self.at_top(bounds);
            return None;
        }
        let rate = bounds.first();
        if rate < bounds.floor() {
            return Some(Outcome::Undecided(Why::Generator));
        }
        self.plan = Some(self.short(rate));
        None
    }

    /// The rate is above the top: tries the top, or confirms that it is carried.
    fn at_top(&mut self, bounds: &Bounds) {
        let below = self.carried().filter(|it| *it <= bounds.top());
        let is_tried = below.is_some_and(|it| self.is_next(it, bounds.top()));
        let rate = match below.filter(|_| is_tried) {
            Some(carried) if bounds.is_generator_limited() => carried,
            Some(_) => bounds.top(),
            None => self.possible(bounds.top(), bounds),
        };
        self.plan = Some(if is_tried {
            self.full(Phase::Confirm, rate)
        } else {
            self.short(rate)
        });
    }

    /// The conditions held at no rate. It was the server if a run failed that the generator did not
    /// spoil.
    fn fails_everywhere(&self) -> Outcome {
        match self.not_carried() {
            Some(rate) => Outcome::NotEven { rate },
            None => Outcome::Undecided(Why::Generator),
        }
    }

    /// Whether there are enough runs near the rate for an interval.
    fn is_enough(&self, belief: &Belief, least: usize) -> bool {
        if self.settings.over == Over::Connections && belief.median < 0.0 {
            // Rather none than one: no number is an estimate.
            return false;
        }
        let counted = self.records.iter().skip(self.since);
        let near = counted.filter(|record| {
            record.step.phase == Phase::Measure && !record.measured.generator_limited
        });
        near.count() >= least && belief.above_top < SURE && belief.below_floor < SURE
    }

    /// Leaves out everything up to this number of runs at a rate that count.
    fn leave_out(&mut self, runs: usize) {
        let counts =
            |record: &Record| record.step.judged().is_some() && !record.measured.generator_limited;
        let counted = self.records.iter().enumerate();
        let mut counted = counted.filter(|(_, record)| counts(record)).map(|it| it.0);
        self.since = counted.nth(runs).unwrap_or(self.since);
    }

    fn confirmed(&self, confirmation: &Plan) -> Outcome {
        Outcome::AtLeast {
            rate: confirmation.rate,
            bound: self.bound(),
            confirmed: confirmation.votes,
        }
    }

    /// How the search ends when the machine is disturbed all the time: with the rate that was
    /// carried, if there is one.
    fn without_machine(&self) -> Outcome {
        let Some(rate) = self.carried() else {
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
        let limited = self.records.iter().filter(|record| record.is_spoiled());
        let mut limited = limited.peekable();
        if limited.peek().is_none() {
            return match self.settings.over {
                Over::Rate => Bound::Ceiling,
                Over::Connections => Bound::Most,
            };
        }
        if self.pool.is_short() && limited.all(|it| it.measured.waited_for_connection) {
            Bound::Connections
        } else {
            Bound::Generator
        }
    }

    fn found(&self, belief: &Belief, runs_needed: Option<usize>) -> Option<Outcome> {
        let counted = self.records.iter().skip(self.since);
        let measured = counted.filter(|it| it.step.phase == Phase::Measure);
        let lengths = measured.clone().map(|it| it.step.duration_s);
        Some(Outcome::Found {
            estimate: Estimate {
                rate: self.reported(belief.median),
                low: self.reported(belief.low),
                high: self
                    .reported_high(belief.high)
                    .max(self.reported(belief.low)),
            },
            runs: measured.count(),
            duration_s: lengths.fold(0.0, f64::max),
            runs_needed,
        })
    }

    /// The outcome if no further run is made.
    fn without_budget(&self) -> Outcome {
        if let Some(belief) = self.belief.filter(|it| it.half_width() <= WIDEST)
            && self.is_enough(&belief, RUNS_MIN)
            && let Some(found) = self.found(&belief, self.runs_needed(&belief))
        {
            return found;
        }
        match (self.carried(), self.not_carried()) {
            (None, Some(rate)) => Outcome::NotEven { rate },
            (None, None) if self.records.len() > 1 && self.bound() == Bound::Generator => {
                Outcome::Undecided(Why::Generator)
            }
            _ => Outcome::Undecided(Why::Budget),
        }
    }

    /// About how many more runs it takes until half the interval is the precision: the width falls
    /// with the square root of the number of runs. `None` if an interval of connections is as
    /// narrow as it gets.
    fn runs_needed(&self, belief: &Belief) -> Option<usize> {
        let precision = match self.settings.over {
            Over::Rate => self.settings.precision,
            Over::Connections if self.is_precise(belief) => return None,
            // Half of one connection.
            Over::Connections => self.settings.precision.max(0.5 / belief.median.exp()),
        };
        let runs = self.evidence().count() as f64;
        let ratio = belief.half_width() / precision;
        Some((runs * (ratio * ratio - 1.0)).ceil().max(1.0) as usize)
    }
}

impl Plan {
    fn run(phase: Phase, rate: f64, duration_s: f64) -> Self {
        Self {
            phase,
            rate,
            duration_s,
            spoiled: 0,
            votes: Votes::default(),
        }
    }
}
