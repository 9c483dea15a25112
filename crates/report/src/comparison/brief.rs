//! The conclusions of a sweep in short: the sentences first, then tables that fit a terminal.

use std::io::{self, Write};

use analysis::Observation;
use analysis::compare::{
    Comparison, Conclusions, Metric, Validity, median_of_all, medians_of_levels,
};
use analysis::sequential::SequentialDifference;

use crate::sequential::sequential_sentences;

use super::{
    caveat_sentence, failed, interval_as_changes, relative_remark, sentence, signed,
    validity_sentences, value,
};

/// Columns of a terminal by default.
const WIDTH: usize = 80;

/// The last column of medians; after it come failures, if there are any, and the change.
const MEDIANS_TO: usize = 4;

/// Least width of the column of levels.
const LEVEL_MIN: usize = 8;

/// Writes how far the runs can be trusted, and a sentence for each comparison. Then writes a table
/// of levels for each factor, at most 80 columns wide, and the caveats.
///
/// # Errors
///
/// Those of the writer.
pub fn render_brief(
    conclusions: &Conclusions,
    observations: &[Observation],
    output: &mut dyn Write,
) -> io::Result<()> {
    let sentences = conclusions.comparisons.iter().map(sentence).collect();
    write_brief(sentences, conclusions, observations, output)
}

/// The same for an experiment that ended as soon as enough was known, with its own sentences.
///
/// # Errors
/// Those of the writer.
pub fn render_sequential(
    differences: &[SequentialDifference],
    conclusions: &Conclusions,
    observations: &[Observation],
    output: &mut dyn Write,
) -> io::Result<()> {
    let sentences = sequential_sentences(differences);
    write_brief(sentences, conclusions, observations, output)
}

fn write_brief(
    sentences: Vec<String>,
    conclusions: &Conclusions,
    observations: &[Observation],
    output: &mut dyn Write,
) -> io::Result<()> {
    for line in validity_sentences(&conclusions.validity)
        .iter()
        .chain(&sentences)
    {
        writeln!(output, "{line}")?;
    }
    let mut known: Vec<(&Option<String>, &[String])> = Vec::new();
    for comparison in &conclusions.comparisons {
        let factor = (&comparison.factor, comparison.place.as_slice());
        // One table has all metrics of a factor.
        if known.contains(&factor) {
            continue;
        }
        known.push(factor);
        writeln!(output)?;
        if !comparison.place.is_empty() {
            writeln!(output, "{}:", comparison.place.join(", "))?;
        }
        write_table(&rows(comparison, observations), output)?;
        if let Some(remark) = relative_remark(comparison) {
            writeln!(output, "({})", remark.replacen("ratios", "changes", 1))?;
        }
    }
    if !conclusions.caveats.is_empty() {
        writeln!(output)?;
    }
    for caveat in &conclusions.caveats {
        writeln!(output, "Note: {}", caveat_sentence(caveat))?;
    }
    Ok(())
}

/// Writes the table of runs that differ in nothing that was set.
///
/// # Errors
///
/// Those of the writer.
pub fn render_one_cell(observations: &[Observation], output: &mut dyn Write) -> io::Result<()> {
    for limit in validity_sentences(&[Validity::of(observations, None)]) {
        writeln!(output, "{limit}\n")?;
    }
    let counted = observations.iter().filter(|run| run.failure.is_none());
    let mut row = vec!["all runs".to_owned(), counted.count().to_string()];
    for metric in metrics() {
        row.push(value(&metric, median_of_all(observations, &metric)));
    }
    write_table(&[head(""), row], output)
}

/// What the table shows of each level.
fn metrics() -> [Metric; 3] {
    ["requests/s", "p50", "p99"].map(Metric::named)
}

fn head(factor: &str) -> Vec<String> {
    [factor, "n", "requests/s", "p50", "p99"]
        .map(ToOwned::to_owned)
        .to_vec()
}

fn rows(comparison: &Comparison, observations: &[Observation]) -> Vec<Vec<String>> {
    let medians = metrics().map(|metric| {
        let values = medians_of_levels(observations, comparison, &metric);
        (metric, values)
    });
    let factor = comparison.factor.as_deref().unwrap_or("runs");
    let has_failures = comparison.levels.iter().any(|it| it.failed.failed > 0.0);
    let mut heads = head(factor);
    if has_failures {
        heads.push("failed".to_owned());
    }
    heads.push(format!("change in {}", comparison.metric.label));
    let mut rows = vec![heads];
    for (index, level) in comparison.levels.iter().enumerate() {
        let mut row = vec![level.name.clone(), level.runs.to_string()];
        for (metric, values) in &medians {
            row.push(value(metric, values.get(index).copied().flatten()));
        }
        let change = level.difference.and_then(|difference| {
            let interval = interval_as_changes(&difference)?;
            Some(format!("{} % ({interval})", signed(difference.ratio?)))
        });
        if has_failures {
            row.push(failed(level));
        }
        row.push(change.unwrap_or_default());
        rows.push(row);
    }
    rows
}

/// Aligns the columns: names to the left, numbers to the right. Names that are too long are cut.
fn write_table(rows: &[Vec<String>], output: &mut dyn Write) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    if let Some(first) = widths.first_mut() {
        *first = (*first).min(WIDTH.saturating_sub(others).max(LEVEL_MIN));
    }
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // The change is a text.
            let is_left = column == 0 || column > MEDIANS_TO && column + 1 == columns;
            let cell = cut(cell, *width);
            if column > 0 {
                line.push_str("  ");
            }
            line.push_str(&match is_left {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            });
        }
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(3));
    kept.chain("...".chars()).collect()
}
