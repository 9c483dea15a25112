//! The curve of the excess over the rate, where it crosses zero, and how sure that is.

use stats::student_t_quantile;

/// One run: ln rate, and its clipped excess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) ln_rate: f64,
    pub(crate) excess: f64,
}

/// A parabola of the mean clipped excess over ln rate, fitted to the runs in a window.
///
/// The curvature is shrunk by ridge regression (Hoerl and Kennard, "Ridge Regression: Biased
/// Estimation for Nonorthogonal Problems", 1970): clipping and queueing bend the curve, but few
/// runs tell little about how much. The noise grows with the rate, so the covariance is HC3
/// (MacKinnon and White, "Some Heteroskedasticity-Consistent Covariance Matrix Estimators with
/// Improved Finite Sample Properties", 1985). The interval contains all rates whose excess does not
/// differ from 0 (Fieller, "Some Problems in Interval Estimation", 1954).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    centre: f64,
    span: f64,
    coefficients: [f64; 3],
    covariance: [[f64; 3]; 3],
    runs: usize,
    freedom: f64,
    noise: f64,
}

/// The penalty on the curvature, as a number of runs one span away from the centre.
const RIDGE: f64 = 10.0;

/// Runs within this many spans of the centre are fitted.
const WINDOW: f64 = 2.5;

/// Three coefficients and a run that says something about the noise.
const RUNS_MIN: usize = 4;

/// The interval is this much wider than at a planned number of runs: a search stops when the
/// interval happens to be narrow. With 1.05 the simulated coverage is 0.91 to 0.98, too low.
const SEQUENTIAL: f64 = 1.1;

/// And with n runs wider by this over n: the first looks find the luckiest intervals. Without it
/// the coverage is 0.91 at the first look of a search to 5 %, and 0.95 over all.
const FIRST_LOOKS: f64 = 1.0;

/// Confidence of the interval.
const CONFIDENCE: f64 = 0.95;

impl Curve {
    /// `None` if there are too few runs around the centre, or if all have the same rate.
    pub(crate) fn fit(points: &[Point], centre: f64, span: f64) -> Option<Self> {
        let reach = WINDOW * span + 1e-9;
        let near: Vec<(Row, f64)> = points
            .iter()
            .filter(|point| (point.ln_rate - centre).abs() <= reach)
            .map(|point| (row((point.ln_rate - centre) / span), point.excess))
            .collect();
        if near.len() < RUNS_MIN {
            return None;
        }
        let mut normal = [[0.0; 3]; 3];
        normal[2][2] = RIDGE;
        let mut right = [0.0; 3];
        for (row, excess) in &near {
            add_outer(&mut normal, row, 1.0);
            for (sum, factor) in right.iter_mut().zip(row) {
                *sum += factor * excess;
            }
        }
        let inverse = inverse(&normal)?;
        let coefficients = times(&inverse, &right);
        let mut meat = [[0.0; 3]; 3];
        let (mut squares, mut used) = (0.0, 0.0);
        for (row, excess) in &near {
            let leverage = dot(row, &times(&inverse, row));
            let residual = excess - dot(row, &coefficients);
            add_outer(
                &mut meat,
                row,
                (residual / (1.0 - leverage).max(1e-3)).powi(2),
            );
            squares += residual * residual;
            used += leverage;
        }
        let freedom = near.len() as f64 - used;
        Some(Self {
            centre,
            span,
            coefficients,
            covariance: product(&product(&inverse, &meat), &inverse),
            runs: near.len(),
            freedom,
            noise: (squares / freedom).sqrt(),
        })
    }

    /// The number of runs that were fitted.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The range of rates of the fitted runs: outside, the curve means nothing.
    #[must_use]
    pub fn rates(&self) -> (f64, f64) {
        let reach = WINDOW * self.span;
        ((self.centre - reach).exp(), (self.centre + reach).exp())
    }

    /// The mean clipped excess at a rate: ln(metric / limit) of a typical run.
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

    /// How much the rates of single runs differ, as a standard deviation of ln rate: the noise over
    /// the slope.
    pub(crate) fn spread(&self) -> Option<f64> {
        let root = (self.root()? - self.centre) / self.span;
        let [_, b, c] = self.coefficients;
        let slope = (2.0 * c).mul_add(root.clamp(-WINDOW, WINDOW), b) / self.span;
        Some(self.noise / slope).filter(|it| it.is_finite() && slope > 0.0)
    }

    /// About how many more runs it takes until the interval's half-width is `precision`: the width
    /// falls with the square root of their number.
    pub(crate) fn runs_needed(&self, precision: f64) -> Option<usize> {
        let runs = self.runs as f64;
        let half_width = match self.interval() {
            Some((low, high)) => (high - low) / 2.0,
            None => self.quantile()? * self.spread()? / runs.sqrt(),
        };
        let needed = runs * (half_width / precision).powi(2) - runs;
        Some(needed.ceil().max(1.0) as usize)
    }

    /// The quantile by which standard errors are multiplied.
    pub(crate) fn quantile(&self) -> Option<f64> {
        let student = student_t_quantile(f64::midpoint(1.0, CONFIDENCE), self.freedom)?;
        Some(SEQUENTIAL * (1.0 + FIRST_LOOKS / self.runs as f64) * student)
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
            let row = row(at);
            let error = dot(&row, &times(&self.covariance, &row)).max(0.0).sqrt();
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

type Row = [f64; 3];
type Matrix = [[f64; 3]; 3];

fn row(at: f64) -> Row {
    [1.0, at, at * at]
}

fn dot(a: &Row, b: &Row) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
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
        let point = |at: f64| Point {
            ln_rate: 7.0 + 0.1 * at,
            excess: of(at),
        };
        places.into_iter().map(point).collect()
    }

    fn fit(points: &[Point]) -> Curve {
        Curve::fit(points, 7.0, 0.1).expect("there are enough runs")
    }

    #[test]
    fn a_line_is_fitted_exactly() {
        let curve = fit(&blocks(|at| 0.2 * (at - 0.5)));
        let root = curve.root().expect("it rises");
        assert!((root - 7.05).abs() < 1e-9, "{root}");
        let (low, high) = curve.interval().expect("there is no noise");
        assert!(
            (high - low).abs() < 1e-6 && (low - 7.05).abs() < 1e-6,
            "{low}, {high}"
        );
        assert!((curve.excess_at(7.1_f64.exp()) - 0.1).abs() < 1e-9);
        let (lowest, highest) = curve.rates();
        assert!((highest / lowest).ln() - 0.5 < 1e-9);
        assert_eq!(curve.runs(), 16);
    }

    /// Residuals of +0.1 and -0.1 in turn, on a line. The expected half-width was computed by
    /// another program, from the formulas of the sources.
    #[test]
    fn the_interval_is_that_of_the_formulas() {
        let mut points = blocks(|at| 0.5 * at);
        for (index, point) in points.iter_mut().enumerate() {
            point.excess += if (index / 4) % 2 == 0 { 0.1 } else { -0.1 };
        }
        let curve = fit(&points);
        let (low, high) = curve.interval().expect("it rises");
        let half_width = (high - low) / 2.0;
        assert!((half_width - 0.015_113_611).abs() < 1e-8, "{half_width}");
        let spread = curve.spread().expect("it rises");
        assert!((0.02..0.024).contains(&spread), "{spread}");
        let runs = curve.runs_needed(half_width / 2.0).expect("it rises");
        assert_eq!(runs, 48, "four times as many, less those that there are");
    }

    #[test]
    fn a_curve_that_does_not_rise_or_crosses_far_away_has_no_interval() {
        assert_eq!(fit(&blocks(|at| -0.2 * at)).root(), None);
        assert_eq!(fit(&blocks(|at| 0.1 + at * at)).root(), None);
        // The crossing is 1e15 spans away.
        for side in [-1.0, 1.0] {
            let flat = fit(&blocks(|at| 1e-16_f64.mul_add(at, 0.1 * side)));
            assert_eq!(flat.interval(), None);
        }
    }

    #[test]
    fn too_few_runs_or_a_single_rate_have_no_curve() {
        let points = blocks(|at| at);
        assert_eq!(Curve::fit(&points[..3], 7.0, 0.1), None);
        assert_eq!(Curve::fit(&points, 8.0, 0.1), None);
        assert_eq!(Curve::fit(&[points[0]; 8], 7.0, 0.1), None);
    }
}
