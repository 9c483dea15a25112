//! The rates that can be tried: up to somewhat above what the closed loop makes, and up to what the
//! load generator makes. Numbers of connections have bounds that are given.

use crate::belief::Prior;
use crate::connections::Connections;

/// The first rate, as a share of the ceiling.
const FIRST: f64 = 0.5;

/// The highest rate, as a share of the ceiling. A closed loop measures the ceiling with a few
/// percent of noise, and some servers carry more when less is in flight.
const TOP: f64 = 1.25;

/// A rate that is carried and is this many times the ceiling contradicts it.
const ABOVE_CEILING: f64 = 1.05;

/// The lowest rate, as a share of the ceiling: a dozen runs below the first.
const FLOOR: f64 = 1.0 / 4_096.0;

/// Most servers meet their conditions at about this share of the closed loop, within a factor of e
/// to this.
const USUAL_SHARE: f64 = 0.7;
const USUAL_SPREAD: f64 = 0.6;

/// How many connections a server carries is hardly known before: it may be a hundred times the
/// number to begin with.
const CONNECTIONS_SPREAD: f64 = 3.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    ceiling: f64,
    /// The load to begin with.
    first: f64,
    floor: f64,
    /// The load that most servers carry, and the logarithm of the factor within which they do.
    usual: f64,
    spread: f64,
    /// The closed loop was repeated although a higher rate had been carried, and made no more.
    is_ceiling_sure: bool,
    top: f64,
    /// The generator failed below the original top, which was lowered to that rate.
    generator_limited: bool,
}

impl Bounds {
    pub(crate) fn below(ceiling: f64) -> Self {
        Self {
            ceiling,
            first: ceiling * FIRST,
            floor: ceiling * FLOOR,
            usual: ceiling * USUAL_SHARE,
            spread: USUAL_SPREAD,
            is_ceiling_sure: false,
            top: ceiling * TOP,
            generator_limited: false,
        }
    }

    /// From one connection to the most. There is no ceiling that could be contradicted.
    pub(crate) fn of_connections(connections: Connections) -> Self {
        let first = f64::from(connections.first.max(1));
        let top = f64::from(connections.most).max(first);
        Self {
            ceiling: top,
            first,
            floor: 1.0,
            usual: first,
            spread: CONNECTIONS_SPREAD,
            is_ceiling_sure: true,
            top,
            generator_limited: false,
        }
    }

    pub(crate) fn prior(&self) -> Prior {
        Prior {
            ln_usual: self.usual.ln(),
            spread: self.spread,
            ln_floor: self.floor.ln(),
            ln_top: self.top.ln(),
        }
    }

    pub(crate) fn first(&self) -> f64 {
        if self.first < self.top {
            self.first
        } else {
            self.top / 2.0
        }
    }

    /// No rate above this is tried; not even this one if the generator did not make it.
    pub(crate) fn top(&self) -> f64 {
        self.top
    }

    pub(crate) fn floor(&self) -> f64 {
        self.floor
    }

    pub(crate) fn is_generator_limited(&self) -> bool {
        self.generator_limited
    }

    /// The generator does not make this rate.
    pub(crate) fn limit(&mut self, rate: f64) {
        self.top = self.top.min(rate);
        self.generator_limited = true;
    }

    /// Whether it shows that the closed loop makes more than it did that this rate was carried.
    pub(crate) fn is_contradicted_by(&self, carried: f64) -> bool {
        !self.is_ceiling_sure && carried >= self.ceiling * ABOVE_CEILING
    }

    /// The closed loop was repeated, and makes this.
    pub(crate) fn raise(&mut self, ceiling: f64) {
        self.is_ceiling_sure = ceiling < self.ceiling * ABOVE_CEILING;
        if !self.is_ceiling_sure {
            let top = Some(self.top).filter(|_| self.generator_limited);
            *self = Self {
                top: top.unwrap_or(ceiling * TOP),
                generator_limited: self.generator_limited,
                ..Self::below(ceiling)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_above_the_closed_loop_contradicts_it_until_it_was_repeated() {
        let mut bounds = Bounds::below(100.0);
        assert_eq!((bounds.first(), bounds.top()), (50.0, 125.0));
        assert!(!bounds.is_contradicted_by(104.0) && bounds.is_contradicted_by(106.0));
        // The server had been slow at first.
        bounds.raise(250.0);
        assert_eq!((bounds.ceiling, bounds.top()), (250.0, 312.5));
        assert!(!bounds.is_contradicted_by(260.0) && bounds.is_contradicted_by(270.0));
        bounds.raise(251.0);
        assert!(!bounds.is_contradicted_by(1_000.0));
        assert_eq!(bounds.top(), 312.5);
    }

    #[test]
    fn connections_have_the_bounds_that_are_given_and_nothing_contradicts_them() {
        let bounds = Bounds::of_connections(Connections {
            first: 10,
            most: 500,
        });
        let all = (bounds.floor(), bounds.first(), bounds.top());
        assert_eq!(all, (1.0, 10.0, 500.0));
        assert!(!bounds.is_contradicted_by(500.0));
    }

    #[test]
    fn a_rate_that_the_generator_does_not_make_stays_the_top() {
        let mut bounds = Bounds::below(100.0);
        bounds.limit(80.0);
        bounds.limit(90.0);
        bounds.raise(200.0);
        assert_eq!((bounds.top(), bounds.first()), (80.0, 40.0));
        assert!(bounds.is_generator_limited());
    }
}
