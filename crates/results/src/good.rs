//! How many requests were good.

use serde::{Deserialize, Serialize};

use crate::RunResult;

/// The requests of the window by whether they met all limits of the plan ([`plan::GoodSpec`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GoodRecording {
    /// Complete responses with a status below 400 that met all limits.
    pub good: u64,
    /// Other complete responses, failed requests, and requests that were still unanswered at the
    /// end of the window when they had already missed a limit.
    pub bad: u64,
    /// Requests without a response at the end of the window that could still have been good.
    pub undecided: u64,
}

impl GoodRecording {
    /// Requests of which it is known whether they were good.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.good.saturating_add(self.bad)
    }

    /// What was added since `earlier`, an earlier state of the same counts. Requests that were not
    /// judged are left out.
    #[must_use]
    pub fn since(&self, earlier: Self) -> Self {
        Self {
            good: self.good.saturating_sub(earlier.good),
            bad: self.bad.saturating_sub(earlier.bad),
            undecided: 0,
        }
    }

    fn merge(&mut self, more: &Self) {
        let Self {
            good,
            bad,
            undecided,
        } = more;
        self.good = self.good.saturating_add(*good);
        self.bad = self.bad.saturating_add(*bad);
        self.undecided = self.undecided.saturating_add(*undecided);
    }
}

/// Adds recordings of good requests, where a run has them.
pub(crate) fn merge(mine: &mut Option<GoodRecording>, other: Option<&GoodRecording>) {
    if let Some(other) = other {
        mine.get_or_insert_default().merge(other);
    }
}

/// Checks that each request of the window was judged once.
pub(crate) fn check(result: &RunResult) -> Result<(), String> {
    let Some(good) = &result.recording.good else {
        return Ok(());
    };
    let counters = &result.recording.counters;
    let judged = good.judged().saturating_add(good.undecided);
    let wanted = counters.sent.saturating_add(counters.unsent);
    if judged != wanted {
        return Err(format!(
            "good + bad + undecided is {judged}, but sent + unsent is {wanted}"
        ));
    }
    if good.good > counters.answered {
        return Err(format!(
            "good is {}, but answered is {}",
            good.good, counters.answered
        ));
    }
    Ok(())
}
