//! Comparison of a reported number with the true one: tolerance and verdict.

use std::fmt;

use serde::Serialize;

use super::cases::Case;

/// The name of wrkbench in the table.
pub(crate) const OURS: &str = "wrkbench";

/// The result of a case.
#[derive(Debug, Serialize)]
pub(crate) struct CaseResult {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    /// What the table prints.
    pub(crate) title: &'static str,
    pub(crate) notes: Vec<String>,
    /// Why it could not be run.
    pub(crate) failure: Option<String>,
    /// The largest share of the machine used by other programs during a run, 0..=1.
    pub(crate) others_share: f64,
    /// In the order of the table, with rows about the same quantity together.
    pub(crate) checks: Vec<Check>,
}

/// A number reported by a tool.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    /// The quantity, as the table names it.
    pub(crate) what: String,
    pub(crate) tool: String,
    /// The true value, from the server's log or a formula.
    pub(crate) truth: Figure,
    /// The reported value, if any.
    pub(crate) seen: Option<Figure>,
    pub(crate) tolerance: Tolerance,
    /// Whether the difference is within the tolerance.
    pub(crate) holds: bool,
}

/// A number with its unit, or a word.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// A time in milliseconds.
    Ms(f64),
    /// A time in microseconds.
    Us(f64),
    /// A number of things.
    Count(f64),
    /// A number of events per second.
    PerSec(f64),
    /// A time in seconds.
    S(f64),
    /// A number without a unit.
    Plain(f64),
    /// A word, such as a verdict.
    Word(String),
}

/// Allowed difference from the true value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tolerance {
    /// No deviation at all.
    Exact,
    /// This amount in either direction, in the unit of the figure.
    Within(f64),
    /// This share of the true value in either direction.
    Share(f64),
    /// The larger of a share of the true value and an amount.
    ShareOr(f64, f64),
    /// The true value is an upper bound.
    AtMost,
    /// The true value is a lower bound.
    AtLeast,
}

/// The verdict on a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All numbers of wrkbench are right.
    Ok,
    /// A number of wrkbench is wrong, or the case failed.
    Missed,
    /// The machine lacks something that the case needs, see the notes.
    Skipped,
}

impl Figure {
    pub(crate) fn word(text: impl Into<String>) -> Self {
        Self::Word(text.into())
    }

    fn number(&self) -> Option<f64> {
        match *self {
            Self::Ms(value)
            | Self::Us(value)
            | Self::Count(value)
            | Self::PerSec(value)
            | Self::S(value)
            | Self::Plain(value) => Some(value),
            Self::Word(_) => None,
        }
    }
}

impl Tolerance {
    /// Whether `seen` is within the tolerance of `truth`; never for NaN.
    pub(crate) fn holds(self, truth: f64, seen: f64) -> bool {
        let distance = (seen - truth).abs();
        match self {
            Self::Exact => distance == 0.0,
            Self::Within(most) => distance <= most,
            Self::Share(share) => distance <= share * truth.abs(),
            Self::ShareOr(share, most) => distance <= (share * truth.abs()).max(most),
            Self::AtMost => seen <= truth,
            Self::AtLeast => seen >= truth,
        }
    }
}

impl Check {
    pub(crate) fn new(
        what: impl Into<String>,
        tool: impl Into<String>,
        truth: Figure,
        tolerance: Tolerance,
        seen: Option<Figure>,
    ) -> Self {
        let holds = match (truth.number(), seen.as_ref().map(Figure::number)) {
            (Some(truth), Some(Some(seen))) => tolerance.holds(truth, seen),
            _ => seen.as_ref() == Some(&truth),
        };
        Self {
            what: what.into(),
            tool: tool.into(),
            truth,
            seen,
            tolerance,
            holds,
        }
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.tool == OURS
    }
}

impl CaseResult {
    /// The empty result of a case.
    pub(crate) fn new(case: &Case) -> Self {
        Self::named(case.name, case.title)
    }

    /// The empty result of something that is not a case of the suite.
    pub(crate) fn named(name: &'static str, title: &'static str) -> Self {
        Self {
            name,
            title,
            notes: Vec::new(),
            failure: None,
            others_share: 0.0,
            checks: Vec::new(),
        }
    }

    /// The result of a case that could not be run.
    pub(crate) fn not_run(case: &Case, error: &anyhow::Error) -> Self {
        Self {
            failure: Some(format!("{error:#}")),
            ..Self::new(case)
        }
    }

    /// Adds a check of wrkbench.
    pub(crate) fn ours(
        &mut self,
        what: impl Into<String>,
        truth: Figure,
        tolerance: Tolerance,
        seen: Option<Figure>,
    ) {
        self.checks
            .push(Check::new(what, OURS, truth, tolerance, seen));
    }

    /// Adds a check of a count, which must be exact.
    pub(crate) fn count(&mut self, what: impl Into<String>, truth: u64, seen: u64) {
        let [truth, seen] = [truth, seen].map(|count| Figure::Count(count as f64));
        self.ours(what, truth, Tolerance::Exact, Some(seen));
    }

    /// Adds a check after those about the same quantity.
    pub(crate) fn add_to_quantity(&mut self, check: Check) {
        let same = |other: &Check| other.what == check.what;
        let place = self.checks.iter().rposition(same);
        let place = place.map_or(self.checks.len(), |place| place + 1);
        self.checks.insert(place, check);
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let is_missed = |check: &Check| check.is_ours() && !check.holds;
        if self.failure.is_some() || self.checks.iter().any(is_missed) {
            Verdict::Missed
        } else if self.checks.iter().any(Check::is_ours) {
            Verdict::Ok
        } else {
            Verdict::Skipped
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ms(value) if value.abs() < 100.0 => write!(f, "{value:.3} ms"),
            Self::Ms(value) => write!(f, "{value:.1} ms"),
            Self::Us(value) => write!(f, "{value:.1} us"),
            Self::Count(value) => write!(f, "{value:.0}"),
            Self::PerSec(value) => write!(f, "{value:.2}/s"),
            Self::S(value) => write!(f, "{value:.3} s"),
            Self::Plain(value) => write!(f, "{value:.4}"),
            Self::Word(text) => f.write_str(text),
        }
    }
}

impl Tolerance {
    /// The text in the table, in the unit of `truth`.
    pub(crate) fn text(self, truth: &Figure) -> String {
        let amount = |value: f64| match truth {
            Figure::Ms(_) => format!("{value} ms"),
            Figure::Us(_) => format!("{value} us"),
            Figure::PerSec(_) => format!("{value}/s"),
            Figure::S(_) => format!("{value} s"),
            Figure::Count(_) | Figure::Plain(_) | Figure::Word(_) => format!("{value}"),
        };
        let percent = |share: f64| format!("{:.3}", share * 100.0);
        let short = |text: String| text.trim_end_matches('0').trim_end_matches('.').to_owned();
        match self {
            Self::Exact => "equal".to_owned(),
            Self::Within(most) => format!("+- {}", amount(most)),
            Self::Share(share) => format!("+- {} %", short(percent(share))),
            Self::ShareOr(share, most) => {
                format!("+- {} % or {}", short(percent(share)), amount(most))
            }
            Self::AtMost => "at most".to_owned(),
            Self::AtLeast => "at least".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::ALL;
    use super::*;

    #[test]
    fn each_tolerance_holds_up_to_its_edge() {
        for (tolerance, inside, outside) in [
            (Tolerance::Exact, 100.0, 100.1),
            (Tolerance::Within(5.0), 95.0, 94.9),
            (Tolerance::Share(0.02), 102.0, 102.1),
            (Tolerance::ShareOr(0.02, 5.0), 105.0, 105.1),
            (Tolerance::ShareOr(0.02, 1.0), 98.0, 97.9),
            (Tolerance::AtMost, 100.0, 100.1),
            (Tolerance::AtLeast, 100.0, 99.9),
        ] {
            assert!(tolerance.holds(100.0, inside), "{tolerance:?}");
            assert!(!tolerance.holds(100.0, outside), "{tolerance:?}");
            assert!(!tolerance.holds(100.0, f64::NAN), "{tolerance:?}");
        }
    }

    #[test]
    fn what_a_tool_does_not_say_does_not_hold_and_words_must_be_equal() {
        let check = |seen| Check::new("p50", OURS, Figure::Ms(1.0), Tolerance::Exact, seen);
        assert!(check(Some(Figure::Ms(1.0))).holds);
        assert!(!check(None).holds);
        assert!(!check(Some(Figure::word("1.0"))).holds);
        let verdict = |seen: &str| {
            let truth = Figure::word("fine");
            Check::new(
                "verdict",
                OURS,
                truth,
                Tolerance::Exact,
                Some(Figure::word(seen)),
            )
            .holds
        };
        assert!(verdict("fine") && !verdict("limited"));
    }

    #[test]
    fn only_our_own_misses_count_and_a_failure_counts_as_one() {
        let result = || CaseResult::new(&ALL[0]);
        let row = |tool, seen| {
            let seen = Some(Figure::Count(seen));
            Check::new("x", tool, Figure::Count(1.0), Tolerance::Exact, seen)
        };
        let mut case = result();
        assert_eq!(case.verdict(), Verdict::Skipped);
        case.add_to_quantity(row(OURS, 1.0));
        case.add_to_quantity(row("wrk", 2.0));
        assert_eq!(case.verdict(), Verdict::Ok);
        case.add_to_quantity(row(OURS, 2.0));
        assert_eq!(case.verdict(), Verdict::Missed);
        let failed = CaseResult::not_run(&ALL[0], &anyhow::anyhow!("no server"));
        assert_eq!(failed.verdict(), Verdict::Missed);
    }

    #[test]
    fn rows_about_the_same_thing_stand_together() {
        let mut case = CaseResult::new(&ALL[0]);
        let row =
            |what: &str, tool| Check::new(what, tool, Figure::Count(1.0), Tolerance::Exact, None);
        case.add_to_quantity(row("p50", OURS));
        case.add_to_quantity(row("p99", OURS));
        case.add_to_quantity(row("p50", "wrk"));
        let order: Vec<_> = case.checks.iter().map(|one| &*one.what).collect();
        assert_eq!(order, ["p50", "p50", "p99"]);
    }

    #[test]
    fn figures_and_tolerances_carry_their_units() {
        assert_eq!(Figure::Ms(1.2345).to_string(), "1.234 ms");
        assert_eq!(Figure::Ms(1900.04).to_string(), "1900.0 ms");
        let text = |tolerance: Tolerance| tolerance.text(&Figure::Ms(1.0));
        assert_eq!(text(Tolerance::ShareOr(0.02, 5.0)), "+- 2 % or 5 ms");
        assert_eq!(text(Tolerance::Share(0.001)), "+- 0.1 %");
    }
}
