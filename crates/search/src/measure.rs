//! The measurement: blocks of four runs around the estimate, and the fit after each.

use fastrand::Rng;

use crate::bracket::Bracket;
use crate::curve::{Curve, Point};
use crate::run::{Finding, Measured, readable};

/// The rates of a block, in spans from the estimate.
const BLOCK: [f64; 4] = [-1.0, -1.0 / 3.0, 1.0 / 3.0, 1.0];

/// The first span in ln rate: the rate is somewhere in a bracket of this half-width.
const SPAN_FIRST: f64 = 0.06;

/// Closer runs tell nothing about the slope of a server whose capacity varies by 2 %.
const SPAN_MIN: f64 = 0.03;

/// A parabola does not fit runs much farther away, which a window of 2.5 spans has.
const SPAN_MAX: f64 = 0.12;

/// The span of a block, in standard deviations of the rate of single runs. Wider blocks tell more
/// about the slope, narrower ones more about the place.
const SPAN_PER_SPREAD: f64 = 1.2;

/// The fewest runs from which the noise is known well enough for the span.
const SPAN_RUNS_MIN: usize = 8;

/// After this many blocks in a row of which the generator spoiled half, it is the bottleneck. One
/// may be chance: something else ran beside it.
const LIMITED_BLOCKS: usize = 2;

/// The fewest runs behind an interval: five blocks.
const RUNS_MIN: usize = 5 * BLOCK.len();

#[derive(Debug, Clone)]
pub(crate) struct Measuring {
    bracket: Bracket,
    duration_s: f64,
    centre: f64,
    span: f64,
    points: Vec<Point>,
    /// What is left of the block.
    rates: Vec<f64>,
    /// Runs of this block that the generator spoiled.
    generator_limited: usize,
    /// Blocks in a row of which it spoiled half.
    limited_blocks: usize,
    curve: Option<Curve>,
}

/// What a block leads to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Conclusion {
    AnotherBlock,
    /// The interval is narrow enough; its lower end.
    Precise(f64),
    /// The conditions should hold at this rate, and higher ones cannot be tried.
    HoldsAtTop(f64),
    /// The conditions fail at this rate, and lower ones are not worth a try.
    FailsAtFloor(f64),
}

impl Measuring {
    pub(crate) fn around(bracket: Bracket, estimate: f64, duration_s: f64) -> Self {
        Self {
            bracket,
            duration_s,
            centre: estimate.ln(),
            span: SPAN_FIRST,
            points: Vec::new(),
            rates: Vec::new(),
            generator_limited: 0,
            limited_blocks: 0,
            curve: None,
        }
    }

    /// The order is random, so that neither a drift nor what a run leaves behind looks like an
    /// effect of the rate.
    pub(crate) fn begin_block(&mut self, random: &mut Rng) {
        let rate = |at: f64| readable((self.centre + at * self.span).exp());
        self.rates = BLOCK.map(rate).to_vec();
        random.shuffle(&mut self.rates);
        self.generator_limited = 0;
    }

    pub(crate) fn record(&mut self, rate: f64, measured: &Measured) {
        self.rates.pop();
        self.add(rate, measured);
    }

    pub(crate) fn add(&mut self, rate: f64, measured: &Measured) {
        if measured.finding() == Finding::GeneratorLimited {
            self.generator_limited += 1;
            return;
        }
        self.points.push(Point {
            ln_rate: rate.ln(),
            excess: measured.clipped(),
        });
    }

    /// Fits a finished block with the others and moves to the new estimate.
    pub(crate) fn conclude(&mut self, precision: f64) -> Conclusion {
        let lowest = (self.centre - self.span).exp();
        if self.generator_limited * 2 >= BLOCK.len() {
            self.limited_blocks += 1;
            return if self.limited_blocks >= LIMITED_BLOCKS {
                Conclusion::HoldsAtTop(lowest)
            } else {
                Conclusion::AnotherBlock
            };
        }
        self.limited_blocks = 0;
        self.curve = Curve::fit(&self.points, self.centre, self.span);
        let root = self.curve.as_ref().and_then(Curve::root);
        let shift = root.map_or_else(|| self.blind_shift(), |root| root - self.centre);
        if let Some(low) = self.precise(shift, precision) {
            return Conclusion::Precise(low);
        }
        self.centre += shift.clamp(-self.span, self.span);
        self.adapt_span();
        if self.centre > self.bracket.top().ln() {
            Conclusion::HoldsAtTop(lowest)
        } else if self.centre < self.bracket.floor().ln() {
            Conclusion::FailsAtFloor(lowest)
        } else {
            Conclusion::AnotherBlock
        }
    }

    pub(crate) fn move_to(&mut self, rate: f64) {
        self.centre = rate.ln();
    }

    pub(crate) fn next_rate(&self) -> Option<f64> {
        self.rates.last().copied()
    }

    pub(crate) fn duration_s(&self) -> f64 {
        self.duration_s
    }

    pub(crate) fn bracket(&self) -> &Bracket {
        &self.bracket
    }

    /// The fit after the last block.
    pub(crate) fn curve(&self) -> Option<&Curve> {
        self.curve.as_ref()
    }

    /// The fit of all runs so far.
    pub(crate) fn curve_now(&self) -> Option<Curve> {
        Curve::fit(&self.points, self.centre, self.span)
    }

    /// Where no rise can be seen, the last block tells on which side of the rate it was.
    fn blind_shift(&self) -> f64 {
        let last = self.points.iter().rev().take(BLOCK.len());
        let sum: f64 = last.map(|point| point.excess).sum();
        if sum > 0.0 { -self.span } else { self.span }
    }

    /// The lower end of the interval, if it is narrow enough and rests on enough runs on both
    /// sides.
    fn precise(&self, shift: f64, precision: f64) -> Option<f64> {
        let curve = self.curve.as_ref().filter(|it| it.runs() >= RUNS_MIN)?;
        let (low, high) = curve.interval()?;
        let is_narrow = high - low <= 2.0 * precision && shift.abs() <= self.span;
        is_narrow.then(|| low.exp())
    }

    fn adapt_span(&mut self) {
        let known = self.curve.filter(|curve| curve.runs() >= SPAN_RUNS_MIN);
        if let Some(spread) = known.and_then(|curve| curve.spread()) {
            self.span = (SPAN_PER_SPREAD * spread).clamp(SPAN_MIN, SPAN_MAX);
        }
    }
}
