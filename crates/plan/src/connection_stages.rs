//! A number of connections that changes during a run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{InvalidValue, MAX_CONNECTIONS, saved, units};

/// A part of a run in which the number of connections is constant or changes linearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConnectionStage {
    /// Connections at the start.
    pub from_connections: u32,
    /// Connections at the end; equal to `from_connections` for a constant number.
    pub to_connections: u32,
    /// Length of the stage.
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    #[serde(rename = "duration_ns", with = "saved::duration_ns")]
    pub duration: Duration,
}

impl ConnectionStage {
    /// Reads the form of `--stages` with numbers of connections: `10:30s,10-200:1m`.
    ///
    /// # Errors
    /// If it has another form, or a number is not whole or too large.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, InvalidValue> {
        let stages = units::parse_stages(text).map_err(InvalidValue::new)?;
        let whole = |number: f64| {
            let is_count = number.fract() == 0.0 && number <= f64::from(MAX_CONNECTIONS);
            is_count.then_some(number as u32).ok_or_else(|| {
                format!("{number} is not a number of connections (expected 0 to {MAX_CONNECTIONS})")
            })
        };
        let stage = |stage: &crate::Stage| {
            Ok(Self {
                from_connections: whole(stage.from_per_sec)?,
                to_connections: whole(stage.to_per_sec)?,
                duration: stage.duration,
            })
        };
        stages.iter().map(stage).collect()
    }

    /// Several stages in the form of [`Self::parse_list`].
    #[must_use]
    pub fn list(stages: &[Self]) -> String {
        let words: Vec<String> = stages.iter().map(Self::to_string).collect();
        words.join(",")
    }

    /// The largest number in these stages.
    #[must_use]
    pub fn most(stages: &[Self]) -> u32 {
        let numbers = stages
            .iter()
            .map(|stage| stage.from_connections.max(stage.to_connections));
        numbers.max().unwrap_or_default()
    }

    /// The number of connections at a time after the start of the first stage. The number at the
    /// end of the last one continues.
    #[must_use]
    pub fn at(stages: &[Self], at: Duration) -> u32 {
        let mut begin = Duration::ZERO;
        for stage in stages {
            let inside = at.saturating_sub(begin);
            if inside < stage.duration {
                let share = inside.as_secs_f64() / stage.duration.as_secs_f64();
                let (from, to) = (
                    f64::from(stage.from_connections),
                    f64::from(stage.to_connections),
                );
                return (to - from).mul_add(share, from).round() as u32;
            }
            begin = begin.saturating_add(stage.duration);
        }
        stages.last().map_or(0, |stage| stage.to_connections)
    }
}

/// The form of [`ConnectionStage::parse_list`].
impl fmt::Display for ConnectionStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from_connections: from,
            to_connections: to,
            duration,
        } = self;
        write!(f, "{from}")?;
        if from != to {
            write!(f, "-{to}")?;
        }
        write!(f, ":{}", units::time(*duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_connections_follow_the_stages() {
        let stages = ConnectionStage::parse_list("2:10s,2-12:10s,0:5s").expect("it is a list");
        assert_eq!(ConnectionStage::list(&stages), "2:10s,2-12:10s,0:5s");
        assert_eq!(ConnectionStage::most(&stages), 12);
        for (at_s, expected) in [(0, 2), (9, 2), (10, 2), (15, 7), (19, 11), (20, 0), (99, 0)] {
            let found = ConnectionStage::at(&stages, Duration::from_secs(at_s));
            assert_eq!(found, expected, "{at_s} s");
        }
    }

    #[test]
    fn only_whole_numbers_are_numbers_of_connections() {
        for text in ["", "1.5:1s", "10", "1-20m:1s", "x:1s"] {
            assert!(ConnectionStage::parse_list(text).is_err(), "{text}");
        }
    }
}
