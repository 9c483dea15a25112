//! A generator that gets too little CPU says so itself (M14, M15): with half a core as a quota, and
//! beside a program that never stops.

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::document::{Document, percentile_us};
use crate::truth::lab::Lab;
use crate::truth::quota::Quota;

const DURATION_S: u32 = 4;

/// So long the server takes for an answer. A generator is late by a few milliseconds now and then on most
/// machines; beside this that is nothing, while half a core costs it far more.
const ANSWER: &str = "/?delay=100ms";

/// Enough for what is in flight at [`MOST_PER_SEC`], with much to spare.
const CONNECTIONS: u32 = 4_000;

/// Where the load of the case is looked for.
const PROBE_PER_SEC: f64 = 10_000.0;

/// A load that a whole core carries easily and half a core does not.
const SHARE_OF_A_CORE: f64 = 0.7;

/// A whole core is tried so often at most.
const ATTEMPTS: u32 = 3;

/// At half a core, and on a shared one, far more than a tenth of the requests are late. A hundredth may be
/// late anywhere, by what else runs on the machine.
const PERCENT: f64 = 90.0;

/// More than this no server on one core answers for sure.
const MOST_PER_SEC: f64 = 25_000.0;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let probe = with_a_core(lab, case, &[], PROBE_PER_SEC)?;
    let share = cpu_share(&probe).unwrap_or(SHARE_OF_A_CORE);
    let rate = (PROBE_PER_SEC * SHARE_OF_A_CORE / share).min(MOST_PER_SEC);
    let rate = (rate / 1_000.0).round() * 1_000.0;
    case.notes.push(format!(
        "at {rate} requests/s over {CONNECTIONS} connections"
    ));
    let whole = with_a_quiet_core(lab, case, rate)?;
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

/// The first run of some that says that all was well, else the last. A machine that stops for some
/// milliseconds now and then does so in one run and not in the next; too little CPU is in each.
fn with_a_quiet_core(lab: &Lab, case: &mut CaseResult, rate: f64) -> anyhow::Result<Document> {
    let mut document = with_a_core(lab, case, &[], rate)?;
    for attempt in 2..=ATTEMPTS {
        let verdict = document.result.generator.verdict.clone();
        if !verdict.is_saturated() {
            break;
        }
        for line in judging::sentences::verdict_lines(&verdict) {
            case.notes
                .push(format!("a whole core, tried again: {line}"));
        }
        document = with_a_core(lab, case, &[], rate)?;
        case.notes
            .push(format!("a whole core: attempt {attempt} counts"));
    }
    Ok(document)
}

fn with_a_core(
    lab: &Lab,
    case: &mut CaseResult,
    launcher: &[String],
    rate: f64,
) -> anyhow::Result<Document> {
    let options = format!("-t1 -c{CONNECTIONS} -d{DURATION_S}s -R{rate}");
    let (document, _) = lab.observe(case, "", |origin| {
        lab.ours_under(launcher, &options, &origin.url(ANSWER), DURATION_S)
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

/// The meters must show it, not only the verdict. All of the send lag counts: a thread that reads answers
/// late has no free connections, and takes the lateness for the server's.
fn lag(case: &mut CaseResult, label: &str, whole: &Document, starved: &Document) {
    let send_us = |document: &Document| percentile_us(&document.recording().lags.send, PERCENT);
    let receive_us =
        |document: &Document| percentile_us(&document.recording().lags.receive, PERCENT);
    let mut must_rise = |what: &str, whole_us: Option<f64>, starved_us: Option<f64>| {
        case.ours(
            format!("{label}: {what} p{PERCENT}"),
            Figure::Us(whole_us.unwrap_or(f64::NAN)),
            Tolerance::AtLeast,
            starved_us.map(Figure::Us),
        );
    };
    must_rise("send lag", send_us(whole), send_us(starved));
    must_rise("receive delay", receive_us(whole), receive_us(starved));
}
