//! Searches of the highest rate or number of connections, and checks of a given one, as a policy: a
//! search for each cell of each round, one after the other.

use std::time::Duration;

use judging::Criterion;
use results::{
    Cell, ErrorKind, OwnShare, RunResult, SearchBound, SearchDoubt, SearchEnd, SearchOutcome,
    SearchOver, SearchPhase, SearchStep, Trial, TrialOutcome, Warning,
};
use search::{
    Bound, Check, CheckSettings, Connections, Curve, Load, Measured, Outcome, Over, Phase,
    PlannedStep, Range, Reading, RunLengths, Search, Settings, Why,
};

use super::{Left, Limit, Policy};
use crate::design::Planned;
use crate::spec::SearchSpec;

/// A server whose latency is this many times the limit without the part of the load generator,
/// which may be more than is known, has missed the limit itself.
const FAR_OFF: f64 = 2.0;

/// The share of the due requests that a server must answer, or have in flight, to carry the rate.
const DELIVERED_MIN: f64 = 0.99;
/// Delays in the generator up to this share of the shortest latency limit do not matter.
const DELAY_MAX: f64 = 0.1;
/// The longest closed loop, unless a condition is about streams, and the longest of the short runs
/// unless the conditions need more.
const CEILING_S: f64 = 2.0;
const SHORT_S: f64 = 3.0;
/// Runs get at most this many times the connections of the plan, if these limit the rate, and no
/// more than [`CONNECTIONS_MAX`] unless the plan has more: files and ports are limited.
const CONNECTIONS_FACTOR: u32 = 10;
const CONNECTIONS_MAX: u32 = 1_000;
/// The most runs of a check.
const CHECK_RUNS_MAX: usize = 15;

/// Makes a search for each of the planned trials.
pub struct Searches<'a> {
    spec: &'a SearchSpec,
    /// One for each search that has not ended.
    planned: &'a [Planned],
    seed: u64,
    /// How many connections the plan of a cell has.
    connections: Box<dyn Fn(&Cell) -> u32 + 'a>,
    now: Option<Current>,
    /// Number of trials that were made.
    made: u32,
}

enum Current {
    Search(Box<Search>),
    Check(Check),
}

impl<'a> Searches<'a> {
    /// A search for each of these, in their order. `connections` tells how many the plan of a cell
    /// has.
    #[must_use]
    pub fn new(
        spec: &'a SearchSpec,
        planned: &'a [Planned],
        seed: u64,
        connections: impl Fn(&Cell) -> u32 + 'a,
    ) -> Self {
        let mut searches = Self {
            spec,
            planned,
            seed,
            connections: Box::new(connections),
            now: None,
            made: 0,
        };
        searches.begin();
        searches
    }

    /// How many searches have not ended.
    #[must_use]
    pub fn left_over(&self) -> usize {
        self.planned.len()
    }

    fn begin(&mut self) {
        let Some(planned) = self.planned.first() else {
            self.now = None;
            return;
        };
        let lengths = self.spec.lengths();
        let first = (self.connections)(&planned.cell).max(1);
        let connections = self.spec.connections(first);
        self.now = match self.spec.rate_per_sec {
            Some(rate) => Check::new(CheckSettings {
                rate,
                lengths,
                connections,
                runs_max: CHECK_RUNS_MAX,
            })
            .map(Current::Check)
            .ok(),
            None => Search::new(Settings {
                over: match self.spec.over {
                    SearchOver::Rate => Over::Rate,
                    SearchOver::Connections => Over::Connections,
                },
                precision: self.spec.precision,
                budget_s: self.spec.budget.as_secs_f64(),
                lengths,
                connections,
                ceiling_s: self.spec.ceiling_s(),
                seed: self.seed.wrapping_add(planned.position.into()),
            })
            .map(|search| Current::Search(Box::new(search)))
            .ok(),
        };
    }

    fn step(&self) -> Option<PlannedStep> {
        match self.now.as_ref()? {
            Current::Search(search) => search.next(),
            Current::Check(check) => check.next(),
        }
    }

    /// What a trial says.
    fn measured(&self, trial: &Trial) -> Measured {
        let took_s = Duration::from_millis(trial.took_ms.unwrap_or_default()).as_secs_f64();
        let TrialOutcome::Finished(result) = &trial.outcome else {
            return Measured::lost(took_s);
        };
        let waits = |warning: &Warning| {
            matches!(
                warning,
                Warning::RateNotReached { .. } | Warning::WaitedForConnection { .. }
            )
        };
        Measured {
            readings: self.spec.readings(result),
            achieved: good_per_sec(result),
            generator_limited: self.spec.is_generator_limited(result),
            disturbed: result.generator.verdict.is_disturbed(),
            waited_for_connection: result.warnings.iter().any(|it| waits(&it.data)),
            took_s,
        }
    }
}

/// Responses per second with a status below 400. The statuses of responses to requests of the
/// warm-up are not known: if there are no others, all of them count.
fn good_per_sec(result: &RunResult) -> f64 {
    let statuses = &result.recording.statuses;
    let share = match statuses.total() {
        0 => 1.0,
        total => total.saturating_sub(statuses.over_399()) as f64 / total as f64,
    };
    result.requests_per_sec() * share
}

impl SearchSpec {
    /// How long a search takes at most; of a check, how long the usual three runs take.
    #[must_use]
    pub fn nominal_time(&self) -> Duration {
        const RUNS_OF_CHECK: u32 = 3;
        match self.rate_per_sec {
            Some(rate) => {
                Duration::from_secs_f64(self.lengths().full_s(rate)).saturating_mul(RUNS_OF_CHECK)
            }
            None => self.budget,
        }
    }

    /// How many connections runs have at first and at most, if the plan has `first`. A search over
    /// connections begins with these.
    fn connections(&self, first: u32) -> Connections {
        let most = match (self.over, self.connections_max) {
            (SearchOver::Connections, Some(most)) => most,
            (SearchOver::Connections, None) => CONNECTIONS_MAX.max(first),
            (SearchOver::Rate, _) => first
                .saturating_mul(CONNECTIONS_FACTOR)
                .min(CONNECTIONS_MAX)
                .max(first),
        };
        Connections {
            first: first.min(most),
            most,
        }
    }

    /// Length of a closed loop. Where responses can be long it lasts as long as a run: in less time
    /// hardly any of them would be complete.
    fn ceiling_s(&self) -> f64 {
        let run_s = self.run.as_secs_f64();
        let mut needs = self.slo.iter().map(|condition| condition.metric().needs());
        if needs.any(|needs| needs.is_of_long_responses()) {
            run_s
        } else {
            run_s.min(CEILING_S)
        }
    }

    /// How long runs have to be to tell about the conditions.
    #[must_use]
    pub fn lengths(&self) -> RunLengths {
        let limits_us = self.slo.iter().filter_map(|it| it.latency_limit_us());
        let percents = self.slo.iter().filter_map(|condition| {
            let (_, percent) = results::metric::percentile_of(&condition.metric().name)?;
            Some(percent)
        });
        let rarest = percents.fold(90.0_f64, f64::max).min(99.999);
        let full_s = self.run.as_secs_f64();
        RunLengths {
            full_s,
            short_s: full_s.min(SHORT_S),
            latency_limit_s: limits_us.fold(0.0, f64::max) / 1e6,
            // Ten samples above the percentile.
            requests_min: 10.0 / (1.0 - rarest / 100.0),
        }
    }

    /// Whether the load generator was the bottleneck of a run, or moved its metrics. Delays that
    /// are short compared with the limits of latencies do not matter, and neither does a busy
    /// machine that caused no long ones, or a server that misses a limit by far without them.
    #[must_use]
    pub fn is_generator_limited(&self, result: &RunResult) -> bool {
        let limits_us = self.slo.iter().filter_map(Criterion::latency_limit_us);
        let shortest_ns = limits_us.fold(f64::INFINITY, f64::min) * 1e3;
        let verdict = &result.generator.verdict;
        let moved = |share: &OwnShare| share.own_ns as f64 > DELAY_MAX * shortest_ns;
        let is_far_off = |it: &Criterion| it.is_far_off_without_own(result, FAR_OFF);
        // Without a file for each connection, it is not the server that fails.
        let lacked_files = result.recording.errors.count(ErrorKind::FileLimit).events > 0;
        lacked_files
            || verdict.is_saturated()
            || verdict.percentiles().iter().any(moved) && !self.slo.iter().any(is_far_off)
    }

    /// How far a run was from each condition. Without a condition on the latency there is one more
    /// reading: nearly all requests that were due must have been sent. A growing queue makes
    /// requests late, and no other condition would show it.
    #[must_use]
    pub fn readings(&self, result: &RunResult) -> Vec<Reading> {
        let counters = &result.recording.counters;
        let reading = |condition: &Criterion| {
            let distance = condition.relative_to_limit(result);
            Reading {
                relative: distance.relative,
                requests: distance.requests as f64,
            }
        };
        let mut readings: Vec<Reading> = self.slo.iter().map(reading).collect();
        let is_of_latency = |it: &Criterion| it.latency_limit_us().is_some();
        // Nothing is due in a closed loop.
        if self.over == SearchOver::Connections || self.slo.iter().any(is_of_latency) {
            return readings;
        }
        let due = counters.due as f64;
        let taken = counters.answered.saturating_add(counters.in_flight) as f64;
        let is_behind = result
            .warnings
            .iter()
            .any(|warning| matches!(warning.data, Warning::RateNotSustained { .. }));
        readings.push(if is_behind {
            Reading::failed(due)
        } else {
            Reading {
                relative: (1.0 - taken / due.max(1.0)).max(0.0) / (1.0 - DELIVERED_MIN),
                requests: due,
            }
        });
        readings
    }
}

impl Policy for Searches<'_> {
    fn next(&mut self) -> Option<Planned> {
        let step = self.step()?;
        let planned = self.planned.first()?;
        Some(Planned {
            position: self.made + 1,
            step: Some(match &self.now {
                Some(Current::Check(_)) => SearchStep {
                    phase: SearchPhase::Check,
                    ..saved_step(self.spec.over, &step)
                },
                _ => saved_step(self.spec.over, &step),
            }),
            ..planned.clone()
        })
    }

    fn record(&mut self, trial: &mut Trial) {
        let measured = self.measured(trial);
        let Some(step) = self.step() else { return };
        let own = trial
            .search
            .get_or_insert_with(|| saved_step(self.spec.over, &step));
        let worst = measured.worst();
        // Infinity is not in JSON.
        own.excess = worst
            .filter(|_| own.load().is_some())
            .map(|worst| worst.ln().clamp(-EXCESS_MAX, EXCESS_MAX));
        own.is_spoiled = measured.generator_limited && worst.is_some_and(|worst| worst > 1.0);
        own.outcome = match &mut self.now {
            // The step is the one that was asked for.
            Some(Current::Search(search)) => {
                let _ = search.record(step, measured);
                let Range {
                    carried,
                    not_carried,
                } = search.range();
                match own.over {
                    SearchOver::Rate => {
                        (own.carried_per_sec, own.not_carried_per_sec) = (carried, not_carried);
                    }
                    SearchOver::Connections => {
                        own.carried_connections = carried.map(whole);
                        own.not_carried_connections = not_carried.map(whole);
                    }
                }
                let last = search.records().last();
                own.is_spoiled |= last.is_some_and(|last| last.is_spoiled());
                search
                    .outcome()
                    .map(|outcome| saved(outcome, own.over, search))
            }
            Some(Current::Check(check)) => {
                let _ = check.record(step, measured);
                let is_disturbed = check.is_machine_disturbed();
                check.outcome().map(|verdict| SearchOutcome {
                    rate_per_sec: self.spec.rate_per_sec,
                    doubt: is_disturbed.then_some(SearchDoubt::Disturbed),
                    ..SearchOutcome::without_rate(match verdict {
                        search::Verdict::Carried => SearchEnd::Carried,
                        search::Verdict::NotCarried => SearchEnd::NotCarried,
                        search::Verdict::Undecided => SearchEnd::Undecided,
                    })
                })
            }
            None => None,
        };
        self.made += 1;
        if own.outcome.is_some() {
            self.planned = self.planned.get(1..).unwrap_or_default();
            self.begin();
        }
    }

    fn left(&self, nominal: &dyn Fn(&Planned) -> Duration) -> Left {
        let Some(first) = self.planned.first() else {
            return Left::default();
        };
        let run = self
            .spec
            .run
            .max(nominal(first))
            .max(Duration::from_millis(1));
        let whole = self.spec.nominal_time();
        let spent = match &self.now {
            Some(Current::Search(search)) => Duration::from_secs_f64(search.spent_s()),
            Some(Current::Check(check)) => run * u32::try_from(check.records().len()).unwrap_or(0),
            None => Duration::ZERO,
        };
        let others = u32::try_from(self.planned.len() - 1).unwrap_or(u32::MAX);
        let time = whole.saturating_sub(spent).max(run) + whole * others;
        let trials = (time.as_secs_f64() / run.as_secs_f64()).ceil() as usize;
        Left {
            trials,
            time,
            limit: Some(Limit {
                // The budget of a search is what `time` has. A check has none.
                budget: self.spec.rate_per_sec.is_none().then_some(time),
                round: run,
            }),
        }
    }
}

/// Excesses are saved within this range: a metric 10^8 times the limit tells no more than one of
/// 10^9 times.
const EXCESS_MAX: f64 = 20.0;

/// A number of connections, which a search gives as a whole number.
fn whole(connections: f64) -> u32 {
    connections.round() as u32
}

/// Points of the fit, at equal ratios of rates.
fn sampled(curve: &Curve) -> Vec<[f64; 2]> {
    const POINTS: i32 = 20;
    let (low, high) = curve.rates();
    let rate = |at: i32| low * (high / low).powf(f64::from(at) / f64::from(POINTS));
    let points = (0..=POINTS).map(rate);
    points.map(|rate| [rate, curve.excess_at(rate)]).collect()
}

fn saved_step(over: SearchOver, step: &PlannedStep) -> SearchStep {
    SearchStep {
        number: u32::try_from(step.number).unwrap_or(u32::MAX),
        phase: match step.phase {
            Phase::Ceiling => SearchPhase::Ceiling,
            Phase::Bracket => SearchPhase::Bracket,
            Phase::Measure => SearchPhase::Measure,
            Phase::Confirm => SearchPhase::Confirm,
        },
        over,
        rate_per_sec: match step.load {
            Load::ClosedLoop => None,
            Load::Rate(rate) => Some(rate),
        },
        duration_ms: Duration::from_secs_f64(step.duration_s).as_millis() as u64,
        connections: Some(step.connections),
        excess: None,
        is_spoiled: false,
        carried_per_sec: None,
        not_carried_per_sec: None,
        carried_connections: None,
        not_carried_connections: None,
        outcome: None,
    }
}

fn saved(outcome: Outcome, over: SearchOver, search: &Search) -> SearchOutcome {
    let is_rate = over == SearchOver::Rate;
    let with = |end, load: Option<f64>| SearchOutcome {
        rate_per_sec: load.filter(|_| is_rate),
        connections: load.filter(|_| !is_rate).map(whole),
        ceiling_per_sec: search.ceiling(),
        curve: search.curve().map(|it| sampled(&it)).unwrap_or_default(),
        ..SearchOutcome::without_rate(end)
    };
    match outcome {
        Outcome::Found {
            estimate,
            runs_needed,
            ..
        } => SearchOutcome {
            interval_per_sec: is_rate.then_some([estimate.low, estimate.high]),
            interval_connections: (!is_rate).then_some([whole(estimate.low), whole(estimate.high)]),
            runs_needed: runs_needed.and_then(|runs| u32::try_from(runs).ok()),
            ..with(SearchEnd::Found, Some(estimate.rate))
        },
        Outcome::AtLeast { rate, bound, .. } => SearchOutcome {
            bound: Some(match bound {
                Bound::Generator => SearchBound::Generator,
                Bound::Connections => SearchBound::Connections,
                Bound::Ceiling => SearchBound::ClosedLoop,
                Bound::Most => SearchBound::Most,
            }),
            ..with(SearchEnd::AtLeast, Some(rate))
        },
        Outcome::NotEven { rate } => with(SearchEnd::NotEven, Some(rate)),
        Outcome::Undecided(why) => SearchOutcome {
            doubt: Some(match why {
                Why::NoResponse => SearchDoubt::NoResponse,
                Why::Generator => SearchDoubt::Generator,
                Why::Disturbed => SearchDoubt::Disturbed,
                Why::Lost => SearchDoubt::Lost,
                Why::Drift {
                    ln_change,
                    interval: (low, high),
                    time_s,
                } => {
                    let percent = |ln_change: f64| ln_change.exp_m1() * 100.0;
                    SearchDoubt::Drift {
                        change_percent: percent(ln_change),
                        interval_percent: Some([percent(low), percent(high)]),
                        seconds: time_s,
                    }
                }
                Why::Budget => SearchDoubt::Budget,
            }),
            ..with(SearchEnd::Undecided, None)
        },
    }
}
