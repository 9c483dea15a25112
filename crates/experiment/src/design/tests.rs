//! Orders of trials: complete, balanced and reproducible.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// An experiment with these numbers of levels and targets.
fn plan(levels: &[usize], profiles: usize, targets: usize, more: &str) -> Spec {
    let mut text = format!("name = 'n'\n{more}\n");
    for (index, count) in levels.iter().enumerate() {
        let levels: Vec<_> = (1..=*count).map(|level| level.to_string()).collect();
        text += &format!(
            "[[factor]]\nname = 'f{index}'\noption = 'o{index}'\nlevels = [{}]\n",
            levels.join(", ")
        );
    }
    for profile in 1..=profiles {
        text += &format!("[[profile]]\nname = 'p{profile}'\n");
    }
    for target in 1..=targets {
        text += &format!("[[target]]\nname = 't{target}'\nurl = 'http://h{target}/'\n");
    }
    Spec::parse(&text, Path::new("p.toml")).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn numbers(schedule: &Schedule) -> Vec<u32> {
    schedule
        .trials
        .iter()
        .map(|trial| trial.cell.number)
        .collect()
}

/// The levels, the profile and the target of a cell.
fn identity(cell: &Cell) -> (Vec<&str>, Option<&str>, &str) {
    let levels = cell
        .settings
        .iter()
        .map(|setting| setting.level.as_str())
        .collect();
    (levels, cell.profile.as_deref(), &cell.target)
}

proptest! {
    #[test]
    fn each_cell_runs_once_in_each_round_whatever_the_seed(
        levels in prop::collection::vec(1..4_usize, 0..3),
        profiles in 0..3_usize,
        targets in 1..3_usize,
        rounds in 1..5_u32,
        is_shuffled: bool,
        seed: u64,
    ) {
        let order = if is_shuffled { "shuffled" } else { "sequential" };
        let options = format!("rounds = {rounds}\norder = '{order}'");
        let spec = plan(&levels, profiles, targets, &options);
        let schedule = Schedule::new(&spec, seed);
        let count = levels.iter().product::<usize>() * profiles.max(1) * targets;
        prop_assert_eq!(schedule.cells.len(), count);
        prop_assert_eq!(trials(&spec), schedule.trials.len());
        let different: BTreeSet<_> = schedule.cells.iter().map(identity).collect();
        prop_assert_eq!(different.len(), count);
        for (index, trial) in schedule.trials.iter().enumerate() {
            prop_assert_eq!(trial.position as usize, index + 1);
            prop_assert_eq!(trial.round as usize, index / count + 1);
            prop_assert_eq!(trial.repeat, 1);
            prop_assert_eq!(&trial.cell, &schedule.cells[trial.cell.number as usize - 1]);
        }
        for round in numbers(&schedule).chunks(count) {
            let mut sorted = round.to_vec();
            sorted.sort_unstable();
            prop_assert!(sorted.iter().copied().eq(1..=count as u32));
            prop_assert!(is_shuffled || sorted == round);
        }
        prop_assert_eq!(&Schedule::new(&spec, seed), &schedule);
    }

    #[test]
    fn more_rounds_only_append_to_the_schedule(seed: u64, rounds in 1..6_u32) {
        let of = |rounds| Schedule::new(&plan(&[5], 0, 1, &format!("rounds = {rounds}")), seed);
        let (short, long) = (numbers(&of(rounds)), numbers(&of(rounds + 3)));
        prop_assert_eq!(&long[..short.len()], &short[..]);
    }

    #[test]
    fn exclusions_leave_out_exactly_the_matching_cells(
        first in 1..4_usize, second in 1..4_usize, third in prop::collection::vec(1..4_usize, 1..3),
    ) {
        let third: Vec<_> = third.iter().map(ToString::to_string).collect();
        let more = format!(
            "exclude = [{{ f0 = {first}, f1 = {second} }}, {{ f1 = [{}], target = 't2' }}]",
            third.join(", ")
        );
        let spec = plan(&[3, 3], 0, 2, &more);
        let has = |cell: &Cell, at: usize, level: &str| cell.settings[at].level == level;
        let is_left = |cell: &&Cell| {
            let by_first = has(cell, 0, &first.to_string()) && has(cell, 1, &second.to_string());
            let by_second = cell.target == "t2" && third.iter().any(|level| has(cell, 1, level));
            !by_first && !by_second
        };
        let everything = all_cells(&spec);
        let expected: Vec<_> = everything.iter().filter(is_left).map(identity).collect();
        let cells = cells(&spec);
        let left: Vec<_> = cells.iter().map(identity).collect();
        prop_assert_eq!(left, expected);
        let numbers = cells.iter().map(|cell| cell.number);
        prop_assert!(numbers.eq(1..=cells.len() as u32));
    }

    #[test]
    fn a_baseline_runs_before_each_group_and_at_the_very_end(
        others in 0..8_usize, every in 1..4_usize, rounds in 1..4_u32, seed: u64,
    ) {
        let more = format!("rounds = {rounds}\nbaseline = {{ f0 = 1, every = {every} }}");
        let spec = plan(&[others + 1], 0, 1, &more);
        let schedule = Schedule::new(&spec, seed);
        prop_assert_eq!(trials(&spec), schedule.trials.len());
        let is_baseline: Vec<bool> = schedule.trials.iter().map(|trial| trial.cell.is_baseline).collect();
        prop_assert!(is_baseline[0]);
        prop_assert!(is_baseline.last().is_some_and(|last| *last));
        for round in schedule.trials.chunk_by(|a, b| a.round == b.round) {
            let mut seen: Vec<u32> = round.iter().filter(|t| !t.cell.is_baseline).map(|t| t.cell.number).collect();
            seen.sort_unstable();
            prop_assert!(seen.iter().copied().eq(2..=others as u32 + 1));
            let repeats = round.iter().filter(|t| t.cell.is_baseline).map(|t| t.repeat);
            prop_assert!(repeats.enumerate().all(|(index, repeat)| repeat as usize == index + 1));
        }
        // Never two in a row, and never more than `every` others without one.
        let mut since = every;
        for is_baseline in is_baseline {
            let is_right = if is_baseline { since > 0 || others == 0 } else { since < every };
            prop_assert!(is_right);
            since = if is_baseline { 0 } else { since + 1 };
        }
    }
}

/// Pearson's chi-squared test of each cell's position, over many seeds.
#[test]
fn each_cell_has_each_position_equally_often() {
    let spec = plan(&[5], 0, 1, "rounds = 2");
    let mut counts: BTreeMap<(usize, u32), f64> = BTreeMap::new();
    let seeds = 4000;
    for seed in 0..seeds {
        for (index, number) in numbers(&Schedule::new(&spec, seed)).into_iter().enumerate() {
            *counts.entry((index, number)).or_default() += 1.0;
        }
    }
    let expected = seeds as f64 / 5.0;
    for round in 0..2 {
        let of_round = counts.iter().filter(|((index, _), _)| index / 5 == round);
        let statistic: f64 = of_round
            .map(|(_, count)| (count - expected).powi(2) / expected)
            .sum();
        // 16 degrees of freedom: 39.3 is exceeded by chance once in a thousand.
        assert!(statistic < 39.3, "round {}: {statistic}", round + 1);
    }
}

#[test]
fn rounds_differ_from_each_other_and_so_do_seeds() {
    let spec = plan(&[20], 0, 1, "rounds = 2");
    let order = |seed| numbers(&Schedule::new(&spec, seed));
    let first = order(1);
    assert_ne!(first[..20], first[20..]);
    assert_ne!(first, order(2));
}

#[test]
fn the_last_factor_changes_fastest_then_profile_then_target() {
    let spec = plan(&[2, 2], 2, 2, "order = 'sequential'");
    let cells = cells(&spec);
    let lines: Vec<_> = cells.iter().take(5).map(identity).collect();
    assert_eq!(
        lines,
        [
            (vec!["1", "1"], Some("p1"), "t1"),
            (vec!["1", "1"], Some("p1"), "t2"),
            (vec!["1", "1"], Some("p2"), "t1"),
            (vec!["1", "1"], Some("p2"), "t2"),
            (vec!["1", "2"], Some("p1"), "t1"),
        ]
    );
}
