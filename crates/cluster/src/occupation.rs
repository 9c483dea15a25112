//! What an agent is busy with, for those who would like to use it as well.

use std::fmt;

use plan::readable::count;
use serde::{Deserialize, Serialize};

use crate::names::{Label, RunId};
use crate::session::OpenSession;

const MS: u64 = 1_000_000;

/// What an agent is busy with. The times are lengths, so no clocks are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupation {
    /// The run of a fleet, or what a host is used for.
    pub run: RunId,
    /// Who makes it and where it sends to: `laptop, http://web:80`. Empty if that is not known.
    pub title: Label,
    /// For how long it has gone on, with its preparations, milliseconds.
    pub since_ms: u64,
    /// How long it goes on until its planned end, milliseconds. `None` before its start, and if a
    /// number of requests ends it.
    pub left_ms: Option<u64>,
}

/// A run whose result an agent keeps. The times are lengths, so no clocks are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptResult {
    /// The run of a fleet.
    pub run: RunId,
    /// As [`Occupation::title`].
    pub title: Label,
    /// How long ago its load ended, milliseconds.
    pub ended_ms: u64,
    /// For how long the result is kept, milliseconds.
    pub left_ms: u64,
}

impl Occupation {
    /// A session without a known end.
    pub(crate) fn of(session: &OpenSession, now_ns: u64) -> Self {
        Self {
            run: session.run.clone(),
            title: Label::default(),
            since_ms: now_ns.saturating_sub(session.begun_ns) / MS,
            left_ms: None,
        }
    }

    /// The same with a title and a planned end, which may be over.
    pub(crate) fn until(self, title: Label, end_ns: Option<u64>, now_ns: u64) -> Self {
        Self {
            title,
            left_ms: end_ns.map(|end_ns| end_ns.saturating_sub(now_ns) / MS),
            ..self
        }
    }
}

impl fmt::Display for Occupation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_run(&self.run, &self.title, formatter)?;
        let began_s = count(self.since_ms / 1_000);
        write!(formatter, ", which began {began_s} s ago")?;
        match self.left_ms {
            None => write!(formatter, " (its end is not known)"),
            Some(0) => write!(formatter, " and should have ended"),
            Some(left_ms) => {
                let left_s = count(left_ms.div_ceil(1_000));
                write!(formatter, " and is planned to end in {left_s} s")
            }
        }
    }
}

impl fmt::Display for KeptResult {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_run(&self.run, &self.title, formatter)?;
        let [ended_s, left_s] = [self.ended_ms, self.left_ms].map(|ms| count(ms / 1_000));
        write!(
            formatter,
            ", which ended {ended_s} s ago, for {left_s} s more"
        )
    }
}

fn write_run(run: &RunId, title: &Label, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(formatter, "the run {run}")?;
    match title.as_str() {
        "" => Ok(()),
        title => write!(formatter, " ({title})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_who_uses_the_agent_since_when_and_for_how_long() {
        let told = |title: &str, left_ms| {
            let occupation = Occupation {
                run: "0af3".parse().expect("a name"),
                title: Label::new(title),
                since_ms: 1_234_999,
                left_ms,
            };
            occupation.to_string()
        };
        assert_eq!(
            told("laptop, http://web:80", Some(19_001)),
            "the run 0af3 (laptop, http://web:80), which began 1,234 s ago and is planned to end \
             in 20 s"
        );
        assert_eq!(
            told("", None),
            "the run 0af3, which began 1,234 s ago (its end is not known)"
        );
        assert_eq!(
            told("", Some(0)),
            "the run 0af3, which began 1,234 s ago and should have ended"
        );
    }

    #[test]
    fn a_kept_result_is_told_with_the_time_that_is_left_to_fetch_it() {
        let kept = KeptResult {
            run: "0af3".parse().expect("a name"),
            title: Label::new("laptop, http://web:80"),
            ended_ms: 40_700,
            left_ms: 259_300,
        };
        assert_eq!(
            kept.to_string(),
            "the run 0af3 (laptop, http://web:80), which ended 40 s ago, for 259 s more"
        );
    }
}
