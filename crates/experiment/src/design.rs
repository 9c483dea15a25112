//! The cells of an experiment and the order in which they run.

use std::collections::BTreeSet;

use results::{Cell, Order, PLACE_FACTOR, SearchStep, Setting};

use crate::spec::Spec;

/// One trial to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Position in the order of the whole experiment, from 1.
    pub position: u32,
    /// The round that the trial belongs to, from 1.
    pub round: u32,
    /// Which run of this cell within the round, from 1; above 1 only for a repeated baseline.
    pub repeat: u32,
    /// The cell to run.
    pub cell: Cell,
    /// The step of a search that this trial is, with the load that it asks for.
    pub step: Option<SearchStep>,
}

/// All trials in order. The same experiment and seed give the same schedule; more rounds only
/// append to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Seed of the order; unused by a sequential order.
    pub seed: u64,
    /// The cells, in the order of their numbers.
    pub cells: Vec<Cell>,
    /// The trials in the order in which they are made.
    pub trials: Vec<Planned>,
}

impl Schedule {
    /// Orders the trials of an experiment.
    ///
    /// A round is one run of each cell in random order (randomized complete blocks: Fisher 1935;
    /// the shuffle is Fisher-Yates in Durstenfeld's form), so that slow changes of the machine
    /// affect all levels alike. A baseline runs before each group of other cells, and at the very
    /// end.
    #[must_use]
    pub fn new(spec: &Spec, seed: u64) -> Self {
        let cells = cells(spec);
        let baseline = cells.iter().position(|cell| cell.is_baseline);
        let every = spec
            .baseline
            .as_ref()
            .map_or(1, |baseline| baseline.every.max(1));
        let mut random = fastrand::Rng::with_seed(seed);
        let mut trials = Vec::new();
        for round in 1..=spec.rounds {
            let mut order: Vec<usize> = (0..cells.len())
                .filter(|at| Some(*at) != baseline)
                .collect();
            if spec.order == Order::Shuffled {
                random.shuffle(&mut order);
            }
            let order = with_baseline(&order, baseline, every, round == spec.rounds);
            let mut repeat = 0;
            for at in order {
                repeat += u32::from(Some(at) == baseline);
                trials.push(Planned {
                    position: u32::try_from(trials.len() + 1).unwrap_or(u32::MAX),
                    round,
                    repeat: if Some(at) == baseline { repeat } else { 1 },
                    cell: cells[at].clone(),
                    step: None,
                });
            }
        }
        Self {
            seed,
            cells,
            trials,
        }
    }
}

/// The order of a round with the baseline in it.
fn with_baseline(
    others: &[usize],
    baseline: Option<usize>,
    every: u32,
    is_last_round: bool,
) -> Vec<usize> {
    let Some(baseline) = baseline else {
        return others.to_vec();
    };
    let every = usize::try_from(every).unwrap_or(usize::MAX);
    let mut order: Vec<usize> = others
        .chunks(every)
        .flat_map(|group| std::iter::once(baseline).chain(group.iter().copied()))
        .collect();
    // If the baseline is the only cell, it runs once per round. Otherwise the next round begins
    // with it.
    if others.is_empty() || is_last_round {
        order.push(baseline);
    }
    order
}

/// The cells of an experiment, numbered from 1: every combination of levels that is not excluded.
/// The last factor changes fastest; the profile follows the factors, and the target the profile.
/// Places in turn are like a factor before the others.
#[must_use]
pub(crate) fn cells(spec: &Spec) -> Vec<Cell> {
    let is_left = |cell: &Cell| !spec.exclude.iter().any(|exclusion| exclusion.selects(cell));
    let mut cells: Vec<Cell> = all_cells(spec).into_iter().filter(is_left).collect();
    for (index, cell) in cells.iter_mut().enumerate() {
        cell.number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        cell.is_baseline = spec
            .baseline
            .as_ref()
            .is_some_and(|baseline| baseline.cell.selects(cell));
    }
    cells
}

/// All cells including the excluded ones, without numbers.
pub(crate) fn all_cells(spec: &Spec) -> Vec<Cell> {
    let set = |cell: &mut Cell, factor: &str, level: &String| {
        let (factor, level) = (factor.to_owned(), level.clone());
        cell.settings.push(Setting { factor, level });
    };
    let mut cells = vec![Cell::default()];
    let places = spec.places_in_turn();
    if !places.is_empty() {
        cells = crossed_with(&cells, places, |cell, place| {
            set(cell, PLACE_FACTOR, &place.name);
        });
    }
    for factor in &spec.factors {
        cells = crossed_with(&cells, &factor.levels, |cell, level| {
            set(cell, &factor.name, &level.name);
        });
    }
    if !spec.profiles.is_empty() {
        cells = crossed_with(&cells, &spec.profiles, |cell, profile| {
            cell.profile = Some(profile.name.clone());
        });
    }
    crossed_with(&cells, &spec.targets, |cell, target| {
        cell.target.clone_from(&target.name);
    })
}

/// The factors and levels of a cell; profile and target are factors as well.
pub(crate) fn levels_of(cell: &Cell) -> impl Iterator<Item = (&str, &str)> {
    let settings = cell.settings.iter();
    let settings = settings.map(|it| (it.factor.as_str(), it.level.as_str()));
    let profile = cell.profile.iter().map(|name| ("profile", name.as_str()));
    settings
        .chain(profile)
        .chain([("target", cell.target.as_str())])
}

/// Few cells that have every level, profile and target between them: each time the first of those
/// that add the most.
pub(crate) fn covering(cells: &[Cell]) -> Vec<&Cell> {
    let of_cells: Vec<BTreeSet<_>> = cells.iter().map(|cell| levels_of(cell).collect()).collect();
    let mut missing: BTreeSet<_> = of_cells.iter().flatten().collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let adds = |at: &usize| {
            of_cells[*at]
                .iter()
                .filter(|it| missing.contains(it))
                .count()
        };
        // The last of equal maxima is taken, hence the reverse.
        let Some(best) = (0..cells.len()).rev().max_by_key(adds) else {
            break;
        };
        for level in &of_cells[best] {
            missing.remove(level);
        }
        chosen.push(&cells[best]);
    }
    chosen
}

fn crossed_with<T>(cells: &[Cell], things: &[T], set: impl Fn(&mut Cell, &T)) -> Vec<Cell> {
    let mut crossed = Vec::new();
    for cell in cells {
        for thing in things {
            let mut cell = cell.clone();
            set(&mut cell, thing);
            crossed.push(cell);
        }
    }
    crossed
}

/// The number of combinations, including the excluded ones.
pub(crate) fn crossed(spec: &Spec) -> usize {
    let levels = spec.factors.iter().map(|factor| factor.levels.len());
    let others = [
        spec.places_in_turn().len().max(1),
        spec.profiles.len().max(1),
        spec.targets.len(),
    ];
    levels.chain(others).fold(1, usize::saturating_mul)
}

/// The number of trials of an experiment.
pub(crate) fn trials(spec: &Spec) -> usize {
    let rounds = usize::try_from(spec.rounds).unwrap_or(usize::MAX);
    let cells = cells(spec);
    let others = cells.iter().filter(|cell| !cell.is_baseline).count();
    let every = spec.baseline.as_ref().map(|baseline| baseline.every.max(1));
    let baselines = every.map_or(0, |every| {
        others
            .div_ceil(usize::try_from(every).unwrap_or(usize::MAX))
            .max(1)
    });
    let last = usize::from(every.is_some() && others > 0);
    (others + baselines)
        .saturating_mul(rounds)
        .saturating_add(last)
}

#[cfg(test)]
mod tests;
