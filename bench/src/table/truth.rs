//! The table of `truth`.

use std::io::{self, Write};

use super::{write_disturbance, write_machine};
use crate::truth::check::{CaseResult, Check, Verdict};
use crate::truth::lab::Lab;

/// Writes where and how the numbers below were measured.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_heading(out: &mut dyn Write, lab: &Lab) -> io::Result<()> {
    let machine = lab.machine();
    write_machine(out, machine)?;
    writeln!(out, "{}", machine.wrkbench)?;
    writeln!(out, "compared with: {}", lab.peers_text())?;
    writeln!(out, "{}", lab.places_text())?;
    out.flush()
}

/// Writes one case with all its rows.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_case(out: &mut dyn Write, case: &CaseResult) -> io::Result<()> {
    writeln!(out, "\n{} ({})", case.title, case.name)?;
    for note in &case.notes {
        writeln!(out, "  {note}")?;
    }
    write_disturbance(out, "  ", case.others_share)?;
    if let Some(failure) = &case.failure {
        writeln!(out, "  not run: {failure}")?;
    }
    if !case.checks.is_empty() {
        writeln!(
            out,
            "  {:<39} {:<9} {:>14} {:>14}  {:<16} verdict",
            "what", "tool", "server", "reported", "tolerance"
        )?;
    }
    let mut last = "";
    for check in &case.checks {
        let what = if check.what == last { "" } else { &check.what };
        write_check(out, what, check)?;
        last = &check.what;
    }
    out.flush()
}

fn write_check(out: &mut dyn Write, what: &str, check: &Check) -> io::Result<()> {
    let verdict = match (check.holds, check.is_ours(), &check.seen) {
        (true, ..) => "ok",
        (false, true, _) => "MISSED",
        (false, false, Some(_)) => "wrong",
        (false, false, None) => "missing",
    };
    let seen = check.seen.as_ref().map(ToString::to_string);
    writeln!(
        out,
        "  {what:<39} {:<9} {:>14} {:>14}  {:<16} {verdict}",
        check.tool,
        check.truth.to_string(),
        seen.unwrap_or_else(|| "-".to_owned()),
        check.tolerance.text(&check.truth),
    )
}

/// Writes how many cases passed, and which did not.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_conclusion(out: &mut dyn Write, cases: &[CaseResult]) -> io::Result<()> {
    let named = |verdict| {
        let of = cases.iter().filter(|case| case.verdict() == verdict);
        of.map(|case| case.name).collect::<Vec<_>>()
    };
    let (ok, missed, skipped) = (
        named(Verdict::Ok),
        named(Verdict::Missed),
        named(Verdict::Skipped),
    );
    writeln!(out, "\n{} of {} cases passed", ok.len(), cases.len())?;
    for (what, names) in [("MISSED", missed), ("skipped", skipped)] {
        if !names.is_empty() {
            writeln!(out, "{what}: {}", names.join(", "))?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::cases::ALL;
    use crate::truth::check::{Figure, OURS, Tolerance};

    fn text(case: &CaseResult) -> String {
        let mut out = Vec::new();
        write_case(&mut out, case).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_case_shows_the_verdict_on_each_tool_and_names_each_quantity_once() {
        let mut case = CaseResult::new(&ALL[0]);
        for (tool, seen) in [(OURS, Some(9.0)), ("wrk", Some(9.0)), ("h2load", None)] {
            let seen = seen.map(Figure::Ms);
            let check = Check::new("p99", tool, Figure::Ms(1.0), Tolerance::Share(0.02), seen);
            case.add_to_quantity(check);
        }
        case.others_share = 0.3;
        let text = text(&case);
        assert_eq!(text.matches("p99").count(), 1, "{text}");
        for part in ["MISSED", "wrong", "missing", "disturbed", "+- 2 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_conclusion_names_what_was_missed() {
        let failed = CaseResult::not_run(&ALL[1], &anyhow::anyhow!("no server"));
        let mut out = Vec::new();
        write_conclusion(&mut out, &[failed, CaseResult::new(&ALL[0])]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("0 of 2 cases passed"), "{text}");
        assert!(text.contains(&format!("MISSED: {}", ALL[1].name)));
        assert!(text.contains(&format!("skipped: {}", ALL[0].name)));
    }
}
