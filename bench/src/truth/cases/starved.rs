//! A generator that gets too little CPU says so itself (M14, M15): with half a core as a quota, and
//! beside a program that never stops.

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::document::{Document, percentile_us};
use crate::truth::lab::Lab;
use crate::truth::quota::Quota;

const DURATION_S: u32 = 4;
const CONNECTIONS: u32 = 64;

/// Where the load of the case is looked for.
const PROBE_PER_SEC: f64 = 20_000.0;

/// A load that a whole core carries easily and half a core does not.
const SHARE_OF_A_CORE: f64 = 0.7;

/// More than this no server on one core answers.
const MOST_PER_SEC: f64 = 80_000.0;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let probe = with_a_core(lab, case, &[], PROBE_PER_SEC)?;
    let share = cpu_share(&probe).unwrap_or(SHARE_OF_A_CORE);
    let rate = (PROBE_PER_SEC * SHARE_OF_A_CORE / share).min(MOST_PER_SEC);
    let rate = (rate / 1_000.0).round() * 1_000.0;
    case.notes.push(format!(
        "at {rate} requests/s over {CONNECTIONS} connections"
    ));
    let whole = with_a_core(lab, case, &[], rate)?;
    verdict(case, "a whole core", "fine", &whole);
    match Quota::half_a_core() {
        Some(quota) => {
            let half = with_a_core(lab, case, &quota.launcher(), rate)?;
            verdict(case, "half a core", "generator_limited", &half);
            lag(case, "half a core", &whole, &half);
        }
        None => case
            .notes
            .push("no quota: this user may not make a control group with CPU".to_owned()),
    }
    let burner = lab.burn()?;
    let shared = with_a_core(lab, case, &[], rate)?;
    drop(burner);
    verdict(case, "shared core", "generator_limited", &shared);
    lag(case, "shared core", &whole, &shared);
    Ok(())
}

fn with_a_core(
    lab: &Lab,
    case: &mut CaseResult,
    launcher: &[String],
    rate: f64,
) -> anyhow::Result<Document> {
    let options = format!("-t1 -c{CONNECTIONS} -d{DURATION_S}s -R{rate}");
    let (document, _) = lab.observe(case, "", |origin| {
        lab.ours_under(launcher, &options, &origin.url("/"), DURATION_S)
    })?;
    Ok(document)
}

/// CPU time of the worker over time that passed.
fn cpu_share(document: &Document) -> Option<f64> {
    let worker = document.result.generator.workers.first()?;
    let share = worker.usage.cpu_ns as f64 / worker.elapsed_ns as f64;
    Some(share).filter(|share| share.is_finite() && *share > 0.0)
}

fn verdict(case: &mut CaseResult, label: &str, truth: &str, document: &Document) {
    let seen = document.at("/generator/verdict/kind");
    let seen = seen.and_then(|kind| kind.as_str()).map(Figure::word);
    case.ours(
        format!("{label}: verdict"),
        Figure::word(truth),
        Tolerance::Exact,
        seen,
    );
}

/// The meter must show it, not only the verdict. All of the lag counts: a thread that reads answers late
/// has no free connections, and takes the lateness for the server's.
fn lag(case: &mut CaseResult, label: &str, whole: &Document, starved: &Document) {
    let p99_us = |document: &Document| percentile_us(&document.recording().lags.send, 99.0);
    case.ours(
        format!("{label}: send lag p99"),
        Figure::Us(p99_us(whole).unwrap_or(f64::NAN)),
        Tolerance::AtLeast,
        p99_us(starved).map(Figure::Us),
    );
}
