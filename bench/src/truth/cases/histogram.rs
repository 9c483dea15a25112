//! Histograms compared with exact percentiles, and merged in any order. No server.

use fastrand::Rng;
use results::Histogram;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;

const SAMPLES: usize = 1_000_000;

/// The error of a histogram with three significant digits.
const NEAR: Tolerance = Tolerance::Share(0.001);

pub(super) fn run(_lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let mut random = Rng::with_seed(8);
    let samples_ns: Vec<u64> = (0..SAMPLES).map(|_| lognormal_ns(&mut random)).collect();
    let mut all = Histogram::new();
    samples_ns.iter().for_each(|sample| all.record(*sample));
    let exact: Vec<f64> = samples_ns.iter().map(|&ns| ns as f64).collect();
    let exact = stats::sorted(&exact);
    for percent in [1.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0] {
        let truth = stats::quantile(&exact, percent / 100.0).unwrap_or(f64::NAN);
        let tolerance = if percent == 100.0 {
            Tolerance::Exact
        } else {
            NEAR
        };
        case.ours(
            format!("p{percent}"),
            Figure::Us(truth / 1e3),
            tolerance,
            Some(Figure::Us(all.value_at_percentile(percent) as f64 / 1e3)),
        );
    }
    let sum_ns: u64 = samples_ns.iter().sum();
    case.ours(
        "mean",
        Figure::Us(sum_ns as f64 / SAMPLES as f64 / 1e3),
        Tolerance::Exact,
        Some(Figure::Us(all.mean_ns() / 1e3)),
    );
    merging(case, &samples_ns, &all)
}

/// (a + b) + c, a + (b + c), (c + b) + a and all at once are saved as the same bytes.
fn merging(case: &mut CaseResult, samples_ns: &[u64], all: &Histogram) -> anyhow::Result<()> {
    let third = |number: usize| {
        let mut histogram = Histogram::new();
        let own = samples_ns.iter().skip(number).step_by(3);
        own.for_each(|sample| histogram.record(*sample));
        histogram
    };
    let sum = |left: &Histogram, right: &Histogram| {
        let mut sum = left.clone();
        sum.merge(right);
        sum
    };
    let (a, b, c) = (third(0), third(1), third(2));
    let whole = serde_json::to_string(all)?;
    for (what, merged) in [
        ("(a + b) + c", sum(&sum(&a, &b), &c)),
        ("a + (b + c)", sum(&a, &sum(&b, &c))),
        ("(c + b) + a", sum(&sum(&c, &b), &a)),
    ] {
        let is_same = serde_json::to_string(&merged)? == whole;
        let seen = if is_same { "same bits" } else { "other bits" };
        case.ours(
            format!("merged as {what}"),
            Figure::word("same bits"),
            Tolerance::Exact,
            Some(Figure::word(seen)),
        );
    }
    Ok(())
}

/// Lognormal samples: median 1 ms, standard deviation of the logarithm 1; method of Box and Muller
/// (1958).
fn lognormal_ns(random: &mut Rng) -> u64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
    (1e6 * normal.exp()) as u64
}
