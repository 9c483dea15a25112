//! One run of a search: what is asked for, and what it measured.

use std::ops::RangeInclusive;

/// The largest value of [`Reading::relative`]. A condition that failed and whose failures cannot be
/// counted has this value.
pub(crate) const RELATIVE_MAX: f64 = 100.0;

/// A run that counts lasts at least this many times the longest latency limit. At the capacity of a
/// server, a finite run overestimates the rate by about limit / duration, because the queue is
/// empty at its start.
const LIMITS_PER_RUN: f64 = 100.0;

/// The same for a short run, which only narrows the range of rates.
const LIMITS_PER_SHORT_RUN: f64 = 20.0;

/// A run of a closed loop has at least this many responses on each connection. The last requests
/// are answered when others have ended already, which is better than what the connections usually
/// get.
const RESPONSES_PER_RUN: f64 = 20.0;

/// A short run has this share of the requests of one that counts.
const SHORT_SHARE: f64 = 0.25;

/// The rates of a closed loop, in requests per second, with which a search can begin. All later
/// rates are then within those that a plan accepts, 1e-8 to 1e9.
pub(crate) const RATES: RangeInclusive<f64> = 1e-4..=5e8;

/// A run that a search or a check has planned and that its caller makes. The same value, given back
/// with what was measured, tells which run that was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedStep {
    /// Number of the run within the search, from 1.
    pub number: usize,
    /// What the run is for.
    pub phase: Phase,
    /// The load of the run.
    pub load: Load,
    /// Length of the window, in whole seconds.
    pub duration_s: f64,
    /// Connections of the run.
    pub connections: u32,
}

impl PlannedStep {
    /// The load that the run judges: a rate in requests per second, or in a search over connections
    /// their number. `None` for a closed loop that only shows what the server can do.
    #[must_use]
    pub fn judged(&self) -> Option<f64> {
        match (self.load, self.phase) {
            (Load::Rate(rate), _) => Some(rate),
            (Load::ClosedLoop, Phase::Ceiling) => None,
            (Load::ClosedLoop, _) => Some(self.connections.into()),
        }
    }

    /// Whether two steps are the same run. Rates may differ by the last digits that a file loses.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_load = match (self.load, other.load) {
            (Load::ClosedLoop, Load::ClosedLoop) => true,
            (Load::Rate(a), Load::Rate(b)) => (a - b).abs() <= 1e-9 * a,
            _ => false,
        };
        let key = |step: &Self| (step.number, step.phase, step.connections);
        same_load && key(self) == key(other)
    }
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A closed loop, which shows roughly what the server can do.
    Ceiling,
    /// A short run, which narrows the range of rates.
    Bracket,
    /// A run near the estimate, which the fit rests on.
    Measure,
    /// A run that shows whether a rate is carried.
    Confirm,
}

/// The load of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Each connection sends again as soon as it has its response.
    ClosedLoop,
    /// A fixed rate, in requests per second.
    Rate(f64),
}

/// How far a run was from the limit of one condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The share of requests beyond the limit divided by the allowed share, or metric / limit if
    /// the condition is not about a share. Above 1 the condition did not hold. A value that is
    /// negative, above 100 or not a number counts as 100.
    pub relative: f64,
    /// The weight of the run: the number of requests behind it.
    pub requests: f64,
}

impl Reading {
    /// The reading of a condition that failed and whose failures cannot be counted.
    #[must_use]
    pub fn failed(requests: f64) -> Self {
        Self {
            relative: RELATIVE_MAX,
            requests,
        }
    }

    pub(crate) fn sane(self) -> Self {
        let relative = match self.relative {
            it if it >= 0.0 => it.min(RELATIVE_MAX),
            _ => RELATIVE_MAX,
        };
        let requests = match self.requests {
            it if it.is_finite() => it.max(1.0),
            _ => 1.0,
        };
        Self { relative, requests }
    }
}

/// What a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// One reading for each condition, in the order of the conditions. Empty if the run was lost:
    /// it has no result, which says nothing about the rate.
    pub readings: Vec<Reading>,
    /// Good responses per second.
    pub achieved: f64,
    /// The load generator was the bottleneck, or moved the metrics. If conditions fail, this run
    /// says nothing about the server.
    pub generator_limited: bool,
    /// It was the state of the machine, whatever the load: the load generator was disturbed, not
    /// saturated.
    pub disturbed: bool,
    /// Requests waited for a free connection.
    pub waited_for_connection: bool,
    /// Time that the run took from the budget, in seconds, warm-up and preparations included.
    pub took_s: f64,
}

impl Measured {
    /// A run without a result.
    #[must_use]
    pub fn lost(took_s: f64) -> Self {
        Self {
            readings: Vec::new(),
            achieved: 0.0,
            generator_limited: false,
            disturbed: false,
            waited_for_connection: false,
            took_s,
        }
    }

    /// The reading of the worst condition; `None` if the run was lost.
    #[must_use]
    pub fn worst(&self) -> Option<f64> {
        let all = self.readings.iter().map(|reading| reading.sane().relative);
        all.max_by(f64::total_cmp)
    }

    pub(crate) fn finding(&self) -> Finding {
        match self.worst() {
            None => Finding::Lost,
            Some(worst) if worst <= 1.0 => Finding::Held,
            Some(_) if self.generator_limited => Finding::GeneratorLimited,
            Some(_) => Finding::Failed,
        }
    }
}

/// What a run shows about its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// All conditions held, whatever the state of the generator.
    Held,
    /// At least one condition failed because of the server.
    Failed,
    /// At least one condition failed, perhaps because of the generator.
    GeneratorLimited,
    /// There is no result.
    Lost,
}

/// A run that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The run that was asked for.
    pub step: PlannedStep,
    /// What the run measured.
    pub measured: Measured,
}

impl Record {
    /// Whether conditions failed, perhaps because of the load generator. They do not matter in a
    /// closed loop that only shows what the server can do.
    #[must_use]
    pub fn is_spoiled(&self) -> bool {
        self.step.judged().is_some() && self.measured.finding() == Finding::GeneratorLimited
    }
}

/// After this many runs in a row that a disturbance spoiled, a search or a check ends: a lower rate
/// would not help.
const SPOILED_MAX: usize = 3;

/// Whether a disturbance of the machine spoiled the last [`SPOILED_MAX`] runs.
pub(crate) fn is_machine_disturbed(records: &[Record]) -> bool {
    let recent = records.iter().rev().take(SPOILED_MAX);
    let spoiled = recent.filter(|it| it.is_spoiled() && it.measured.disturbed);
    spoiled.count() == SPOILED_MAX
}

/// How long runs are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunLengths {
    /// Least duration of a run that counts, in seconds. 6 by default.
    pub full_s: f64,
    /// Least duration of a short run, which only narrows the range of rates, in seconds. 3 by
    /// default.
    pub short_s: f64,
    /// The longest latency that a condition allows, in seconds; 0 if none is about latency.
    pub latency_limit_s: f64,
    /// The fewest requests from which the metrics can be told: 1,000 for p99.
    pub requests_min: f64,
}

impl Default for RunLengths {
    fn default() -> Self {
        Self {
            full_s: 6.0,
            short_s: 3.0,
            latency_limit_s: 0.0,
            requests_min: 1_000.0,
        }
    }
}

impl RunLengths {
    /// Duration of a run that counts, in whole seconds: the longest of [`full_s`](Self::full_s), a
    /// hundred latency limits and the time in which a random schedule has
    /// [`requests_min`](Self::requests_min) requests.
    #[must_use]
    pub fn full_s(&self, rate: f64) -> f64 {
        self.at_least(self.full_s, LIMITS_PER_RUN, rate, 1.0)
    }

    /// Duration of a short run, which only narrows the range of rates, in whole seconds: twenty
    /// latency limits and a quarter of the requests.
    #[must_use]
    pub fn short_s(&self, rate: f64) -> f64 {
        self.at_least(self.short_s, LIMITS_PER_SHORT_RUN, rate, SHORT_SHARE)
    }

    /// Duration of a run of a closed loop, in whole seconds: the time of at least
    /// [`requests_min`](Self::requests_min) requests and of twenty on each connection, in a short
    /// run of a quarter of them. It is at most `most_s`, unless the least duration is longer:
    /// requests of several runs count together.
    pub(crate) fn closed_s(
        &self,
        phase: Phase,
        connections: f64,
        per_sec: f64,
        most_s: f64,
    ) -> f64 {
        let requests = self
            .requests_expected()
            .max(RESPONSES_PER_RUN * connections);
        let (share, least_s) = match phase {
            Phase::Bracket => (SHORT_SHARE, self.short_s),
            _ => (1.0, self.full_s),
        };
        (share * requests / per_sec).min(most_s).max(least_s).ceil()
    }

    fn at_least(&self, least_s: f64, limits: f64, rate: f64, share: f64) -> f64 {
        least_s
            .max(limits * self.latency_limit_s)
            .max(share * self.requests_expected() / rate)
            .ceil()
    }

    /// The mean of a Poisson distribution that is four standard deviations above
    /// [`requests_min`](Self::requests_min): arrivals are random, and hardly any run should be a
    /// few requests short.
    fn requests_expected(&self) -> f64 {
        const DEVIATIONS: f64 = 4.0;
        let half = DEVIATIONS / 2.0;
        match self.requests_min {
            0.0 => 0.0,
            requests => (half + (half * half + requests).sqrt()).powi(2),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        positive("run length", self.full_s)?;
        positive("length of short runs", self.short_s)?;
        not_negative("latency limit", self.latency_limit_s)?;
        not_negative("number of requests", self.requests_min)
    }
}

/// A setting that is out of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the {name} is {value} (expected {expected})")]
pub struct SettingsError {
    name: &'static str,
    value: f64,
    expected: &'static str,
}

pub(crate) fn positive(name: &'static str, value: f64) -> Result<(), SettingsError> {
    require(
        value > 0.0 && value.is_finite(),
        name,
        value,
        "a positive number",
    )
}

fn not_negative(name: &'static str, value: f64) -> Result<(), SettingsError> {
    require(
        value >= 0.0 && value.is_finite(),
        name,
        value,
        "zero or a positive number",
    )
}

pub(crate) fn require(
    holds: bool,
    name: &'static str,
    value: f64,
    expected: &'static str,
) -> Result<(), SettingsError> {
    let error = SettingsError {
        name,
        value,
        expected,
    };
    if holds { Ok(()) } else { Err(error) }
}

/// The result of a run that was not asked for: it was made with other settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("run {number} is not the one that these settings lead to; start again without it")]
pub struct UnexpectedStep {
    /// Number of the run within the search, from 1.
    pub number: usize,
}

/// Time that a run takes from the budget, in seconds. A run without a result takes at least its
/// planned duration, so that a search against a dead server ends.
pub(crate) fn cost_s(step: &PlannedStep, measured: &Measured) -> f64 {
    match measured.finding() {
        Finding::Lost => measured.took_s.max(step.duration_s),
        _ if measured.took_s > 0.0 && measured.took_s.is_finite() => measured.took_s,
        _ => step.duration_s,
    }
}

/// A rate with four significant digits: as exact as the search needs, and readable. The rate must
/// be one of [`RATES`].
pub(crate) fn readable(rate: f64) -> f64 {
    let digits = 3.0 - rate.log10().floor();
    let scale = 10_f64.powf(digits);
    (rate * scale).round() / scale
}
