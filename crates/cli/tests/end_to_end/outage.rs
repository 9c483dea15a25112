//! A server that goes away and comes back.

use results::ErrorKind;

use crate::harness::{Site, eventually, load, site};

/// What may happen to a request or a connection when its server ends.
const END_OF_SERVER: &[ErrorKind] = &[
    ErrorKind::Refused,
    ErrorKind::ConnectReset,
    ErrorKind::BrokenPipe,
    ErrorKind::Reset,
    ErrorKind::ClosedEarly,
    ErrorKind::Truncated,
    ErrorKind::Stale,
];

/// Waits until nobody holds a connection to the server any more.
fn await_no_connection(site: &Site) {
    let port: u16 = site
        .authority()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // Field 3 of a line is the far end in hexadecimal, field 4 the state: 01 is ESTABLISHED (proc(5)).
    let far = format!(":{port:04X} 01 ");
    eventually(|| {
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        match table.lines().find(|line| line.contains(&far)) {
            None => Ok(()),
            Some(line) => Err(format!("still connected: {line}")),
        }
    });
}

#[test]
fn a_run_survives_an_outage_and_goes_on_when_the_server_is_back() {
    let site = site();
    let mut running = load(&site).connections(8).with(&["-d1h"]).start();
    running.await_banner();
    site.await_counts("load", |counts| counts.responses > 100);
    site.go_down();
    await_no_connection(&site);
    // Somebody who comes now finds nobody.
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

#[test]
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
