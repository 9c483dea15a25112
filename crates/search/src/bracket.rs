//! The bracket: two rates near each other, of which one is carried in a short run and one is not.

use crate::run::Finding;

/// A bracket is narrow enough if its ends differ by this factor.
const NARROW: f64 = 1.12;

/// The first rate, as a share of the ceiling.
const FIRST: f64 = 0.5;

/// The highest rate, as a share of the ceiling. A closed loop measures the ceiling with a few
/// percent of noise, and some servers carry more when less is in flight.
const TOP: f64 = 1.25;

/// The lowest rate, as a share of the ceiling: a dozen runs below the first.
const FLOOR: f64 = 1.0 / 4_096.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bracket {
    /// The highest rate that was carried.
    low: Option<f64>,
    /// The lowest rate that was not carried.
    high: Option<f64>,
    ceiling: f64,
    /// No rate above this is tried.
    top: f64,
    /// The generator failed below the original `top`, which was lowered to that rate.
    generator_limited: bool,
    /// A rate at which the generator failed once. That may be chance, so the run is repeated.
    again: Option<f64>,
}

/// What follows from the findings so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Direction {
    Try(f64),
    /// The rate is between these.
    Between(f64, f64),
    /// The conditions hold at this rate, and a higher one cannot be tried.
    HoldsAtTop(f64),
    /// There is no lower rate to try. The conditions failed at this one, or the generator did.
    FailsAtFloor(f64),
}

impl Bracket {
    pub(crate) fn below(ceiling: f64) -> Self {
        Self {
            low: None,
            high: None,
            ceiling,
            top: ceiling * TOP,
            generator_limited: false,
            again: None,
        }
    }

    pub(crate) fn record(&mut self, rate: f64, finding: Finding) {
        let is_second = self.again.take().is_some();
        if finding == Finding::GeneratorLimited && !is_second {
            self.again = Some(rate);
            return;
        }
        match finding {
            Finding::Held => self.low = Some(rate),
            Finding::Failed => self.high = Some(rate),
            Finding::GeneratorLimited => {
                self.top = rate;
                self.generator_limited = true;
            }
            Finding::Lost => return,
        }
        if finding != Finding::Held {
            self.low = self.low.filter(|low| *low < rate);
        }
    }

    pub(crate) fn next(&self) -> Direction {
        if let Some(rate) = self.again {
            return Direction::Try(rate);
        }
        let above = self.high.unwrap_or(self.top).min(self.top);
        match (self.low, self.high) {
            (Some(low), Some(high)) if above == high && high / low <= NARROW => {
                Direction::Between(low, high)
            }
            (Some(low), _) if above / low > NARROW => Direction::Try((low * above).sqrt()),
            (Some(low), None) if !self.generator_limited && low < self.top => {
                Direction::Try(self.top)
            }
            (Some(low), _) => Direction::HoldsAtTop(low),
            (None, None) if !self.generator_limited => Direction::Try(self.ceiling * FIRST),
            (None, _) if above / 2.0 < self.floor() => Direction::FailsAtFloor(above),
            (None, _) => Direction::Try(above / 2.0),
        }
    }

    pub(crate) fn top(&self) -> f64 {
        self.top
    }

    pub(crate) fn floor(&self) -> f64 {
        self.ceiling * FLOOR
    }

    /// Whether a run failed at any rate because of the server, not the generator.
    pub(crate) fn has_failed(&self) -> bool {
        self.high.is_some()
    }
}
