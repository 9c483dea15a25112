//! Connections as a load: `--connect-rate`, `--idle`, and the figures of handshakes.

use std::time::Duration;

use origin::{Identity, Options, TlsSettings};

use crate::harness::{load, site, site_with};

#[test]
fn new_connections_do_not_exceed_the_connect_rate() {
    let identity = Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap();
    let tls = TlsSettings::new(identity).config().unwrap();
    let over_tls = Options {
        tls: Some(tls),
        ..Options::default()
    };
    for (site, has_tls) in [(site(), false), (site_with(over_tls), true)] {
        let run = load(&site).connections(20).for_ms(500).threads(2);
        let run = run.with(&["--connect-rate", "100", "--no-keepalive"]).run();
        let run = run.expect_answered_only();
        // On a busy machine there may be fewer.
        assert!((1..=51).contains(&run.opened()), "{}", run.story());
        let counters = &run.result.recording.counters;
        let handshakes = counters.tls_full + counters.tls_resumed;
        assert_eq!(handshakes > 0, has_tls);
        let said = format!("wrkbench: note: {} connections opened, ", run.opened());
        assert!(run.stderr.contains(&said), "{}", run.story());
        let of_tls = format!("note: {handshakes} TLS handshakes, ");
        assert_eq!(run.stderr.contains(&of_tls), has_tls, "{}", run.story());
    }
}

#[test]
fn idle_connections_are_open_beside_those_with_requests() {
    let site = site();
    let run = load(&site).threads(3).connections(4).for_ms(300);
    let run = run.with(&["--idle", "100", "--connect-rate", "10k"]).run();
    let run = run.expect_answered_only();
    assert_eq!(run.opened(), 104);
    // One more checked whether anybody listens.
    assert_eq!(site.counts().connections, 105);
    let load = &run.document["plan"]["load"];
    assert_eq!(
        (&load["idle_connections"], &load["connect_rate_per_sec"]),
        (&100.into(), &10_000.into())
    );
}

#[test]
fn handshakes_per_second_can_be_a_condition() {
    let site = site();
    let run = load(&site).for_ms(200).with(&["--no-keepalive"]);
    let failed = run.with(&["--fail-if", "connects<1"]).run();
    assert_eq!(failed.code, Some(0));
    let output = load(&site)
        .for_ms(200)
        .with(&["--fail-if", "connects<1G"])
        .output();
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("connects is "), "{output:?}");
    let output = load(&site)
        .for_ms(200)
        .with(&["--fail-if", "handshakes<1"])
        .output();
    assert!(
        output.stderr.contains("handshakes is not known: "),
        "{output:?}"
    );
}

#[test]
fn the_number_of_connections_follows_stages() {
    let site = site();
    let list = "2:200ms,2-8:200ms,3:200ms";
    let run = load(&site).threads(1).without_connections();
    let run = run.with(&["--connection-stages", list]).run();
    let run = run.expect_answered_only();
    // On a busy machine some may have been opened late, or not at all.
    assert!((3..=9).contains(&run.opened()), "{}", run.story());
    let plan = &run.result.plan;
    assert_eq!(plan.load.connections, 8);
    assert_eq!(plan.stop.duration, Some(Duration::from_millis(600)));
}
