//! Poisson arrivals at a single server with a queue: sojourn times are exponential.

use stats::Blocks;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::{HTTP3_SERVER, Lab};

const ARRIVALS_PER_SEC: f64 = 700.0;
const SERVICES_PER_SEC: f64 = 1_000.0;
const DURATION_S: u32 = 40;

/// Allowed for the client: two passes through the kernel, and the resolution of the histogram.
const NEAR_THE_LOG: Tolerance = Tolerance::ShareOr(0.01, 0.15);

/// A second of arrivals. The correlation time of the queue is 0.1 s.
const BLOCKS: Blocks = Blocks {
    length: 700,
    draws: 400,
    seed: 1,
};

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    ours(lab, case, "", "-c256")
}

pub(super) fn http3(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    ours(lab, case, HTTP3_SERVER, "--http3 -c16 -m16")
}

/// With 256 requests in flight at most.
fn ours(lab: &Lab, case: &mut CaseResult, also: &str, options: &str) -> anyhow::Result<()> {
    let options = &format!("-t1 {options} -d40s -R700 --arrivals poisson --seed 1 --timeout 30s");
    let server = format!("--queue --answer delay=exp:1ms {also}");
    let (ours, log) = lab.observe(case, &server, |origin| {
        lab.ours(options, &origin.url("/"), DURATION_S)
    })?;
    case.notes.push(
        "by formula: within 5 %, or as far as chance moves the server's own log (95 %)".to_owned(),
    );
    let sojourns_ms = log.sojourns_ms();
    let ascending = stats::sorted(&sojourns_ms);
    for percent in [50.0, 90.0, 99.0] {
        let q = percent / 100.0;
        let seen = ours.latency_ms(percent).map(Figure::Ms);
        let logged = stats::quantile(&ascending, q).unwrap_or(f64::NAN);
        let what = format!("p{percent}, by the server's log");
        case.ours(what, Figure::Ms(logged), NEAR_THE_LOG, seen.clone());
        let formula_s = stats::mm1_sojourn_quantile(ARRIVALS_PER_SEC, SERVICES_PER_SEC, q);
        let formula_ms = formula_s.map_or(f64::NAN, |seconds| seconds * 1e3);
        let interval = BLOCKS.interval(&sojourns_ms, |drawn| {
            stats::quantile(&stats::sorted(drawn), q)
        });
        let chance_ms = interval.map_or(0.0, |interval| (interval.high - interval.low) / 2.0);
        let chance_ms = (chance_ms * 1e3).round() / 1e3;
        case.ours(
            format!("p{percent}, by formula"),
            Figure::Ms(formula_ms),
            Tolerance::ShareOr(0.05, chance_ms),
            seen,
        );
    }
    Ok(())
}
