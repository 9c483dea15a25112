//! One run as tables and comparisons see it, wherever it came from.

use std::collections::BTreeMap;

use results::{HookOutput, Metric, RunResult, Setting, Warning};

use crate::LoadPart;

/// Below this share of a fixed rate the rate was missed.
const RATE_SHARE_MIN: f64 = 0.99;

/// One run: of a sweep, a saved result, buffertest's JSON, or the text that wrk, wrk2 and wrk-cmm
/// print.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Where it was found: the file, with the line for one of several in it.
    pub source: String,
    /// How it was kept.
    pub form: Form,
    /// Number of its cell in the plan of a sweep, from 1; `None` where there is no plan.
    pub cell: Option<u32>,
    /// What it was a run of: levels of factors (`rmem_max` = `262144`), or the heading above a
    /// text.
    pub settings: Vec<Setting>,
    /// Set of load options, if one is known.
    pub profile: Option<String>,
    /// Target, if one is known.
    pub target: Option<String>,
    /// The profile as it was before options were added that tell runs of the same name but of
    /// another load apart; `None` if there were none to add.
    pub profile_without_load: Option<String>,
    /// What a text says of the load; a saved result has its plan instead.
    pub noted_load: Vec<LoadPart>,
    /// Number of the run within its cell, from 1.
    pub run: u32,
    /// The round that the run's notes say it is of, from 1.
    pub round: Option<u32>,
    /// Place in the order in which the runs were made, from 1; `None` if the order is not known.
    pub position: Option<u32>,
    /// What was measured, by name: see [`results::metric`]. What is not known is not there.
    pub values: BTreeMap<String, f64>,
    /// The whole result with its histograms, where there is one.
    pub result: Option<Box<RunResult>>,
    /// What a sweep wrote down around the run, if it is one of a sweep.
    pub trial: Option<Box<TrialFacts>>,
    /// Why there is nothing to average: the run failed.
    pub failure: Option<String>,
    /// Which text or file said what about the name of the run, and what was left aside.
    pub origins: Vec<Origin>,
}

/// How a run was kept, from what says most of it to what says least.
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
    /// The part: `target`, `profile`, `round`, the name of a setting; `ignored` for what names
    /// nothing.
    pub part: String,
    /// What it is called; why it was, for what was ignored.
    pub value: String,
    /// What said so: `line 17: "x86_64:"`.
    pub from: String,
}

impl Origin {
    /// [`Origin::part`] of text that names nothing.
    pub const IGNORED: &'static str = "ignored";

    pub(crate) fn new(part: &str, value: impl Into<String>, from: impl Into<String>) -> Self {
        Self {
            part: part.to_owned(),
            value: value.into(),
            from: from.into(),
        }
    }
}

/// What a sweep wrote down around a run: [`results::Trial`] without what the observation has
/// already.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrialFacts {
    /// Wall-clock begin, RFC 3339; a label.
    pub started_at: Option<String>,
    /// Round, from 1.
    pub round: u32,
    /// The cell that is repeated so that drift shows.
    pub is_baseline: bool,
    /// Why earlier attempts failed, in their order.
    pub failed_attempts: Vec<String>,
    /// What the kernel really took, by sysctl.
    pub effective: BTreeMap<String, String>,
    /// The machine before the run, by name.
    pub environment_before: BTreeMap<String, String>,
    /// The same after it.
    pub environment_after: BTreeMap<String, String>,
    /// Commands around it, in the order they ran.
    pub hooks: Vec<HookOutput>,
}

impl Observation {
    /// Whether the other is a run of the same thing.
    #[must_use]
    pub fn is_same_cell(&self, other: &Self) -> bool {
        self.settings == other.settings
            && self.profile == other.profile
            && self.target == other.target
    }

    /// Wall-clock begin, RFC 3339: that of its trial, else of its result.
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

    /// Whether the load generator was the limit, so that the server could have done more than the
    /// run says. `false` where that is not known, as of a text.
    #[must_use]
    pub fn is_saturated(&self) -> bool {
        let result = self.result.as_deref();
        result.is_some_and(|result| result.generator.verdict.is_saturated())
    }

    /// The rate at which the plan had requests sent, per second; `None` of a closed loop, and where
    /// it is not known.
    #[must_use]
    pub fn fixed_rate_per_sec(&self) -> Option<f64> {
        self.value("rate").filter(|rate| *rate > 0.0)
    }

    /// Whether a run with a fixed rate fell short of it: by more than 1 % of what was due, or by
    /// more and more.
    #[must_use]
    pub fn has_missed_rate(&self) -> bool {
        let Some(rate_per_sec) = self.fixed_rate_per_sec() else {
            return false;
        };
        let Some(result) = &self.result else {
            // Random arrivals scatter around the rate, but no text has any.
            let made = self.value(results::metric::REQUESTS_PER_SEC);
            return made.is_some_and(|made| made < rate_per_sec * RATE_SHARE_MIN);
        };
        let counters = &result.recording.counters;
        // What is in flight when the window ends is late only if there is more and more of it.
        let made = counters.answered.saturating_add(counters.in_flight);
        (made as f64) < counters.due as f64 * RATE_SHARE_MIN
            || result
                .warnings
                .iter()
                .any(|warning| matches!(warning.data, Warning::RateNotSustained { .. }))
    }

    /// What was measured, by name: of any percentile where there is a histogram, else of those that
    /// the source named.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        let known = self.values.get(name).copied();
        known.or_else(|| Metric::named(name).of(self.result.as_deref()?))
    }
}
