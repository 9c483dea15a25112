//! Searches of the highest rate, and checks of a given one, as a policy: a search for each cell of
//! each round, one after the other.

use std::time::Duration;

use judging::Criterion;
use results::{
    OwnShare, RunResult, SearchEnd, SearchOutcome, SearchPhase, SearchStep, Trial, TrialOutcome,
    Warning,
};
use search::{
    Check, CheckSettings, Curve, Load, Measured, Outcome, Phase, RunLengths, Search, Settings, Step,
};

use super::{Left, Policy};
use crate::design::Planned;
use crate::spec::SearchSpec;

/// Below this share of the requests that were due, the server did not take the rate.
const DELIVERED_MIN: f64 = 0.99;
/// Delays in the generator up to this share of the shortest latency limit do not matter.
const DELAY_MAX: f64 = 0.1;
/// The longest closed loop, and the longest of the short runs unless the conditions need more.
const CEILING_S: f64 = 5.0;
const SHORT_S: f64 = 3.0;
/// The most runs of a check.
const CHECK_RUNS_MAX: usize = 15;

/// Makes a search for each of the planned trials.
pub struct Searches<'a> {
    spec: &'a SearchSpec,
    /// One for each search that has not ended.
    planned: &'a [Planned],
    seed: u64,
    now: Option<Current>,
    /// Trials so far.
    made: u32,
}

enum Current {
    Search(Box<Search>),
    Check(Check),
}

impl<'a> Searches<'a> {
    /// A search for each of these, in their order.
    #[must_use]
    pub fn new(spec: &'a SearchSpec, planned: &'a [Planned], seed: u64) -> Self {
        let mut searches = Self {
            spec,
            planned,
            seed,
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
        self.now = match self.spec.rate_per_sec {
            Some(rate) => Check::new(CheckSettings {
                rate,
                lengths,
                runs_max: CHECK_RUNS_MAX,
            })
            .map(Current::Check)
            .ok(),
            None => Search::new(Settings {
                precision: self.spec.precision,
                budget_s: self.spec.budget.as_secs_f64(),
                lengths,
                ceiling_s: self.spec.run.as_secs_f64().min(CEILING_S),
                seed: self.seed.wrapping_add(planned.position.into()),
            })
            .map(|search| Current::Search(Box::new(search)))
            .ok(),
        };
    }

    fn step(&self) -> Option<Step> {
        match self.now.as_ref()? {
            Current::Search(search) => search.next(),
            Current::Check(check) => check.next(),
        }
    }

    /// What a trial says.
    fn measured(&self, trial: &Trial) -> Measured {
        let took_s = Duration::from_millis(trial.took_ms.unwrap_or_default()).as_secs_f64();
        let TrialOutcome::Finished(result) = &trial.outcome else {
            return Measured::failed(took_s);
        };
        Measured {
            excess: self.spec.excess(result),
            achieved: result.requests_per_sec(),
            generator_limited: self.spec.is_generator_limited(result),
            took_s,
        }
    }
}

impl SearchSpec {
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
    /// machine that caused no long ones.
    #[must_use]
    pub fn is_generator_limited(&self, result: &RunResult) -> bool {
        let limits_us = self.slo.iter().filter_map(Criterion::latency_limit_us);
        let shortest_ns = limits_us.fold(f64::INFINITY, f64::min) * 1e3;
        let verdict = &result.generator.verdict;
        let moved = |share: &OwnShare| share.own_ns as f64 > DELAY_MAX * shortest_ns;
        verdict.is_saturated() || verdict.percentiles().iter().any(moved)
    }

    /// How far a run is from the condition that is exceeded most. A rate that was not delivered
    /// exceeds everything.
    #[must_use]
    pub fn excess(&self, result: &RunResult) -> f64 {
        let counters = &result.recording.counters;
        let taken = counters.answered.saturating_add(counters.in_flight);
        let is_behind = result
            .warnings
            .iter()
            .any(|warning| matches!(warning.data, Warning::RateNotSustained { .. }));
        if is_behind || (taken as f64) < counters.due as f64 * DELIVERED_MIN {
            return f64::INFINITY;
        }
        let excesses = self.slo.iter().map(|condition| condition.excess(result));
        excesses.fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Policy for Searches<'_> {
    fn next(&mut self) -> Option<Planned> {
        let step = self.step()?;
        let planned = self.planned.first()?;
        let number = u32::try_from(step.number).unwrap_or(u32::MAX);
        Some(Planned {
            position: self.made + 1,
            step: Some(SearchStep {
                number,
                phase: match (&self.now, step.phase) {
                    (Some(Current::Check(_)), _) => SearchPhase::Check,
                    (_, Phase::Ceiling) => SearchPhase::Ceiling,
                    (_, Phase::Bracket) => SearchPhase::Bracket,
                    (_, Phase::Measure) => SearchPhase::Measure,
                    (_, Phase::Confirm) => SearchPhase::Confirm,
                },
                rate_per_sec: match step.load {
                    Load::ClosedLoop => None,
                    Load::Rate(rate) => Some(rate),
                },
                duration_ms: Duration::from_secs_f64(step.duration_s).as_millis() as u64,
                excess: None,
                outcome: None,
            }),
            ..planned.clone()
        })
    }

    fn record(&mut self, trial: &mut Trial) {
        let measured = self.measured(trial);
        let Some(step) = self.step() else { return };
        let outcome = match &mut self.now {
            // The step is the one that was asked for.
            Some(Current::Search(search)) => {
                let _ = search.record(step, measured);
                let ceiling = search
                    .records()
                    .first()
                    .map(|first| first.measured.achieved);
                let curve = search
                    .curve()
                    .map(|curve| sampled(&curve))
                    .unwrap_or_default();
                let outcome = search.outcome().map(|outcome| saved(outcome, ceiling));
                outcome.map(|outcome| SearchOutcome { curve, ..outcome })
            }
            Some(Current::Check(check)) => {
                let _ = check.record(step, measured);
                let rate_per_sec = self.spec.rate_per_sec.unwrap_or_default();
                check.outcome().map(|verdict| SearchOutcome {
                    end: match verdict {
                        search::Verdict::Carried => SearchEnd::Carried,
                        search::Verdict::NotCarried => SearchEnd::NotCarried,
                        search::Verdict::Undecided => SearchEnd::Undecided,
                    },
                    rate_per_sec,
                    interval_per_sec: None,
                    ceiling_per_sec: None,
                    curve: Vec::new(),
                    runs_needed: None,
                })
            }
            None => None,
        };
        self.made += 1;
        let is_over = outcome.is_some();
        if let Some(own) = &mut trial.search {
            let is_closed_loop = own.rate_per_sec.is_none();
            // Infinity is not in JSON.
            own.excess = (!is_closed_loop).then(|| measured.excess.clamp(-EXCESS_MAX, EXCESS_MAX));
            own.outcome = outcome;
        }
        if is_over {
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
        let whole = match self.spec.rate_per_sec {
            // Three runs are usual.
            Some(_) => run * 3,
            None => self.spec.budget,
        };
        let spent = match &self.now {
            Some(Current::Search(search)) => Duration::from_secs_f64(search.spent_s()),
            Some(Current::Check(check)) => run * u32::try_from(check.records().len()).unwrap_or(0),
            None => Duration::ZERO,
        };
        let others = u32::try_from(self.planned.len() - 1).unwrap_or(u32::MAX);
        let time = whole.saturating_sub(spent).max(run) + whole * others;
        Left {
            trials: (time.as_secs_f64() / run.as_secs_f64()).ceil() as usize,
            time,
        }
    }
}

/// Excesses are saved within this range: a metric 10^8 times the limit says no more than one of
/// 10^9 times.
const EXCESS_MAX: f64 = 20.0;

/// Points of the fit, at equal ratios of rates.
fn sampled(curve: &Curve) -> Vec<[f64; 2]> {
    const POINTS: i32 = 20;
    let (low, high) = curve.rates();
    let rate = |at: i32| low * (high / low).powf(f64::from(at) / f64::from(POINTS));
    let points = (0..=POINTS).map(rate);
    points.map(|rate| [rate, curve.excess_at(rate)]).collect()
}

fn saved(outcome: Outcome, ceiling: Option<f64>) -> SearchOutcome {
    let with = |end, rate_per_sec| SearchOutcome {
        end,
        rate_per_sec,
        interval_per_sec: None,
        ceiling_per_sec: ceiling,
        curve: Vec::new(),
        runs_needed: None,
    };
    match outcome {
        Outcome::Found { estimate, .. } => SearchOutcome {
            interval_per_sec: Some([estimate.low, estimate.high]),
            ..with(SearchEnd::Found, estimate.rate)
        },
        Outcome::AtLeast { rate, .. } => with(SearchEnd::AtLeast, rate),
        Outcome::NotEven { rate } => with(SearchEnd::NotEven, rate),
        Outcome::NoResponse => with(SearchEnd::NotEven, 0.0),
        Outcome::Undecided {
            estimate,
            carried,
            not_carried,
            runs_needed,
            ..
        } => SearchOutcome {
            interval_per_sec: estimate
                .map(|it| [it.low, it.high])
                .or_else(|| Some([carried?, not_carried?])),
            runs_needed: runs_needed.and_then(|runs| u32::try_from(runs).ok()),
            ..with(
                SearchEnd::Undecided,
                estimate.map(|it| it.rate).or(carried).unwrap_or_default(),
            )
        },
    }
}
