//! When the runs of two sides were made: in turn, or one side after the other.
//!
//! Runs in a row share the state of the machine. If one side was measured after the other, a change
//! of the machine in between looks like an effect, and no statistics can tell them apart. Runs made
//! in turn are pairs, whose differences hold no such change.

use serde::Serialize;

/// What the times of the runs say about a comparison of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Timing {
    /// All runs of one side were made before those of the other, so a change of the machine in
    /// between may be the difference. Intervals and p-values allow for noise that is correlated in
    /// time.
    Apart {
        /// Index of the level that was measured first.
        first: usize,
        /// The correlation of consecutive runs, 0 to 1, as far as they show it.
        correlation: f64,
    },
    /// The runs were made in turn, so consecutive runs of both sides are pairs.
    InPairs {
        /// The drift between the runs of a pair that may be part of the difference, since most
        /// pairs began with the same side; a difference of logarithms. 0 without a significant
        /// drift.
        drift: f64,
    },
}

/// More runs than this share without a partner are another order than taking turns.
const UNPAIRED_SHARE_MAX: f64 = 0.2;

/// The order in which the runs of two sides were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// All runs of this side were made first.
    Apart { first: usize },
    /// The number of each run's pair, from 1. Runs without a partner have a number of their own.
    InPairs(Vec<u32>),
}

impl Order {
    /// The order of runs that are sorted by time: their sides, 0 or 1. `None` if a side has fewer
    /// than two runs, or if the runs were neither made in turn nor one side after the other.
    pub(super) fn of(sides: &[usize]) -> Option<Self> {
        let count = |side| sides.iter().filter(|it| **it == side).count();
        if count(0) < 2 || count(1) < 2 {
            return None;
        }
        let changes = sides.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if changes == 1 {
            return Some(Self::Apart { first: sides[0] });
        }
        let mut numbers = Vec::with_capacity(sides.len());
        let (mut pair, mut alone) = (0, 0);
        while let Some(side) = sides.get(numbers.len()) {
            pair += 1;
            numbers.push(pair);
            match sides.get(numbers.len()) {
                Some(next) if next != side => numbers.push(pair),
                _ => alone += 1,
            }
        }
        let is_in_turn = f64::from(alone) <= UNPAIRED_SHARE_MAX * sides.len() as f64;
        is_in_turn.then_some(Self::InPairs(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sides: &str) -> Option<Order> {
        let side = |letter: char| usize::from(letter == 'B');
        Order::of(&sides.chars().map(side).collect::<Vec<_>>())
    }

    #[test]
    fn consecutive_runs_of_both_sides_are_pairs() {
        for (sides, numbers) in [
            ("ABABAB", &[1, 1, 2, 2, 3, 3][..]),
            ("BABABA", &[1, 1, 2, 2, 3, 3]),
            ("ABBAABBA", &[1, 1, 2, 2, 3, 3, 4, 4]),
            // One run was excluded, or there is one more.
            ("ABBABAB", &[1, 1, 2, 2, 3, 3, 4]),
            ("AABABAB", &[1, 2, 2, 3, 3, 4, 4]),
        ] {
            assert_eq!(of(sides), Some(Order::InPairs(numbers.into())), "{sides}");
        }
    }

    #[test]
    fn one_side_after_the_other_is_told_from_an_overlap() {
        for (sides, expected) in [
            ("AAABBB", Some(Order::Apart { first: 0 })),
            ("BBAAAA", Some(Order::Apart { first: 1 })),
            ("AABBAABB", None),
            ("AAABABBB", None),
            ("AAAABBBBA", None),
            ("AB", None),
            ("ABBB", None),
            ("", None),
        ] {
            assert_eq!(of(sides), expected, "{sides}");
        }
    }
}
