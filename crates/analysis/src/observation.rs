//! One run as tables and comparisons see it, wherever it comes from.

use std::collections::{BTreeMap, BTreeSet};

use results::{HookOutput, Measured, Metric, RunResult, SearchStep, Setting, Warning};

use crate::{LoadPart, RequestSample};

/// Below this share of its fixed rate, a run has missed the rate.
const RATE_SHARE_MIN: f64 = 0.99;

/// One run: a trial of a sweep, a saved result, buffertest's JSON, or a report of wrk, wrk2 or
/// wrk-cmm.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Where it was found: the file, with the line if the file has several runs.
    pub source: String,
    /// The form in which it was saved.
    pub form: Form,
    /// Number of its cell in the plan of a sweep, from 1; `None` without a plan.
    pub cell: Option<u32>,
    /// What was run: levels of factors (`rmem_max` = `262144`), or the heading above a text.
    pub settings: Vec<Setting>,
    /// Set of load options, if known.
    pub profile: Option<String>,
    /// Name of the target, if it is known.
    pub target: Option<String>,
    /// The profile before options were appended that distinguish runs of the same name but
    /// different load; `None` if none were appended.
    pub profile_without_load: Option<String>,
    /// What a text says about the load; a saved result has its plan instead.
    pub noted_load: Vec<LoadPart>,
    /// Number of the run within its cell, from 1.
    pub run: u32,
    /// The round that the notes of the run name, from 1.
    pub round: Option<u32>,
    /// Position in the order in which the runs were made, from 1; `None` if the order is unknown.
    pub position: Option<u32>,
    /// Measured values by name, see [`results::metric`]. Unknown values are missing.
    pub values: BTreeMap<String, f64>,
    /// Names of the values that are lower bounds. Empty if there is a result, which tells it
    /// itself.
    pub lower_bounds: BTreeSet<String>,
    /// Values without what the load generator caused, by name, where the result no longer has the
    /// distributions from which they follow.
    pub without_own: BTreeMap<String, f64>,
    /// The complete result with its histograms, if there is one.
    pub result: Option<Box<RunResult>>,
    /// What a sweep recorded about the run, if it is a trial.
    pub trial: Option<Box<TrialFacts>>,
    /// Why the run failed; it is then excluded from averages.
    pub failure: Option<String>,
    /// Some of its requests, if there is a record of each.
    pub requests: Option<Box<RequestSample>>,
    /// The text or file that each part of the run's name comes from.
    pub origins: Vec<Origin>,
}

/// The form in which a run was saved, from the most complete to the least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// As a saved result or a trial of a sweep.
    #[default]
    Saved,
    /// As the object of json.lua, or a line of csv.lua.
    Object,
    /// As a report in a text.
    Text,
    /// As a row of a table.
    Table,
}

/// Where a part of a run's name comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The part: `target`, `profile`, `round`, the name of a setting, or `averaged` for the run
    /// that this one repeats.
    pub part: String,
    /// What the name has for this part, such as `x86_64`.
    pub value: String,
    /// Where it comes from: `line 17: "x86_64:"`. For `averaged`, what shows the repetition.
    pub from: String,
}

impl Origin {
    /// [`Origin::part`] of what shows that a run repeats another one.
    pub const AVERAGED: &'static str = "averaged";

    pub(crate) fn new(part: &str, value: impl Into<String>, from: impl Into<String>) -> Self {
        Self {
            part: part.to_owned(),
            value: value.into(),
            from: from.into(),
        }
    }
}

/// What a sweep recorded about a run: [`results::Trial`] without what the observation already has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrialFacts {
    /// Wall-clock start time, RFC 3339; a label.
    pub started_at: Option<String>,
    /// Number of the round in the sweep, from 1.
    pub round: u32,
    /// Whether it is a run of the baseline, which is repeated to show drift.
    pub is_baseline: bool,
    /// How long it took with all attempts, milliseconds.
    pub took_ms: Option<u64>,
    /// The step of a search that it was.
    pub search: Option<SearchStep>,
    /// Why earlier attempts failed, in order.
    pub failed_attempts: Vec<String>,
    /// The values that the kernel used, by sysctl.
    pub effective: BTreeMap<String, String>,
    /// State of the machine before the run, by name.
    pub environment_before: BTreeMap<String, String>,
    /// State of the machine after the run, by name.
    pub environment_after: BTreeMap<String, String>,
    /// Commands around the run, in the order in which they ran.
    pub hooks: Vec<HookOutput>,
}

impl Observation {
    /// Whether both runs belong to the same cell.
    #[must_use]
    pub fn is_same_cell(&self, other: &Self) -> bool {
        self.settings == other.settings
            && self.profile == other.profile
            && self.target == other.target
    }

    /// The level of a factor, if it is among the settings.
    #[must_use]
    pub fn level_of(&self, factor: &str) -> Option<&str> {
        let mut settings = self.settings.iter();
        let setting = settings.find(|setting| setting.factor == factor)?;
        Some(&setting.level)
    }

    /// Wall-clock start time, RFC 3339: of the trial, else of the result.
    #[must_use]
    pub fn started_at(&self) -> Option<&str> {
        let of_trial = self.trial.as_deref().map(|trial| &trial.started_at);
        let of_result = self
            .result
            .as_deref()
            .map(|result| &result.environment.started_at);
        let known = of_trial.into_iter().chain(of_result);
        known.flatten().next().map(String::as_str)
    }

    /// When the window began by the wall clock, milliseconds since 1970-01-01 UTC; `None` if the
    /// run's document does not say it, as that of a text.
    #[must_use]
    pub fn began_unix_ms(&self) -> Option<u64> {
        let began = self.result.as_deref()?.window.started_unix_ms;
        (began > 0).then_some(began)
    }

    /// The labels of the run and its levels of factors: names with values.
    pub fn labels_and_levels(&self) -> impl Iterator<Item = (&str, &str)> {
        let result = self.result.iter();
        let labels = result.flat_map(|result| &result.environment.labels);
        let labels = labels.map(|(name, value)| (name.as_str(), value.as_str()));
        let settings = self.settings.iter();
        labels.chain(settings.map(|setting| (setting.factor.as_str(), setting.level.as_str())))
    }

    /// The value of the label of this name, or the level of the factor.
    #[must_use]
    pub fn label_or_level(&self, name: &str) -> Option<&str> {
        let mut all = self.labels_and_levels();
        all.find(|(other, _)| *other == name)
            .map(|(_, value)| value)
    }

    /// Whether the load generator was saturated, so that the server may be faster than shown.
    /// `false` if that is unknown, as for a text.
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        let result = self.result.as_deref();
        result.is_some_and(|result| result.generator.verdict.is_saturated())
    }

    /// In a closed loop: the share of the time, 0 to 1, in which connections waited for the load
    /// generator. `None` with a rate and where it was not recorded.
    #[must_use]
    pub fn idle_share(&self) -> Option<f64> {
        let result = self.result.as_deref()?;
        let (idle_ns, all_ns) = result.connections_idle_ns();
        let is_known = !result.plan.pacing.is_open() && all_ns > 0;
        is_known.then(|| idle_ns as f64 / all_ns as f64)
    }

    /// The fixed rate of the plan, requests per second; in a replay, in which the file has the
    /// moments of requests, that of the requests that were due. `None` for a closed loop, and if it
    /// is unknown.
    #[must_use]
    pub fn fixed_rate_per_sec(&self) -> Option<f64> {
        let of_replay = || {
            let result = self.result.as_deref()?;
            let window_s = result.window.duration_ns as f64 / 1e9;
            let due = result.recording.counters.due as f64;
            result.plan.pacing.is_open().then_some(due / window_s)
        };
        let rate = self.value("rate").or_else(of_replay);
        rate.filter(|rate| *rate > 0.0)
    }

    /// Whether a run with a fixed rate fell short of it: by more than 1 % of the requests that were
    /// due, or by a growing amount.
    #[must_use]
    pub fn has_missed_rate(&self) -> bool {
        let Some(rate_per_sec) = self.fixed_rate_per_sec() else {
            return false;
        };
        let Some(result) = &self.result else {
            // Random arrivals scatter around the rate, but no text has them.
            let made = self.value(results::metric::REQUESTS_PER_SEC);
            return made.is_some_and(|made| made < rate_per_sec * RATE_SHARE_MIN);
        };
        let counters = &result.recording.counters;
        // Requests in flight at the end of the window are late only if their number keeps growing.
        let made = counters.answered.saturating_add(counters.in_flight);
        (made as f64) < counters.due as f64 * RATE_SHARE_MIN
            || result
                .warnings
                .iter()
                .any(|warning| matches!(warning.data, Warning::RateNotSustained { .. }))
    }

    /// A measured value by name: any percentile if there is a histogram, else those that the source
    /// has.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        let known = self.values.get(name).copied();
        known.or_else(|| self.of_result(name).map(|known| known.value))
    }

    /// As [`Self::value`], with what is known about the value.
    #[must_use]
    pub fn measured(&self, name: &str) -> Option<Measured> {
        let is_lower_bound = self.lower_bounds.contains(name);
        match self.values.get(name) {
            None => self.of_result(name),
            Some(value) => {
                let known = self.of_result(name).filter(|known| known.value == *value);
                known.or_else(|| Some(Measured::exact(*value).or_more(is_lower_bound)))
            }
        }
    }

    /// As [`Self::value`], without the part that the load generator caused, as far as that part is
    /// known: [`Metric::without_own`].
    #[must_use]
    pub fn value_without_own(&self, name: &str) -> Option<f64> {
        let value = self.value(name)?;
        let metric = Metric::named(name);
        let of_result = || {
            let result = self.result.as_deref()?;
            // A value that was replaced is another one than that of the result.
            let is_its_own = metric.of(result)?.value == value;
            let without_own = metric.without_own(result).filter(|_| is_its_own)?;
            Some(without_own.value)
        };
        let known = self.without_own.get(name).copied();
        Some(known.or_else(of_result).unwrap_or(value))
    }

    /// The names of the values that are lower bounds.
    #[must_use]
    pub fn bounded_values(&self) -> Vec<&str> {
        let names = self.values.keys().map(String::as_str);
        let is_bound = |name: &&str| {
            self.measured(name)
                .is_some_and(|known| known.is_lower_bound)
        };
        names.filter(is_bound).collect()
    }

    fn of_result(&self, name: &str) -> Option<Measured> {
        Metric::named(name).of(self.result.as_deref()?)
    }
}
