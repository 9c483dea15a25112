//! Cells and columns of tables, and the blocks that many sections use.

use crate::words;
use crate::{Block, Chart, Column, Shown, TableBlock, TableCell, Tone, Unit};

/// A column of words.
pub fn words_column(name: impl Into<String>) -> Column {
    Column {
        name: name.into(),
        ..Column::default()
    }
}

/// A column of numbers.
pub fn number_column(name: impl Into<String>) -> Column {
    Column {
        is_numeric: true,
        ..words_column(name)
    }
}

/// Columns of words, followed by columns of numbers.
pub fn columns(words: &[&str], numbers: &[&str]) -> Vec<Column> {
    let words = words.iter().copied().map(words_column);
    words
        .chain(numbers.iter().copied().map(number_column))
        .collect()
}

/// The same column, shown only on wide screens.
pub fn wide(column: Column) -> Column {
    Column {
        shown: Shown::Wide,
        ..column
    }
}

/// The same column, shown only when the reader requests all columns.
pub fn asked(column: Column) -> Column {
    Column {
        shown: Shown::Asked,
        ..column
    }
}

/// A cell of words.
pub fn text(text: impl Into<String>) -> TableCell {
    TableCell {
        text: text.into(),
        ..TableCell::default()
    }
}

/// A cell with its text and its exact value.
pub fn value(text: String, value: f64) -> TableCell {
    TableCell {
        text,
        value: value.is_finite().then_some(value),
        ..TableCell::default()
    }
}

/// A value that is not known.
pub fn unknown() -> TableCell {
    text(words::UNKNOWN)
}

/// A number that may not be known, written by `show`.
pub fn known(number: Option<f64>, show: impl Fn(f64) -> String) -> TableCell {
    match number.filter(|number| number.is_finite()) {
        Some(number) => value(show(number), number),
        None => unknown(),
    }
}

/// The text of a lower bound.
pub fn marked(text: String) -> String {
    format!("\u{2265} {text}")
}

/// A whole number.
pub fn count(number: u64) -> TableCell {
    value(words::count(number), number as f64)
}

/// Requests or responses per second.
pub fn rate(per_sec: f64) -> TableCell {
    TableCell {
        unit: Unit::RequestsPerSec,
        ..known(Some(per_sec), words::number)
    }
}

/// A time in microseconds, which may not be known.
pub fn time_us(time_us: Option<f64>) -> TableCell {
    TableCell {
        unit: Unit::Microseconds,
        ..known(time_us, words::time_us)
    }
}

/// A time in nanoseconds, as [`time_us`] shows it.
pub fn time_ns(time_ns: Option<u64>) -> TableCell {
    time_us(time_ns.map(|ns| ns as f64 / 1e3))
}

/// The same cell with a tone.
pub fn toned(cell: TableCell, tone: Tone) -> TableCell {
    TableCell { tone, ..cell }
}

/// The same cell, with a tone where `is_so`.
pub fn toned_if(is_so: bool, tone: Tone, cell: TableCell) -> TableCell {
    if is_so { toned(cell, tone) } else { cell }
}

/// A table as a block of a page.
pub fn table(
    caption: impl Into<String>,
    columns: impl Into<Vec<Column>>,
    rows: impl IntoIterator<Item = Vec<TableCell>>,
) -> Block {
    Block::Table(TableBlock::new(caption, columns, rows))
}

/// A sentence with its evidence.
pub fn finding(tone: Tone, text: impl Into<String>, details: Vec<String>) -> Block {
    Block::Finding {
        tone,
        text: text.into(),
        details,
    }
}

/// One chart over the whole width.
pub fn chart(chart: Chart) -> Block {
    Block::Charts {
        charts: vec![chart],
    }
}

/// Names with their values, for [`Block::Facts`].
#[derive(Debug, Default)]
pub struct Facts(pub Vec<(String, String)>);

impl Facts {
    /// Adds a name with its value, unless this is empty.
    pub fn add(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.to_owned(), value));
        }
    }

    /// Adds a name with its value, if this is known.
    pub fn add_known(&mut self, name: &str, value: Option<String>) {
        self.add(name, value.unwrap_or_default());
    }

    /// As a block of a page; `None` if there are none.
    #[must_use]
    pub fn block(self) -> Option<Block> {
        (!self.0.is_empty()).then_some(Block::Facts { facts: self.0 })
    }
}
