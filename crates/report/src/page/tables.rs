//! Cells and columns of tables, and the blocks that many sections use.

use judging::is_thin;
use results::{Histogram, Measured, Verdict};

use super::words;
use super::{Block, Chart, Column, Shown, TableBlock, TableCell, Tone, Unit};

pub(crate) fn words_column(name: impl Into<String>) -> Column {
    Column {
        name: name.into(),
        ..Column::default()
    }
}

pub(crate) fn number_column(name: impl Into<String>) -> Column {
    Column {
        is_numeric: true,
        ..words_column(name)
    }
}

/// Columns of words, followed by columns of numbers.
pub(crate) fn columns(words: &[&str], numbers: &[&str]) -> Vec<Column> {
    let words = words.iter().copied().map(words_column);
    words
        .chain(numbers.iter().copied().map(number_column))
        .collect()
}

/// The same column, shown only on wide screens.
pub(crate) fn wide(column: Column) -> Column {
    Column {
        shown: Shown::Wide,
        ..column
    }
}

/// The same column, shown only when the reader requests all columns.
pub(crate) fn asked(column: Column) -> Column {
    Column {
        shown: Shown::Asked,
        ..column
    }
}

pub(crate) fn text(text: impl Into<String>) -> TableCell {
    TableCell {
        text: text.into(),
        ..TableCell::default()
    }
}

pub(crate) fn value(text: String, value: f64) -> TableCell {
    TableCell {
        text,
        value: value.is_finite().then_some(value),
        ..TableCell::default()
    }
}

pub(crate) fn unknown() -> TableCell {
    text(words::UNKNOWN)
}

/// A number that may not be known, written by `show`.
pub(crate) fn known(number: Option<f64>, show: impl Fn(f64) -> String) -> TableCell {
    match number.filter(|number| number.is_finite()) {
        Some(number) => value(show(number), number),
        None => unknown(),
    }
}

/// A value of a metric, marked if it is a lower bound.
pub(crate) fn measured(measured: Option<Measured>, show: impl Fn(f64) -> String) -> TableCell {
    let is_bound = measured.is_some_and(|known| known.is_lower_bound);
    known(measured.map(|known| known.value), |value| match is_bound {
        true => marked(show(value)),
        false => show(value),
    })
}

/// The text of a lower bound.
pub(crate) fn marked(text: String) -> String {
    format!("\u{2265} {text}")
}

pub(crate) fn count(number: u64) -> TableCell {
    value(words::count(number), number as f64)
}

/// Requests or responses per second.
pub(crate) fn rate(per_sec: f64) -> TableCell {
    TableCell {
        unit: Unit::RequestsPerSec,
        ..known(Some(per_sec), words::number)
    }
}

/// Its value is in microseconds, as in charts.
pub(crate) fn time_us(time_us: Option<f64>) -> TableCell {
    TableCell {
        unit: Unit::Microseconds,
        ..known(time_us, words::time_us)
    }
}

pub(crate) fn time_ns(time_ns: Option<u64>) -> TableCell {
    time_us(time_ns.map(|ns| ns as f64 / 1e3))
}

/// A percentile of times, marked if too few samples are above it.
pub(crate) fn percentile(samples: &Histogram, percent: f64) -> TableCell {
    let known = (!samples.is_empty()).then(|| samples.value_at_percentile(percent));
    let is_thin = is_thin(percent, samples.count());
    toned_if(is_thin, Tone::Warning, time_ns(known))
}

pub(crate) fn mean(samples: &Histogram) -> TableCell {
    time_us((!samples.is_empty()).then(|| samples.mean_ns() / 1e3))
}

pub(crate) fn toned(cell: TableCell, tone: Tone) -> TableCell {
    TableCell { tone, ..cell }
}

/// The same cell, with a tone where `is_so`.
pub(crate) fn toned_if(is_so: bool, tone: Tone, cell: TableCell) -> TableCell {
    if is_so { toned(cell, tone) } else { cell }
}

pub(crate) fn table(
    caption: impl Into<String>,
    columns: impl Into<Vec<Column>>,
    rows: impl IntoIterator<Item = Vec<TableCell>>,
) -> Block {
    Block::Table(TableBlock::new(caption, columns, rows))
}

/// A sentence with its evidence.
pub(crate) fn finding(tone: Tone, text: impl Into<String>, details: Vec<String>) -> Block {
    Block::Finding {
        tone,
        text: text.into(),
        details,
    }
}

/// How serious a verdict on the load generator is.
pub(crate) fn tone_of(verdict: &Verdict) -> Tone {
    match verdict {
        Verdict::Undisturbed | Verdict::Unknown => Tone::Neutral,
        Verdict::Disturbed { .. } => Tone::Warning,
        Verdict::Saturated { .. } => Tone::Bad,
    }
}

/// One chart over the whole width.
pub(crate) fn chart(chart: Chart) -> Block {
    Block::Charts {
        charts: vec![chart],
    }
}

/// Names with their values, for [`Block::Facts`].
#[derive(Debug, Default)]
pub(crate) struct Facts(pub(crate) Vec<(String, String)>);

impl Facts {
    /// Leaves out empty values.
    pub(crate) fn add(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.to_owned(), value));
        }
    }

    pub(crate) fn add_known(&mut self, name: &str, value: Option<String>) {
        self.add(name, value.unwrap_or_default());
    }

    /// `None` if there are none.
    pub(crate) fn block(self) -> Option<Block> {
        (!self.0.is_empty()).then_some(Block::Facts { facts: self.0 })
    }
}
