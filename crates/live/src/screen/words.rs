//! A run in words: what is planned, how far it is, what signs mean.

use std::time::Duration;

use plan::{Arrivals, Pacing, RunPlan, units};
use results::snapshot::Snapshot;

use crate::progress::{End, RunProgress};

/// What the keys and signs mean.
pub(super) const HELP: &[&str] = &[
    "q       stop the load and report what was measured, as Ctrl-C does",
    "p       hold the picture; the load goes on, p again shows it as it is",
    "l       latency on the other scale: logarithmic or linear",
    "d       latency as a histogram or over time, where only one has room",
    "Ctrl-L  draw everything anew      Ctrl-Z  suspend, load included",
    "",
    "!       errors within the time of this column",
    "~       fewer than ten samples lie above this percentile",
    "╌       the rate that was asked for",
    "CPU     busiest worker thread: above 90 % the load generator is",
    "        the limit, and the server could do more",
];

/// `2 threads, 64 connections, as fast as answers come`.
pub(super) fn plan(plan: &RunPlan) -> String {
    let load = &plan.load;
    let several = |count: u32, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let mut words = vec![
        several(load.threads, "thread"),
        several(load.connections, "connection"),
    ];
    if load.pipeline > 1 {
        words.push(format!("{} requests in flight on each", load.pipeline));
    }
    if !load.keepalive {
        words.push("a connection for each request".to_owned());
    }
    words.push(match &plan.pacing {
        Pacing::Closed => "each asks again when it is answered".to_owned(),
        Pacing::Constant {
            rate_per_sec,
            arrivals,
            ..
        } => format!("{rate_per_sec} requests/s{}", spread(*arrivals)),
        Pacing::Stages {
            stages, arrivals, ..
        } => format!("rate in {} stages{}", stages.len(), spread(*arrivals)),
    });
    words.join(", ")
}

fn spread(arrivals: Arrivals) -> &'static str {
    match arrivals {
        Arrivals::Even => "",
        Arrivals::Poisson => " at random moments",
    }
}

/// The latency that is shown: with a rate it counts from the moment that a request was due.
pub(super) fn latency(plan: &RunPlan) -> &'static str {
    if plan.pacing.is_open() {
        "response time"
    } else {
        "latency"
    }
}

/// `849.00us`.
pub(super) fn time_ns(value_ns: u64) -> String {
    units::time_us(value_ns as f64 / 1000.0)
}

/// Share of the run that is over, 0 to 1, and where that is. `since` is the time since the snapshot.
pub(super) fn progress(plan: &RunPlan, latest: &Snapshot, since: Duration) -> (f64, String) {
    let progress = RunProgress::at(plan, latest, since);
    let elapsed = units::time(Duration::from_secs(progress.elapsed.as_secs()));
    let words = match progress.end {
        End::WarmUp(whole) => format!("warming up: {elapsed} of {}", units::time(whole)),
        End::Time(whole) => {
            let left = units::time(progress.left(whole));
            format!("{elapsed} of {}, {left} left", units::time(whole))
        }
        End::Requests { made, of } if plan.stop.duration.is_none() => {
            format!("{elapsed}, {made} of {of} requests")
        }
        End::Requests { made, of } => format!("{made} of {of} requests"),
        End::Nothing => elapsed,
    };
    (progress.share.unwrap_or(0.0), words)
}
