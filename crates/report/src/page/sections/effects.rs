//! The change of each level against the first, its confidence interval, and whether it matters.

use analysis::compare::{Better, Comparison, Difference, Level, runs_of_levels};
use analysis::grouped;

use super::conclusions::{finding_of, is_matrix, title_of};
use super::levels::{confidence_phrase, interval_phrase};
use crate::comparison;
use crate::page::quantities::{in_6_digits, show};
use crate::page::runs::{Runs, short_names};
use crate::page::tables::{
    self, asked, known, number_column, text, toned, unknown, wide, words_column,
};
use crate::page::{Axis, Block, Chart, Mark, Marks, Section, TableCell, Tone, Unit, words};

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
            blocks.push(table(comparison, runs));
        }
    }
    let threshold = comparison::percent(first.threshold);
    let looks = match first.is_sequential {
        true => "Intervals and p-values hold although the runs were looked at after every round",
        false => "",
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
            for (name, color, levels) in [("Not found", 0, others), ("Found", 1, found)] {
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
    Marks {
        name: format!("Within {} %", comparison::percent(comparison.threshold)),
        mark: Mark::Band,
        x: vec![-HALF, levels as f64 - HALF],
        y: vec![Some(0.0); 2],
        low: vec![below; 2],
        high: vec![threshold; 2],
        color: 2,
        is_faint: true,
        ..Marks::default()
    }
}

fn intervals(name: &str, color: usize, levels: &[(&Level, Difference, f64)]) -> Marks {
    let change = |ratio: Option<f64>| ratio.map(|ratio| in_6_digits((ratio - 1.0) * 100.0));
    let of = |value: fn(&Difference) -> Option<f64>| {
        let changes = levels.iter().map(|(_, difference, _)| value(difference));
        changes.map(change).collect::<Vec<_>>()
    };
    Marks {
        name: name.to_owned(),
        mark: Mark::Interval,
        x: levels.iter().map(|(_, _, at)| *at).collect(),
        y: of(|difference| difference.ratio),
        low: of(|difference| difference.low),
        high: of(|difference| difference.high),
        labels: levels
            .iter()
            .map(|(level, difference, _)| label(level, difference))
            .collect(),
        color,
        ..Marks::default()
    }
}

fn label(level: &Level, difference: &Difference) -> String {
    let change = change_text(difference).unwrap_or_default();
    let p_value = comparison::p_phrase(difference.adjusted_p_value);
    format!("{}: {change}, {p_value} after correction", level.name)
}

/// `+4.1 % (2.8 to 5.5 %)`
fn change_text(difference: &Difference) -> Option<String> {
    let change = format!("{} %", comparison::signed(difference.ratio?));
    Some(match comparison::interval_as_changes(difference) {
        Some(interval) => format!("{change} ({interval})"),
        None => change,
    })
}

fn table(comparison: &Comparison, runs: &Runs<'_>) -> Block {
    let metric = &comparison.metric.name;
    let runs = runs_of_levels(runs.all, comparison);
    let interval = |at: usize| runs.get(at).and_then(|runs| runs.median_interval);
    let confidences: Vec<f64> = (0..runs.len())
        .filter_map(|at| Some(interval(at)?.confidence))
        .collect();
    let has_intervals = !confidences.is_empty();
    let is_one_confidence = confidences.windows(2).all(|pair| pair[0] == pair[1]);
    let rows = comparison.levels.iter().enumerate().map(|(at, level)| {
        let mut row = vec![
            text(level.name.clone()),
            known(Some(level.runs as f64), |_| level.runs.to_string()),
            known(level.median, |value| show(metric, value)),
        ];
        row.extend(difference_cells(comparison, level));
        if has_intervals {
            row.push(match interval(at) {
                Some(interval) => {
                    let text = interval_phrase(metric, interval);
                    let confidence = confidence_phrase(interval.confidence);
                    let text = match is_one_confidence {
                        true => text,
                        false => format!("{text} ({confidence})"),
                    };
                    tables::value(text, interval.low)
                }
                None => unknown(),
            });
        }
        row
    });
    let mut columns = vec![
        words_column(comparison.factor.as_deref().unwrap_or("runs of")),
        number_column("runs"),
        number_column("median"),
        number_column("change"),
        wide(number_column("95 % interval")),
        words_column("verdict"),
        asked(number_column("p, corrected")),
        asked(number_column("p")),
    ];
    columns.extend(match confidences.as_slice() {
        [] => None,
        [first, ..] if is_one_confidence => Some(asked(number_column(format!(
            "{} interval of the median",
            confidence_phrase(*first)
        )))),
        _ => Some(asked(number_column("interval of the median"))),
    });
    tables::table(title_of(comparison), columns, rows)
}

fn difference_cells(comparison: &Comparison, level: &Level) -> [TableCell; 5] {
    let Some(difference) = &level.difference else {
        return [unknown(), unknown(), text(""), unknown(), unknown()];
    };
    let (verdict, tone) = verdict(comparison, level, difference);
    let change = difference.ratio.map(|ratio| (ratio - 1.0) * 100.0);
    let interval = comparison::interval_as_changes(difference);
    [
        known(change, |_| {
            let ratio = difference.ratio.unwrap_or(1.0);
            format!("{} %", comparison::signed(ratio))
        }),
        interval.map_or_else(unknown, text),
        toned(text(verdict), tone),
        known(Some(difference.adjusted_p_value), comparison::p),
        known(Some(difference.p_value), comparison::p),
    ]
}

/// Better or worse is not said of runs with a saturated load generator.
fn verdict(
    comparison: &Comparison,
    level: &Level,
    difference: &Difference,
) -> (&'static str, Tone) {
    if !difference.is_found() {
        return match difference.is_same {
            true => ("same", Tone::Same),
            false => ("no effect", Tone::NoEffect),
        };
    }
    if !comparison.matters(difference) {
        return ("same", Tone::Same);
    }
    let is_higher = match difference.ratio {
        Some(ratio) => ratio > 1.0,
        None => level.median > comparison.levels.first().and_then(|first| first.median),
    };
    match comparison.metric.better {
        _ if comparison.is_generator_saturated() => ("differs", Tone::Warning),
        Better::Neither => ("differs", Tone::Warning),
        Better::Higher if is_higher => ("better", Tone::Better),
        Better::Lower if !is_higher => ("better", Tone::Better),
        Better::Higher | Better::Lower => ("worse", Tone::Worse),
    }
}
