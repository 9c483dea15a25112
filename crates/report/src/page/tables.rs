//! Cells and columns of tables, and the blocks that are made again and again.

use super::words;
use super::{Block, Chart, Column, Shown, TableCell, Tone};

/// A column of words.
pub(crate) fn words_column(name: impl Into<String>) -> Column {
    Column {
        name: name.into(),
        is_numeric: false,
        shown: Shown::Always,
    }
}

/// A column of numbers.
pub(crate) fn number_column(name: impl Into<String>) -> Column {
    Column {
        name: name.into(),
        is_numeric: true,
        shown: Shown::Always,
    }
}

/// The same column, seen where there is room.
pub(crate) fn wide(column: Column) -> Column {
    Column {
        shown: Shown::Wide,
        ..column
    }
}

/// The same column, seen when somebody asks for all.
pub(crate) fn asked(column: Column) -> Column {
    Column {
        shown: Shown::Asked,
        ..column
    }
}

/// Words.
pub(crate) fn text(text: impl Into<String>) -> TableCell {
    TableCell {
        text: text.into(),
        ..TableCell::default()
    }
}

/// A number that is written so.
pub(crate) fn value(text: String, value: f64) -> TableCell {
    TableCell {
        text,
        value: value.is_finite().then_some(value),
        tone: Tone::Neutral,
    }
}

/// What is not known.
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

/// How many.
pub(crate) fn count(number: u64) -> TableCell {
    value(words::count(number), number as f64)
}

/// A time in nanoseconds; its value is in microseconds, as in charts.
pub(crate) fn time_ns(time_ns: u64) -> TableCell {
    time_us(Some(time_ns as f64 / 1e3))
}

/// A time in microseconds that may not be known.
pub(crate) fn time_us(time_us: Option<f64>) -> TableCell {
    known(time_us, words::time_us)
}

/// The same cell, meant so.
pub(crate) fn toned(cell: TableCell, tone: Tone) -> TableCell {
    TableCell { tone, ..cell }
}

/// A sentence with what stands behind it.
pub(crate) fn finding(tone: Tone, text: impl Into<String>, details: Vec<String>) -> Block {
    Block::Finding {
        tone,
        text: text.into(),
        details,
    }
}

/// One chart over the whole width.
pub(crate) fn chart(chart: Chart) -> Block {
    Block::Charts {
        charts: vec![chart],
    }
}
