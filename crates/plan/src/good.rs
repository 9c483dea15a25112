//! What a good request is: the limits of its times.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units;

/// The limits that a good request meets, all of them. Written as
/// `first_token<300ms, time_per_token<50ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoodSpec {
    limits: Vec<GoodLimit>,
}

/// A limit of one of the times of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoodLimit {
    /// The time that has a limit.
    pub time: GoodTime,
    /// A good request takes less than this.
    pub below: Duration,
}

/// A time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoodTime {
    /// Until the last byte of the response.
    Latency,
    /// Until the first event with tokens.
    FirstToken,
    /// Until the first event with visible text.
    FirstText,
    /// The mean time from one token to the next. A response with fewer than two tokens meets any
    /// limit of it.
    TimePerToken,
}

/// Why a text is not a [`GoodSpec`]; one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoodError {
    /// A part of the text is not a limit.
    #[error("{0:?} is not a limit (expected like latency<200ms, first_token<300ms)")]
    Form(String),
    /// There is no such time, or it cannot be judged for each request.
    #[error(
        "{0:?} is not a time of a request (expected latency, first_token, first_text or \
         time_per_token)"
    )]
    Time(String),
    /// The limit is not a time.
    #[error(transparent)]
    Limit(#[from] units::UnitError),
    /// A time has two limits.
    #[error("{0} has two limits")]
    Twice(&'static str),
}

impl GoodTime {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Latency,
        Self::FirstToken,
        Self::FirstText,
        Self::TimePerToken,
    ];

    /// Its name, which is that of the metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::FirstToken => "first_token",
            Self::FirstText => "first_text",
            Self::TimePerToken => "time_per_token",
        }
    }

    /// Whether only the responses of a language model have it.
    #[must_use]
    pub const fn is_of_tokens(self) -> bool {
        !matches!(self, Self::Latency)
    }
}

impl GoodSpec {
    /// The limits, in the order in which they were given.
    #[must_use]
    pub fn limits(&self) -> &[GoodLimit] {
        &self.limits
    }

    /// The limit of a time, nanoseconds; `None` if it has none.
    #[must_use]
    pub fn limit_ns(&self, time: GoodTime) -> Option<u64> {
        let limit = self.limits.iter().find(|limit| limit.time == time)?;
        Some(u64::try_from(limit.below.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl FromStr for GoodSpec {
    type Err = GoodError;

    fn from_str(text: &str) -> Result<Self, GoodError> {
        let mut limits: Vec<GoodLimit> = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let form = || GoodError::Form(part.to_owned());
            let (name, limit) = part.split_once('<').ok_or_else(form)?;
            let (name, limit) = (name.trim_end(), limit.trim_start());
            let mut all = GoodTime::ALL.into_iter();
            let time = all.find(|time| time.name() == name);
            let time = time.ok_or_else(|| GoodError::Time(name.to_owned()))?;
            let below = units::parse_time(limit)?;
            if limits.iter().any(|limit| limit.time == time) {
                return Err(GoodError::Twice(time.name()));
            }
            limits.push(GoodLimit { time, below });
        }
        Ok(Self { limits })
    }
}

impl fmt::Display for GoodSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, GoodLimit { time, below }) in self.limits.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{}<{}", time.name(), units::time(*below))?;
        }
        Ok(())
    }
}

impl Serialize for GoodSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoodSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_and_written_in_the_same_form() {
        for (text, written) in [
            ("latency<200ms", "latency<200ms"),
            (
                "first_token < 1.5s,time_per_token<50ms",
                "first_token<1.5s, time_per_token<50ms",
            ),
            ("first_text<300us", "first_text<300us"),
        ] {
            let spec: GoodSpec = text.parse().expect("it is good");
            assert_eq!(spec.to_string(), written);
            assert_eq!(written.parse(), Ok(spec));
        }
    }

    #[test]
    fn what_is_not_a_limit_of_a_request_is_refused_with_what_was_expected() {
        for (text, expected) in [
            ("", "\"\" is not a limit"),
            ("latency", "\"latency\" is not a limit"),
            ("latency<200ms,", "\"\" is not a limit"),
            ("p99<200ms", "\"p99\" is not a time of a request"),
            ("latency<fast", "\"fast\""),
            ("latency<1s, latency<2s", "latency has two limits"),
        ] {
            let error = text.parse::<GoodSpec>().expect_err("it is bad").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_time_without_a_limit_has_none() {
        let spec: GoodSpec = "first_token<300ms".parse().expect("it is good");
        assert_eq!(spec.limit_ns(GoodTime::FirstToken), Some(300_000_000));
        assert_eq!(spec.limit_ns(GoodTime::Latency), None);
    }
}
