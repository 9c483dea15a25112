//! The table "Thread Stats".

use std::io::{self, Write};

use plan::units;
use results::{Histogram, Rates};

use super::time_ns;

/// The table of a style.
pub(super) struct Table {
    pub(super) columns: &'static [Column],
    /// Printed as the share within one standard deviation if there are no samples: wrk prints 0/0
    /// as C's printf does, wrk2 a zero.
    pub(super) no_share: &'static str,
}

/// A column before the last.
pub(super) struct Column {
    heading: &'static str,
    /// The heading is not aligned with the numbers.
    heading_width: usize,
    width: usize,
    cell: fn(&StatisticsRow) -> &str,
}

/// The texts of a row: a distribution, or the rates of the threads, in statistics.
pub(super) struct StatisticsRow {
    label: &'static str,
    mean: String,
    stdev: String,
    max: String,
    min: String,
    /// The share of samples within one standard deviation, 0..=100; `None` without samples.
    within_stdev_percent: Option<f64>,
}

const fn column(
    heading: &'static str,
    heading_width: usize,
    width: usize,
    cell: fn(&StatisticsRow) -> &str,
) -> Column {
    Column {
        heading,
        heading_width,
        width,
        cell,
    }
}

/// The columns of wrk and wrk2.
pub(super) const MEAN_STDEV_MAX: [Column; 3] = [
    column("Avg", 6, 8, |row| &row.mean),
    column("Stdev", 11, 10, |row| &row.stdev),
    column("Max", 8, 9, |row| &row.max),
];

/// The columns of wrk-cmm.
pub(super) const MEAN_STDEV_MAX_MIN: [Column; 4] = [
    column("Avg", 6, 8, |row| &row.mean),
    column("Stdev", 10, 10, |row| &row.stdev),
    column("Max", 10, 10, |row| &row.max),
    column("Min", 10, 10, |row| &row.min),
];

impl StatisticsRow {
    pub(super) fn of_times(label: &'static str, samples: &Histogram) -> Self {
        Self {
            label,
            mean: time_ns(samples.mean_ns()),
            stdev: time_ns(samples.stdev_ns()),
            max: time_ns(samples.max_ns().unwrap_or(0) as f64),
            min: time_ns(samples.min_ns().unwrap_or(0) as f64),
            within_stdev_percent: samples.within_stdev_percent(),
        }
    }

    pub(super) fn of_rates(rates: &Rates) -> Self {
        Self {
            label: "Req/Sec",
            mean: units::metric(rates.mean()),
            stdev: units::metric(rates.stdev()),
            max: units::metric(rates.max().unwrap_or(0) as f64),
            min: units::metric(rates.min().unwrap_or(0) as f64),
            within_stdev_percent: rates.within_stdev_percent(),
        }
    }
}

impl Table {
    pub(super) fn write(&self, rows: &[StatisticsRow], output: &mut dyn Write) -> io::Result<()> {
        write!(output, "  Thread Stats")?;
        for column in self.columns {
            write!(output, "{:>1$}", column.heading, column.heading_width)?;
        }
        writeln!(output, "{:>12}", "+/- Stdev")?;
        rows.iter().try_for_each(|row| self.write_row(row, output))
    }

    fn write_row(&self, row: &StatisticsRow, output: &mut dyn Write) -> io::Result<()> {
        write!(output, "    {:<10}", row.label)?;
        for column in self.columns {
            write!(output, "{}", units::cell((column.cell)(row), column.width))?;
        }
        match row.within_stdev_percent {
            Some(percent) => writeln!(output, "{percent:>8.2}%"),
            None => writeln!(output, "{:>8}%", self.no_share),
        }
    }
}
