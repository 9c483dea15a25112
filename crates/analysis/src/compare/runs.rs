//! The values of runs in groups, without the variation that all groups share.

use super::caveats::DRIFT_LEVEL;
use super::design::{Factor, stratum};
use super::own_part::Figures;
use super::timing::{Order, Timing};
use super::{FailedShare, FixedRate, Metric};
use crate::Observation;
use results::Measured;
use stats::BlockedValue;

/// Values of levels, ready for tests.
pub(super) struct Values {
    /// The levels that have values.
    pub(super) levels: Vec<LevelValues>,
    /// Whether the values are logarithms, because all of them are above zero.
    pub(super) are_logs: bool,
    /// Whether values are relative to their blocks, and each block has one of each level.
    pub(super) in_blocks: bool,
    /// Whether values are relative to their blocks.
    pub(super) is_relative: bool,
    /// Whether each level has one run in each round of a sweep.
    pub(super) has_rounds: bool,
    /// Factor by which subtracting the effects of blocks has reduced the spread of the values.
    pub(super) shrinkage: f64,
    /// The fixed rate that determines the metric, if all runs had one.
    pub(super) fixed_rate: Option<FixedRate>,
    /// How finely the runs measure the metric, as a difference of logarithms.
    pub(super) resolution: f64,
    /// What the times of the runs say, if there are two levels and no rounds.
    pub(super) timing: Option<Timing>,
}

pub(super) struct LevelValues {
    pub(super) name: String,
    /// Values as they were measured.
    pub(super) measured: Vec<f64>,
    /// Values relative to their blocks, for tests. In the order of time if [`Values::timing`] is
    /// known.
    pub(super) tested: Vec<f64>,
    /// Number of runs in which the load generator was saturated.
    pub(super) saturated: usize,
    /// Mean share of the time in which connections waited for the load generator; `None` if it is
    /// not known of all runs.
    pub(super) idle_share: Option<f64>,
    /// Number of values that are lower bounds.
    pub(super) lower_bounds: usize,
    /// How many requests of the level's runs failed.
    pub(super) failed: FailedShare,
    /// Mean resolution of the values, as a share of them.
    resolution: f64,
}

/// A value with its level and block.
struct BlockValue {
    level: usize,
    block: Block,
    value: f64,
    is_saturated: bool,
    idle_share: Option<f64>,
    is_lower_bound: bool,
    failed: FailedShare,
    resolution: f64,
    began_unix_ms: Option<u64>,
}

impl BlockValue {
    fn of(
        (run, figures): (&Observation, Figures),
        metric: &Metric,
        level: usize,
        block: Block,
    ) -> Option<Self> {
        let known = finite(run, metric)?;
        let value = figures.value_of(run, metric);
        Some(Self {
            level,
            block,
            value: value.filter(|value| value.is_finite())?,
            is_lower_bound: known.is_lower_bound,
            is_saturated: run.is_saturated(),
            idle_share: run.idle_share(),
            failed: FailedShare::of([run]),
            resolution: run.resolution(metric),
            began_unix_ms: run.began_unix_ms(),
        })
    }
}

/// What values of different levels can have in common: the levels of other factors, and the round.
type Block = (Vec<usize>, u32);

impl Values {
    /// Values of old and new runs. Runs that were made in turn are pairs.
    pub(super) fn of_two(
        names: [&str; 2],
        runs: [&[&Observation]; 2],
        metric: &Metric,
        figures: Figures,
    ) -> Self {
        let has_rounds = runs.iter().copied().flatten().all(|run| run.cell.is_some());
        let of_level = |(level, runs): (usize, &[&Observation])| {
            let value = |run: &&Observation| {
                BlockValue::of((run, figures), metric, level, Block::default())
            };
            runs.iter().filter_map(value).collect::<Vec<BlockValue>>()
        };
        let all: Vec<&Observation> = runs.concat();
        let entries = runs.into_iter().enumerate().flat_map(of_level).collect();
        let fixed_rate = FixedRate::of(&all, metric);
        Self::new(&names.map(str::to_owned), entries, has_rounds, fixed_rate)
    }

    /// Values of the levels of a factor. In a sweep, the values of a round form a block, and what
    /// they have in common is subtracted.
    pub(super) fn of_levels(
        runs: &[&Observation],
        factor: &Factor,
        factors: &[Factor],
        metric: &Metric,
        figures: Figures,
    ) -> Self {
        let are_of_sweep = runs.iter().all(|run| run.cell.is_some());
        let known = |run: &&Observation| {
            let level = factor.level_of(&super::design::sides(run))?;
            Some((level, finite(run, metric)?))
        };
        let mut present: Vec<usize> = runs
            .iter()
            .filter_map(known)
            .map(|(level, _)| level)
            .collect();
        present.sort_unstable();
        present.dedup();
        let with_values = runs.iter().filter(|run| known(run).is_some());
        let mut cells: Vec<Option<u32>> = with_values.map(|run| run.cell).collect();
        cells.sort_unstable();
        cells.dedup();
        // With several cells a level has several runs in each round.
        let has_rounds = are_of_sweep && cells.len() == present.len();
        let entry = |run: &&Observation| {
            let (level, _) = known(run)?;
            let round = if are_of_sweep { run.run } else { 0 };
            let level = present.iter().position(|other| *other == level)?;
            BlockValue::of(
                (run, figures),
                metric,
                level,
                (stratum(run, factor, factors), round),
            )
        };
        let entries = runs.iter().filter_map(entry).collect();
        let names: Vec<String> = present
            .iter()
            .map(|level| factor.levels[*level].clone())
            .collect();
        Self::new(&names, entries, has_rounds, FixedRate::of(runs, metric))
    }

    fn new(
        names: &[String],
        mut entries: Vec<BlockValue>,
        has_rounds: bool,
        fixed_rate: Option<FixedRate>,
    ) -> Self {
        let mut levels = as_measured(names, &entries);
        let are_logs = entries.iter().all(|entry| entry.value > 0.0);
        if are_logs {
            entries
                .iter_mut()
                .for_each(|entry| entry.value = entry.value.ln());
        }
        let timing = timing(names.len(), are_logs, &mut entries);
        let mut blocks = into_blocks(entries);
        let is_relative = blocks.len() > 1;
        let shrinkage = if is_relative {
            make_relative(&mut blocks)
        } else {
            1.0
        };
        let is_complete = |entries: &[BlockValue]| {
            let has_one = |level| entries.iter().filter(|entry| entry.level == level).count() == 1;
            (0..names.len()).all(has_one)
        };
        let in_blocks = is_relative && blocks.iter().all(|(_, entries)| is_complete(entries));
        for entry in blocks.into_iter().flat_map(|(_, entries)| entries) {
            levels[entry.level].tested.push(entry.value);
        }
        levels.retain(|level| !level.tested.is_empty());
        let finest = levels.iter().map(|level| level.resolution);
        Self {
            resolution: finest.fold(0.0, f64::max).ln_1p(),
            levels,
            are_logs,
            in_blocks,
            is_relative,
            has_rounds,
            shrinkage,
            fixed_rate,
            timing,
        }
    }

    /// The values of each level, for tests.
    pub(super) fn tested(&self) -> Vec<Vec<f64>> {
        self.levels
            .iter()
            .map(|level| level.tested.clone())
            .collect()
    }

    /// The values of each level, for tests, with the spread that they had before the effects of
    /// their blocks were subtracted.
    pub(super) fn spread_out(&self) -> Vec<Vec<f64>> {
        let spread_out = |group: Vec<f64>| match stats::median(&group) {
            Some(middle) => {
                let wide = |value: f64| middle + (value - middle) / self.shrinkage;
                group.into_iter().map(wide).collect()
            }
            None => group,
        };
        self.tested().into_iter().map(spread_out).collect()
    }
}

fn finite(run: &Observation, metric: &Metric) -> Option<Measured> {
    let known = run.measured(&metric.name);
    known.filter(|known| known.value.is_finite())
}

/// The levels with what was measured, and no value for tests yet.
fn as_measured(names: &[String], entries: &[BlockValue]) -> Vec<LevelValues> {
    let empty = |name: &String| LevelValues {
        name: name.clone(),
        measured: Vec::new(),
        tested: Vec::new(),
        saturated: 0,
        idle_share: Some(0.0),
        lower_bounds: 0,
        failed: FailedShare::default(),
        resolution: 0.0,
    };
    let mut levels: Vec<LevelValues> = names.iter().map(empty).collect();
    for entry in entries {
        let level = &mut levels[entry.level];
        level.measured.push(entry.value);
        level.saturated += usize::from(entry.is_saturated);
        let idle_shares = level.idle_share.zip(entry.idle_share);
        level.idle_share = idle_shares.map(|(sum, share)| sum + share);
        level.lower_bounds += usize::from(entry.is_lower_bound);
        level.failed = level.failed.and(entry.failed);
        level.resolution += entry.resolution;
    }
    for level in &mut levels {
        let runs = level.measured.len().max(1) as f64;
        level.resolution /= runs;
        level.idle_share = level.idle_share.map(|sum| sum / runs);
    }
    levels
}

/// Subtracts from the values what those of their block have in common. Returns
/// [`Values::shrinkage`].
fn make_relative(blocks: &mut Vec<(Block, Vec<BlockValue>)>) -> f64 {
    if blocks.iter().any(|(block, _)| block.1 > 0) {
        blocks
            .iter_mut()
            .for_each(|(_, entries)| count_levels_once(entries));
    }
    // In a block with a single level, the value would only be compared with itself.
    blocks.retain(|(_, entries)| entries.iter().any(|entry| entry.level != entries[0].level));
    align(blocks);
    let values: usize = blocks.iter().map(|(_, entries)| entries.len()).sum();
    let size = values as f64 / blocks.len().max(1) as f64;
    ((size - 1.0) / size).sqrt()
}

/// Sorts the entries of two levels by time if it is known of all of them and nothing else tells
/// their blocks, and makes blocks of pairs. Returns what their order says.
fn timing(levels: usize, are_logs: bool, entries: &mut [BlockValue]) -> Option<Timing> {
    let has_blocks = entries.iter().any(|it| it.block != entries[0].block);
    let is_known = entries.iter().all(|it| it.began_unix_ms.is_some());
    if levels != 2 || has_blocks || !is_known {
        return None;
    }
    entries.sort_by_key(|it| it.began_unix_ms);
    if entries
        .windows(2)
        .any(|pair| pair[0].began_unix_ms == pair[1].began_unix_ms)
    {
        return None;
    }
    let sides: Vec<usize> = entries.iter().map(|it| it.level).collect();
    match Order::of(&sides)? {
        Order::Apart { first } => Some(Timing::Apart {
            first,
            correlation: 0.0,
        }),
        Order::InPairs(numbers) => {
            let drift = if are_logs {
                drift_within(entries, &numbers)
            } else {
                0.0
            };
            for (entry, number) in entries.iter_mut().zip(numbers) {
                entry.block.1 = number;
            }
            Some(Timing::InPairs { drift })
        }
    }
}

/// The drift from one run to the next, as far as it makes a difference of pairs: if each side came
/// first as often as the other, none.
fn drift_within(entries: &[BlockValue], numbers: &[u32]) -> f64 {
    let middle = |level| {
        let own = entries.iter().filter(|it| it.level == level);
        stats::median(&own.map(|it| it.value).collect::<Vec<_>>())
    };
    let Some(middles) = middle(0).zip(middle(1)) else {
        return 0.0;
    };
    let middles = [middles.0, middles.1];
    let residuals: Vec<f64> = entries
        .iter()
        .map(|it| it.value - middles[it.level])
        .collect();
    let Some(trend) = stats::trend(&residuals).filter(|it| it.p_value < DRIFT_LEVEL) else {
        return 0.0;
    };
    let pairs = entries.windows(2).zip(numbers.windows(2));
    let directions: Vec<f64> = pairs
        .filter(|(_, numbers)| numbers[0] == numbers[1])
        .map(|(pair, _)| {
            if pair[0].level < pair[1].level {
                1.0
            } else {
                -1.0
            }
        })
        .collect();
    trend.slope * stats::mean(&directions).unwrap_or(0.0)
}

/// Groups entries by block, in the order of the blocks.
fn into_blocks(mut entries: Vec<BlockValue>) -> Vec<(Block, Vec<BlockValue>)> {
    entries.sort_by(|a, b| a.block.cmp(&b.block));
    let mut blocks: Vec<(Block, Vec<BlockValue>)> = Vec::new();
    for entry in entries {
        match blocks.last_mut() {
            Some((block, entries)) if *block == entry.block => entries.push(entry),
            _ => blocks.push((entry.block.clone(), vec![entry])),
        }
    }
    blocks
}

/// Subtracts from each value the effect of its block.
fn align(blocks: &mut [(Block, Vec<BlockValue>)]) {
    let mut values = Vec::new();
    for (block, (_, entries)) in blocks.iter().enumerate() {
        values.extend(entries.iter().map(|entry| BlockedValue {
            level: entry.level,
            block,
            value: entry.value,
        }));
    }
    let effects = stats::block_effects(&values);
    for ((_, entries), effect) in blocks.iter_mut().zip(effects) {
        entries.iter_mut().for_each(|entry| entry.value -= effect);
    }
}

/// Lets a level that ran several times in a round, such as a repeated baseline, count once, with
/// its median.
fn count_levels_once(entries: &mut Vec<BlockValue>) {
    let mut once: Vec<BlockValue> = Vec::new();
    for entry in entries.iter() {
        if once.iter().all(|other| other.level != entry.level) {
            let same = entries.iter().filter(|other| other.level == entry.level);
            let values: Vec<f64> = same.map(|other| other.value).collect();
            once.push(BlockValue {
                block: entry.block.clone(),
                value: stats::median(&values).unwrap_or(entry.value),
                ..*entry
            });
        }
    }
    *entries = once;
}
