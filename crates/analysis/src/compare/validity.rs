//! How far a set of runs can be trusted, whatever they show: whether the load generator was the
//! limit, what failed, and which levels are one setting in truth.

use std::collections::{BTreeMap, BTreeSet};

use results::metric;
use serde::Serialize;

use crate::Observation;

/// A run in which more than this share of the requests failed measured something else than its
/// levels.
const FAILED_SHARE_MAX: f64 = 0.01;

/// What limits the conclusions that can be drawn from a set of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Validity {
    /// Whose runs these are, where two sides are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// All runs, whether they count or not.
    pub runs: usize,
    /// Runs that failed: they are in no figure.
    pub failed: usize,
    /// Runs that Ctrl-C ended early: they are in no figure either.
    pub ended_early: usize,
    /// Of the runs that count, those in which the load generator was saturated.
    pub saturated: usize,
    /// Of the runs that count, those in which more than 1 % of the requests failed or were answered
    /// with a status above 399.
    pub failing: usize,
    /// Levels of a factor for which the kernel took the same values.
    pub clamped: Vec<ClampedLevels>,
}

/// Levels that are different in the plan and the same on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClampedLevels {
    /// The factor.
    pub factor: String,
    /// Two levels or more, in the order in which they are met.
    pub levels: Vec<String>,
    /// What the kernel took for each of them, by setting.
    pub taken: BTreeMap<String, String>,
}

impl Validity {
    /// Of these runs, failed ones among them.
    #[must_use]
    pub fn of(runs: &[Observation], side: Option<&str>) -> Self {
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

    /// Runs that are in the figures.
    #[must_use]
    pub fn counted(&self) -> usize {
        self.runs - self.failed - self.ended_early
    }

    /// Whether the load generator was saturated in half of the runs that count, or in more.
    #[must_use]
    pub fn is_mostly_saturated(&self) -> bool {
        is_most(self.saturated, self.counted())
    }
}

/// Half or more.
pub(super) fn is_most(part: usize, whole: usize) -> bool {
    part > 0 && 2 * part >= whole
}

fn is_failing(run: &Observation) -> bool {
    let value = |name| run.value(name).unwrap_or(0.0);
    let answered = value(metric::REQUESTS);
    let errors = value(metric::ERRORS);
    let failed = errors + value(metric::STATUSES_OVER_399);
    failed > (answered + errors) * FAILED_SHARE_MAX
}

/// What a trial has to do with a setting of the kernel: factor and sysctl.
type Pair<'a> = (&'a str, &'a str);

fn clamped(runs: &[&Observation]) -> Vec<ClampedLevels> {
    let mut found = Vec::new();
    let mut keys_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (factor, key) in pairs(runs) {
        keys_of.entry(factor).or_default().push(key);
    }
    for (factor, keys) in keys_of {
        // Levels in the order in which they are met, each with what the kernel took; `None` if that
        // was not always the same.
        let mut levels: Vec<(&str, Option<Vec<&str>>)> = Vec::new();
        for run in runs {
            let Some(level) = level_of(run, factor) else {
                continue;
            };
            let taken: Option<Vec<&str>> = keys.iter().map(|key| taken_by(run, key)).collect();
            match levels.iter_mut().find(|(other, _)| *other == level) {
                Some((_, known)) if *known == taken => {}
                Some((_, known)) => *known = None,
                None => levels.push((level, taken)),
            }
        }
        let mut groups: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
        for (level, taken) in levels {
            let Some(taken) = taken else { continue };
            match groups.iter_mut().find(|(other, _)| *other == taken) {
                Some((_, levels)) => levels.push(level),
                None => groups.push((taken, vec![level])),
            }
        }
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

/// Which factor sets which setting of the kernel. Trials have what the kernel took, but not for
/// whom: a factor sets what has its name, and the only factor sets everything. It also sets what
/// had the value of its level in some run and another value in another run, unless another factor
/// always fits.
fn pairs<'a>(runs: &[&'a Observation]) -> BTreeSet<Pair<'a>> {
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

fn level_of<'a>(run: &'a Observation, factor: &str) -> Option<&'a str> {
    let mut settings = run.settings.iter();
    let setting = settings.find(|setting| setting.factor == factor)?;
    Some(&setting.level)
}

fn taken_by<'a>(run: &'a Observation, key: &str) -> Option<&'a str> {
    let trial = run.trial.as_deref()?;
    trial.effective.get(key).map(String::as_str)
}

/// Numbers that the kernel parts by tabs, and people by blanks.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}
