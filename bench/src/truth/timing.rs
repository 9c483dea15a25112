//! How accurately wrkbench keeps its schedule: send lag, achieved rate, bias of the median.
//!
//! Part of the table of `bench`, but it needs the server's log.

use anyhow::Context;
use serde::Serialize;

use super::check::CaseResult;
use super::lab::Lab;
use super::run_report::percentile_us;
use crate::options::TruthOptions;

/// Target rates, requests per second.
pub(crate) const RATES_PER_SEC: [u32; 2] = [1_000, 50_000];

const BACKENDS: [&str; 2] = ["uring", "epoll"];

/// Long enough that 0.1 % of the requests at the lower rate are ten.
const DURATION_S: u32 = 10;

/// Connections of each run.
const CONNECTIONS: u32 = 100;

/// Largest allowed relative difference of the achieved rate from the target: 0.1 %.
pub(crate) const ACHIEVED_WITHIN: f64 = 0.001;

/// Largest allowed difference of the recorded median from the server's, microseconds.
pub(crate) const BIAS_MAX_US: f64 = 50.0;

/// One run. Times in microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Timing {
    /// Achieved rate over target rate.
    pub(crate) achieved_share: f64,
    /// Median of the send lag.
    pub(crate) send_lag_p50_us: f64,
    /// Send lag, 99th percentile.
    pub(crate) send_lag_p99_us: f64,
    /// The part of the send lag caused by wrkbench, 99th percentile.
    pub(crate) own_lag_p99_us: f64,
    /// Median response time minus the median time in the server.
    pub(crate) median_bias_us: f64,
}

/// All runs at one rate on one backend.
#[derive(Debug, Serialize)]
pub(crate) struct TimingResult {
    /// Target rate, requests per second.
    pub(crate) rate_per_sec: u32,
    /// The backend of wrkbench.
    pub(crate) io: &'static str,
    /// Largest share of the machine used by other programs, 0..=1.
    pub(crate) others_share: f64,
    /// In order of measurement.
    pub(crate) samples: Vec<Timing>,
}

/// Makes `repeats` runs at each rate on each backend, in turn.
///
/// # Errors
/// When server or client fail, or the user interrupts.
pub(crate) fn measure(options: &TruthOptions, repeats: u32) -> anyhow::Result<Vec<TimingResult>> {
    let mut results: Vec<TimingResult> = Vec::new();
    for rate_per_sec in RATES_PER_SEC {
        for io in BACKENDS {
            results.push(TimingResult {
                rate_per_sec,
                io,
                others_share: 0.0,
                samples: Vec::new(),
            });
        }
    }
    let lab = |io: &str| {
        Lab::prepare(&TruthOptions {
            io: io.to_owned(),
            ..options.clone()
        })
    };
    let labs = [lab(BACKENDS[0])?, lab(BACKENDS[1])?];
    for _ in 0..repeats {
        for (result, lab) in results.iter_mut().zip(labs.iter().cycle()) {
            let (timing, others_share) = run(lab, result.rate_per_sec)?;
            result.samples.push(timing);
            result.others_share = result.others_share.max(others_share);
        }
    }
    Ok(results)
}

fn run(lab: &Lab, rate_per_sec: u32) -> anyhow::Result<(Timing, f64)> {
    let mut case = CaseResult::named("timing", "schedule accuracy");
    let line = format!("-t1 -c{CONNECTIONS} -d{DURATION_S}s -R{rate_per_sec}");
    let (ours, log) = lab.observe(&mut case, "", |origin| {
        lab.ours(&line, &origin.url("/"), DURATION_S)
    })?;
    let recording = ours.recording();
    let lags = &recording.lags;
    let served_ms = stats::sorted(&log.sojourns_ms());
    let served_us = stats::quantile(&served_ms, 0.5).context("the server answered nothing")? * 1e3;
    let us = |histogram, percent| percentile_us(histogram, percent).context("nothing was sent");
    let achieved_per_sec = recording.counters.responses() as f64 / ours.window_s();
    let timing = Timing {
        achieved_share: achieved_per_sec / f64::from(rate_per_sec),
        send_lag_p50_us: us(&lags.send, 50.0)?,
        send_lag_p99_us: us(&lags.send, 99.0)?,
        own_lag_p99_us: us(&lags.own, 99.0)?,
        median_bias_us: us(&recording.response_time, 50.0)? - served_us,
    };
    Ok((timing, case.others_share))
}
