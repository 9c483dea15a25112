//! Setting the wall clock changes no number.
//!
//! libfaketime gives the client, and no other program, a wall clock that jumps forward and back by
//! an hour during the run.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::truth::check::{CaseResult, Figure, Tolerance};
use crate::truth::lab::Lab;
use crate::truth::log::ServerLog;
use crate::truth::run_report::{RunReport, percentile_us};

const DURATION_S: u32 = 6;

/// Paths of the library below the library folder, on Debian and others.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

/// Offsets of the wall clock and their durations. The first one makes the faked clock visible in
/// the document.
const LEADS: [&str; 4] = ["+10d", "+241h", "+239h", "+10d"];
const EACH: Duration = Duration::from_millis(1_500);
const LEAD_S: f64 = 864_000.0;

pub(super) fn run(lab: &Lab, case: &mut CaseResult) -> anyhow::Result<()> {
    let Some(library) = LIBRARIES
        .into_iter()
        .map(Path::new)
        .find(|path| path.is_file())
    else {
        case.notes.push(
            "skipped: libfaketime was not found (Debian: apt-get install faketime)".to_owned(),
        );
        return Ok(());
    };
    let lead = lab.file("faketime");
    set(&lead, LEADS[0])?;
    let launcher: Vec<String> = [
        "env".to_owned(),
        format!("LD_PRELOAD={}", library.display()),
        format!("FAKETIME_TIMESTAMP_FILE={}", lead.display()),
        "FAKETIME_NO_CACHE=1".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
        "DONT_FAKE_MONOTONIC=1".to_owned(),
    ]
    .into();
    let started_s = unix_now_s();
    let options = "-t1 -c10 -d6s -R500";
    let (ours, log) = lab.observe(case, "--answer delay=2ms", |origin| {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let turner = scope.spawn(|| turn(&lead, &is_over));
            let ours = lab.ours_under(&launcher, options, &origin.url("/"), DURATION_S);
            is_over.store(true, Ordering::Release);
            turner.thread().unpark();
            let turned = turner
                .join()
                .map_err(|_| anyhow::anyhow!("the clock's thread died"))?;
            turned.and(ours)
        })
    })?;
    check(case, &ours, &log, started_s);
    Ok(())
}

fn check(case: &mut CaseResult, ours: &RunReport, log: &ServerLog, started_s: f64) {
    // A run with the real clock would prove nothing.
    case.ours(
        "label: start of the run, from now",
        Figure::S(LEAD_S),
        Tolerance::Within(60.0),
        Some(Figure::S(
            ours.result.window.started_unix_ms as f64 / 1e3 - started_s,
        )),
    );
    case.ours(
        "length of the window",
        Figure::S(f64::from(DURATION_S)),
        Tolerance::Within(0.05),
        Some(Figure::S(ours.window_s())),
    );
    let sent = ours.recording().counters.sent;
    case.count("requests sent", log.counts.requests, sent);
    let served_ms = stats::sorted(&log.sojourns_ms());
    for percent in [50.0, 99.0, 100.0] {
        let logged = stats::quantile(&served_ms, percent / 100.0);
        case.ours(
            format!("p{percent}, by the server's log"),
            Figure::Ms(logged.unwrap_or(f64::NAN)),
            // Changing the clock costs a system call, and the maximum varies anyway.
            Tolerance::Within(if percent == 100.0 { 50.0 } else { 1.0 }),
            ours.latency_ms(percent).map(Figure::Ms),
        );
    }
    let receive = &ours.recording().lags.receive;
    if !receive.is_empty() {
        case.ours(
            "receive delay, the longest",
            Figure::Us(1e7),
            Tolerance::AtMost,
            percentile_us(receive, 100.0).map(Figure::Us),
        );
    }
}

/// Changes the clock until the run or the list of offsets ends.
fn turn(lead: &Path, is_over: &AtomicBool) -> anyhow::Result<()> {
    for text in &LEADS[1..] {
        thread::park_timeout(EACH);
        if is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        set(lead, text)?;
    }
    Ok(())
}

/// Replaces the file atomically: a partial line would be a different time.
fn set(lead: &Path, text: &str) -> anyhow::Result<()> {
    let new = lead.with_extension("new");
    fs::write(&new, format!("{text}\n"))
        .and_then(|()| fs::rename(&new, lead))
        .with_context(|| format!("cannot write {}", lead.display()))
}

fn unix_now_s() -> f64 {
    jiff::Timestamp::now().as_millisecond() as f64 / 1e3
}
