//! How many requests were good.

mod metrics;
mod view;

use serde::{Deserialize, Serialize};

use super::{Measurement, PartView};
use crate::counters::is_zero;
use crate::{Contradiction, Histogram, RunResult};

/// The requests of the window by whether they met all limits of the plan ([`plan::GoodSpec`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GoodRecording {
    /// Complete responses with a status below 400 that met all limits.
    pub good: u64,
    /// Other complete responses, failed requests, and requests that were still unanswered at the
    /// end when they had already missed a limit.
    pub bad: u64,
    /// Requests without a response at the end that could still have been good.
    pub undecided: u64,
    /// Those of `good` that are streams without the usual end marker. If another stream of the run
    /// has it, they were cut off and are bad ([`crate::Recording::good_requests`]).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_end: u64,
    /// Good responses that were complete within the window, also those to requests of the warm-up:
    /// what good requests per second counts. `None` in results of versions that did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Those of `ended` that are also `without_end`, or would be.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ended_without_end: u64,
}

impl GoodRecording {
    /// Requests of which it is known whether they were good.
    #[must_use]
    pub fn judged(&self) -> u64 {
        self.good.saturating_add(self.bad)
    }

    /// Good responses within the window, those to requests of the warm-up included.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.ended.unwrap_or(self.good)
    }

    /// A response that met all limits is complete. `is_in_window` says whether its request was due
    /// in the window, `has_ended_in_it` whether the response was complete in it.
    pub fn add_good(&mut self, is_in_window: bool, has_ended_in_it: bool, is_without_end: bool) {
        self.good += u64::from(is_in_window);
        self.without_end += u64::from(is_in_window && is_without_end);
        *self.ended.get_or_insert(0) += u64::from(has_ended_in_it);
        self.ended_without_end += u64::from(has_ended_in_it && is_without_end);
    }

    /// The counts if streams without the end marker were cut off.
    pub(crate) fn with_cut_off(self) -> Self {
        Self {
            good: self.good.saturating_sub(self.without_end),
            bad: self.bad.saturating_add(self.without_end),
            without_end: 0,
            ended: self
                .ended
                .map(|ended| ended.saturating_sub(self.ended_without_end)),
            ended_without_end: 0,
            ..self
        }
    }
}

impl Measurement for GoodRecording {
    fn merge(&mut self, more: &Self) {
        let Self {
            good,
            bad,
            undecided,
            without_end,
            ended,
            ended_without_end,
        } = more;
        for (mine, theirs) in [
            (&mut self.good, good),
            (&mut self.bad, bad),
            (&mut self.undecided, undecided),
            (&mut self.without_end, without_end),
            (&mut self.ended_without_end, ended_without_end),
        ] {
            *mine = mine.saturating_add(*theirs);
        }
        if let Some(ended) = ended {
            let mine = self.ended.get_or_insert(0);
            *mine = mine.saturating_add(*ended);
        }
    }

    fn histograms_mut(&mut self) -> Vec<&mut Histogram> {
        Vec::new()
    }

    fn so_far(&self) -> Option<Self> {
        Some(*self)
    }

    /// Requests that were not judged are left out.
    fn since(&self, earlier: &Self) -> Self {
        let ended = self.ended.zip(earlier.ended.or(Some(0)));
        Self {
            good: self.good.saturating_sub(earlier.good),
            bad: self.bad.saturating_sub(earlier.bad),
            undecided: 0,
            without_end: self.without_end.saturating_sub(earlier.without_end),
            ended: ended.map(|(now, before)| now.saturating_sub(before)),
            ended_without_end: self
                .ended_without_end
                .saturating_sub(earlier.ended_without_end),
        }
    }
}

pub use view::share;

pub(super) static VIEW: PartView = PartView {
    metrics: &metrics::METRICS,
    exported: metrics::exported,
    check,
    text: view::text_of_run,
    ..PartView::NONE
};

/// Checks that each request of the window was judged once.
fn check(result: &RunResult) -> Result<(), Contradiction> {
    let Some(good) = &result.recording.parts.good else {
        return Ok(());
    };
    let counters = &result.recording.counters;
    let judged = good.judged().saturating_add(good.undecided);
    let wanted = counters.sent.saturating_add(counters.unsent);
    if judged != wanted {
        return Err(Contradiction(format!(
            "good + bad + undecided is {judged}, but sent + unsent is {wanted}"
        )));
    }
    if good.good > counters.answered {
        return Err(Contradiction(format!(
            "good is {}, but answered is {}",
            good.good, counters.answered
        )));
    }
    for (name, part, whole_name, whole) in [
        ("without_end", good.without_end, "good", good.good),
        (
            "ended",
            good.responses(),
            "responses",
            counters.responses().max(good.good),
        ),
        (
            "ended_without_end",
            good.ended_without_end,
            "ended",
            good.responses(),
        ),
    ] {
        if part > whole {
            return Err(Contradiction(format!(
                "good requests: {name} is {part}, but {whole_name} is {whole}"
            )));
        }
    }
    Ok(())
}
