//! Tables as text in aligned columns.

use std::io::{self, Write};

use plan::units;
use presentation::words::{UNKNOWN, cut};
use presentation::{Shown, TableBlock, TableCell, Unit};

/// The form of an aligned table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Layout {
    /// Blanks before each line.
    pub(crate) indent: usize,
    /// Times and rates are written as wrk writes them.
    pub(crate) is_of_wrk: bool,
    /// The first column is cut, down to [`FIRST_MIN`], so that lines are no longer.
    pub(crate) columns_max: Option<usize>,
}

/// The layout of tables below the text of a run.
pub(crate) const BELOW_WRK: Layout = Layout {
    indent: 2,
    is_of_wrk: true,
    columns_max: None,
};

/// Least width of a first column that is cut.
const FIRST_MIN: usize = 8;

/// Writes a table: words to the left, numbers to the right, two blanks between columns. Columns
/// that a page shows only on request are left out.
pub(crate) fn write(table: &TableBlock, layout: Layout, output: &mut dyn Write) -> io::Result<()> {
    let columns = table.columns.iter().enumerate();
    let shown: Vec<_> = columns.filter(|(_, it)| it.shown != Shown::Asked).collect();
    let heads = shown
        .iter()
        .map(|(_, column)| plan::printable(&column.name).into_owned())
        .collect();
    let texts = |row: &Vec<TableCell>| {
        let cells = shown.iter().map(|(at, _)| &row[*at]);
        cells.map(|cell| layout.text(cell)).collect()
    };
    let mut rows: Vec<Vec<String>> = vec![heads];
    rows.extend(table.rows.iter().map(texts));
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max();
    let mut widths: Vec<usize> = (0..shown.len()).filter_map(width).collect();
    let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
    if let (Some(first), Some(most)) = (widths.first_mut(), layout.columns_max) {
        *first = (*first).min(most.saturating_sub(others).max(FIRST_MIN));
    }
    for row in &rows {
        let mut line = String::new();
        for ((cell, width), (_, column)) in row.iter().zip(&widths).zip(&shown) {
            let cell = if cell.chars().count() > *width {
                cut(cell, width.saturating_sub(3)).replace('\u{2026}', "...")
            } else {
                cell.clone()
            };
            line += &if column.is_numeric {
                format!("{cell:>width$}  ")
            } else {
                format!("{cell:<width$}  ")
            };
        }
        writeln!(
            output,
            "{:indent$}{}",
            "",
            line.trim_end(),
            indent = layout.indent
        )?;
    }
    Ok(())
}

impl Layout {
    fn text(self, cell: &TableCell) -> String {
        match (cell.value, cell.unit) {
            (Some(time_us), Unit::Microseconds) if self.is_of_wrk => units::time_us(time_us),
            (Some(per_sec), Unit::RequestsPerSec) if self.is_of_wrk => format!("{per_sec:.2}"),
            _ if cell.text == UNKNOWN => "-".to_owned(),
            _ => plan::printable(&cell.text).replace('\u{2265}', ">="),
        }
    }
}
