//! Totals per interval of the window, in bounded memory.

use serde::{Deserialize, Serialize};

use crate::Contradiction;
use crate::over_time::WrittenRows;

/// Maximum number of rows. A series that would need more doubles its interval.
const ROWS_MAX: usize = 4096;

/// Totals of one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Row")
)]
#[serde(deny_unknown_fields)]
pub struct SeriesRow {
    /// Start of the interval, milliseconds after the start of the window.
    pub start_ms: u64,
    /// Responses, also those to requests of the warm-up.
    pub answered: u64,
    /// Error events of all kinds.
    pub errors: u64,
    /// Bytes of responses that arrived in the interval.
    pub bytes: u64,
    /// Events of streaming responses that arrived in the interval.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub events: u64,
}

/// Most runs have no events, and documents are shorter without them.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Totals of equal, consecutive intervals from the start of the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "WrittenRows<SeriesRow>")]
#[cfg_attr(feature = "schema", schemars(!try_from))]
pub struct Series {
    interval_ms: u64,
    rows: Vec<SeriesRow>,
}

impl Default for Series {
    fn default() -> Self {
        Self::new(Self::DEFAULT_INTERVAL_MS)
    }
}

impl Series {
    /// The initial interval, that of wrk's rate samples.
    pub const DEFAULT_INTERVAL_MS: u64 = 100;

    /// A series without rows. An interval of 0 is taken as 1 ms.
    #[must_use]
    pub fn new(interval_ms: u64) -> Self {
        Self {
            interval_ms: interval_ms.max(1),
            rows: Vec::new(),
        }
    }

    /// Adds totals to the interval that contains `at_ms`, counted from the start of the window.
    pub fn add(&mut self, at_ms: u64, answered: u64, errors: u64, bytes: u64) {
        self.add_row(&SeriesRow {
            start_ms: at_ms,
            answered,
            errors,
            bytes,
            events: 0,
        });
    }

    /// Adds totals to the interval that contains their `start_ms`.
    pub fn add_row(&mut self, row: &SeriesRow) {
        let at_ms = row.start_ms;
        while at_ms / self.interval_ms >= ROWS_MAX as u64 {
            self.coarsen(2);
        }
        let index = (at_ms / self.interval_ms) as usize;
        self.extend_to(index + 1);
        self.rows[index].add(row);
    }

    /// Adds the rows of another worker. If the intervals differ in length, both series first change
    /// to the least common multiple.
    pub fn merge(&mut self, other: &Self) {
        let interval_ms = least_common_multiple(self.interval_ms, other.interval_ms);
        let mut other = other.clone();
        self.coarsen(interval_ms / self.interval_ms);
        other.coarsen(interval_ms / other.interval_ms);
        self.extend_to(other.rows.len());
        for (mine, theirs) in self.rows.iter_mut().zip(&other.rows) {
            mine.add(theirs);
        }
    }

    /// Length of each interval, milliseconds.
    #[must_use]
    pub fn interval_ms(&self) -> u64 {
        self.interval_ms
    }

    /// The intervals in order of time.
    #[must_use]
    pub fn rows(&self) -> &[SeriesRow] {
        &self.rows
    }

    /// Joins all intervals into one.
    pub(crate) fn join_all(&mut self) {
        while self.rows.len() > 1 {
            self.coarsen(2);
        }
    }

    /// Joins every `factor` intervals into one.
    fn coarsen(&mut self, factor: u64) {
        if factor <= 1 {
            return;
        }
        self.interval_ms = self.interval_ms.saturating_mul(factor);
        let per_row = usize::try_from(factor).unwrap_or(usize::MAX);
        self.rows = self.rows.chunks(per_row).map(SeriesRow::sum).collect();
        for (row, index) in self.rows.iter_mut().zip(0_u64..) {
            row.start_ms = index.saturating_mul(self.interval_ms);
        }
    }

    fn extend_to(&mut self, rows: usize) {
        for index in self.rows.len()..rows {
            let start_ms = (index as u64).saturating_mul(self.interval_ms);
            self.rows.push(SeriesRow {
                start_ms,
                ..SeriesRow::default()
            });
        }
    }
}

impl SeriesRow {
    fn add(&mut self, other: &Self) {
        self.answered = self.answered.saturating_add(other.answered);
        self.errors = self.errors.saturating_add(other.errors);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.events = self.events.saturating_add(other.events);
    }

    fn sum(rows: &[Self]) -> Self {
        let mut total = Self::default();
        for row in rows {
            total.add(row);
        }
        total
    }
}

impl TryFrom<WrittenRows<SeriesRow>> for Series {
    type Error = Contradiction;

    fn try_from(written: WrittenRows<SeriesRow>) -> Result<Self, Contradiction> {
        let WrittenRows { interval_ms, rows } = written;
        if interval_ms == 0 {
            return Err(Contradiction("series: interval_ms is 0".to_owned()));
        }
        if rows.len() > ROWS_MAX {
            return Err(Contradiction(format!(
                "series: {} rows are more than {ROWS_MAX}",
                rows.len()
            )));
        }
        for (row, index) in rows.iter().zip(0_u64..) {
            if row.start_ms != index.saturating_mul(interval_ms) {
                return Err(Contradiction(format!(
                    "series: row {index} starts at {} ms",
                    row.start_ms
                )));
            }
        }
        Ok(Self { interval_ms, rows })
    }
}

/// Saturates instead of overflowing; all totals are then in a single row.
fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut greater, mut lesser) = (a, b);
    while lesser != 0 {
        (greater, lesser) = (lesser, greater % lesser);
    }
    (a / greater).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(series: &Series) -> SeriesRow {
        SeriesRow {
            start_ms: 0,
            ..SeriesRow::sum(series.rows())
        }
    }

    #[test]
    fn totals_are_added_to_their_interval_and_gaps_are_rows_of_zeros() {
        let mut series = Series::new(100);
        series.add(0, 1, 0, 10);
        series.add(99, 1, 0, 10);
        series.add(350, 2, 1, 20);
        let starts: Vec<u64> = series.rows().iter().map(|row| row.start_ms).collect();
        assert_eq!(starts, [0, 100, 200, 300]);
        let answered: Vec<u64> = series.rows().iter().map(|row| row.answered).collect();
        assert_eq!(answered, [2, 0, 0, 2]);
    }

    #[test]
    fn a_day_stays_within_the_row_limit_and_loses_nothing() {
        let mut series = Series::new(100);
        for second in 0..86_400 {
            series.add(second * 1000, 3, 1, 7);
            series.add_row(&SeriesRow {
                start_ms: second * 1000 + 500,
                events: 9,
                ..SeriesRow::default()
            });
        }
        assert!(series.rows().len() <= ROWS_MAX);
        assert_eq!(series.interval_ms(), 25_600);
        let expected = SeriesRow {
            start_ms: 0,
            answered: 3 * 86_400,
            errors: 86_400,
            bytes: 7 * 86_400,
            events: 9 * 86_400,
        };
        assert_eq!(total(&series), expected);
    }

    #[test]
    fn the_largest_time_is_accepted() {
        let mut series = Series::new(100);
        series.add(5, 1, 0, 0);
        series.add(u64::MAX, 1, 0, 0);
        assert!(series.rows().len() <= ROWS_MAX);
        assert_eq!(total(&series).answered, 2);
    }

    #[test]
    fn series_of_different_intervals_merge_in_either_order() {
        let mut fine = Series::new(100);
        let mut coarse = Series::new(400);
        for at_ms in [0, 150, 420, 1250] {
            fine.add(at_ms, 1, 0, 5);
            coarse.add(at_ms, 10, 2, 0);
        }
        let mut one = fine.clone();
        one.merge(&coarse);
        let mut two = coarse.clone();
        two.merge(&fine);
        assert_eq!(one, two);
        assert_eq!(one.interval_ms(), 400);
        assert_eq!(
            one.rows()[0],
            SeriesRow {
                start_ms: 0,
                answered: 22,
                errors: 4,
                bytes: 10,
                events: 0,
            }
        );
        assert_eq!(
            one.rows()[3],
            SeriesRow {
                start_ms: 1200,
                answered: 11,
                errors: 2,
                bytes: 5,
                events: 0,
            }
        );
    }

    #[test]
    fn different_intervals_are_merged_at_their_least_common_multiple() {
        let mut a = Series::new(4);
        let mut b = Series::new(6);
        a.add(13, 1, 0, 0);
        b.add(11, 1, 0, 0);
        a.merge(&b);
        assert_eq!(a.interval_ms(), 12);
        let answered: Vec<u64> = a.rows().iter().map(|row| row.answered).collect();
        assert_eq!(answered, [1, 1]);
        a.merge(&Series::new(u64::MAX - 1));
        assert_eq!(total(&a).answered, 2);
    }

    #[test]
    fn series_round_trip_through_json_and_reject_gaps_and_zero_intervals() {
        let mut series = Series::new(100);
        series.add(120, 1, 2, 3);
        let text = serde_json::to_string(&series).unwrap();
        assert_eq!(serde_json::from_str::<Series>(&text).unwrap(), series);
        for wrong in [
            r#"{"interval_ms":0,"rows":[]}"#,
            r#"{"interval_ms":100,"rows":[{"start_ms":100,"answered":0,"errors":0,"bytes":0}]}"#,
            r#"{"interval_ms":100,"rows":[],"more":1}"#,
        ] {
            assert!(serde_json::from_str::<Series>(wrong).is_err(), "{wrong}");
        }
    }
}
