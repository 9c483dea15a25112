//! A row of the table: a fault, the expected behaviour and the observed one.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Rows that run at a time. They mostly wait for timeouts.
const ROWS_AT_A_TIME: usize = 4;

/// How long a program may take beyond what it was asked for.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Whether [`GRACE`] is checked. Only in `make faults`, on an idle machine: in other test runs the
/// time of a process depends on other tests.
pub(crate) static TIME_IS_JUDGED: AtomicBool = AtomicBool::new(false);

/// Whether a row runs in every test run or only in `make faults`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Takes much less than a second.
    Quick,
    /// Takes longer, or depends on the machine.
    Slow,
    /// The same, and no other row may run meanwhile.
    Alone,
}

/// The outcome of a row. A violated expectation is a panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    /// As expected, with a short description.
    Held(String),
    /// Skipped: what it needs, and why that is missing.
    Skipped(&'static str, String),
}

type Check = Box<dyn Fn() -> RowOutcome + Send + Sync>;

/// A row of the table: what goes wrong, what is expected, and how that is checked.
pub(crate) struct FaultRow {
    /// Number of the fault, `F23`.
    pub(crate) id: &'static str,
    /// What goes wrong, as the document says it.
    pub(crate) what: String,
    /// What wrkbench has to do, as the document says it.
    pub(crate) expected: String,
    pub(crate) pace: Pace,
    check: Check,
}

impl FaultRow {
    pub(crate) fn new(
        id: &'static str,
        what: impl Into<String>,
        expected: impl Into<String>,
        check: impl Fn() -> RowOutcome + Send + Sync + 'static,
    ) -> Self {
        Self {
            id,
            what: what.into(),
            expected: expected.into(),
            pace: Pace::Quick,
            check: Box::new(check),
        }
    }

    /// A row whose check panics on any violation.
    pub(crate) fn told(
        id: &'static str,
        what: impl Into<String>,
        expected: impl Into<String>,
        check: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self::new(id, what, expected, move || {
            check();
            RowOutcome::Held("so it is".to_owned())
        })
    }

    pub(crate) fn at_any_pace(self) -> Self {
        let pace = Pace::Quick;
        Self { pace, ..self }
    }

    pub(crate) fn slow(self) -> Self {
        let pace = Pace::Slow;
        Self { pace, ..self }
    }

    pub(crate) fn alone(self) -> Self {
        let pace = Pace::Alone;
        Self { pace, ..self }
    }
}

/// A row that was tried.
pub(crate) struct TriedRow<'r> {
    pub(crate) row: &'r FaultRow,
    /// `Err`: the violated expectation.
    pub(crate) outcome: Result<RowOutcome, String>,
    pub(crate) took: Duration,
}

/// Tries the rows, several at a time where possible. The outcomes are in the order of the rows.
pub(crate) fn try_all<'r>(rows: &[&'r FaultRow]) -> Vec<TriedRow<'r>> {
    let is_alone = |row: &&FaultRow| row.pace == Pace::Alone;
    let (alone, together): (Vec<&FaultRow>, Vec<&FaultRow>) =
        rows.iter().copied().partition(is_alone);
    let mut tried = try_some_at_a_time(&together, ROWS_AT_A_TIME);
    tried.extend(try_some_at_a_time(&alone, 1));
    tried.sort_by_key(|one| rows.iter().position(|row| std::ptr::eq(*row, one.row)));
    tried
}

fn try_some_at_a_time<'r>(rows: &[&'r FaultRow], at_a_time: usize) -> Vec<TriedRow<'r>> {
    let next = AtomicUsize::new(0);
    let tried = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let begin = Instant::now();
                    let outcome = catch_unwind(AssertUnwindSafe(|| (row.check)()));
                    let outcome = outcome.map_err(|panic| text_of(panic.as_ref()));
                    tried.lock().unwrap().push(TriedRow {
                        row,
                        outcome,
                        took: begin.elapsed(),
                    });
                }
            });
        }
    });
    tried.into_inner().unwrap()
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.clone(),
        (None, Some(text)) => (*text).to_owned(),
        (None, None) => "a panic without a text".to_owned(),
    }
}

/// Tries the quick rows among these; all must hold.
pub(crate) fn quick_ones_hold(rows: &[FaultRow]) {
    let quick: Vec<&FaultRow> = rows.iter().filter(|row| row.pace == Pace::Quick).collect();
    assert!(!quick.is_empty());
    // Tests run in parallel; the rows of all of them would be too many for a small machine.
    static ONE_TABLE: Mutex<()> = Mutex::new(());
    let _one = ONE_TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let tried = try_all(&quick);
    let failed = failures(&tried);
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

fn failure(tried: &TriedRow<'_>) -> Option<String> {
    let text = tried.outcome.as_ref().err()?;
    let FaultRow {
        id, what, expected, ..
    } = tried.row;
    Some(format!("{id} {what}: expected {expected}\n{text}\n"))
}

/// The table as it is printed.
pub(crate) fn table(tried: &[TriedRow<'_>]) -> String {
    let cells: Vec<[String; 5]> =
        std::iter::once(["id", "what", "expected", "seen", "verdict"].map(str::to_owned))
            .chain(tried.iter().map(|one| {
                let (seen, verdict) = match &one.outcome {
                    Ok(RowOutcome::Held(seen)) => (seen.clone(), "ok".to_owned()),
                    Ok(RowOutcome::Skipped(_, reason)) => (reason.clone(), "skipped".to_owned()),
                    Err(text) => (first_line(text), "WRONG".to_owned()),
                };
                let verdict = format!("{verdict} ({:.1} s)", one.took.as_secs_f64());
                let FaultRow {
                    id, what, expected, ..
                } = one.row;
                [
                    (*id).to_owned(),
                    what.clone(),
                    expected.clone(),
                    seen,
                    verdict,
                ]
            }))
            .collect();
    let widths: [usize; 5] = std::array::from_fn(|column| {
        let lengths = cells.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in &cells {
        for (cell, width) in row.iter().zip(widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn first_line(text: &str) -> String {
    text.lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .to_owned()
}

/// The failures in full. Reports skipped rows.
///
/// # Panics
/// If a row was skipped that must not be.
pub(crate) fn failures(tried: &[TriedRow<'_>]) -> Vec<String> {
    for one in tried {
        if let Ok(RowOutcome::Skipped(what, reason)) = &one.outcome {
            testkit::skip(what, format!("{reason} (row {})", one.row.id));
        }
    }
    tried.iter().filter_map(failure).collect()
}
