//! The difference of two sides in pairs, with the drift between the runs of a pair.

use stats::{ConfidenceInterval, PairedDifference};

use super::runs::Values;
use super::timing::Timing;

/// The difference of logarithms or values, as measured, and without the drift that may be part of
/// it. Nobody knows how much of a drift happens within pairs, so what is said holds for both.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pairs([PairedDifference; 2]);

impl Pairs {
    /// `None` if the values are no pairs.
    pub(super) fn of(values: &Values, groups: &[Vec<f64>]) -> Option<Self> {
        let [first, second] = groups else {
            return None;
        };
        let measured = PairedDifference::of(first, second).filter(|_| values.in_blocks)?;
        let drift = match values.timing {
            Some(Timing::InPairs { drift }) => drift,
            Some(Timing::Apart { .. }) | None => 0.0,
        };
        Some(Self([measured, measured.moved_by(-drift)]))
    }

    /// The difference as measured.
    pub(super) fn mean(&self) -> f64 {
        self.0[0].mean
    }

    /// Two-sided p-value that the true difference is 0.
    pub(super) fn p_value(&self) -> f64 {
        let [measured, other] = self.0.map(|it| it.p_value());
        measured.max(other)
    }

    /// Interval of the true difference.
    pub(super) fn interval(&self, confidence: f64) -> Option<ConfidenceInterval> {
        let [measured, other] = self.0.map(|it| it.interval(confidence));
        Some(measured?.and(other?))
    }
}
