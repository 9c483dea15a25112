//! The conclusions of a sweep in short: the sentences first, then tables that fit a terminal.

use std::io::{self, Write};

use analysis::Observation;
use analysis::compare::{
    Comparison, Conclusions, Metric, Validity, median_of_all, medians_of_levels,
};

use super::{caveat_sentence, headlines, levels, relative_remark, validity_sentences};
use crate::aligned::{self, Layout};
use crate::page::quantities::show;
use crate::page::tables::{self, columns, known, number_column, text, words_column};
use crate::page::{Column, TableBlock};

/// A table that fits a terminal of the usual width.
const FOR_TERMINAL: Layout = Layout {
    indent: 0,
    is_of_wrk: false,
    columns_max: Some(80),
};

/// Writes how far the runs can be trusted, and the conclusions. Then writes a table
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
    for line in validity_sentences(&conclusions.validity)
        .iter()
        .chain(&headlines(conclusions))
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
        aligned::write(&table(comparison, observations), FOR_TERMINAL, output)?;
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
    let mut row = vec![text("all runs"), tables::count(counted.count() as u64)];
    row.extend(metrics().map(|metric| {
        let median = median_of_all(observations, &metric);
        known(median, |median| show(&metric.name, median))
    }));
    let table = TableBlock::new("", head(""), [row]);
    aligned::write(&table, FOR_TERMINAL, output)
}

/// What the table shows of each level.
fn metrics() -> [Metric; 3] {
    ["requests/s", "p50", "p99"].map(Metric::named)
}

fn head(factor: &str) -> Vec<Column> {
    columns(&[factor], &["n", "requests/s", "p50", "p99"])
}

fn table(comparison: &Comparison, observations: &[Observation]) -> TableBlock {
    let medians = metrics().map(|metric| {
        let values = medians_of_levels(observations, comparison, &metric);
        (metric, values)
    });
    let mut heads = head(comparison.factor.as_deref().unwrap_or("runs"));
    let has_failures = levels::has_failures(comparison);
    heads.extend(has_failures.then(|| number_column("failed")));
    heads.push(words_column(format!(
        "change in {}",
        comparison.metric.label
    )));
    let all = comparison.levels.iter().enumerate();
    let rows = all.map(|(index, level)| {
        let mut row = vec![text(&level.name), tables::count(level.runs as u64)];
        row.extend(medians.iter().map(|(metric, values)| {
            let median = values.get(index).copied().flatten();
            known(median, |median| show(&metric.name, median))
        }));
        row.extend(has_failures.then(|| levels::failed(level)));
        row.push(text(levels::change(level).unwrap_or_default()));
        row
    });
    TableBlock::new("", heads, rows)
}
