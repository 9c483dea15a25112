//! What the values of a block have in common, such as the state of the machine in one round.

use crate::effect::noise;
use crate::sample::{mean, median};

/// A value that was measured for one level in one block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockedValue {
    /// Index of the level.
    pub level: usize,
    /// Index of the block.
    pub block: usize,
    /// The value. Effects of levels and blocks add up in it.
    pub value: f64,
}

/// What each block adds to its values, by index, up to a constant that is the same for all blocks.
/// Blocks need not have every level, or one value of each. Empty without values; a block without
/// values adds 0.
///
/// Values are modelled as effect of the level + effect of the block + noise. Both effects are means
/// of residuals, of which those beyond [`LIMIT`] times the noise count as being there (Huber,
/// "Robust Estimation of a Location Parameter", 1964), so a cold run hardly moves the other values
/// of its block. The fit repeats the two steps until nothing changes.
///
/// The median of a block's values would be simpler, but is itself one of few values: with three
/// levels, every third value would become exactly 0, and the differences between levels would be
/// estimated too small.
#[must_use]
pub fn block_effects(values: &[BlockedValue]) -> Vec<f64> {
    let count = |index: fn(&BlockedValue) -> usize| values.iter().map(index).max();
    let (Some(last_level), Some(last_block)) = (count(|it| it.level), count(|it| it.block)) else {
        return Vec::new();
    };
    let mut levels = vec![0.0; last_level + 1];
    let mut blocks = vec![0.0; last_block + 1];
    let middles = [median, mean];
    let limit = LIMIT * noise_within_blocks(values, levels.len(), blocks.len());
    // Differences that are mostly equal have no noise: then only medians ignore outliers.
    let steps = if limit > 0.0 {
        &middles[..]
    } else {
        &middles[..1]
    };
    for (step, middle) in steps.iter().enumerate() {
        let limit = if step == 0 { f64::INFINITY } else { limit };
        for _ in 0..ITERATIONS_MAX {
            let of_blocks = residuals(values, &levels, &blocks, limit, |it| it.block);
            let moved_blocks = move_by(&mut blocks, of_blocks, *middle);
            let of_levels = residuals(values, &levels, &blocks, limit, |it| it.level);
            let moved_levels = move_by(&mut levels, of_levels, *middle);
            if moved_blocks.max(moved_levels) <= limit * PRECISION || step == 0 {
                break;
            }
        }
    }
    blocks
}

/// Residuals beyond this many standard deviations count as being there. It costs 1 % of the
/// precision with normal noise.
const LIMIT: f64 = 2.0;

/// The effects are exact to this share of [`LIMIT`] times the noise.
const PRECISION: f64 = 1e-9;

/// Two iterations are exact for complete blocks, as long as no residual is limited.
const ITERATIONS_MAX: usize = 200;

/// The noise, from differences between levels within blocks: effects of blocks cancel there.
fn noise_within_blocks(values: &[BlockedValue], levels: usize, blocks: usize) -> f64 {
    let mut by_level = vec![vec![None; blocks]; levels];
    for blocked in values {
        by_level[blocked.level][blocked.block] = Some(blocked.value);
    }
    let mut differences = Vec::new();
    for (index, first) in by_level.iter().enumerate() {
        for second in &by_level[index + 1..] {
            let pairs = first.iter().zip(second);
            differences.push(pairs.filter_map(|(a, b)| Some((*a)? - (*b)?)).collect());
        }
    }
    noise(&differences).map_or(0.0, |noise| noise / 2.0_f64.sqrt())
}

/// What the effects leave of each value, limited and grouped by `index`.
fn residuals(
    values: &[BlockedValue],
    levels: &[f64],
    blocks: &[f64],
    limit: f64,
    index: fn(&BlockedValue) -> usize,
) -> Vec<Vec<f64>> {
    let mut groups = vec![Vec::new(); values.iter().map(index).max().map_or(0, |last| last + 1)];
    for blocked in values {
        let residual = blocked.value - levels[blocked.level] - blocks[blocked.block];
        groups[index(blocked)].push(residual.clamp(-limit, limit));
    }
    groups
}

/// Adds the middle of each group to its effect. Returns the largest change.
fn move_by(effects: &mut [f64], groups: Vec<Vec<f64>>, middle: fn(&[f64]) -> Option<f64>) -> f64 {
    let mut largest: f64 = 0.0;
    for (effect, group) in effects.iter_mut().zip(groups) {
        let change = middle(&group).unwrap_or(0.0);
        *effect += change;
        largest = largest.max(change.abs());
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[f64]]) -> Vec<BlockedValue> {
        let mut values = Vec::new();
        for (block, row) in rows.iter().enumerate() {
            for (level, value) in row.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
                values.push(BlockedValue {
                    level,
                    block,
                    value: *value,
                });
            }
        }
        values
    }

    /// Effects relative to the first block's.
    fn found(rows: &[&[f64]]) -> Vec<f64> {
        let effects = block_effects(&table(rows));
        let relative = effects.iter().map(|effect| effect - effects[0]);
        relative.map(|it| (it * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn effects_without_noise_are_exact() {
        let rows: [&[f64]; 3] = [&[1.0, 5.0, 2.0], &[11.0, 15.0, 12.0], &[-1.0, 3.0, 0.0]];
        assert_eq!(found(&rows), [0.0, 10.0, -2.0]);
    }

    #[test]
    fn a_missing_run_of_a_distant_level_does_not_move_its_block() {
        let rows: [&[f64]; 3] = [
            &[0.1, 100.0, 0.0],
            &[0.0, f64::NAN, 0.2],
            &[0.05, 100.1, -0.1],
        ];
        let effects = found(&rows);
        assert!(
            effects.iter().all(|effect| effect.abs() < 0.3),
            "{effects:?}"
        );
    }

    #[test]
    fn a_cold_run_moves_its_block_by_a_fraction() {
        let rows: [&[f64]; 4] = [
            &[0.0, 1.0, 2.0, 3.0],
            &[0.1, 1.1, 2.0, 2.9],
            &[0.1, 0.9, -50.0, 3.1],
            &[-0.1, 1.0, 2.1, 3.0],
        ];
        let effects = found(&rows);
        assert!(
            effects.iter().all(|effect| effect.abs() < 0.3),
            "{effects:?}"
        );
    }

    #[test]
    fn nothing_has_no_effects() {
        assert!(block_effects(&[]).is_empty());
    }
}
