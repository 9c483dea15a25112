//! The change of each level against the first, its confidence interval, and whether it matters.

use analysis::compare::{Comparison, Difference, Level, runs_of_levels};
use analysis::grouped;
use presentation::tables::{self, asked, number_column, unknown};
use presentation::{Axis, Block, Chart, Mark, Marks, Section, TableBlock, Unit, words};

use super::conclusions::{finding_of, is_matrix, title_of};
use super::levels::{confidence_phrase, interval_phrase};
use crate::comparison;
use crate::page::quantities::in_6_digits;
use crate::page::runs::{Runs, short_names};

/// Half the distance between two names.
const HALF: f64 = 0.5;

pub(super) fn section(runs: &Runs<'_>) -> Option<Section> {
    let conclusions = runs.subject.conclusions?;
    let has_change = |comparison: &Comparison| {
        comparison
            .levels
            .iter()
            .any(|level| level.difference.is_some())
    };
    let comparisons = &conclusions.comparisons;
    let first = comparisons
        .iter()
        .find(|comparison| has_change(comparison))?;
    let is_matrix = is_matrix(conclusions);
    let mut blocks: Vec<Block> = Vec::new();
    let places = comparisons.iter().enumerate();
    let places = places.map(|(at, one)| ((&one.factor, &one.place), (at, one)));
    for (_, of_place) in grouped(places) {
        let charts: Vec<Chart> = of_place
            .iter()
            .filter_map(|(number, comparison)| chart(*number, comparison, runs))
            .collect();
        if !charts.is_empty() {
            blocks.push(Block::Charts { charts });
        }
        for (_, comparison) in of_place {
            // Where the verdict is a table, or has sentences of its own, these are here.
            let is_here = is_matrix || comparison.is_sequential;
            blocks.extend(is_here.then(|| finding_of(comparison)));
            blocks.push(Block::Table(table(comparison, runs)));
        }
    }
    let threshold = comparison::percent(first.threshold);
    let looks = if first.is_sequential {
        "Intervals and p-values hold although the runs were looked at after every round"
    } else {
        ""
    };
    let lead = words::sentences([
        "The change of each level against the first, with its 95 % confidence interval",
        &format!("Changes within the band of {threshold} % do not matter"),
        "A change is found if its p-value, corrected for the number of levels, is below 0.05 and \
         its interval excludes zero",
        looks,
    ]);
    Some(Section::new("effects", "Effects", lead, blocks))
}

/// `None` if no level has a change.
fn chart(number: usize, comparison: &Comparison, runs: &Runs<'_>) -> Option<Chart> {
    let names: Vec<&str> = comparison
        .levels
        .iter()
        .map(|level| level.name.as_str())
        .collect();
    let known: Vec<(&Level, Difference, f64)> = comparison
        .levels
        .iter()
        .zip(0_u32..)
        .filter_map(|(level, at)| {
            let difference = level.difference.filter(|known| known.ratio.is_some())?;
            Some((level, difference, f64::from(at)))
        })
        .collect();
    if known.is_empty() {
        return None;
    }
    let mut marks = vec![band(comparison, names.len())];
    match runs.colors_of_targets(comparison) {
        Some(colors) => {
            marks[0].color = runs.spare_color();
            marks.extend(known.chunks(1).map(|one| {
                let (level, _, at) = one[0];
                intervals(&level.name, colors[at as usize], one)
            }));
        }
        None => {
            let (found, others): (Vec<_>, Vec<_>) = known
                .into_iter()
                .partition(|(_, difference, _)| difference.is_found());
            for (name, color, levels) in [("Same or undecided", 0, others), ("Different", 1, found)]
            {
                if !levels.is_empty() {
                    marks.push(intervals(name, color, &levels));
                }
            }
        }
    }
    Some(Chart {
        id: format!("effects-{number}"),
        title: format!("Change of {}", title_of(comparison)),
        description: format!("{}.", comparison::sentence(comparison)),
        x: Axis::names(
            comparison.factor.clone().unwrap_or_default(),
            short_names(names.iter().copied()),
        ),
        y: Axis::from_zero(
            format!("against {}", names.first().unwrap_or(&"")),
            Unit::ChangePercent,
        ),
        marks,
        ..Chart::default()
    })
}

fn band(comparison: &Comparison, levels: usize) -> Marks {
    let threshold = Some(comparison.threshold * 100.0);
    let below = threshold.map(|threshold| -threshold);
    let name = format!("Within {} %", comparison::percent(comparison.threshold));
    Marks {
        x: vec![-HALF, levels as f64 - HALF],
        y: vec![Some(0.0); 2],
        low: vec![below; 2],
        high: vec![threshold; 2],
        is_faint: true,
        ..Marks::new(name, Mark::Band, 2)
    }
}

fn intervals(name: &str, color: usize, levels: &[(&Level, Difference, f64)]) -> Marks {
    let change = |ratio: Option<f64>| ratio.map(|ratio| in_6_digits((ratio - 1.0) * 100.0));
    let mut marks = Marks::new(name, Mark::Interval, color);
    for (level, difference, at) in levels {
        let Difference {
            low, ratio, high, ..
        } = *difference;
        marks.push_interval(
            *at,
            [low, ratio, high].map(change),
            label(level, difference),
        );
    }
    marks
}

fn label(level: &Level, difference: &Difference) -> String {
    let change = comparison::change_with_interval(difference).unwrap_or_default();
    let p_value = comparison::p_phrase(difference.adjusted_p_value);
    format!("{}: {change}, {p_value} after correction", level.name)
}

fn table(comparison: &Comparison, runs: &Runs<'_>) -> TableBlock {
    let mut table = comparison::levels::table(title_of(comparison), comparison);
    let runs = runs_of_levels(runs.all, comparison);
    let intervals = runs.iter().map(|runs| runs.median_interval);
    let confidences: Vec<f64> = intervals
        .clone()
        .flatten()
        .map(|it| it.confidence)
        .collect();
    let Some(first) = confidences.first() else {
        return table;
    };
    let is_one_confidence = confidences.iter().all(|confidence| confidence == first);
    let (of_column, metric) = (confidence_phrase(*first), &comparison.metric.name);
    table
        .columns
        .push(asked(number_column(if is_one_confidence {
            format!("{of_column} interval of the median")
        } else {
            "interval of the median".to_owned()
        })));
    for (row, interval) in table.rows.iter_mut().zip(intervals) {
        row.push(interval.map_or_else(unknown, |interval| {
            let text = interval_phrase(metric, interval);
            let confidence = confidence_phrase(interval.confidence);
            let text = if is_one_confidence {
                text
            } else {
                format!("{text} ({confidence})")
            };
            tables::value(text, interval.low)
        }));
    }
    table
}
