//! The design of a comparison: factors, their levels, and which runs may be compared.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Observation, distinct, grouped};

/// A run's level of each factor, with its target and its profile among them.
pub(crate) type Sides = BTreeMap<String, String>;

/// Name under which targets are compared, like a factor.
pub(super) const TARGET: &str = "target";
/// Name of the sets of load options. They are different loads, so they are not compared.
pub(super) const PROFILE: &str = "profile";

/// A factor with its levels; the first level is the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Factor {
    /// Names of the factors that always change together, joined.
    pub(crate) name: String,
    /// One of these names, which represents all of them.
    key: String,
    /// In the plan's order; without a plan sorted as numbers, or in order of appearance.
    pub(crate) levels: Vec<String>,
}

impl Factor {
    /// Index of a run's level.
    pub(crate) fn level_of(&self, sides: &Sides) -> Option<usize> {
        let level = sides.get(&self.key)?;
        self.levels.iter().position(|other| other == level)
    }
}

pub(crate) fn sides(run: &Observation) -> Sides {
    let settings = run.settings.iter();
    let settings = settings.map(|setting| (setting.factor.clone(), setting.level.clone()));
    let named = [(TARGET, &run.target), (PROFILE, &run.profile)].into_iter();
    let named = named.filter_map(|(key, name)| Some((key.to_owned(), name.clone()?)));
    settings.chain(named).collect()
}

/// The factors with more than one level. Factors that always change together cannot be told apart
/// and are treated as one.
pub(crate) fn factors(runs: &[&Observation]) -> Vec<Factor> {
    let mut found: Vec<(Factor, Vec<Option<usize>>)> = Vec::new();
    for key in keys(runs) {
        let levels = levels(runs, &key);
        if levels.len() < 2 || key == PROFILE {
            continue;
        }
        let factor = Factor {
            name: key.clone(),
            key,
            levels,
        };
        let indexes: Vec<Option<usize>> = runs
            .iter()
            .map(|run| factor.level_of(&sides(run)))
            .collect();
        match found
            .iter_mut()
            .find(|(_, others)| is_same_split(others, &indexes))
        {
            Some((same, _)) => same.name = format!("{} and {}", same.name, factor.name),
            None => found.push((factor, indexes)),
        }
    }
    found.into_iter().map(|(factor, _)| factor).collect()
}

/// Names of all factors in order of appearance, then the target and the profile.
fn keys(runs: &[&Observation]) -> Vec<String> {
    let settings = runs.iter().flat_map(|run| &run.settings);
    let mut keys = distinct(settings.map(|setting| setting.factor.clone()));
    keys.push(TARGET.to_owned());
    keys
}

fn levels(runs: &[&Observation], key: &str) -> Vec<String> {
    let mut levels: Vec<(u32, String)> = Vec::new();
    for run in runs {
        let cell = run.cell.unwrap_or(u32::MAX);
        if let Some(level) = sides(run).remove(key) {
            match levels.iter_mut().find(|(_, other)| *other == level) {
                Some((first, _)) => *first = cell.min(*first),
                None => levels.push((cell, level)),
            }
        }
    }
    levels.sort_by_key(|(cell, _)| *cell);
    let number = |level: &str| level.parse::<f64>().ok().filter(|value| value.is_finite());
    let has_plan = runs.iter().all(|run| run.cell.is_some());
    let mut levels: Vec<String> = levels.into_iter().map(|(_, level)| level).collect();
    if !has_plan && levels.iter().all(|level| number(level).is_some()) {
        levels.sort_by(|a, b| {
            number(a)
                .unwrap_or(0.0)
                .total_cmp(&number(b).unwrap_or(0.0))
        });
    }
    levels
}

/// Whether two splits group the runs in the same way.
fn is_same_split(first: &[Option<usize>], second: &[Option<usize>]) -> bool {
    let pairs: BTreeSet<_> = first.iter().zip(second).collect();
    let count = |of: &[Option<usize>]| of.iter().collect::<BTreeSet<_>>().len();
    pairs.len() == count(first) && pairs.len() == count(second)
}

/// Runs among which the levels of one factor are compared.
pub(crate) struct ComparisonScope<'a> {
    /// What these runs share and others do not: the profile, the target.
    pub(crate) names: Vec<String>,
    pub(crate) runs: Vec<&'a Observation>,
}

/// The names by which runs are kept apart: no comparison mixes their levels.
pub(crate) const SCOPES: [&str; 2] = [TARGET, PROFILE];

/// Splits the runs into the groups in which a factor is examined: by those of `keys` that are not
/// the factor or a part of it. They are in the order of the experiment.
pub(crate) fn scopes<'a>(
    runs: &[&'a Observation],
    factor: &Factor,
    keys: &[&str],
) -> Vec<ComparisonScope<'a>> {
    let is_factor = |key: &str| factor.name.split(" and ").any(|name| name == key);
    let apart: Vec<&str> = keys
        .iter()
        .copied()
        .filter(|key| !is_factor(key))
        .filter(|key| levels(runs, key).len() > 1)
        .collect();
    let names = |run: &Observation| -> Vec<String> {
        let mut sides = sides(run);
        apart.iter().filter_map(|key| sides.remove(*key)).collect()
    };
    let scopes = in_order_of_cells(grouped(runs.iter().map(|run| (names(run), *run))));
    let scope = |(names, runs)| ComparisonScope { names, runs };
    scopes.into_iter().map(scope).collect()
}

/// The groups in the order of their cells in the plan, which is that of the experiment's file; the
/// order of the runs is shuffled. Without a plan they stay in order of appearance.
pub(super) fn in_order_of_cells<K>(
    mut groups: Vec<(K, Vec<&Observation>)>,
) -> Vec<(K, Vec<&Observation>)> {
    let has_plan = groups
        .iter()
        .all(|(_, runs)| runs.iter().all(|it| it.cell.is_some()));
    if has_plan {
        groups.sort_by_key(|(_, runs)| runs.iter().map(|run| run.cell).min());
    }
    groups
}

/// A run's levels of the other factors. Levels of `factor` are compared only where these are equal.
pub(super) fn stratum(run: &Observation, factor: &Factor, factors: &[Factor]) -> Vec<usize> {
    let sides = sides(run);
    factors
        .iter()
        .filter(|other| other.key != factor.key)
        .map(|other| other.level_of(&sides).unwrap_or(usize::MAX))
        .collect()
}
