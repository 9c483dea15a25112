//! Percentiles with too few samples are marked.

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;

/// Exceeds the duration of the run.
const LIMIT_S: u32 = 10;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let (ours, _) = lab.observe(case, "", |origin| {
        let options = "-t1 -c10 -n 1000 --latency --percentiles 50,99,99.9";
        lab.ours(options, &origin.url("/"), LIMIT_S)
    })?;
    for (percent, truth) in [(50.0, true), (99.0, true), (99.9, false), (100.0, true)] {
        let seen = ours.has_enough_samples(percent);
        case.ours(
            format!("p{percent} has enough samples"),
            yes_or_no(truth),
            Tolerance::Exact,
            seen.map(yes_or_no),
        );
    }
    let is_noted = ours.notes.lines().any(|line| line.contains("99.9"));
    case.ours(
        "a note names p99.9",
        yes_or_no(true),
        Tolerance::Exact,
        Some(yes_or_no(is_noted)),
    );
    Ok(())
}

fn yes_or_no(is_so: bool) -> Figure {
    Figure::word(if is_so { "yes" } else { "no" })
}
