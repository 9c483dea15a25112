//! The conclusions of a sweep in short: the sentences first, then tables that fit a terminal.

use std::io::{self, Write};

use analysis::Observation;
use analysis::compare::{
    Comparison, Conclusions, Metric, Validity, has_tokens, median_of_all, medians_of_levels,
};
use presentation::tables::{self, columns, known, number_column, text, words_column};
use presentation::{Column, TableBlock};
use results::metric;

use super::{caveat_sentence, headlines, levels, relative_remark, validity_sentences};
use crate::aligned::{self, Layout};
use crate::page::quantities::show;

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
    let shown = shown(observations);
    row.extend(shown.iter().map(|(_, metric)| {
        let median = median_of_all(observations, metric);
        known(median, |median| show(&metric.name, median))
    }));
    let table = TableBlock::new("", head("", &shown), [row]);
    aligned::write(&table, FOR_TERMINAL, output)
}

/// What the table shows of each level, with short names.
fn shown(observations: &[Observation]) -> Vec<(&'static str, Metric)> {
    if !has_tokens(observations) {
        let usual = ["requests/s", "p50", "p99"];
        return usual.map(|name| (name, Metric::named(name))).to_vec();
    }
    let heads = ["tokens/s", "first p50", "first p99", "per token", "good"];
    let metrics = metric::of_tokens().map(|name| Metric::named(&name));
    let named = heads.into_iter().zip(metrics);
    let mut known: Vec<_> = named
        .filter(|(_, metric)| median_of_all(observations, metric).is_some())
        .collect();
    // All five are wider than a terminal.
    if known.len() == heads.len() {
        known.remove(3);
    }
    known
}

fn head(factor: &str, shown: &[(&str, Metric)]) -> Vec<Column> {
    let mut heads = columns(&[factor], &["n"]);
    heads.extend(shown.iter().map(|(name, _)| number_column(*name)));
    heads
}

fn table(comparison: &Comparison, observations: &[Observation]) -> TableBlock {
    let shown = shown(observations);
    let medians = shown.iter().map(|(_, metric)| {
        let values = medians_of_levels(observations, comparison, metric);
        (metric, values)
    });
    let medians: Vec<(&Metric, Vec<Option<f64>>)> = medians.collect();
    let mut heads = head(comparison.factor.as_deref().unwrap_or("runs"), &shown);
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
