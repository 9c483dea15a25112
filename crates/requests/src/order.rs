//! Which request is next.

use fastrand::Rng;
use plan::RequestOrder;

use crate::set::RequestSet;

/// Chooses the next request of one worker.
#[derive(Debug)]
pub(crate) enum Picker {
    /// One after the other, beginning again after the last.
    Sequence {
        next: usize,
    },
    Random,
    Weighted,
}

impl Picker {
    /// That of worker `number` of `total`. In a sequence, workers begin at equal distances, so that
    /// a run of as many requests as the file has sends each once.
    pub(crate) fn new(set: &RequestSet, number: u32, total: u32) -> Self {
        match set.order {
            RequestOrder::Sequence => {
                let (number, total) = (number as usize, total.max(1) as usize);
                let before = number * (set.len() / total) + number.min(set.len() % total);
                Self::Sequence {
                    next: before % set.len(),
                }
            }
            RequestOrder::Random => Self::Random,
            RequestOrder::Weighted if set.weights.is_empty() => Self::Random,
            RequestOrder::Weighted => Self::Weighted,
        }
    }

    #[inline]
    pub(crate) fn next(&mut self, set: &RequestSet, rng: &mut Rng) -> usize {
        match self {
            Self::Sequence { next } => {
                let request = *next;
                *next = if request + 1 == set.len() {
                    0
                } else {
                    request + 1
                };
                request
            }
            Self::Random => rng.usize(..set.len()),
            Self::Weighted => {
                let total = set.weights.last().copied().unwrap_or(1);
                let drawn = rng.u64(..total);
                set.weights.partition_point(|sum| *sum <= drawn)
            }
        }
    }
}
