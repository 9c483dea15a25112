//! When requests are due.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{saved, units};

/// The lowest rate: about one request in three years, so that a schedule stays within a clock's range.
pub const MIN_RATE_PER_SEC: f64 = 1e-8;

/// The highest rate: one request in each nanosecond.
pub const MAX_RATE_PER_SEC: f64 = 1e9;

/// More stages than anyone types; each is looked at whenever the schedule is asked.
pub const MAX_STAGES: usize = 1000;

/// The declared shape of the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Pacing {
    /// Closed loop: a connection sends its next request when the one before is answered.
    #[default]
    Closed,
    /// Open loop: requests are due at one rate, whatever the server does.
    Constant {
        /// Requests per second over all threads, [`MIN_RATE_PER_SEC`]..=[`MAX_RATE_PER_SEC`].
        rate_per_sec: f64,
        /// How they are spread.
        arrivals: Arrivals,
        /// Of the random arrivals; even ones do not use it.
        seed: u64,
    },
    /// Open loop with a rate that changes. Stages begin with the window; during warm-up the rate is
    /// the first one of the first stage, after the last stage it is the last one.
    Stages {
        /// At least one.
        stages: Vec<Stage>,
        /// How the requests are spread.
        arrivals: Arrivals,
        /// Of the random arrivals; even ones do not use it.
        seed: u64,
    },
}

/// How the requests of a rate are spread over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Equal distances.
    #[default]
    Even,
    /// Exponentially distributed distances (a Poisson process), as independent clients make them.
    Poisson,
}

/// A part of the run in which the rate is constant or changes linearly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Requests per second at its begin.
    pub from_per_sec: f64,
    /// Requests per second at its end; the same as at the begin for a step.
    pub to_per_sec: f64,
    /// How long it lasts.
    #[serde(rename = "duration_ns", with = "saved::duration_ns")]
    pub duration: Duration,
}

impl Stage {
    /// Whether nothing is due in it.
    #[must_use]
    pub fn is_pause(&self) -> bool {
        self.from_per_sec == 0.0 && self.to_per_sec == 0.0
    }

    /// Several, as `--stages` takes them: `1000:30s,1000-5000:1m`.
    #[must_use]
    pub fn list(stages: &[Self]) -> String {
        let words: Vec<String> = stages.iter().map(Self::to_string).collect();
        words.join(",")
    }
}

/// As `--stages` takes one: `1000:30s`, or `1000-5000:1m` of a rate that changes.
impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from_per_sec,
            to_per_sec,
            duration,
        } = self;
        write!(f, "{from_per_sec}")?;
        if from_per_sec != to_per_sec {
            write!(f, "-{to_per_sec}")?;
        }
        write!(f, ":{}", units::time(*duration))
    }
}

impl Pacing {
    /// Whether requests are due by a schedule, not by answers.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Closed)
    }

    /// The seed, if the arrivals are random.
    #[must_use]
    pub fn random_seed(&self) -> Option<u64> {
        match self {
            Self::Constant { arrivals, seed, .. } | Self::Stages { arrivals, seed, .. } => {
                (*arrivals == Arrivals::Poisson).then_some(*seed)
            }
            Self::Closed => None,
        }
    }
}
