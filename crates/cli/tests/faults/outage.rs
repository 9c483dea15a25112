//! F4: a server that goes away and comes back, and reconnecting.

use origin::{End, Greeting, Options};
use results::ErrorKind;
use testkit::eventually;

use crate::harness::{Site, load, site, site_with};
use crate::row::FaultRow;

pub(crate) fn rows() -> Vec<FaultRow> {
    vec![
        FaultRow::told(
            "F4",
            "the server goes away and comes back",
            "the run goes on by itself; refused is counted, and not too often",
            a_run_survives_an_outage_and_goes_on_when_the_server_is_back,
        ),
        FaultRow::told(
            "F4",
            "the server goes away for good",
            "the run ends in time, exit 0",
            a_run_whose_server_does_not_come_back_ends_in_time,
        ),
        FaultRow::told(
            "F4",
            "the server goes away for good, with -n",
            "the run gives up after 30 s, says how many of how many were sent, exit 1",
            a_run_by_number_whose_server_does_not_come_back_gives_up,
        )
        .slow(),
        FaultRow::told(
            "F4",
            "the server goes away and comes back, at a constant rate",
            "the gap is in the response times",
            at_a_constant_rate_an_outage_is_in_the_response_times_and_the_connections_come_back,
        ),
        FaultRow::told(
            "F5",
            "every connection is reset",
            "pauses that double, no storm",
            failures_in_a_row_slow_down_to_a_bounded_number_of_attempts,
        ),
    ]
}

/// The errors of requests and connections when their server ends.
const END_OF_SERVER: &[ErrorKind] = &[
    ErrorKind::Refused,
    ErrorKind::ConnectReset,
    ErrorKind::BrokenPipe,
    ErrorKind::Reset,
    ErrorKind::ClosedEarly,
    ErrorKind::Truncated,
    ErrorKind::Stale,
];

/// Waits until no connection to the server is open.
fn await_no_connection(site: &Site) {
    let port: u16 = site
        .authority()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // Field 3 of a line is the far end in hexadecimal, field 4 the state: 01 is ESTABLISHED
    // (proc(5)).
    let far = format!(":{port:04X} 01 ");
    eventually(|| {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        match table.lines().find(|line| line.contains(&far)) {
            None => Ok(()),
            Some(line) => Err(format!("still connected: {line}")),
        }
    });
}

fn a_run_survives_an_outage_and_goes_on_when_the_server_is_back() {
    let site = site();
    let mut running = load(&site).connections(8).with(&["-d1h"]).start();
    running.await_banner();
    site.await_counts("load", |counts| counts.responses > 100);
    site.go_down();
    await_no_connection(&site);
    // A run that starts now finds no server.
    let output = load(&site).output();
    assert!(
        output.only_line().contains("Connection refused"),
        "{output:?}"
    );
    let before = site.counts().responses;
    site.come_back();
    site.await_counts("load again", |counts| counts.responses > before + 100);
    running.process.signal("INT");
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{}", run.story());
    let kinds = run.kinds();
    assert!(kinds.contains(&ErrorKind::Refused), "{}", run.story());
    assert!(
        kinds.iter().all(|kind| END_OF_SERVER.contains(kind)),
        "{}",
        run.story()
    );

    // One attempt at once, then after pauses of 1, 2, 4 ... 1000 ms, each cut to half at most.
    let run_ms = run.result.window.duration_ns as f64 / 1e6;
    let most = 3.0 + (2.0 * run_ms + 1.0).log2() + run_ms / 500.0;
    let refused = run.events(ErrorKind::Refused);
    assert!(refused as f64 <= 8.0 * most, "{most}\n{}", run.story());
    assert_eq!(run.failed(ErrorKind::Refused), 0);
}

fn a_run_by_number_whose_server_does_not_come_back_gives_up() {
    let site = site();
    let mut running = load(&site).requests(1_000_000_000).start();
    running.await_banner();
    site.await_counts("load", |counts| counts.responses > 10);
    site.go_down();
    let run = running.finish();
    assert_eq!(run.code, Some(1), "{}", run.story());
    let said = "of 1,000,000,000 requests were sent (-n)";
    assert!(run.stderr.contains(said), "{}", run.story());
    let kinds = run.document["warnings"].as_array().unwrap();
    assert!(
        kinds.iter().any(|warning| warning["kind"] == "gave_up"),
        "{}",
        run.story()
    );
}

fn a_run_whose_server_does_not_come_back_ends_in_time() {
    let site = site();
    let mut running = load(&site).for_ms(700).start();
    running.await_banner();
    site.await_counts("load", |counts| counts.responses > 10);
    site.go_down();
    let run = running.finish();
    assert_eq!(run.code, Some(0));
    assert_eq!(run.result.window.duration_ns, 700_000_000);
    assert!(
        run.answered() > 0 && !run.kinds().is_empty(),
        "{}",
        run.story()
    );
    let kinds = run.kinds();
    assert!(
        kinds.iter().all(|kind| END_OF_SERVER.contains(kind)),
        "{}",
        run.story()
    );
}

fn at_a_constant_rate_an_outage_is_in_the_response_times_and_the_connections_come_back() {
    let site = site();
    let rate = ["-R", "400", "-d1h", "--timeout", "10s"];
    let mut running = load(&site).connections(8).with(&rate).start();
    running.await_banner();
    site.await_counts("load", |counts| counts.responses > 100);
    site.go_down();
    await_no_connection(&site);
    let down = std::time::Instant::now();
    let output = load(&site).output();
    assert!(
        output.only_line().contains("Connection refused"),
        "{output:?}"
    );
    let before = site.counts().responses;
    let out_for = down.elapsed();
    site.come_back();
    // More than became due in the outage: the run has caught up with its schedule.
    let missed = (out_for.as_secs_f64() * 400.0) as u64;
    site.await_counts("load again", |counts| {
        counts.responses > before + missed + 400
    });
    running.process.signal("INT");
    let run = running.finish();
    assert_eq!(run.code, Some(0), "{}", run.story());
    let recording = &run.result.recording;
    let counters = &recording.counters;
    let expected = run.result.window.duration_ns as f64 / 1e9 * 400.0;
    assert!(
        (counters.due as f64 - expected).abs() <= 1.0,
        "{expected} due\n{}",
        run.story()
    );
    // No request that was due in the outage was left out: the longest response time covers it.
    let longest_ns = recording.response_time.max_ns().unwrap();
    let until_the_first_ns = 1_000_000_000 / 400;
    assert!(
        u128::from(longest_ns + until_the_first_ns) >= out_for.as_nanos(),
        "{longest_ns} ns, out for {out_for:?}\n{}",
        run.story()
    );
    assert!(run.opened() >= 16, "{}", run.story());
    let lost = recording.errors.exchanges();
    assert!(
        lost <= 8,
        "one for each connection at most\n{}",
        run.story()
    );
}

fn failures_in_a_row_slow_down_to_a_bounded_number_of_attempts() {
    let site = site_with(Options {
        greeting: Greeting::End(End::Reset),
        ..Options::default()
    });
    let run = load(&site).connections(1).for_ms(500).run();
    // Two at once, then after 1, 2, 4 ... ms, each cut to half at most: within t ms that are
    // log2(2 t + 1) pauses and one under way.
    let most = 2 + (2.0_f64 * 500.0 + 1.0).log2().ceil() as u64 + 1;
    assert!(
        site.counts().connections <= most + 1,
        "{most}\n{}",
        run.story()
    );
}
