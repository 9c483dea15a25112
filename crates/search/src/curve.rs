//! A curve of the share of requests beyond the limit over the rate: it gives the rate at which the
//! share is the allowed one, and a confidence interval of that rate.

use stats::student_t_quantile;

/// One run as one condition sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) ln_rate: f64,
    /// The share beyond the limit divided by the allowed share.
    pub(crate) relative: f64,
    /// Number of requests of the run.
    pub(crate) weight: f64,
    /// When the run ended, in seconds of the search.
    pub(crate) at_s: f64,
}

/// ln(share beyond the limit / allowed share) as a parabola of ln rate, fitted to the runs in a
/// window.
///
/// The shares are pooled: a generalized linear model with a logarithmic link and quasi-likelihood
/// (Wedderburn, "Quasi-Likelihood Functions, Generalized Linear Models, and the Gauss-Newton
/// Method", 1974), in which each run weighs as many requests as it has. The responses of a run are
/// not independent, so the spread is not the binomial's: the covariance is HC3, which takes it as
/// it is (MacKinnon and White, "Some Heteroskedasticity-Consistent Covariance Matrix Estimators
/// with Improved Finite Sample Properties", 1985). The variance function m + m² lets runs far above
/// the limit weigh less. The curvature is shrunk by ridge regression (Hoerl and Kennard, "Ridge
/// Regression: Biased Estimation for Nonorthogonal Problems", 1970): few runs tell little about it.
/// The interval contains all rates whose share does not differ significantly from the allowed one
/// (Fieller, "Some Problems in Interval Estimation", 1954).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    centre: f64,
    span: f64,
    coefficients: Row,
    covariance: Matrix,
    runs: usize,
    freedom: f64,
    /// The effective number of runs by their requests beyond the limit (Kish, "Survey Sampling",
    /// 1965): as many runs that are all alike would tell as much.
    bursts: f64,
}

/// The penalty on the curvature, as a number of runs one span away from the centre.
const RIDGE: f64 = 5.0;

/// Runs within this many spans of the centre are fitted.
pub(crate) const WINDOW: f64 = 2.5;

/// The fewest runs that are fitted: one for each of three coefficients, and one more to estimate
/// the noise.
const RUNS_MIN: usize = 4;

/// Each run counts as if it had this much more of the allowed share. Otherwise the curve would be
/// infinitely steep where all runs below the rate have nothing beyond the limit and all above have
/// much.
const PRIOR: f64 = 0.02;

/// The interval is widened by this number divided by the number of bursts: a few bursts do not show
/// how large bursts can be, and a search stops when the interval happens to be narrow.
const FIRST_BURSTS: f64 = 4.0;

/// Confidence level of the interval.
const CONFIDENCE: f64 = 0.95;

/// The most steps of Fisher's scoring; four or five are usual.
const SCORING_STEPS: usize = 50;

impl Curve {
    /// `None` if there are too few runs around the centre, all have the same rate, or none of them
    /// has anything beyond the limit.
    pub(crate) fn fit(points: &[Point], centre: f64, span: f64) -> Option<Self> {
        let near = near(points, centre, span, WINDOW);
        let fit = Fit::new(&near.iter().map(|it| it.0).collect::<Vec<_>>(), &near)?;
        Some(Self {
            centre,
            span,
            coefficients: fit.coefficients,
            covariance: fit.covariance,
            runs: near.len(),
            freedom: fit.freedom,
            bursts: fit.bursts,
        })
    }

    /// The number of runs that were fitted.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The effective number of bursts of requests beyond the limit, at most the number of runs.
    pub(crate) fn bursts(&self) -> f64 {
        self.bursts
    }

    /// The range of rates of the fitted runs. Outside of it, the curve means nothing.
    #[must_use]
    pub fn rates(&self) -> (f64, f64) {
        let reach = WINDOW * self.span;
        ((self.centre - reach).exp(), (self.centre + reach).exp())
    }

    /// ln(share beyond the limit / allowed share) at a rate.
    #[must_use]
    pub fn excess_at(&self, rate: f64) -> f64 {
        self.excess((rate.ln() - self.centre) / self.span)
    }

    /// ln of the rate at which the curve rises through zero; `None` if it does not rise there.
    pub(crate) fn root(&self) -> Option<f64> {
        let [a, b, c] = self.coefficients;
        let root = b.mul_add(b, -4.0 * a * c).sqrt();
        // The solution of the quadratic equation that stays exact as the curvature vanishes.
        let at = -2.0 * a / (b + root);
        (b > 0.0 && at.is_finite()).then_some(self.centre + at * self.span)
    }

    /// The ends of the confidence interval as ln rates; `None` if an end is outside the window.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        let root = (self.root()? - self.centre) / self.span;
        if root.abs() > WINDOW {
            return None;
        }
        let low = self.end(root, -1.0)?;
        let high = self.end(root, 1.0)?;
        Some((
            self.centre + low * self.span,
            self.centre + high * self.span,
        ))
    }

    /// How fast the excess rises with ln rate at the root; positive.
    pub(crate) fn slope(&self) -> Option<f64> {
        let root = (self.root()? - self.centre) / self.span;
        let [_, b, c] = self.coefficients;
        let slope = (2.0 * c).mul_add(root.clamp(-WINDOW, WINDOW), b) / self.span;
        Some(slope).filter(|it| it.is_finite() && *it > 0.0)
    }

    /// About how many more runs it takes until the interval's half-width is `precision`: the width
    /// falls with the square root of the number of runs.
    pub(crate) fn runs_needed(&self, precision: f64) -> Option<usize> {
        let runs = self.runs as f64;
        let half_width = match self.interval() {
            Some((low, high)) => (high - low) / 2.0,
            None => {
                let root = (self.root()? - self.centre) / self.span;
                let row = row(root.clamp(-WINDOW, WINDOW));
                self.quantile()? * quadratic(&self.covariance, &row).sqrt() / self.slope()?
            }
        };
        let needed = runs * (half_width / precision).powi(2) - runs;
        Some(needed.ceil().max(1.0) as usize)
    }

    /// The quantile by which standard errors are multiplied.
    fn quantile(&self) -> Option<f64> {
        let student = student_t_quantile(f64::midpoint(1.0, CONFIDENCE), self.freedom)?;
        Some((1.0 + FIRST_BURSTS / self.bursts) * student)
    }

    fn excess(&self, at: f64) -> f64 {
        dot(&row(at), &self.coefficients)
    }

    /// The first place from the root on, in spans, where the excess differs from 0.
    fn end(&self, root: f64, direction: f64) -> Option<f64> {
        const STEP: f64 = 0.02;
        const HALVINGS: usize = 30;
        let quantile = self.quantile()?;
        let differs = |at: f64| {
            let error = quadratic(&self.covariance, &row(at)).sqrt();
            direction * self.excess(at) > quantile * error
        };
        let steps = ((WINDOW - direction * root) / STEP).ceil() as usize;
        let first = (1..=steps).find(|step| differs(root + direction * STEP * *step as f64))?;
        let mut outside = root + direction * STEP * first as f64;
        let mut inside = outside - direction * STEP;
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(inside, outside);
            *(if differs(middle) {
                &mut outside
            } else {
                &mut inside
            }) = middle;
        }
        Some(outside)
    }
}

/// A change of the server while it was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drift {
    /// By how much the rate within the conditions changed, as ln, over the time of the runs.
    pub(crate) ln_change: f64,
    /// How long that was, in seconds.
    pub(crate) time_s: f64,
}

/// Probability that the test for a drift finds one where there is none.
const DRIFT_LEVEL: f64 = 0.05;

/// A smaller change of the rate, as ln, does not matter.
const DRIFT_MIN: f64 = 0.03;

/// The test for a drift takes runs from a window that is wider by this factor. The search follows a
/// drift, so its early runs are farther away than a parabola fits. They still show a linear change
/// with time.
const DRIFT_WINDOWS: f64 = 2.0;

impl Drift {
    /// Tests whether the runs at one rate changed with time: the same model with time as a variable
    /// in place of the curvature. `None` if they did not, or if it cannot be decided.
    pub(crate) fn of(points: &[Point], centre: f64, span: f64) -> Option<Self> {
        let near = near(points, centre, span, DRIFT_WINDOWS * WINDOW);
        let times = || near.iter().map(|(_, point)| point.at_s);
        let (first, last) = (
            times().fold(f64::INFINITY, f64::min),
            times().fold(f64::NEG_INFINITY, f64::max),
        );
        let time_s = last - first;
        let rows: Vec<Row> = near
            .iter()
            .map(|([one, at, _], point)| [*one, *at, (point.at_s - first) / time_s - 0.5])
            .collect();
        if near.len() < 2 * RUNS_MIN || time_s.is_nan() || time_s <= 0.0 {
            return None;
        }
        let fit = Fit::of_line(&rows, &near)?;
        let [_, by_rate, by_time] = fit.coefficients;
        let error = fit.covariance[2][2].sqrt();
        let quantile = student_t_quantile(1.0 - DRIFT_LEVEL / 2.0, fit.freedom)?;
        let ln_change = -by_time / by_rate * span;
        let is_seen = by_rate > 0.0 && by_time.abs() > quantile * error;
        (is_seen && ln_change.abs() >= DRIFT_MIN).then_some(Self { ln_change, time_s })
    }
}

/// The runs within so many spans of a rate, each with its row of variables.
fn near(points: &[Point], centre: f64, span: f64, spans: f64) -> Vec<(Row, Point)> {
    let reach = spans * span + 1e-9;
    let is_near = |point: &&Point| (point.ln_rate - centre).abs() <= reach;
    let with_row = |point: &Point| (row((point.ln_rate - centre) / span), *point);
    points.iter().filter(is_near).map(with_row).collect()
}

/// A fitted model of three variables.
struct Fit {
    coefficients: Row,
    covariance: Matrix,
    freedom: f64,
    bursts: f64,
}

impl Fit {
    /// A parabola, the curvature of which is shrunk.
    fn new(rows: &[Row], points: &[(Row, Point)]) -> Option<Self> {
        Self::with_ridge(rows, points, RIDGE)
    }

    /// Three variables, none of which is shrunk.
    fn of_line(rows: &[Row], points: &[(Row, Point)]) -> Option<Self> {
        Self::with_ridge(rows, points, 0.0)
    }

    fn with_ridge(rows: &[Row], points: &[(Row, Point)], ridge: f64) -> Option<Self> {
        if rows.len() < RUNS_MIN || points.iter().all(|(_, point)| point.relative == 0.0) {
            return None;
        }
        let mean_weight =
            points.iter().map(|(_, point)| point.weight).sum::<f64>() / points.len() as f64;
        let runs: Vec<(Row, f64, f64)> = rows
            .iter()
            .zip(points)
            .map(|(row, (_, point))| (*row, point.relative + PRIOR, point.weight / mean_weight))
            .collect();
        let mean = runs.iter().map(|run| run.1 * run.2).sum::<f64>() / runs.len() as f64;
        let mut coefficients = [mean.ln(), 0.0, 0.0];
        let mut inverse = None;
        for _ in 0..SCORING_STEPS {
            let (normal, score) = scoring(&runs, &coefficients, ridge);
            let current = self::inverse(&normal)?;
            inverse = Some(current);
            let step = times(&current, &score);
            // Far from the solution a full step may overshoot.
            let longest = step.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            let share = (1.0 / longest).min(1.0);
            for (coefficient, change) in coefficients.iter_mut().zip(step) {
                *coefficient += share * change;
            }
            if longest < 1e-9 {
                break;
            }
        }
        let inverse = inverse?;
        let mut meat = [[0.0; 3]; 3];
        let mut used = 0.0;
        let (mut sum, mut squares) = (0.0, 0.0);
        for (row, relative, weight) in &runs {
            let expected = dot(row, &coefficients).exp();
            let information = weight * expected / (1.0 + expected);
            let leverage = information * quadratic(&inverse, row);
            let residual = weight * (relative - expected) / (1.0 + expected);
            add_outer(
                &mut meat,
                row,
                (residual / (1.0 - leverage).max(0.1)).powi(2),
            );
            used += leverage;
            let seen = weight * relative / (1.0 + expected);
            sum += seen;
            squares += seen * seen;
        }
        let covariance = product(&product(&inverse, &meat), &inverse);
        // Where the share is the allowed one, the fitted share also has the prior.
        coefficients[0] -= PRIOR.ln_1p();
        let is_finite = coefficients.iter().chain(covariance.as_flattened());
        is_finite.clone().all(|it| it.is_finite()).then(|| Self {
            coefficients,
            covariance,
            freedom: (runs.len() as f64 - used).max(1.0),
            bursts: sum * sum / squares,
        })
    }
}

/// The information and the score at these coefficients.
fn scoring(runs: &[(Row, f64, f64)], coefficients: &Row, ridge: f64) -> (Matrix, Row) {
    let mut normal = [[0.0; 3]; 3];
    normal[2][2] = ridge;
    let mut score = [0.0, 0.0, -ridge * coefficients[2]];
    for (row, relative, weight) in runs {
        let expected = dot(row, coefficients).clamp(-30.0, 30.0).exp();
        add_outer(&mut normal, row, weight * expected / (1.0 + expected));
        let residual = weight * (relative - expected) / (1.0 + expected);
        for (sum, factor) in score.iter_mut().zip(row) {
            *sum += factor * residual;
        }
    }
    (normal, score)
}

type Row = [f64; 3];
type Matrix = [[f64; 3]; 3];

fn row(at: f64) -> Row {
    [1.0, at, at * at]
}

fn dot(a: &Row, b: &Row) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn quadratic(matrix: &Matrix, row: &Row) -> f64 {
    dot(row, &times(matrix, row)).max(0.0)
}

fn times(matrix: &Matrix, vector: &Row) -> Row {
    matrix.map(|row| dot(&row, vector))
}

/// The product of two matrices of which the second is symmetric.
fn product(first: &Matrix, symmetric: &Matrix) -> Matrix {
    first.map(|row| times(symmetric, &row))
}

fn add_outer(matrix: &mut Matrix, row: &Row, weight: f64) {
    for (line, factor) in matrix.iter_mut().zip(row) {
        for (cell, other) in line.iter_mut().zip(row) {
            *cell += weight * factor * other;
        }
    }
}

/// The inverse of a symmetric matrix by its cofactors; `None` if it is singular.
fn inverse(m: &Matrix) -> Option<Matrix> {
    let cofactor = |i: usize, j: usize| {
        let (a, b) = ((i + 1) % 3, (i + 2) % 3);
        let (c, d) = ((j + 1) % 3, (j + 2) % 3);
        m[a][c] * m[b][d] - m[a][d] * m[b][c]
    };
    let cofactors = [0, 1, 2].map(|i| [0, 1, 2].map(|j| cofactor(i, j)));
    let determinant = dot(&m[0], &cofactors[0]);
    let scale = m[0][0] * m[1][1] * m[2][2];
    (determinant > 1e-12 * scale).then(|| cofactors.map(|row| row.map(|it| it / determinant)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four blocks around a rate of e^7 with a span of 0.1, in which the excess is that of `of`.
    fn blocks(of: impl Fn(f64) -> f64) -> Vec<Point> {
        let places = [-1.0, -1.0 / 3.0, 1.0 / 3.0, 1.0].repeat(4);
        let point = |(index, at): (usize, f64)| Point {
            ln_rate: 7.0 + 0.1 * at,
            relative: of(at).exp() - PRIOR,
            weight: 1_000.0,
            at_s: 10.0 * index as f64,
        };
        places.into_iter().enumerate().map(point).collect()
    }

    fn fit(points: &[Point]) -> Curve {
        Curve::fit(points, 7.0, 0.1).expect("there are enough runs")
    }

    #[test]
    fn an_exponential_rise_is_fitted_exactly() {
        // The fitted share has the prior, so it is added here too.
        let curve = fit(&blocks(|at| 1.2 * (at - 0.5) + PRIOR.ln_1p()));
        let root = curve.root().expect("it rises");
        assert!((root - 7.05).abs() < 1e-6, "{root}");
        let (low, high) = curve.interval().expect("there is no noise");
        assert!(
            (high - low).abs() < 1e-3 && (low - 7.05).abs() < 1e-3,
            "{low}, {high}"
        );
        assert!((curve.excess_at(7.1_f64.exp()) - 0.6).abs() < 1e-6);
        let (lowest, highest) = curve.rates();
        assert!((highest / lowest).ln() - 0.5 < 1e-9);
        assert_eq!(curve.runs(), 16);
    }

    #[test]
    fn the_root_is_that_of_the_pooled_share() {
        let mut points = blocks(|at| 2.0 * at);
        for (index, point) in points.iter_mut().enumerate() {
            // Half of the runs have nothing, the others twice as much.
            point.relative *= if (index / 4) % 2 == 0 { 2.0 } else { 0.0 };
        }
        let curve = fit(&points);
        let root = curve.root().expect("it rises");
        assert!((root - 7.0).abs() < 0.005, "{root}");
        assert!(
            curve.bursts() < 0.6 * curve.runs() as f64,
            "{}",
            curve.bursts()
        );
        let even = fit(&blocks(|at| 2.0 * at));
        assert!(even.bursts() > curve.bursts());
    }

    #[test]
    fn runs_with_more_requests_weigh_more() {
        let mut points = blocks(|at| 1.2 * at);
        for (index, point) in points.iter_mut().enumerate() {
            let is_long = (index / 4) % 2 == 0;
            point.weight = if is_long { 9_000.0 } else { 1_000.0 };
            point.relative *= if is_long { 1.0 } else { 2.0 };
        }
        let root = fit(&points).root().expect("it rises");
        // The mean is 1.1 and not 1.5.
        let expected = 7.0 - 0.1 * 1.1_f64.ln() / 1.2;
        assert!((root - expected).abs() < 0.002, "{root}, {expected}");
    }

    #[test]
    fn a_curve_that_does_not_rise_or_crosses_far_away_has_no_interval() {
        assert_eq!(fit(&blocks(|at| -0.2 * at)).root(), None);
        for side in [-1.0, 1.0] {
            let flat = fit(&blocks(|at| 1e-6_f64.mul_add(at, side)));
            assert_eq!(flat.interval(), None);
        }
    }

    #[test]
    fn runs_without_anything_beyond_the_limit_tell_too_little() {
        let mut points = blocks(|at| at);
        assert_eq!(Curve::fit(&points[..3], 7.0, 0.1), None);
        assert_eq!(Curve::fit(&points, 8.0, 0.1), None);
        assert_eq!(Curve::fit(&[points[0]; 8], 7.0, 0.1), None);
        for point in &mut points {
            point.relative = 0.0;
        }
        assert_eq!(Curve::fit(&points, 7.0, 0.1), None);
    }

    #[test]
    fn a_drift_is_told_from_the_effect_of_the_rate() {
        let noise = |index: usize| [0.05, -0.05, -0.05, 0.05, -0.05][index % 5];
        let with = |per_s: f64| {
            let mut points = blocks(|at| 1.2 * at);
            for (index, point) in points.iter_mut().enumerate() {
                point.relative *= (per_s * point.at_s + noise(index)).exp();
            }
            Drift::of(&points, 7.0, 0.1)
        };
        assert_eq!(with(0.0), None);
        let drift = with(0.01).expect("it is large");
        // 1.5 in the logarithm of the share over 150 s, at a slope of 12 per unit of ln rate.
        assert!((drift.ln_change + 0.125).abs() < 0.02, "{drift:?}");
        assert!((drift.time_s - 150.0).abs() < 1e-9);
    }
}
