//! Shows findings as a text table.

use std::io::{self, Write};

use super::check::{CaseResult, Check, Verdict};
use super::lab::Lab;

/// From here on other programs are said to have disturbed a case.
const DISTURBING_SHARE: f64 = 0.05;

/// Writes what was measured on, and how.
///
/// # Errors
/// When `out` fails.
pub(crate) fn write_heading(out: &mut dyn Write, lab: &Lab) -> io::Result<()> {
    let machine = lab.machine();
    writeln!(out, "{}", machine.date)?;
    writeln!(
        out,
        "{}, {} cores, Linux {}",
        machine.cpu, machine.cores, machine.kernel
    )?;
    writeln!(out, "{}", machine.wrkbench)?;
    writeln!(out, "beside it: {}", lab.peers_text())?;
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
    if case.others_share > DISTURBING_SHARE {
        let percent = case.others_share * 100.0;
        writeln!(
            out,
            "  disturbed: other programs took up to {percent:.0} % of the machine"
        )?;
    }
    if let Some(failure) = &case.failure {
        writeln!(out, "  not run: {failure}")?;
    }
    if !case.checks.is_empty() {
        writeln!(
            out,
            "  {:<39} {:<9} {:>14} {:>14}  {:<16} verdict",
            "what", "tool", "truth", "said", "tolerance"
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
        (false, false, None) => "not said",
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

/// Writes how many cases hold and which do not.
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
    writeln!(out, "\n{} of {} cases hold", ok.len(), cases.len())?;
    for (what, names) in [("MISSED", missed), ("skipped", skipped)] {
        if !names.is_empty() {
            writeln!(out, "{what}: {}", names.join(", "))?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::super::cases::Case;
    use super::super::check::{Figure, OURS, Tolerance};
    use super::*;

    fn text(case: &CaseResult) -> String {
        let mut out = Vec::new();
        write_case(&mut out, case).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_case_shows_every_tool_with_its_verdict_and_names_each_thing_once() {
        let mut case = CaseResult::new(Case::ALL[0]);
        for (tool, seen) in [(OURS, Some(9.0)), ("wrk", Some(9.0)), ("h2load", None)] {
            let seen = seen.map(Figure::Ms);
            let check = Check::new("p99", tool, Figure::Ms(1.0), Tolerance::Share(0.02), seen);
            case.beside(check);
        }
        case.others_share = 0.3;
        let text = text(&case);
        assert_eq!(text.matches("p99").count(), 1, "{text}");
        for part in ["MISSED", "wrong", "not said", "disturbed", "+- 2 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_conclusion_names_what_was_missed() {
        let failed = CaseResult::not_run(Case::ALL[1], &anyhow::anyhow!("no server"));
        let mut out = Vec::new();
        write_conclusion(&mut out, &[failed, CaseResult::new(Case::ALL[0])]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("0 of 2 cases hold"), "{text}");
        assert!(text.contains(&format!("MISSED: {}", Case::ALL[1].name())));
        assert!(text.contains(&format!("skipped: {}", Case::ALL[0].name())));
    }
}
