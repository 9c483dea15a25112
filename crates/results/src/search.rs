//! What is saved of a search for the highest rate, or number of connections: the step that a trial
//! was, and the outcome.

use serde::{Deserialize, Serialize};

use crate::metric::{MAX_CONNECTIONS, MAX_RATE};

/// What a search finds the highest value of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchOver {
    /// The rate.
    #[default]
    Rate,
    /// The number of connections of a closed loop.
    Connections,
}

impl SearchOver {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Rate, Self::Connections];

    /// The name in options and experiment files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Connections => "connections",
        }
    }

    /// The metric that a search has.
    #[must_use]
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Rate => MAX_RATE,
            Self::Connections => MAX_CONNECTIONS,
        }
    }

    fn is_rate(&self) -> bool {
        *self == Self::Rate
    }
}

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
    /// What the search finds the highest value of; absent for the rate.
    #[serde(default, skip_serializing_if = "SearchOver::is_rate")]
    pub over: SearchOver,
    /// Requests per second; absent for a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_sec: Option<f64>,
    /// Length of the window, milliseconds.
    pub duration_ms: u64,
    /// Connections of the run; absent in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// For the worst condition, the natural logarithm of the share of requests beyond the limit
    /// divided by the allowed share, or of metric / limit if the condition is not about a share.
    /// Above zero the conditions were not kept. Absent for a closed loop, and for a run without a
    /// result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<f64>,
    /// The conditions were not kept, and this may have been the load generator: the run says
    /// nothing about the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_spoiled: bool,
    /// After this run: the highest rate that was carried and below which none failed, requests per
    /// second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_per_sec: Option<f64>,
    /// After this run: the lowest rate that was not carried and above which none was, requests per
    /// second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_carried_per_sec: Option<f64>,
    /// In a search over connections, as `carried_per_sec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried_connections: Option<u32>,
    /// In a search over connections, as `not_carried_per_sec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_carried_connections: Option<u32>,
    /// What the search has found; only in its last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<SearchOutcome>,
}

impl SearchStep {
    /// The load that the run judges: requests per second, or connections. `None` for a closed loop
    /// that only shows what the server can do.
    #[must_use]
    pub fn load(&self) -> Option<f64> {
        match self.over {
            SearchOver::Rate => self.rate_per_sec,
            SearchOver::Connections => self.connections.map(f64::from),
        }
    }

    /// After this run: the highest load that was carried, and the lowest that was not.
    #[must_use]
    pub fn range(&self) -> (Option<f64>, Option<f64>) {
        match self.over {
            SearchOver::Rate => (self.carried_per_sec, self.not_carried_per_sec),
            SearchOver::Connections => (
                self.carried_connections.map(f64::from),
                self.not_carried_connections.map(f64::from),
            ),
        }
    }
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    /// There is a rate with an interval that agrees with all runs.
    Found,
    /// There is no answer.
    Undecided,
    /// The highest rate that could be tried is carried.
    AtLeast,
    /// The conditions are not kept at the lowest rate that was tried.
    NotEven,
    /// A given rate is carried.
    Carried,
    /// A given rate is not carried.
    NotCarried,
}

/// Why no higher rate could be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchBound {
    /// The load generator could not make more.
    Generator,
    /// All connections that a run may have were in use.
    Connections,
    /// It is well above what the closed loop makes.
    ClosedLoop,
    /// No more connections were allowed.
    Most,
}

/// Why a search has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SearchDoubt {
    /// The closed loop had no good response.
    NoResponse,
    /// The load generator spoiled every run in which the conditions were not kept.
    Generator,
    /// The load generator was disturbed, and the conditions were not kept, in several runs in a
    /// row: this machine broke the limits, at any rate.
    Disturbed,
    /// Several runs in a row had no result.
    Lost,
    /// The server may have changed while it was measured.
    Drift {
        /// By how much the rate within the conditions changed, percent; negative if it fell.
        change_percent: f64,
        /// The 95 % interval of that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interval_percent: Option<[f64; 2]>,
        /// In how many seconds.
        seconds: f64,
    },
    /// The time of the search was over before there was an answer.
    Budget,
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SearchOutcome {
    /// How the search ended; this says what `rate_per_sec` is.
    pub end: SearchEnd,
    /// The estimate, the bound, or the given rate, requests per second; absent if a search is
    /// undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_sec: Option<f64>,
    /// The 95 % interval of the estimate, requests per second; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_per_sec: Option<[f64; 2]>,
    /// In a search over connections, in place of `rate_per_sec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// In a search over connections, in place of `interval_per_sec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_connections: Option<[u32; 2]>,
    /// Why no higher rate could be tried, if the end is `at_least`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<SearchBound>,
    /// Why there is no answer, if the end is `undecided`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<SearchDoubt>,
    /// The good responses of the best closed loop, per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling_per_sec: Option<f64>,
    /// The fit: rates, requests per second, or connections, each with the excess there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<[f64; 2]>,
    /// About how many more runs the asked precision would take; absent if it was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_needed: Option<u32>,
}

impl SearchOutcome {
    /// An end without a rate and without anything else.
    #[must_use]
    pub fn without_rate(end: SearchEnd) -> Self {
        Self {
            end,
            rate_per_sec: None,
            interval_per_sec: None,
            connections: None,
            interval_connections: None,
            bound: None,
            doubt: None,
            ceiling_per_sec: None,
            curve: Vec::new(),
            runs_needed: None,
        }
    }

    /// The estimate, the bound, or the given rate: requests per second, or connections.
    #[must_use]
    pub fn load(&self) -> Option<f64> {
        self.rate_per_sec
            .or_else(|| self.connections.map(f64::from))
    }

    /// The 95 % interval of the estimate: requests per second, or connections.
    #[must_use]
    pub fn interval(&self) -> Option<[f64; 2]> {
        let connections = self.interval_connections;
        self.interval_per_sec
            .or_else(|| connections.map(|ends| ends.map(f64::from)))
    }

    /// The load that a search has shown to be carried, requests per second or connections: the
    /// estimate, or what is carried at least. `None` for a check, and if nothing was shown.
    #[must_use]
    pub fn max_load(&self) -> Option<f64> {
        let is_shown = matches!(self.end, SearchEnd::Found | SearchEnd::AtLeast);
        self.load().filter(|_| is_shown)
    }

    /// Whether a search has found at least this load, in requests per second or connections: `None`
    /// if it has not shown that, nor the contrary.
    #[must_use]
    pub fn reaches(&self, least: f64) -> Option<bool> {
        match (self.end, self.interval(), self.load()) {
            (SearchEnd::Found, Some([low, _]), _) if low >= least => Some(true),
            (SearchEnd::Found, Some([_, high]), _) if high < least => Some(false),
            (SearchEnd::AtLeast, _, Some(load)) if load >= least => Some(true),
            (SearchEnd::NotEven, _, Some(load)) if load <= least => Some(false),
            _ => None,
        }
    }
}
