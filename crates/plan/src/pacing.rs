//! When requests are due.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{saved, units};

/// The lowest rate, about one request in three years: due times then fit into a clock's range.
pub const MIN_RATE_PER_SEC: f64 = 1e-8;

/// The highest rate: one request per nanosecond.
pub const MAX_RATE_PER_SEC: f64 = 1e9;

/// The slowest replay: a log of a day takes a century.
pub const MIN_SPEED: f64 = 1e-5;
/// The fastest replay: a log of a day takes a tenth of a second.
pub const MAX_SPEED: f64 = 1e6;

/// The largest number of stages. The schedule searches them for every request.
pub const MAX_STAGES: usize = 1000;

/// When requests are due.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Pacing {
    /// Closed loop: a connection sends its next request when the previous one is answered.
    #[default]
    Closed,
    /// Open loop at a fixed rate, regardless of response times.
    Constant {
        /// Requests per second over all threads, [`MIN_RATE_PER_SEC`]..=[`MAX_RATE_PER_SEC`].
        rate_per_sec: f64,
        /// How the requests are distributed over time.
        arrivals: Arrivals,
        /// Seed of random arrivals; even ones do not use it.
        seed: u64,
    },
    /// Open loop with a rate that changes. The stages start with the window. The warm-up has the
    /// initial rate of the first stage; after the last stage its final rate continues.
    Stages {
        /// The stages in their order, at least one.
        stages: Vec<Stage>,
        /// How the requests are distributed over time.
        arrivals: Arrivals,
        /// Seed of random arrivals; even ones do not use it.
        seed: u64,
    },
    /// Open loop with the moments of a log, which is the plan's request file
    /// ([`RequestFile::log`](crate::RequestFile)). The first request is due at the start of the
    /// window.
    Recorded {
        /// How many times as fast as in the log; above 0.
        speed: f64,
    },
}

/// How the requests of a rate are distributed over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances from each other.
    #[default]
    Even,
    /// At exponentially distributed distances (a Poisson process), like independent clients.
    Poisson,
}

/// A part of the run in which the rate is constant or changes linearly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stage {
    /// Requests per second at the start.
    pub from_per_sec: f64,
    /// Requests per second at the end; equal to `from_per_sec` for a constant rate.
    pub to_per_sec: f64,
    /// Length of the stage.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    #[serde(rename = "duration_ns", with = "saved::duration_ns")]
    pub duration: Duration,
}

impl Stage {
    /// Whether no request is due in this stage.
    #[must_use]
    pub fn is_pause(&self) -> bool {
        self.from_per_sec == 0.0 && self.to_per_sec == 0.0
    }

    /// Several stages in the form of `--stages`: `1000:30s,1000-5000:1m`.
    #[must_use]
    pub fn list(stages: &[Self]) -> String {
        let words: Vec<String> = stages.iter().map(Self::to_string).collect();
        words.join(",")
    }
}

/// The form of `--stages`: `1000:30s`, or `1000-5000:1m` for a ramp.
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
    /// Whether requests are due by a schedule, regardless of responses.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Closed)
    }

    /// How the requests of the rate are distributed; `None` without a rate.
    #[must_use]
    pub fn arrivals(&self) -> Option<Arrivals> {
        match self {
            Self::Closed | Self::Recorded { .. } => None,
            Self::Constant { arrivals, .. } | Self::Stages { arrivals, .. } => Some(*arrivals),
        }
    }

    /// The seed, also of even arrivals, which do not use it; `None` without a rate.
    #[must_use]
    pub fn seed_mut(&mut self) -> Option<&mut u64> {
        match self {
            Self::Closed | Self::Recorded { .. } => None,
            Self::Constant { seed, .. } | Self::Stages { seed, .. } => Some(seed),
        }
    }

    /// The seed, if the arrivals are random.
    #[must_use]
    pub fn random_seed(&self) -> Option<u64> {
        match self {
            Self::Constant { arrivals, seed, .. } | Self::Stages { arrivals, seed, .. } => {
                (*arrivals == Arrivals::Poisson).then_some(*seed)
            }
            Self::Closed | Self::Recorded { .. } => None,
        }
    }
}
