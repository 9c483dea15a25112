//! HTTP/3: `gtlsserver` of ngtcp2, which logs every frame.

use std::collections::BTreeSet;
use std::process::Command;

use results::RunResult;
use testkit::{Folder, require};

use crate::certificate::Certificate;
use crate::daemon::{Daemon, free_port};
use crate::http2::{PAGE, page};
use crate::trial::{CONNECTIONS, assert_clean, each_backend};

/// Connections with one request each.
const CHURN: [&str; 5] = ["--http3", "-n100", "-d1m", "--requests-per-connection", "1"];

/// A server of which each connection has a log.
struct Gtls {
    daemon: Daemon,
    port: u16,
    /// Its files.
    _place: Folder,
}

impl Gtls {
    /// `None` if gtlsserver or openssl is not installed.
    fn start() -> Option<Self> {
        let program = require("gtlsserver")?;
        let place = Folder::for_all_users();
        page(&place);
        let Certificate { key, chain } = Certificate::make(&place)?;
        let (daemon, port) = Daemon::start("Using document root", || {
            let port = free_port();
            let mut command = Command::new(&program);
            command.args(["--no-quic-dump", "--no-http-dump", "-d", &place.file("www")]);
            command.args(["127.0.0.1", &port.to_string(), &key, &chain]);
            (command, port)
        });
        let _place = place;
        Some(Self {
            daemon,
            port,
            _place,
        })
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/{PAGE}", self.port)
    }

    fn log(self) -> Vec<String> {
        self.daemon.end("TERM")
    }
}

/// A folder with a file of requests whose method may change something.
fn posts() -> Folder {
    let place = Folder::for_all_users();
    let line = format!("{{\"method\": \"POST\", \"path\": \"/{PAGE}\", \"body_text\": \"x\"}}\n");
    place.file_with("posts.jsonl", line);
    place
}

/// The handshakes in a log: full ones, and those with a resumed session. The server's part of the
/// latter has no certificate, so it is short.
fn handshakes(log: &[String]) -> (u64, u64) {
    const RESUMED_BYTES_MAX: u64 = 300;
    let begins = log.iter().filter_map(|line| {
        let (_, length) = line.split_once(" Handshake CRYPTO(0x06) offset=0 len=")?;
        let length: u64 = length.parse().ok()?;
        line.contains("frm tx 0 ").then_some(length)
    });
    let (resumed, full): (Vec<_>, Vec<_>) = begins.partition(|bytes| *bytes < RESUMED_BYTES_MAX);
    (full.len() as u64, resumed.len() as u64)
}

fn counted(results: &[RunResult]) -> (u64, u64) {
    let counters = results.iter().map(|result| &result.recording.counters);
    counters.fold((0, 0), |(full, resumed), counters| {
        (full + counters.tls_full, resumed + counters.tls_resumed)
    })
}

#[test]
fn resumed_handshakes_are_those_that_the_server_has_resumed() {
    for (options, at_least) in [(&[][..], 50), (&["--tls-resume", "off"], 0)] {
        let Some(server) = Gtls::start() else {
            return;
        };
        let results = each_backend(&[&CHURN[..], options].concat(), &server.url());
        results.iter().for_each(|result| assert_clean(result, 200));
        let (full, resumed) = counted(&results);
        assert_eq!(full + resumed, 100 * results.len() as u64);
        assert_eq!(resumed > 0, options.is_empty(), "{full}, {resumed}");
        assert!(resumed >= at_least * results.len() as u64, "{resumed}");
        assert_eq!((full, resumed), handshakes(&server.log()));
    }
}

#[test]
fn early_requests_arrive_before_the_end_of_resumed_handshakes() {
    let posts = posts();
    let post = ["--requests", &posts.file("posts.jsonl")];
    for (options, are_early) in [
        (&[][..], true),
        (&["--method", "HEAD"], true),
        (&post, false),
    ] {
        let Some(server) = Gtls::start() else {
            return;
        };
        let results = each_backend(
            &[&CHURN[..], &["--early-data"], options].concat(),
            &server.url(),
        );
        results.iter().for_each(|result| assert_clean(result, 200));
        let (full, resumed) = counted(&results);
        assert!(resumed >= 50 * results.len() as u64, "{full}, {resumed}");
        let log = server.log();
        assert_eq!((full, resumed), handshakes(&log));
        let early = log.iter().filter(|line| {
            let is_request = line.contains(" 0RTT STREAM(") && line.contains(" id=0x0 ");
            is_request && line.contains("frm rx ")
        });
        let early = early.count() as u64;
        // The server takes no early data with a ticket that it has issued just now.
        let expected = if are_early {
            resumed / 2..=resumed
        } else {
            0..=0
        };
        assert!(
            expected.contains(&early),
            "{options:?}: {early} of {resumed}"
        );
    }
}

#[test]
fn requests_go_on_while_connections_move_to_new_ports() {
    let Some(server) = Gtls::start() else {
        return;
    };
    let load = ["--http3", "-d1s", "--local-port-rebind", "200ms"];
    let results = each_backend(&load, &server.url());
    results.iter().for_each(|result| assert_clean(result, 200));
    let log = server.log();
    let ports: BTreeSet<&str> = log
        .iter()
        .filter_map(|line| line.strip_prefix("Received packet: ")?.split(' ').nth(1))
        .collect();
    let opened: u64 = results
        .iter()
        .map(|result| result.recording.counters.connections_opened)
        .sum();
    assert_eq!(opened, CONNECTIONS * results.len() as u64, "none was lost");
    // A busy machine may leave out moves.
    assert!(ports.len() as u64 >= 2 * opened, "{}", ports.len());
    let validated = log
        .iter()
        .filter(|line| line.contains("frm rx ") && line.contains(" PATH_RESPONSE("));
    assert!(validated.count() as u64 >= opened);
}
