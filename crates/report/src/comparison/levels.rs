//! The table of the levels of a comparison.

use analysis::compare::{Better, Comparison, Difference, Level};
use judging::sentences::UNDECIDED;
use presentation::tables::{
    self, asked, known, marked, number_column, text, toned, unknown, wide, words_column,
};
use presentation::{TableBlock, TableCell, Tone};

use super::{change_with_interval, interval_as_changes, p, percent, signed};
use crate::page::quantities::show;

/// A row for each level: its runs, and its difference from the first level.
pub(crate) fn table(caption: String, comparison: &Comparison) -> TableBlock {
    let has_failures = has_failures(comparison);
    let metric = &comparison.metric.name;
    let row = |level: &Level| {
        let median = known(level.median, |median| {
            let shown = show(metric, median);
            if level.is_lower_bound() {
                marked(shown)
            } else {
                shown
            }
        });
        let range = level.min.zip(level.max);
        let range = range.map(|ends| [ends.0, ends.1].map(|end| show(metric, end)).join(" to "));
        let mut row = vec![
            text(&level.name),
            tables::count(level.runs as u64),
            median,
            range.map_or_else(unknown, text),
        ];
        if has_failures {
            row.insert(2, failed(level));
        }
        row.extend(difference_cells(comparison, level));
        row
    };
    let mut columns = vec![
        words_column(comparison.factor.as_deref().unwrap_or("runs of")),
        number_column("runs"),
        number_column("median"),
        wide(number_column("range")),
        number_column("change"),
        wide(number_column("95 % interval")),
        words_column("verdict"),
        wide(number_column("p, corrected")),
        asked(number_column("p")),
    ];
    if has_failures {
        columns.insert(2, number_column("failed"));
    }
    TableBlock::new(caption, columns, comparison.levels.iter().map(row))
}

/// Whether a request of any level failed.
pub(crate) fn has_failures(comparison: &Comparison) -> bool {
    comparison.levels.iter().any(|it| it.failed.failed > 0.0)
}

/// The share of failed requests: `0 %`, `12 %`.
pub(crate) fn failed(level: &Level) -> TableCell {
    let share = level.failed.share();
    tables::value(format!("{} %", percent(share)), share * 100.0)
}

/// `+4.1 % (+2.8 to +5.5 %)`, if there is a ratio with an interval.
pub(crate) fn change(level: &Level) -> Option<String> {
    let difference = level.difference?;
    difference.low?;
    change_with_interval(&difference)
}

/// The change of a ratio in percent.
pub(crate) fn change_cell(ratio: f64) -> TableCell {
    tables::value(format!("{} %", signed(ratio)), (ratio - 1.0) * 100.0)
}

fn difference_cells(comparison: &Comparison, level: &Level) -> [TableCell; 5] {
    if let Some(explained) = &level.explained {
        let measured = &explained.measured;
        return [
            measured.ratio.map_or_else(unknown, change_cell),
            interval_as_changes(measured).map_or_else(unknown, text),
            toned(text(UNDECIDED), Tone::Undecided),
            unknown(),
            unknown(),
        ];
    }
    let Some(difference) = &level.difference else {
        return [unknown(), unknown(), text(""), unknown(), unknown()];
    };
    let (verdict, tone) = verdict(comparison, level, difference);
    [
        difference.ratio.map_or_else(unknown, change_cell),
        interval_as_changes(difference).map_or_else(unknown, text),
        toned(text(verdict), tone),
        known(Some(difference.adjusted_p_value), p),
        known(Some(difference.p_value), p),
    ]
}

/// Better or worse is not said of runs with a saturated load generator, and the same not where the
/// interval contains a difference that matters.
fn verdict(
    comparison: &Comparison,
    level: &Level,
    difference: &Difference,
) -> (&'static str, Tone) {
    let is_effect = difference.is_found() && comparison.matters(difference);
    if !is_effect {
        return if difference.is_same {
            ("same", Tone::Same)
        } else {
            (UNDECIDED, Tone::Undecided)
        };
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
