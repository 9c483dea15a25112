//! A row for each run, and what they have in common in large type.

use analysis::quantity;
use judging::ThinPercentiles;
use results::Verdict;

use super::{Drawn, Runs};
use crate::page::tables::{self, number_column, wide, words_column};
use crate::page::{Block, Figure, TableBlock, TableCell, Tone, curves, words};

/// What is shown of each run: its name in [`quantity`], its head, and how it is written.
type Shown = (&'static str, &'static str, fn(f64) -> String);

const SHOWN: [Shown; 8] = [
    (quantity::REQUESTS_PER_SEC, "Requests/s", words::number),
    ("latency_p50_us", "p50", words::time_us),
    ("latency_p99_us", "p99", words::time_us),
    ("latency_p99.9_us", "p99.9", words::time_us),
    ("latency_max_us", "Slowest", words::time_us),
    (quantity::BYTES_PER_SEC, "Throughput", words::bytes_per_sec),
    (quantity::ERRORS, "Errors", words::number),
    (
        quantity::STATUSES_OVER_399,
        "Status above 399",
        words::number,
    ),
];

/// What more of is worse than none.
const TROUBLES: [&str; 2] = [quantity::ERRORS, quantity::STATUSES_OVER_399];

/// Nothing without a run.
pub(super) fn block(drawn: &[Drawn<'_>]) -> Option<Block> {
    let shown: Vec<Shown> = SHOWN
        .into_iter()
        .filter(|(name, ..)| {
            let mut values = drawn.iter().filter_map(|drawn| drawn.run.value(name));
            // That there were no bad statuses takes no column.
            values.any(|value| *name != quantity::STATUSES_OVER_399 || value > 0.0)
        })
        .collect();
    if shown.is_empty() {
        return None;
    }
    // Beside the name: whether to believe the numbers behind it.
    let mut columns = vec![words_column("Run"), words_column("Generator")];
    columns.extend(shown.iter().map(|(name, head, _)| {
        let column = number_column(*head);
        // Of wide tables these are looked for last.
        if [
            "latency_p99.9_us",
            "latency_max_us",
            quantity::BYTES_PER_SEC,
        ]
        .contains(name)
        {
            wide(column)
        } else {
            column
        }
    }));
    let rows = drawn.iter().map(|drawn| {
        let mut row = vec![tables::text(drawn.name.clone()), generator(drawn)];
        let result = drawn.run.result.as_deref();
        let samples = result.map(|result| result.recording.latency().count());
        for (name, _, show) in &shown {
            let value = drawn.run.value(name);
            let cell = tables::known(value, show);
            let is_trouble = TROUBLES.contains(name) && value.is_some_and(|count| count > 0.0);
            row.push(if is_trouble {
                tables::toned(cell, Tone::Bad)
            } else if is_thin(name, samples) {
                tables::toned(cell, Tone::Warning)
            } else {
                cell
            });
        }
        row
    });
    Some(Block::Table(TableBlock {
        caption: "Runs (marked: fewer than ten samples above, mostly chance)".to_owned(),
        columns,
        rows: rows.collect(),
    }))
}

/// Whether it is a percentile with fewer than ten samples above it, where the samples are known.
fn is_thin(name: &str, samples: Option<u64>) -> bool {
    let percent = quantity::percentile_of(name).map(|(_, percent)| percent);
    let thin = percent
        .zip(samples)
        .and_then(|(percent, samples)| ThinPercentiles::among(&[percent], samples));
    thin.is_some()
}

fn generator(drawn: &Drawn<'_>) -> TableCell {
    match drawn
        .run
        .result
        .as_deref()
        .map(|result| &result.generator.verdict)
    {
        Some(Verdict::NotSaturated) => tables::text("fine"),
        Some(Verdict::Saturated { .. }) => tables::toned(tables::text("the limit"), Tone::Bad),
        Some(Verdict::Unknown) | None => tables::unknown(),
    }
}

/// Of so many groups the medians are shown large.
const GROUPS_SHOWN_MAX: usize = 4;

/// Medians over the runs of one thing, with their ranges; nothing where no two are.
pub(super) fn figures(runs: &Runs<'_>) -> Option<Block> {
    const LARGE: [&str; 2] = [quantity::REQUESTS_PER_SEC, "latency_p99_us"];
    if !runs.are_groups_alike || runs.groups.len() > GROUPS_SHOWN_MAX {
        return None;
    }
    let mut figures = Vec::new();
    for (name, head, show) in SHOWN.into_iter().filter(|(name, ..)| LARGE.contains(name)) {
        for (group, of) in runs.groups.iter().enumerate() {
            let members = runs.drawn.iter().filter(|drawn| drawn.group == group);
            let mut values: Vec<f64> = members
                .filter_map(|drawn| drawn.run.value(name))
                .filter(|value| value.is_finite())
                .collect();
            values.sort_by(f64::total_cmp);
            let (Some(least), Some(most), Some(median)) =
                (values.first(), values.last(), curves::median(&values))
            else {
                continue;
            };
            let note = match values.len() {
                1 => "one run".to_owned(),
                count => format!(
                    "median of {}, {} to {}",
                    words::counted(count as u64, "run"),
                    show(*least),
                    show(*most)
                ),
            };
            figures.push(Figure {
                label: match of.as_str() {
                    "" => head.to_owned(),
                    of => format!("{head}, {of}"),
                },
                value: show(median),
                note,
                tone: Tone::Neutral,
                ..Figure::default()
            });
        }
    }
    (!figures.is_empty()).then_some(Block::Figures { figures })
}
