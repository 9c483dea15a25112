//! A row for each run, and what they have in common in large type.

use analysis::quantity;

use super::Drawn;
use crate::page::tables::{self, number_column, words_column};
use crate::page::{Block, Figure, TableBlock, TableCell, Tone, words};

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
    let mut columns = vec![words_column("Run")];
    columns.extend(shown.iter().map(|(_, head, _)| number_column(*head)));
    columns.push(words_column("Generator"));
    let rows = drawn.iter().map(|drawn| {
        let mut row = vec![tables::text(drawn.name.clone())];
        for (name, _, show) in &shown {
            let value = drawn.run.value(name);
            let cell = tables::known(value, show);
            let is_trouble = TROUBLES.contains(name) && value.is_some_and(|count| count > 0.0);
            row.push(if is_trouble {
                tables::toned(cell, Tone::Bad)
            } else {
                cell
            });
        }
        row.push(generator(drawn));
        row
    });
    Some(Block::Table(TableBlock {
        caption: "Runs".to_owned(),
        columns,
        rows: rows.collect(),
    }))
}

fn generator(drawn: &Drawn<'_>) -> TableCell {
    use results::Verdict;
    match drawn
        .run
        .result
        .as_deref()
        .map(|result| &result.generator.verdict)
    {
        Some(Verdict::Fine) => tables::text("fine"),
        Some(Verdict::GeneratorLimited { .. }) => {
            tables::toned(tables::text("the limit"), Tone::Bad)
        }
        Some(Verdict::Unknown) | None => tables::unknown(),
    }
}

/// Medians over the runs, with their ranges; nothing of one run.
pub(super) fn figures(drawn: &[Drawn<'_>]) -> Option<Block> {
    const LARGE: [&str; 3] = [
        quantity::REQUESTS_PER_SEC,
        "latency_p50_us",
        "latency_p99_us",
    ];
    if drawn.len() < 2 {
        return None;
    }
    let figure = |(name, label, show): Shown| {
        let mut values: Vec<f64> = drawn
            .iter()
            .filter_map(|drawn| drawn.run.value(name))
            .filter(|value| value.is_finite())
            .collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (values.first()?, values.last()?);
        Some(Figure {
            label: format!(
                "{label}, median of {}",
                words::counted(values.len() as u64, "run")
            ),
            value: show(crate::page::curves::median(&values)?),
            note: format!("{} to {}", show(*least), show(*most)),
            tone: Tone::Neutral,
        })
    };
    let figures: Vec<Figure> = SHOWN
        .into_iter()
        .filter(|(name, ..)| LARGE.contains(name))
        .filter_map(figure)
        .collect();
    (!figures.is_empty()).then_some(Block::Figures { figures })
}
