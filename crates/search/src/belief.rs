//! What the runs show about the rate at which the conditions are just met: how likely each rate is.
//! The same holds for a number of connections in place of the rate.

/// A run as it is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Evidence {
    pub(crate) ln_rate: f64,
    /// The share beyond the limit divided by the allowed share, of the worst condition.
    pub(crate) relative: f64,
    /// How many requests would be beyond the limit if the share were the allowed one.
    pub(crate) expected: f64,
    /// When the run ended, in seconds of the search.
    pub(crate) at_s: f64,
}

/// What is known before any run, as ln rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prior {
    /// The rate at which most servers just meet their conditions.
    pub(crate) ln_usual: f64,
    /// They do within a factor of e to this.
    pub(crate) spread: f64,
    pub(crate) ln_floor: f64,
    pub(crate) ln_top: f64,
}

/// The rate at which the share of requests beyond the limit is the allowed one, from all runs.
///
/// Near that rate, the logarithm of the share is taken to rise in proportion to the logarithm of
/// the rate. The rate and the slope are not known, and neither is how bursty the requests beyond
/// the limit are: slow responses come in bursts, so a run tells less than its number of requests
/// suggests. Each combination of rate and slope has the likelihood of a Poisson model with a
/// dispersion (extended quasi-likelihood: Nelder and Pregibon, "An Extended Quasi-Likelihood
/// Function", 1987) over which an inverse gamma distribution is integrated. The prior distributions
/// are wide: what few runs cannot tell stays open, and the interval is wide then.
///
/// So a short run with 5 requests beyond the limit is neither a success nor a failure, but 5
/// requests. The search asks for the run that would tell most, and can end at any run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Belief {
    /// The median of the rate, as ln.
    pub(crate) median: f64,
    /// The ends of the 95 % interval, as ln.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// How fast ln(share) rises with ln rate, about.
    pub(crate) slope: f64,
    /// Quantiles of the rate, as ln: those of [`QUANTILES`].
    pub(crate) quantiles: [f64; QUANTILES.len()],
    /// The probability that the rate is above the top.
    pub(crate) above_top: f64,
    /// The probability that the rate is below the floor.
    pub(crate) below_floor: f64,
}

/// Where runs tell most while little is known: in the middle of what is likely, and to both sides.
pub(crate) const QUANTILES: [f64; 4] = [0.2, 0.4, 0.6, 0.8];

/// Confidence level of the interval.
const CONFIDENCE: f64 = 0.95;

/// Beyond this many times the allowed share, a server is overloaded. How much more it is depends on
/// the length of the run.
const OVERLOADED: f64 = 10.0;

/// Below this share of the allowed share, it does not matter how much less it is.
const NEARLY_NONE: f64 = 0.15;

/// The slopes: from a share that hardly depends on the rate to that of a server which refuses
/// whatever exceeds its capacity.
const SLOPE_MIN: f64 = 0.1;
const SLOPE_MAX: f64 = 250.0;
pub(crate) const SLOPES: usize = 16;

/// Rates on a grid. It is narrowed until a cell is short beside the interval.
const RATES: usize = 90;
const NARROWINGS: usize = 5;
const CELLS_PER_INTERVAL: f64 = 25.0;

/// The prior distribution of the slope, of Laplace in its logarithm: a queue M/M/1 whose share is
/// the allowed 1 % at three quarters of its capacity has about this slope.
const USUAL_SLOPE: f64 = 15.0;
const SLOPE_SPREAD: f64 = 0.7;

/// The prior distribution of the dispersion, which is about the number of requests in a burst.
pub(crate) const DISPERSION_SHAPE: f64 = 1.5;
pub(crate) const DISPERSION_SCALE: f64 = 40.0;

/// Rates beyond the floor and the top that are considered, as a factor.
const MARGIN: f64 = 4.0;

impl Belief {
    pub(crate) fn of(evidence: &[Evidence], prior: &Prior) -> Self {
        let mut grid = Grid {
            rates: Axis::new(
                prior.ln_floor - MARGIN.ln(),
                prior.ln_top + MARGIN.ln(),
                RATES,
            ),
            slopes: Axis::new(SLOPE_MIN.ln(), SLOPE_MAX.ln(), SLOPES),
        };
        let mut density = grid.density(evidence, prior);
        for _ in 0..NARROWINGS {
            let [low, high] = [0.5 - CONFIDENCE / 2.0, 0.5 + CONFIDENCE / 2.0]
                .map(|share| grid.rates.quantile(&density.rates, share));
            if (high - low) / grid.rates.step() > CELLS_PER_INTERVAL {
                break;
            }
            grid = grid.narrowed(&density);
            density = grid.density(evidence, prior);
        }
        if let Some((low, high)) = cliff(evidence) {
            return Self {
                median: f64::midpoint(low, high),
                low,
                high,
                slope: SLOPE_MAX,
                quantiles: QUANTILES.map(|share| low + share * (high - low)),
                above_top: 0.0,
                below_floor: 0.0,
            };
        }
        let [low, median, high] = [0.5 - CONFIDENCE / 2.0, 0.5, 0.5 + CONFIDENCE / 2.0]
            .map(|share| grid.rates.quantile(&density.rates, share));
        Self {
            median,
            low,
            high,
            slope: density.slope,
            quantiles: QUANTILES.map(|share| grid.rates.quantile(&density.rates, share)),
            above_top: 1.0 - grid.rates.below(&density.rates, prior.ln_top),
            below_floor: grid.rates.below(&density.rates, prior.ln_floor),
        }
    }

    /// Half the width of the interval, as ln.
    pub(crate) fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// At a cliff, the share of each run differs from the allowed share by at least this factor.
const CLIFF: f64 = 8.0;

/// The fewest runs on each side of a cliff.
const CLIFF_RUNS_MIN: usize = 6;

/// Two rates with no run between them. All runs up to the lower one clearly hold, and all from the
/// higher one on clearly fail, so no slope describes them. `None` if there is no such cliff, or if
/// there are too few runs on a side of it.
fn cliff(evidence: &[Evidence]) -> Option<(f64, f64)> {
    let is_clear = |it: &Evidence| it.relative < 1.0 / CLIFF || it.relative > CLIFF;
    let side = |holds: bool| {
        let runs = evidence
            .iter()
            .filter(move |it| (it.relative < 1.0) == holds);
        runs.map(|it| it.ln_rate)
    };
    let low = side(true).fold(f64::NEG_INFINITY, f64::max);
    let high = side(false).fold(f64::INFINITY, f64::min);
    let is_known = [true, false].map(|holds| side(holds).count() >= CLIFF_RUNS_MIN) == [true; 2];
    (is_known && low < high && evidence.iter().all(is_clear)).then_some((low, high))
}

/// The probabilities of the rates and of the slopes of a grid, each of which sum to 1, and the mean
/// of ln(slope) as a slope.
struct Density {
    rates: Vec<f64>,
    slopes: Vec<f64>,
    slope: f64,
}

/// Logarithms at equal distances.
#[derive(Debug, Clone, Copy)]
struct Axis {
    from: f64,
    to: f64,
    cells: usize,
}

/// ln rates and ln slopes.
struct Grid {
    rates: Axis,
    slopes: Axis,
}

impl Grid {
    fn density(&self, evidence: &[Evidence], prior: &Prior) -> Density {
        let bursts: f64 = evidence.iter().map(Evidence::tells_dispersion).sum();
        let slopes = self.slopes.cells;
        let log = |index: usize| {
            let ln_rate = self.rates.at(index / slopes);
            let ln_slope = self.slopes.at(index % slopes);
            let slope = ln_slope.exp();
            let deviance: f64 = evidence.iter().map(|it| it.deviance(ln_rate, slope)).sum();
            let likelihood =
                -(DISPERSION_SHAPE + bursts / 2.0) * (deviance / 2.0 / DISPERSION_SCALE).ln_1p();
            let steepness = (ln_slope - USUAL_SLOPE.ln()).abs() / SLOPE_SPREAD;
            likelihood - (ln_rate - prior.ln_usual).abs() / prior.spread - steepness
        };
        let log: Vec<f64> = (0..self.rates.cells * slopes).map(log).collect();
        let most = log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = log.iter().map(|it| (it - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        let of_slope = |index: usize| {
            let of_rates = weights.iter().skip(index).step_by(slopes);
            of_rates.sum::<f64>() / total
        };
        let of_slopes: Vec<f64> = (0..slopes).map(of_slope).collect();
        let ln_slope = of_slopes.iter().enumerate();
        let ln_slope = ln_slope.map(|(index, weight)| weight * self.slopes.at(index));
        Density {
            slope: ln_slope.sum::<f64>().exp(),
            rates: weights
                .chunks(slopes)
                .map(|slopes| slopes.iter().sum::<f64>() / total)
                .collect(),
            slopes: of_slopes,
        }
    }

    /// The part of the grid outside of which the probability is negligible.
    fn narrowed(&self, density: &Density) -> Self {
        Self {
            rates: self.rates.narrowed(&density.rates),
            slopes: self.slopes.narrowed(&density.slopes),
        }
    }
}

impl Axis {
    fn new(from: f64, to: f64, cells: usize) -> Self {
        Self { from, to, cells }
    }

    fn step(&self) -> f64 {
        (self.to - self.from) / self.cells as f64
    }

    /// The middle of a cell.
    fn at(&self, cell: usize) -> f64 {
        self.from + (cell as f64 + 0.5) * self.step()
    }

    fn narrowed(&self, density: &[f64]) -> Self {
        const NEGLIGIBLE: f64 = 1e-5;
        let counts = |it: &f64| *it > NEGLIGIBLE;
        let first = density.iter().position(counts).unwrap_or(0);
        let last = density.iter().rposition(counts).unwrap_or(self.cells - 1);
        let end = |cell: f64| self.from + cell * self.step();
        Self {
            from: end(first as f64 - 1.0).max(self.from),
            to: end(last as f64 + 2.0).min(self.to),
            cells: self.cells,
        }
    }

    /// The probability of everything below a value.
    fn below(&self, density: &[f64], value: f64) -> f64 {
        let cells = ((value - self.from) / self.step()).clamp(0.0, self.cells as f64);
        let whole = cells.floor() as usize;
        let sum: f64 = density[..whole].iter().sum();
        sum + density.get(whole).map_or(0.0, |it| it * cells.fract())
    }

    fn quantile(&self, density: &[f64], share: f64) -> f64 {
        let mut sum = 0.0;
        for (cell, probability) in density.iter().enumerate() {
            if sum + probability >= share {
                let part = (share - sum) / probability;
                return self.from + (cell as f64 + part) * self.step();
            }
            sum += probability;
        }
        self.to
    }
}

/// One of [`SLOPES`] slopes.
pub(crate) fn slope(index: usize) -> f64 {
    let share = index as f64 / (SLOPES - 1) as f64;
    SLOPE_MIN * (SLOPE_MAX / SLOPE_MIN).powf(share)
}

impl Evidence {
    /// The share beyond the limit, divided by the allowed one, at this rate if the conditions are
    /// just met at another one.
    fn mean(&self, ln_rate: f64, slope: f64) -> f64 {
        (slope * (self.ln_rate - ln_rate))
            .min(OVERLOADED.ln())
            .exp()
    }

    /// How many requests would be beyond the limit.
    pub(crate) fn mean_count(&self, ln_rate: f64, slope: f64) -> f64 {
        self.mean(ln_rate, slope) * self.expected
    }

    /// The deviance of a Poisson distribution (McCullagh and Nelder, "Generalized Linear Models",
    /// 1989), as far as it is about the rates near the limit: far below and far above, the share
    /// does not follow the same slope.
    pub(crate) fn deviance(&self, ln_rate: f64, slope: f64) -> f64 {
        let found = self.relative.min(OVERLOADED);
        let mean = self.mean(ln_rate, slope);
        let of = |mean: f64| {
            let logarithm = if found > 0.0 {
                found * (found / mean).ln()
            } else {
                0.0
            };
            2.0 * (logarithm - (found - mean)).max(0.0)
        };
        let deviance = match (found < NEARLY_NONE, mean < NEARLY_NONE) {
            (true, true) => 0.0,
            (true, false) => of(mean) - of(NEARLY_NONE),
            (false, _) => of(mean.max(1e-9)),
        };
        deviance * self.expected
    }

    /// How much this run tells about how bursty requests beyond the limit are. One without any has
    /// the likelihood of no burst. That an overloaded server has some tells that bursts are not
    /// rare, but not how many requests they have.
    pub(crate) fn tells_dispersion(&self) -> f64 {
        match self.relative {
            it if it <= NEARLY_NONE => 0.0,
            it if it < OVERLOADED => 1.0,
            _ => 0.5,
        }
    }
}

/// The share of requests beyond the limit over the rate, as the runs show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    ln_rate: f64,
    slope: f64,
    reach: f64,
}

impl Curve {
    /// The curve is drawn over so many widths of the interval to both sides.
    const WIDTHS: f64 = 3.0;

    /// It is drawn at least this far to both sides, as ln.
    const REACH_MIN: f64 = 0.05;

    pub(crate) fn of(belief: &Belief) -> Self {
        Self {
            ln_rate: belief.median,
            slope: belief.slope,
            reach: (Self::WIDTHS * belief.half_width()).max(Self::REACH_MIN),
        }
    }

    /// The range of rates around the estimate over which the curve means something.
    #[must_use]
    pub fn rates(&self) -> (f64, f64) {
        (
            (self.ln_rate - self.reach).exp(),
            (self.ln_rate + self.reach).exp(),
        )
    }

    /// ln(share beyond the limit / allowed share) at a rate.
    #[must_use]
    pub fn excess_at(&self, rate: f64) -> f64 {
        self.slope * (rate.ln() - self.ln_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: Prior = Prior {
        ln_usual: 6.54,
        spread: 0.6,
        ln_floor: 0.0,
        ln_top: 7.1,
    };

    fn run(rate: f64, relative: f64, expected: f64) -> Evidence {
        Evidence {
            ln_rate: rate.ln(),
            relative,
            expected,
            at_s: 0.0,
        }
    }

    /// Runs of a server with this slope that meets the conditions up to 700.
    fn runs(slope: f64, rates: &[f64]) -> Vec<Evidence> {
        let of = |rate: &f64| run(*rate, (rate / 700.0).powf(slope), 60.0);
        rates.iter().map(of).collect()
    }

    const AROUND: [f64; 8] = [600.0, 640.0, 670.0, 690.0, 710.0, 730.0, 760.0, 800.0];

    #[test]
    fn the_interval_contains_the_rate_and_is_narrower_with_more_runs() {
        for slope in [4.0, 15.0, 60.0] {
            let few = Belief::of(&runs(slope, &AROUND), &PRIOR);
            let many = Belief::of(&runs(slope, &AROUND.repeat(4)), &PRIOR);
            for belief in [few, many] {
                let rate = 700_f64.ln();
                assert!(
                    belief.low < rate && rate < belief.high,
                    "{slope}: {belief:?}"
                );
                assert!((belief.median - rate).abs() < 0.03, "{slope}: {belief:?}");
            }
            assert!(many.half_width() < 0.6 * few.half_width(), "{slope}");
        }
    }

    #[test]
    fn a_short_run_without_anything_beyond_the_limit_tells_little() {
        let short = Belief::of(&[run(600.0, 0.0, 5.0)], &PRIOR);
        assert!(short.low < 400_f64.ln(), "{short:?}");
        let long = Belief::of(&[run(600.0, 0.0, 500.0)], &PRIOR);
        assert!(long.low > short.low, "{long:?}");
    }

    #[test]
    fn one_run_far_beyond_the_limit_does_not_decide() {
        let mut with_stall = runs(15.0, &AROUND);
        let without = Belief::of(&with_stall, &PRIOR);
        with_stall.push(run(600.0, 30.0, 60.0));
        let with = Belief::of(&with_stall, &PRIOR);
        assert!(with.half_width() > without.half_width(), "{with:?}");
        let rate = 700_f64.ln();
        assert!(with.low < rate && rate < with.high, "{with:?}");
    }

    #[test]
    fn a_server_that_holds_everything_is_beyond_the_top() {
        let held: Vec<Evidence> = AROUND.iter().map(|it| run(it * 1.5, 0.0, 300.0)).collect();
        assert!(Belief::of(&held, &PRIOR).above_top > 0.9);
        let failed: Vec<Evidence> = AROUND.iter().map(|it| run(it / 1e3, 90.0, 300.0)).collect();
        assert!(Belief::of(&failed, &PRIOR).below_floor > 0.9);
    }

    #[test]
    fn a_cliff_is_between_the_runs_on_its_sides() {
        let mut cliff: Vec<Evidence> = AROUND
            .iter()
            .map(|rate| run(*rate, if *rate > 700.0 { 80.0 } else { 0.0 }, 60.0))
            .collect();
        cliff.extend(cliff.clone());
        let belief = Belief::of(&cliff, &PRIOR);
        assert_eq!((belief.low, belief.high), (690_f64.ln(), 710_f64.ln()));
    }

    #[test]
    fn whatever_the_runs_are_the_belief_is_finite() {
        for relative in [0.0, 1e-300, 1.0, 100.0] {
            for expected in [1e-300, 1.0, 1e12] {
                let odd = [run(500.0, relative, expected), run(1e9, relative, expected)];
                let belief = Belief::of(&odd, &PRIOR);
                let all = [belief.low, belief.median, belief.high, belief.slope];
                assert!(all.iter().all(|it| it.is_finite()), "{odd:?}: {belief:?}");
                assert!(belief.low <= belief.median && belief.median <= belief.high);
            }
        }
    }

    #[test]
    fn the_curve_is_zero_at_the_estimate_and_rises() {
        let belief = Belief::of(&runs(15.0, &AROUND), &PRIOR);
        let curve = Curve::of(&belief);
        assert!(curve.excess_at(belief.median.exp()).abs() < 1e-9);
        assert!(curve.excess_at(belief.high.exp()) > 0.0);
        let (low, high) = curve.rates();
        assert!(low < belief.low.exp() && belief.high.exp() < high);
    }
}
