//! Whether the server changed while it was measured.

use stats::student_t_quantile;

use crate::Why;
use crate::belief::{Belief, DISPERSION_SCALE, DISPERSION_SHAPE, Evidence, SLOPES, slope};

/// From one run on, the rate within the conditions is another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    /// Index of the first run after the change.
    pub(crate) at: usize,
    /// By how much the rate changed, as ln.
    pub(crate) ln_change: f64,
    /// The 95 % interval of that.
    pub(crate) interval: (f64, f64),
}

/// How much better two rates describe the runs than one, in units of the dispersion. Constant
/// servers reach this for several runs in a row in less than one of 200 searches.
const CLEAR: f64 = 40.0;

/// A smaller change of the rate, as ln, does not matter.
const CHANGE_MIN: f64 = 0.03;

/// The fewest runs on each side of a change.
const SIDE_MIN: usize = 2;

/// Rates that are considered, over the range of those that were tried and this factor beyond.
const RATES: usize = 60;
const MARGIN: f64 = 1.3;

impl Change {
    /// As the reason why a search of this length has no answer.
    pub(crate) fn why(self, time_s: f64) -> Why {
        Why::Drift {
            ln_change: self.ln_change,
            interval: self.interval,
            time_s,
        }
    }

    /// The clearest change; `None` if one rate describes all runs.
    pub(crate) fn of(evidence: &[Evidence]) -> Option<Self> {
        let found = Self::clearer(evidence, CLEAR)?;
        let shows = |others: &[Evidence]| {
            Self::clearer(others, CLEAR / 2.0)
                .is_some_and(|it| it.ln_change.signum() == found.ln_change.signum())
        };
        is_robust(evidence, shows).then_some(found)
    }

    fn clearer(evidence: &[Evidence], clear: f64) -> Option<Self> {
        if evidence.len() < 2 * SIDE_MIN {
            return None;
        }
        let tried = || evidence.iter().map(|run| run.ln_rate);
        let from = tried().fold(f64::INFINITY, f64::min) - MARGIN.ln();
        let to = tried().fold(f64::NEG_INFINITY, f64::max) + MARGIN.ln();
        let rate = |cell: usize| from + (to - from) * (cell as f64 + 0.5) / RATES as f64;
        let mut one = f64::INFINITY;
        let mut best: Option<Split> = None;
        for slope in (0..SLOPES).map(slope) {
            // The deviance of the first runs, for each number of them and each rate.
            let mut sums = vec![vec![0.0; RATES]];
            for run in evidence {
                let last = &sums[sums.len() - 1];
                let cells = last.iter().enumerate();
                let next = cells.map(|(cell, sum)| sum + run.deviance(rate(cell), slope));
                sums.push(next.collect());
            }
            let all = &sums[evidence.len()];
            one = all.iter().copied().fold(one, f64::min);
            let splits = sums.iter().enumerate().skip(SIDE_MIN);
            for (at, sum) in splits.take(evidence.len() + 1 - 2 * SIDE_MIN) {
                let before = least(sum.iter().copied());
                let after = least(all.iter().zip(sum).map(|(all, sum)| all - sum));
                let deviance = before.1 + after.1;
                if best.is_none_or(|best| deviance < best.deviance) {
                    best = Some(Split {
                        at,
                        before: rate(before.0),
                        after: rate(after.0),
                        slope,
                        deviance,
                    });
                }
            }
        }
        best?.change(evidence, one, clear)
    }
}

/// The rate within the conditions rises or falls all the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drift {
    /// By how much the rate changed from the first run to the last, as ln.
    pub(crate) ln_change: f64,
    /// The 95 % interval of that.
    pub(crate) interval: (f64, f64),
    /// How long that was, in seconds.
    pub(crate) time_s: f64,
}

/// Changes of the rate that are considered, as ln.
const DRIFT_MAX: f64 = 1.0;
const DRIFTS: i32 = 20;

/// Rates that are considered for a drift, over three times the interval of the rate.
const DRIFT_RATES: usize = 24;

/// The fewest runs that show a drift, without any of them.
const DRIFT_RUNS_MIN: usize = 7;

/// How much better a drift describes the runs than a constant rate, in units of the dispersion.
/// Constant servers reach this for several runs in a row in less than one of 200 searches.
const DRIFT_CLEAR: f64 = 16.0;

/// Runs within this many units of slope are looked at.
const DRIFT_REACH: f64 = 2.0;

/// A smaller change than this does not matter, as ln: it is within what runs differ by.
const DRIFT_MIN: f64 = 0.03;

/// The deviance of a chi-squared distribution with one degree of freedom that is exceeded with a
/// probability of 5 %.
const CHI_SQUARED_95: f64 = 3.841;

impl Drift {
    /// As the reason why a search has no answer.
    pub(crate) fn why(self) -> Why {
        Why::Drift {
            ln_change: self.ln_change,
            interval: self.interval,
            time_s: self.time_s,
        }
    }

    /// `None` if one rate describes all runs, or if there are too few.
    pub(crate) fn of(evidence: &[Evidence], belief: &Belief) -> Option<Self> {
        let found = Self::clearer(evidence, belief, DRIFT_CLEAR)?;
        let shows = |others: &[Evidence]| {
            Self::clearer(others, belief, DRIFT_CLEAR / 2.0)
                .is_some_and(|it| it.ln_change.signum() == found.ln_change.signum())
        };
        is_robust(evidence, shows).then_some(found)
    }

    /// A drift that is clearer than this.
    fn clearer(evidence: &[Evidence], belief: &Belief, clear: f64) -> Option<Self> {
        // Runs far away are the early ones, and the share does not follow the same slope there.
        let reach = DRIFT_REACH / belief.slope;
        let is_near = |run: &&Evidence| (run.ln_rate - belief.median).abs() <= reach;
        let evidence: Vec<Evidence> = evidence.iter().filter(is_near).copied().collect();
        let times = || evidence.iter().map(|run| run.at_s);
        let first = times().fold(f64::INFINITY, f64::min);
        let time_s = times().fold(f64::NEG_INFINITY, f64::max) - first;
        if evidence.len() < DRIFT_RUNS_MIN || time_s <= 0.0 {
            return None;
        }
        let reach = 3.0 * belief.half_width();
        let rate = |cell: usize| {
            belief.median + reach * (2.0 * cell as f64 / (DRIFT_RATES - 1) as f64 - 1.0)
        };
        let change = |drift: i32| DRIFT_MAX * f64::from(drift) / f64::from(DRIFTS);
        let least = |drift: i32| {
            // What a run at a later time would be at the middle of the search.
            let moved: Vec<Evidence> = evidence
                .iter()
                .map(|run| Evidence {
                    ln_rate: run.ln_rate - change(drift) * ((run.at_s - first) / time_s - 0.5),
                    ..*run
                })
                .collect();
            let cells = (0..DRIFT_RATES * SLOPES).map(|cell| {
                let (ln_rate, slope) = (rate(cell / SLOPES), slope(cell % SLOPES));
                moved.iter().map(|run| run.deviance(ln_rate, slope)).sum()
            });
            cells.fold(f64::INFINITY, f64::min)
        };
        let deviances: Vec<f64> = (-DRIFTS..=DRIFTS).map(least).collect();
        let (best, deviance) = self::least(deviances.iter().copied());
        let dispersion = dispersion(&evidence, deviance);
        let is_near = |it: &&(i32, f64)| it.1 - deviance <= CHI_SQUARED_95 * dispersion;
        let all: Vec<(i32, f64)> = (-DRIFTS..=DRIFTS).zip(deviances.iter().copied()).collect();
        let (low, high) = (all.iter().find(is_near)?.0, all.iter().rfind(is_near)?.0);
        let ln_change = change(all.get(best)?.0);
        let none = deviances[DRIFTS as usize];
        let is_clear = (none - deviance) / dispersion > clear;
        (is_clear && ln_change.abs() >= DRIFT_MIN).then_some(Self {
            ln_change,
            interval: (change(low), change(high)),
            time_s,
        })
    }
}

/// Whether something that `shows` finds in the runs does not rest on a single one of them: a long
/// burst early or late looks like a change.
fn is_robust(evidence: &[Evidence], shows: impl Fn(&[Evidence]) -> bool) -> bool {
    (0..evidence.len()).all(|left_out| {
        let others = evidence.iter().enumerate();
        let others = others.filter(|(index, _)| *index != left_out);
        shows(&others.map(|(_, run)| *run).collect::<Vec<_>>())
    })
}

/// How much more the numbers of requests beyond the limit differ than those of a Poisson
/// distribution, if the runs have this deviance.
fn dispersion(evidence: &[Evidence], deviance: f64) -> f64 {
    let runs: f64 = evidence.iter().map(Evidence::tells_dispersion).sum();
    (DISPERSION_SCALE + deviance / 2.0) / (DISPERSION_SHAPE + runs / 2.0)
}

/// Two parts of the runs, each with its rate.
#[derive(Debug, Clone, Copy)]
struct Split {
    at: usize,
    before: f64,
    after: f64,
    slope: f64,
    deviance: f64,
}

impl Split {
    /// `one` is the deviance of all runs from one rate.
    fn change(&self, evidence: &[Evidence], one: f64, clear: f64) -> Option<Change> {
        let (before, after) = evidence.split_at(self.at);
        let parts = [(before, self.before), (after, self.after)];
        let dispersion = dispersion(evidence, self.deviance);
        let variance = |(runs, ln_rate): (&[Evidence], f64)| {
            let found: f64 = runs
                .iter()
                .map(|run| run.mean_count(ln_rate, self.slope))
                .sum();
            dispersion / (self.slope * self.slope * found.max(1e-9))
        };
        let error = parts.map(variance).iter().sum::<f64>().sqrt();
        let ln_change = self.after - self.before;
        let freedom = (evidence.len() as f64 - 3.0).max(1.0);
        let half_width = error * student_t_quantile(0.975, freedom)?;
        let is_clear = (one - self.deviance) / dispersion > clear;
        (is_clear && ln_change.abs() >= CHANGE_MIN).then_some(Change {
            at: self.at,
            ln_change,
            interval: (ln_change - half_width, ln_change + half_width),
        })
    }
}

/// The index of the least value, and the value.
fn least(values: impl Iterator<Item = f64>) -> (usize, f64) {
    let least = values.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
    least.unwrap_or((0, f64::INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::belief::Prior;

    const RATES: [f64; 6] = [640.0, 760.0, 670.0, 720.0, 690.0, 740.0];

    /// Three rounds of runs of a server whose rate is 700 times `factor` of the time from 0 to 1.
    fn runs(factor: impl Fn(f64) -> f64) -> Vec<Evidence> {
        let all = RATES.repeat(3);
        let last = (all.len() - 1) as f64;
        let of = |(index, rate): (usize, &f64)| Evidence {
            ln_rate: rate.ln(),
            relative: (rate / 700.0 / factor(index as f64 / last)).powf(15.0),
            expected: 60.0,
            at_s: 10.0 * index as f64,
        };
        all.iter().enumerate().map(of).collect()
    }

    fn drift(evidence: &[Evidence]) -> Option<Drift> {
        let prior = Prior {
            ln_usual: 6.54,
            spread: 0.6,
            ln_floor: 0.0,
            ln_top: 7.1,
        };
        Drift::of(evidence, &Belief::of(evidence, &prior))
    }

    #[test]
    fn a_constant_server_has_not_changed() {
        let constant = runs(|_| 1.0);
        assert_eq!((Change::of(&constant), drift(&constant)), (None, None));
        assert_eq!((Change::of(&[]), Change::of(&constant[..3])), (None, None));
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let step = runs(|at| if at < 0.33 { 1.15 } else { 1.0 });
        let change = Change::of(&step).expect("it is large");
        assert_eq!(change.at, 6);
        let (low, high) = change.interval;
        let truth = -1.15_f64.ln();
        assert!((low..=high).contains(&truth) && high < 0.0, "{change:?}");
    }

    #[test]
    fn a_drift_has_an_interval() {
        let falling = runs(|at| (-0.2 * (at - 0.5)).exp());
        let drift = drift(&falling).expect("it is large");
        let (low, high) = drift.interval;
        assert!((low..=high).contains(&-0.2) && high < 0.0, "{drift:?}");
        assert!((drift.ln_change + 0.2).abs() < 0.06, "{drift:?}");
        assert_eq!(drift.time_s, 170.0);
    }

    #[test]
    fn one_long_burst_is_no_change() {
        for at in [0, 1, 16, 17] {
            let mut evidence = runs(|_| 1.0);
            evidence[at].relative = 9.0;
            let found = (Change::of(&evidence), drift(&evidence));
            assert_eq!(found, (None, None), "{at}");
        }
    }
}
