//! Whether a conclusion holds without what the load generator caused.
//!
//! The load generator's own delays make a run slower, so a pause on one side looks like an effect.
//! Everything is judged twice: as measured, and without the part that is known to be the load
//! generator's ([`results::Metric::without_own`]). What does not hold in both is undecided.

use serde::Serialize;

use super::{Comparison, Difference, Level, Metric, Outcome};
use crate::Observation;
use crate::compare::judge::outcome;

/// Parts smaller than this share of the threshold are not looked at: they would only move a
/// conclusion that is at its limit anyway.
const SHARE_OF_THRESHOLD: f64 = 0.1;

/// Which values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figures {
    /// As they were measured.
    Measured,
    /// Without the part that the load generator caused.
    WithoutOwn,
}

impl Figures {
    /// A run's value of a metric.
    pub(crate) fn value_of(self, run: &Observation, metric: &Metric) -> Option<f64> {
        match self {
            Self::Measured => run.value(&metric.name),
            Self::WithoutOwn => run.value_without_own(&metric.name),
        }
    }
}

/// A difference as measured that does not hold without what the load generator caused.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Explained {
    /// As measured.
    pub measured: Difference,
    /// Without the part that the load generator caused.
    pub without_own: Difference,
}

/// Whether the load generator caused so much of a metric in some run that comparisons may depend on
/// it.
pub(crate) fn matters(runs: &[&Observation], metric: &Metric, threshold: f64) -> bool {
    let least = threshold.ln_1p() * SHARE_OF_THRESHOLD;
    runs.iter().any(|run| {
        let values = [Figures::Measured, Figures::WithoutOwn].map(|it| it.value_of(run, metric));
        let [Some(measured), Some(without_own)] = values else {
            return false;
        };
        let are_above_zero = measured > 0.0 && without_own > 0.0;
        are_above_zero && (without_own / measured).ln().abs() > least
    })
}

/// Takes back what does not hold in both: `measured` are the comparisons as measured, `without_own`
/// the same without what the load generator caused.
pub(super) fn reconcile(measured: &mut [Comparison], without_own: &[Comparison]) {
    for comparison in measured {
        let same_place = without_own.iter().find(|it| it.place == comparison.place);
        // Places may disagree in one of both only.
        let Some(other) = same_place.or_else(|| without_own.first()) else {
            continue;
        };
        for level in &mut comparison.levels {
            let of_level = other.levels.iter().find(|it| it.name == level.name);
            level.without_own = of_level.and_then(|it| it.difference);
        }
        take_back(comparison);
    }
}

/// Removes the differences that do not hold without what the load generator caused.
pub(super) fn take_back(comparison: &mut Comparison) {
    let explained: Vec<Option<Explained>> = comparison
        .levels
        .iter()
        .map(|level| explained(comparison, level))
        .collect();
    let mut is_any = false;
    for (level, explained) in comparison.levels.iter_mut().zip(explained) {
        if explained.is_some() {
            (level.difference, level.without_own) = (None, None);
            level.explained = explained;
            is_any = true;
        }
    }
    if is_any {
        comparison.outcome = outcome(comparison);
        if matches!(comparison.outcome, Outcome::Undecided { .. }) {
            // They are those of what was measured.
            (comparison.p_value, comparison.test) = (None, None);
            (comparison.detectable, comparison.runs_needed) = (None, None);
        }
    }
}

fn explained(comparison: &Comparison, level: &Level) -> Option<Explained> {
    let (measured, without_own) = (level.difference?, level.without_own?);
    let [shown, other] = [&measured, &without_own].map(|it| Direction::of(comparison, it));
    let is_explained = match shown {
        // Undecided as measured. An effect that delays hid is shown with it.
        Direction::Nothing => matches!(other, Direction::More | Direction::Less),
        _ => shown != other,
    };
    is_explained.then_some(Explained {
        measured,
        without_own,
    })
}

/// What a difference shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    More,
    Less,
    Same,
    Nothing,
}

impl Direction {
    fn of(comparison: &Comparison, difference: &Difference) -> Self {
        let Some(ratio) = difference.ratio else {
            // Counts, of which the load generator's part is not known.
            return Self::Nothing;
        };
        match difference.is_found() && comparison.matters(difference) {
            true if ratio > 1.0 => Self::More,
            true => Self::Less,
            false if difference.is_same => Self::Same,
            false => Self::Nothing,
        }
    }
}
