//! When requests are due.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{InvalidValue, saved, units};

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

/// The burstiest arrivals: a cluster of about a hundred requests, then a pause of about a hundred
/// mean distances. Below, most runs would be one cluster or none.
pub const MIN_SHAPE: f64 = 0.01;
/// The most even random arrivals: distances vary by 3 %, about as much as the jitter of a busy load
/// generator.
pub const MAX_SHAPE: f64 = 1000.0;

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
    /// Users have the conversations of the plan's request file, one after the other. There are as
    /// many users as there may be requests in flight. A request is due when its user has read the
    /// answer before it and thought.
    Users,
    /// Open loop with the moments of the plan's request file: a log
    /// ([`RequestFile::log`](crate::RequestFile)), or a file whose requests have the key `at`. The
    /// first request is due at the start of the window.
    Recorded {
        /// How many times as fast as in the file; above 0.
        speed: f64,
    },
}

/// How the requests of a rate are distributed over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances from each other.
    #[default]
    Even,
    /// At exponentially distributed distances (a Poisson process), like independent clients.
    Poisson,
    /// At gamma-distributed distances, which are independent of each other: in bursts if the shape
    /// is below 1, and more evenly than a Poisson process if it is above.
    Gamma {
        /// Shape of the distribution, [`MIN_SHAPE`]..=[`MAX_SHAPE`]. The coefficient of variation
        /// of the distances is `1 / sqrt(shape)`; 1 is a Poisson process.
        shape: f64,
    },
}

impl Arrivals {
    /// The shape of the gamma distribution of the distances: 1 for a Poisson process. `None` if
    /// requests arrive evenly.
    #[must_use]
    pub fn shape(self) -> Option<f64> {
        match self {
            Self::Even => None,
            Self::Poisson => Some(1.0),
            Self::Gamma { shape } => Some(shape),
        }
    }

    /// Whether a seed decides them.
    #[must_use]
    pub fn is_random(self) -> bool {
        self.shape().is_some()
    }

    /// Reads the form of `--arrivals`: `even`, `poisson`, or `gamma:SHAPE`.
    ///
    /// # Errors
    /// What is expected, if it is neither of them or the shape is out of range.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "even" => return Ok(Self::Even),
            "poisson" => return Ok(Self::Poisson),
            _ => {}
        }
        let shape = text.strip_prefix("gamma:");
        let shape = shape.and_then(|number| number.parse::<f64>().ok());
        let in_range = shape.filter(|shape| (MIN_SHAPE..=MAX_SHAPE).contains(shape));
        let problem = || {
            format!(
                "{text:?} is not a way to arrive (expected even, poisson, or gamma:SHAPE with a \
                 shape from {MIN_SHAPE} to {MAX_SHAPE}, like gamma:0.5)"
            )
        };
        in_range
            .map(|shape| Self::Gamma { shape })
            .ok_or_else(|| problem().into())
    }
}

/// The form of `--arrivals`.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even => f.write_str("even"),
            Self::Poisson => f.write_str("poisson"),
            Self::Gamma { shape } => write!(f, "gamma:{shape}"),
        }
    }
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
    /// Whether each request has a moment at which it is due, from which its latency counts.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Closed)
    }

    /// How many times as fast as in its file requests are replayed; `None` if they are not.
    #[must_use]
    pub fn speed(&self) -> Option<f64> {
        match self {
            Self::Recorded { speed } => Some(*speed),
            Self::Closed | Self::Users | Self::Constant { .. } | Self::Stages { .. } => None,
        }
    }

    /// The rate with which a run begins, per second; `None` without a rate.
    #[must_use]
    pub fn first_per_sec(&self) -> Option<f64> {
        let per_sec = match self {
            Self::Constant { rate_per_sec, .. } => Some(*rate_per_sec),
            Self::Stages { stages, .. } => stages.first().map(|stage| stage.from_per_sec),
            Self::Closed | Self::Users | Self::Recorded { .. } => None,
        };
        per_sec.filter(|per_sec| *per_sec > 0.0)
    }

    /// How the requests of the rate are distributed; `None` without a rate.
    #[must_use]
    pub fn arrivals(&self) -> Option<Arrivals> {
        match self {
            Self::Closed | Self::Users | Self::Recorded { .. } => None,
            Self::Constant { arrivals, .. } | Self::Stages { arrivals, .. } => Some(*arrivals),
        }
    }

    /// The seed, also of even arrivals, which do not use it; `None` without a rate.
    #[must_use]
    pub fn seed_mut(&mut self) -> Option<&mut u64> {
        match self {
            Self::Closed | Self::Users | Self::Recorded { .. } => None,
            Self::Constant { seed, .. } | Self::Stages { seed, .. } => Some(seed),
        }
    }

    /// The seed, if the arrivals are random.
    #[must_use]
    pub fn random_seed(&self) -> Option<u64> {
        match self {
            Self::Constant { arrivals, seed, .. } | Self::Stages { arrivals, seed, .. } => {
                arrivals.is_random().then_some(*seed)
            }
            Self::Closed | Self::Users | Self::Recorded { .. } => None,
        }
    }

    /// Whether a schedule says in advance when requests are due, or when conversations begin.
    #[must_use]
    pub fn is_scheduled(&self) -> bool {
        !matches!(self, Self::Closed | Self::Users)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_read_as_they_are_shown() {
        for text in ["even", "poisson", "gamma:0.01", "gamma:0.5", "gamma:1000"] {
            let arrivals = Arrivals::parse(text).expect(text);
            assert_eq!(arrivals.to_string(), text);
            assert_eq!(arrivals.is_random(), text != "even", "{text}");
        }
        assert_eq!(
            Arrivals::parse("gamma:1e-1"),
            Ok(Arrivals::Gamma { shape: 0.1 })
        );
    }

    #[test]
    fn other_arrivals_are_refused_with_what_is_expected() {
        for text in [
            "",
            "Poisson",
            "gamma",
            "gamma:",
            "gamma:x",
            "gamma:0",
            "gamma:-1",
            "gamma:0.009",
            "gamma:1001",
            "gamma:inf",
            "gamma:nan",
            "gamma:1,2",
            " even",
        ] {
            let error = Arrivals::parse(text).expect_err(text).to_string();
            assert!(error.contains("a shape from 0.01 to 1000"), "{error}");
        }
    }

    /// The form in which results were saved before there were other arrivals than these.
    #[test]
    fn arrivals_without_a_shape_are_saved_as_their_name() {
        for (arrivals, text) in [
            (Arrivals::Even, "\"even\""),
            (Arrivals::Poisson, "\"poisson\""),
            (
                Arrivals::Gamma { shape: 0.5 },
                "{\"gamma\":{\"shape\":0.5}}",
            ),
        ] {
            assert_eq!(serde_json::to_string(&arrivals).expect("JSON"), text);
            let read: Arrivals = serde_json::from_str(text).expect(text);
            assert_eq!(read, arrivals);
        }
    }
}
