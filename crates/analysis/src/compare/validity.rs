//! How far a set of runs can be trusted: whether the load generator was saturated, how many
//! requests failed, and which levels are in fact the same setting.

use std::collections::{BTreeMap, BTreeSet};

use results::{Metric, metric};
use serde::Serialize;

use crate::places::is_of_all_places;
use crate::{Observation, grouped};

/// A run in which more than this share of the requests failed does not measure its levels: with 1
/// %, p99 may be that of a failed request, and failures are often faster than responses.
const FAILED_SHARE_MAX: f64 = 0.01;

/// How many requests of some runs failed: those that ended in an error, and responses with a status
/// above 399.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FailedShare {
    /// Number of failed requests; for several runs, their sum.
    pub failed: f64,
    /// Number of all requests that ended.
    pub of: f64,
}

impl FailedShare {
    /// The share over all of these runs together.
    pub(crate) fn of<'a>(runs: impl IntoIterator<Item = &'a Observation>) -> Self {
        let of_run = |run: &Observation| {
            let value = |name| run.value(name).unwrap_or(0.0);
            let errors = value(metric::ERRORS);
            Self {
                failed: errors + value(metric::STATUSES_OVER_399),
                of: value(metric::REQUESTS) + errors,
            }
        };
        runs.into_iter()
            .map(of_run)
            .fold(Self::default(), Self::and)
    }

    /// The share over the requests of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            failed: self.failed + other.failed,
            of: self.of + other.of,
        }
    }

    /// The failed share, 0 to 1; 0 without requests.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.of > 0.0 {
            self.failed / self.of
        } else {
            0.0
        }
    }

    /// Whether so many requests failed that the runs do not measure their level.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.failed > self.of * FAILED_SHARE_MAX
    }

    /// Whether so many failures forbid a verdict by this metric. Failures themselves can always be
    /// compared.
    #[must_use]
    pub fn forbids(&self, metric: &Metric) -> bool {
        let name = metric.name.as_str();
        let is_of_failures = [
            metric::ERRORS,
            metric::STATUSES_OVER_399,
            metric::ANSWERED_PERCENT,
            "failures",
            "unanswered",
        ]
        .contains(&name)
            || ["error_", "errors_", "status_"]
                .iter()
                .any(|family| name.starts_with(family));
        self.is_too_large() && !is_of_failures
    }
}

/// What limits the conclusions that can be drawn from a set of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Validity {
    /// The side, when two sides are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Number of all runs.
    pub runs: usize,
    /// Number of failed runs; excluded from all figures.
    pub failed: usize,
    /// Number of runs that Ctrl-C ended early; excluded from all figures.
    pub ended_early: usize,
    /// Number of the counted runs in which the load generator was saturated.
    pub saturated: usize,
    /// Number of the counted runs in which more than 1 % of the requests failed or had a status
    /// above 399.
    pub failing: usize,
    /// Levels of a factor for which the kernel used the same values.
    pub clamped: Vec<ClampedLevels>,
}

/// Levels that differ in the plan but not on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClampedLevels {
    /// Name of the factor whose levels these are.
    pub factor: String,
    /// Two or more levels, in order of appearance.
    pub levels: Vec<String>,
    /// The value that the kernel used for all of them, by setting.
    pub taken: BTreeMap<String, String>,
}

impl Validity {
    /// The validity of these runs, failed ones included. The places of a fleet are parts of runs.
    #[must_use]
    pub fn of(runs: &[Observation], side: Option<&str>) -> Self {
        let has_parts = runs.iter().any(is_of_all_places);
        let whole = |run: &&Observation| !has_parts || is_of_all_places(run);
        let runs: Vec<&Observation> = runs.iter().filter(whole).collect();
        let (counted, left_out): (Vec<&Observation>, Vec<&Observation>) =
            runs.iter().partition(|run| run.failure.is_none());
        let was_ended = |run: &&&Observation| {
            let result = run.result.as_deref();
            result.is_some_and(|result| result.window.interrupted)
        };
        let ended_early = left_out.iter().filter(was_ended).count();
        let count = |is_one: fn(&Observation) -> bool| {
            counted.iter().copied().filter(|run| is_one(run)).count()
        };
        Self {
            side: side.map(str::to_owned),
            runs: runs.len(),
            failed: left_out.len() - ended_early,
            ended_early,
            saturated: count(Observation::is_saturated),
            failing: count(is_failing),
            clamped: clamped(&counted),
        }
    }

    /// Number of runs in the figures.
    #[must_use]
    pub fn counted(&self) -> usize {
        self.runs - self.failed - self.ended_early
    }

    /// Whether the load generator was saturated in at least half of the counted runs.
    #[must_use]
    pub fn is_mostly_saturated(&self) -> bool {
        is_most(self.saturated, self.counted())
    }
}

/// Whether a part is at least half of the whole.
pub(crate) fn is_most(part: usize, whole: usize) -> bool {
    part > 0 && 2 * part >= whole
}

fn is_failing(run: &Observation) -> bool {
    FailedShare::of([run]).is_too_large()
}

/// A factor and the kernel setting that it sets.
type Pair<'a> = (&'a str, &'a str);

fn clamped(runs: &[&Observation]) -> Vec<ClampedLevels> {
    let mut found = Vec::new();
    let mut keys_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (factor, key) in settings_of_factors(runs) {
        keys_of.entry(factor).or_default().push(key);
    }
    for (factor, keys) in keys_of {
        // Levels in order of appearance with the values that the kernel used; `None` if those
        // varied.
        let mut levels: Vec<(&str, Option<Vec<&str>>)> = Vec::new();
        for run in runs {
            let Some(level) = run.level_of(factor) else {
                continue;
            };
            let taken: Option<Vec<&str>> = keys.iter().map(|key| taken_by(run, key)).collect();
            match levels.iter_mut().find(|(other, _)| *other == level) {
                Some((_, known)) if *known == taken => {}
                Some((_, known)) => *known = None,
                None => levels.push((level, taken)),
            }
        }
        let levels = levels.into_iter();
        let mut groups = grouped(levels.filter_map(|(level, taken)| Some((taken?, level))));
        groups.retain(|(_, levels)| levels.len() > 1);
        found.extend(groups.into_iter().map(|(taken, levels)| {
            let pairs = keys.iter().zip(taken);
            ClampedLevels {
                factor: factor.to_owned(),
                levels: levels.into_iter().map(str::to_owned).collect(),
                taken: pairs
                    .map(|(key, value)| ((*key).to_owned(), value.to_owned()))
                    .collect(),
            }
        }));
    }
    found
}

/// Which factor sets which kernel setting. Trials record the values that the kernel used, but not
/// the factor that set them. A factor sets the setting that has its name, and a single factor sets
/// all of them. A factor also sets a setting that had the value of its level in some run and
/// another value in another run, unless another factor always matches.
#[must_use]
pub fn settings_of_factors<'a>(runs: &[&'a Observation]) -> BTreeSet<Pair<'a>> {
    let (mut fits, mut misfits) = (BTreeSet::new(), BTreeSet::new());
    let taken = |run: &'a Observation| run.trial.iter().flat_map(|trial| &trial.effective);
    let varies = |key: &str| {
        let values: BTreeSet<&str> = runs.iter().filter_map(|run| taken_by(run, key)).collect();
        values.len() > 1
    };
    for run in runs {
        for (key, value) in taken(run) {
            for setting in &run.settings {
                let pair: Pair<'a> = (&setting.factor, key);
                let is_level = words(&setting.level) == words(value);
                let is_name = key.split('.').next_back() == Some(&setting.factor);
                let is_named = is_name || setting.factor == *key || run.settings.len() == 1;
                if is_named || (is_level && varies(key)) {
                    fits.insert(pair);
                }
                if !is_named && !is_level {
                    misfits.insert(pair);
                }
            }
        }
    }
    let is_of_another = |(factor, key): &Pair<'a>| {
        let others = fits
            .iter()
            .filter(|(other, its_key)| its_key == key && other != factor);
        let always_fits = |pair: &Pair<'a>| !misfits.contains(pair);
        let mut others = others.copied().filter(always_fits);
        !always_fits(&(factor, key)) && others.next().is_some()
    };
    let own = fits.iter().filter(|pair| !is_of_another(pair));
    own.copied().collect()
}

fn taken_by<'a>(run: &'a Observation, key: &str) -> Option<&'a str> {
    let trial = run.trial.as_deref()?;
    trial.effective.get(key).map(String::as_str)
}

/// The kernel separates numbers by tabs, people separate them by spaces.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}
