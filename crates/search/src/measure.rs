//! The measurement: blocks of four runs around the estimate, and the fit after each.

use fastrand::Rng;

use crate::bracket::Bracket;
use crate::curve::{Curve, Drift, Point, WINDOW};
use crate::run::{Finding, Measured, readable};

/// The rates of a block, in spans from the estimate.
const BLOCK: [f64; 4] = [-1.0, -1.0 / 3.0, 1.0 / 3.0, 1.0];

/// The first span in ln rate: the half-width of a bracket, which contains the rate.
const SPAN_FIRST: f64 = 0.06;

/// The shortest span. Closer runs tell nothing about the slope of a server whose capacity varies by
/// a percent.
const SPAN_MIN: f64 = 0.01;

/// The longest span. The fit takes runs within 2.5 spans, and a parabola does not fit runs that are
/// much farther away than that.
const SPAN_MAX: f64 = 0.12;

/// The share beyond the limit changes by e to this power over one span. Wider blocks tell more
/// about the slope, narrower ones more about the place of the rate.
const EXCESS_PER_SPAN: f64 = 1.2;

/// A span is at most this many times the one before, and at least one over that: the slope from a
/// few runs may be far off.
const SPAN_FACTOR: f64 = 2.0;

/// The generator counts as the bottleneck after this many blocks in a row of which it spoiled half.
/// One such block may be chance, such as another program on the machine.
const LIMITED_BLOCKS: usize = 2;

/// The fewest runs behind an interval: three blocks.
const RUNS_MIN: usize = 3 * BLOCK.len();

/// The fewest bursts of requests beyond the limit behind an interval.
const BURSTS_MIN: f64 = 8.0;

/// With fewer bursts per run than this, most runs tell nothing, so runs become longer.
const BURSTS_PER_RUN: f64 = 0.5;

/// The fewest runs from which the number of bursts per run is estimated: two blocks.
const BURSTS_RUNS_MIN: usize = 2 * BLOCK.len();

/// Runs become at most this many times longer.
const LONGER_MAX: f64 = 4.0;

/// The search ends without an answer after this many narrow intervals that contradict the runs.
const REFUTED_MAX: usize = 3;

/// At a cliff, the share of each run differs from the allowed share by at least this factor.
const CLIFF: f64 = 8.0;

/// The fewest runs on each side of a cliff.
const CLIFF_RUNS_MIN: usize = 6;

/// Runs on one side of the interval contradict it by more than this many standard errors.
const CONTRADICTION: f64 = 3.0;

/// The fewest runs on one side of the interval that can contradict it.
const CONTRADICTING_RUNS_MIN: usize = 4;

#[derive(Debug, Clone)]
pub(crate) struct Measuring {
    bracket: Bracket,
    duration_s: f64,
    longest_s: f64,
    centre: f64,
    span: f64,
    /// The runs of each condition.
    conditions: Vec<Vec<Point>>,
    /// The rates of this block that were not run yet.
    rates: Vec<f64>,
    /// Runs of this block that failed and that the generator spoiled.
    generator_limited: usize,
    /// Blocks in a row of which the generator spoiled half.
    limited_blocks: usize,
    /// Intervals that were narrow enough and did not agree with the runs.
    refuted: usize,
}

/// What follows from a finished block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Conclusion {
    AnotherBlock,
    /// The interval is narrow enough.
    Precise(Fitted),
    /// The conditions should hold at this rate, and higher ones cannot be tried.
    HoldsAtTop(f64),
    /// The conditions fail at this rate, and lower ones are not worth a try.
    FailsAtFloor(f64),
    /// The runs contradict every interval.
    Refuted,
}

/// The rate by the condition that fails first, and its interval, as ln rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fitted {
    pub(crate) curve: Curve,
    /// Index of the condition among all.
    condition: usize,
    pub(crate) root: f64,
    /// Whether the share jumps at the rate: a curve cannot describe a jump.
    is_cliff: bool,
    /// `None` if an end is outside the window.
    pub(crate) interval: Option<(f64, f64)>,
}

/// What the runs near the centre show.
enum Assessment {
    /// All conditions hold near the centre.
    Holds,
    /// At least one condition fails near the centre.
    Fails,
    /// A condition begins to fail near the centre.
    Fitted(Fitted),
}

impl Measuring {
    pub(crate) fn around(bracket: Bracket, estimate: f64, duration_s: f64) -> Self {
        Self {
            bracket,
            duration_s,
            longest_s: LONGER_MAX * duration_s,
            centre: estimate.ln(),
            span: SPAN_FIRST,
            conditions: Vec::new(),
            rates: Vec::new(),
            generator_limited: 0,
            limited_blocks: 0,
            refuted: 0,
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

    pub(crate) fn record(&mut self, rate: f64, measured: &Measured, at_s: f64) {
        self.rates.pop();
        self.add(rate, measured, at_s);
    }

    /// Takes a run. Runs that the generator spoiled are left out whether the conditions held or
    /// not; otherwise only the better ones of them would count.
    pub(crate) fn add(&mut self, rate: f64, measured: &Measured, at_s: f64) {
        self.generator_limited += usize::from(measured.finding() == Finding::GeneratorLimited);
        if measured.generator_limited {
            return;
        }
        let readings = measured.readings.iter();
        for (number, reading) in readings.map(|reading| reading.sane()).enumerate() {
            if self.conditions.len() <= number {
                self.conditions.push(Vec::new());
            }
            self.conditions[number].push(Point {
                ln_rate: rate.ln(),
                relative: reading.relative,
                weight: reading.requests,
                at_s,
            });
        }
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
        let assessment = self.assess();
        let shift = match &assessment {
            Assessment::Holds => self.span,
            Assessment::Fails => -self.span,
            Assessment::Fitted(fitted) => fitted.root - self.centre,
        };
        if let Assessment::Fitted(fitted) = &assessment {
            if shift.abs() <= self.span && self.is_precise(fitted, precision) {
                if self.agrees(fitted) {
                    return Conclusion::Precise(*fitted);
                }
                self.refuted += 1;
                if self.refuted >= REFUTED_MAX {
                    return Conclusion::Refuted;
                }
            }
            self.adapt_span(&fitted.curve);
            if !fitted.is_cliff {
                self.adapt_duration(&fitted.curve);
            }
        }
        self.centre += shift.clamp(-self.span, self.span);
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

    /// The fit of all runs so far.
    pub(crate) fn fitted(&self) -> Option<Fitted> {
        match self.assess() {
            Assessment::Fitted(fitted) => Some(fitted),
            Assessment::Holds | Assessment::Fails => None,
        }
    }

    /// Whether an interval rests on enough runs, and agrees with all of them.
    pub(crate) fn is_sound(&self, fitted: &Fitted) -> bool {
        Self::is_enough(fitted) && self.agrees(fitted)
    }

    /// The change of the server while it was measured, if there was one.
    pub(crate) fn drift(&self) -> Option<Drift> {
        let means = self.conditions.iter().map(|points| self.mean_near(points));
        let worst = means.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let (condition, _) = worst?;
        Drift::of(&self.conditions[condition], self.centre, self.span)
    }

    fn assess(&self) -> Assessment {
        let mut first: Option<Fitted> = None;
        let (mut lows, mut highs) = (Vec::new(), Vec::new());
        for (condition, points) in self.conditions.iter().enumerate() {
            let curve = Curve::fit(points, self.centre, self.span);
            let reach = WINDOW * self.span;
            let Some((curve, root)) = curve.and_then(|curve| Some((curve, curve.root()?))) else {
                // Without a rise in sight, the mean of the runs nearby shows on which side of the
                // rate they are.
                if self.mean_near(points) > 1.0 {
                    return Assessment::Fails;
                }
                continue;
            };
            if root < self.centre - reach {
                return Assessment::Fails;
            }
            if root > self.centre + reach {
                continue;
            }
            let cliff = cliff(points);
            let root = cliff.map_or(root, |(low, high)| f64::midpoint(low, high));
            let interval = cliff.or_else(|| curve.interval());
            lows.extend(interval.map(|(low, _)| low));
            highs.extend(interval.map(|(_, high)| high));
            if first.is_none_or(|first| root < first.root) {
                first = Some(Fitted {
                    curve,
                    condition,
                    root,
                    interval,
                    is_cliff: cliff.is_some(),
                });
            }
        }
        let Some(fitted) = first else {
            return Assessment::Holds;
        };
        // The rate and both ends of the interval are the lowest of all conditions.
        let least = |values: Vec<f64>| values.into_iter().fold(f64::INFINITY, f64::min);
        Assessment::Fitted(Fitted {
            interval: fitted.interval.map(|_| (least(lows), least(highs))),
            ..fitted
        })
    }

    /// The pooled share near the centre; below 1 without a run.
    fn mean_near(&self, points: &[Point]) -> f64 {
        let reach = WINDOW * self.span;
        let near = points
            .iter()
            .filter(|point| (point.ln_rate - self.centre).abs() <= reach);
        pooled(near).map_or(0.0, |(mean, _, _)| mean)
    }

    fn is_precise(&self, fitted: &Fitted, precision: f64) -> bool {
        let is_narrow = |(low, high): (f64, f64)| high - low <= 2.0 * precision;
        Self::is_enough(fitted) && fitted.interval.is_some_and(is_narrow)
    }

    fn is_enough(fitted: &Fitted) -> bool {
        let curve = &fitted.curve;
        curve.runs() >= RUNS_MIN && (fitted.is_cliff || curve.bursts() >= BURSTS_MIN)
    }

    /// Whether the interval agrees with all runs: those below it hold together, those above it fail
    /// together, and the server did not change meanwhile.
    fn agrees(&self, fitted: &Fitted) -> bool {
        let Some((low, high)) = fitted.interval else {
            return false;
        };
        let points = &self.conditions[fitted.condition];
        let contradicts = |runs: Vec<&Point>, direction: f64| {
            pooled(runs.into_iter()).is_some_and(|(mean, error, runs)| {
                runs >= CONTRADICTING_RUNS_MIN && direction * (mean - 1.0) > CONTRADICTION * error
            })
        };
        let below = points.iter().filter(|it| it.ln_rate <= low).collect();
        let above = points.iter().filter(|it| it.ln_rate >= high).collect();
        !contradicts(below, 1.0) && !contradicts(above, -1.0) && self.drift().is_none()
    }

    fn adapt_duration(&mut self, curve: &Curve) {
        let is_known = curve.runs() >= BURSTS_RUNS_MIN;
        if is_known && curve.bursts() < BURSTS_PER_RUN * curve.runs() as f64 {
            self.duration_s = (2.0 * self.duration_s).min(self.longest_s);
        }
    }

    fn adapt_span(&mut self, curve: &Curve) {
        if let Some(slope) = curve.slope() {
            let wanted = (EXCESS_PER_SPAN / slope).clamp(SPAN_MIN, SPAN_MAX);
            self.span = wanted.clamp(self.span / SPAN_FACTOR, self.span * SPAN_FACTOR);
        }
    }
}

/// Two rates with no run between them. All runs up to the lower one clearly hold, and all from the
/// higher one on clearly fail, so there is nothing to fit. `None` if there is no such cliff, or if
/// there are too few runs on a side of it.
fn cliff(points: &[Point]) -> Option<(f64, f64)> {
    let is_clear = |it: &Point| it.relative < 1.0 / CLIFF || it.relative > CLIFF;
    let side = |holds: bool| {
        let runs = points.iter().filter(move |it| (it.relative < 1.0) == holds);
        runs.map(|it| it.ln_rate)
    };
    let low = side(true).fold(f64::NEG_INFINITY, f64::max);
    let high = side(false).fold(f64::INFINITY, f64::min);
    let is_known = [true, false].map(|holds| side(holds).count() >= CLIFF_RUNS_MIN) == [true; 2];
    (is_known && low < high && points.iter().all(is_clear)).then_some((low, high))
}

/// The pooled relative share of runs, its standard error as that of a ratio (Cochran, "Sampling
/// Techniques", 1977), and the number of runs; `None` without any.
fn pooled<'p>(points: impl Iterator<Item = &'p Point>) -> Option<(f64, f64, usize)> {
    let points: Vec<&Point> = points.collect();
    let weights: f64 = points.iter().map(|it| it.weight).sum();
    let mean = points.iter().map(|it| it.weight * it.relative).sum::<f64>() / weights;
    let residual = |it: &&Point| (it.weight * (it.relative - mean)).powi(2);
    let runs = points.len() as f64;
    let variance = points.iter().map(residual).sum::<f64>() * runs / (runs - 1.0);
    (!points.is_empty()).then_some((mean, variance.sqrt() / weights, points.len()))
}
