//! A load generator with too little CPU time reports that: with a quota of half a core,
//! and with a busy program on the same core.

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;
use crate::truth::quota::Quota;
use crate::truth::run_report::{RunReport, percentile_us};

const DURATION_S: u32 = 4;

/// Delay of the responses. On most machines a load generator is sometimes late by a few
/// milliseconds, which is negligible compared to this; with half a core it is much later.
const RESPONSE: &str = "/?delay=100ms";

/// More than enough for the requests in flight at [`MOST_PER_SEC`].
const CONNECTIONS: u32 = 4_000;

/// Initial rate of the search for a suitable load.
const PROBE_PER_SEC: f64 = 10_000.0;

/// CPU share of a load that a full core can generate easily and half a core cannot.
const SHARE_OF_A_CORE: f64 = 0.7;

/// Maximum number of tries with a full core.
const ATTEMPTS: u32 = 3;

/// With half a core, and on a shared one, far more than a tenth of the requests are late. A
/// hundredth can be late on any machine because of other programs.
const PERCENT: f64 = 90.0;

/// More than any server on one core can answer.
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
            verdict(case, "half a core", of_starved(&half), &half);
            lag(case, "half a core", &whole, &half);
        }
        None => case
            .notes
            .push("no quota: this user may not make a control group with CPU".to_owned()),
    }
    let burner = lab.burn()?;
    let shared = with_a_core(lab, case, &[], rate)?;
    drop(burner);
    verdict(case, "shared core", of_starved(&shared), &shared);
    lag(case, "shared core", &whole, &shared);
    Ok(())
}

/// The first of several runs whose verdict is OK, otherwise the last. Short interruptions by the
/// machine affect only some runs, too little CPU time all of them.
fn with_a_quiet_core(lab: &Lab, case: &mut CaseResult, rate: f64) -> anyhow::Result<RunReport> {
    let mut document = with_a_core(lab, case, &[], rate)?;
    for attempt in 2..=ATTEMPTS {
        let verdict = document.result.generator.verdict.clone();
        if !verdict.is_saturated() && !verdict.is_disturbed() {
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
) -> anyhow::Result<RunReport> {
    let options = format!("-t1 -c{CONNECTIONS} -d{DURATION_S}s -R{rate}");
    let (document, _) = lab.observe(case, "", |origin| {
        lab.ours_under(launcher, &options, &origin.url(RESPONSE), DURATION_S)
    })?;
    Ok(document)
}

/// CPU time of the worker over elapsed time.
fn cpu_share(document: &RunReport) -> Option<f64> {
    let worker = document.result.generator.workers.first()?;
    let share = worker.usage.cpu_ns as f64 / worker.elapsed_ns as f64;
    Some(share).filter(|share| share.is_finite() && *share > 0.0)
}

/// What must be said of a load generator with too little CPU time. It works off what is due in
/// larger batches, which takes less time, so it may send all of it, though late.
fn of_starved(document: &RunReport) -> &'static str {
    const SENT_MIN: f64 = 0.99;
    let counters = &document.recording().counters;
    if (counters.sent as f64) < counters.due as f64 * SENT_MIN {
        "generator_limited"
    } else {
        "disturbed"
    }
}

fn verdict(case: &mut CaseResult, label: &str, truth: &str, document: &RunReport) {
    let seen = document.at("/generator/verdict/kind");
    let seen = seen.and_then(|kind| kind.as_str()).map(Figure::word);
    case.ours(
        format!("{label}: verdict"),
        Figure::word(truth),
        Tolerance::Exact,
        seen,
    );
}

/// The metrics must show it, not only the verdict. The total send lag counts: a thread that reads
/// responses late has no free connections and attributes the delay to the server.
fn lag(case: &mut CaseResult, label: &str, whole: &RunReport, starved: &RunReport) {
    let send_us = |document: &RunReport| percentile_us(&document.recording().lags.send, PERCENT);
    let receive_us =
        |document: &RunReport| percentile_us(&document.recording().lags.receive, PERCENT);
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
