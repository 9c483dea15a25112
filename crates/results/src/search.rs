//! What is saved of a search for the highest rate: the step that a trial was, and the outcome.

use serde::{Deserialize, Serialize};

/// What a step of a search is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchPhase {
    /// A closed loop, which shows the most that the server answers.
    Ceiling,
    /// Short runs that narrow the range down.
    Bracket,
    /// Runs near the estimate, which the fit rests on.
    Measure,
    /// Runs at the lower end of the interval.
    Confirm,
    /// Runs at a given rate: whether the server carries it.
    Check,
}

/// One run of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SearchStep {
    /// Number within the search, from 1.
    pub number: u32,
    /// What it is for.
    pub phase: SearchPhase,
    /// Requests per second; absent for a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_sec: Option<f64>,
    /// Length of the window, milliseconds.
    pub duration_ms: u64,
    /// Natural logarithm of metric / limit, for the worst condition; above zero the conditions were
    /// not kept. Absent for a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<f64>,
    /// What the search has found; only in its last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<SearchOutcome>,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    /// The interval is as narrow as asked for.
    Found,
    /// The budget ended it before.
    Undecided,
    /// The load generator was the limit, or the server carries as much as in a closed loop.
    AtLeast,
    /// The conditions are not kept at the lowest rate that was tried.
    NotEven,
    /// A given rate is carried.
    Carried,
    /// A given rate is not carried.
    NotCarried,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SearchOutcome {
    /// How it ended.
    pub end: SearchEnd,
    /// The estimate, the bound, or the given rate, requests per second.
    pub rate_per_sec: f64,
    /// The 95 % interval of the estimate, requests per second; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_per_sec: Option<[f64; 2]>,
    /// The answered rate of the closed loop, requests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_per_sec: Option<f64>,
    /// The fit: rates, requests per second, each with the excess of a typical run there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<[f64; 2]>,
    /// About how many more runs the asked precision would take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_needed: Option<u32>,
}
