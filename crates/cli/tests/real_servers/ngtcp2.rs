//! HTTP/3: `gtlsserver` of ngtcp2, which logs every frame.

use std::collections::BTreeMap;
use std::process::Command;

use results::RunResult;
use testkit::{Folder, require};

use crate::certificate::Certificate;
use crate::daemon::{Daemon, free_port};
use crate::http2::{PAGE, page};
use crate::trial::{assert_clean, backends, each_backend};

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

/// What a log tells about one connection.
#[derive(Debug, Default)]
struct Logged {
    /// Bytes of the client's first message.
    hello_bytes: u64,
    /// Bytes of the server's encrypted part of the handshake, or of its beginning.
    handshake_bytes: u64,
    /// Its first request arrived, and whether that was before the end of the handshake.
    request: Option<bool>,
}

impl Logged {
    /// The server's part of a handshake without a certificate is short.
    fn is_resumed(&self) -> bool {
        self.handshake_bytes < 300
    }

    /// The client knew a session. Its first message is long then.
    fn has_ticket(&self) -> bool {
        self.hello_bytes > 330
    }
}

/// The connections in a log, by their IDs. Its lines about frames look like
/// `I00000000 0x1df8 frm rx 0 Initial CRYPTO(0x06) offset=0 len=278`.
fn connections(log: &[String]) -> BTreeMap<&str, Logged> {
    let mut connections: BTreeMap<&str, Logged> = BTreeMap::new();
    for line in log {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, id, "frm", way, _, kind, frame, about @ ..] = &words[..] else {
            continue;
        };
        let of = connections.entry(*id).or_default();
        let number = |name: &str| -> u64 {
            let mut values = about.iter().filter_map(|word| word.strip_prefix(name));
            values
                .next()
                .and_then(|value| value.parse().ok())
                .unwrap_or(0)
        };
        let end = number("offset=") + number("len=");
        match (*way, *kind) {
            ("rx", "Initial") if frame.starts_with("CRYPTO(") => {
                of.hello_bytes = of.hello_bytes.max(end);
            }
            ("tx", "Handshake") if frame.starts_with("CRYPTO(") => {
                of.handshake_bytes = of.handshake_bytes.max(end);
            }
            ("rx", "0RTT" | "1RTT") if frame.starts_with("STREAM(") && about[0] == "id=0x0" => {
                of.request.get_or_insert(*kind == "0RTT");
            }
            _ => {}
        }
    }
    // The question for versions makes no connection.
    connections.retain(|_, of| of.handshake_bytes > 0);
    connections
}

/// The handshakes in a log: full ones, and those with a resumed session.
fn handshakes(connections: &BTreeMap<&str, Logged>) -> (u64, u64) {
    let resumed = connections.values().filter(|of| of.is_resumed()).count();
    ((connections.len() - resumed) as u64, resumed as u64)
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
        assert_eq!((full, resumed), handshakes(&connections(&server.log())));
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
        let connections = connections(&log);
        assert_eq!((full, resumed), handshakes(&connections));
        let early = connections.values().filter(|of| of.request == Some(true));
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

/// Sessions are known by the name of the server, so tickets of one port are offered at the other,
/// which cannot read them.
#[test]
fn rejected_early_requests_are_sent_again_once() {
    for io in backends() {
        let (Some(one), Some(other)) = (Gtls::start(), Gtls::start()) else {
            return;
        };
        let place = Folder::for_all_users();
        let urls = format!("{}\n{}\n", one.url(), other.url());
        let file = place.file_with("urls", urls);
        let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
            .args(["--io", io, "-t2", "-c8", "--json", "-", "--requests", &file])
            .args(CHURN)
            .arg("--early-data")
            .output()
            .expect("the program starts");
        assert!(output.status.success(), "{output:?}");
        let result = results::file::load(output.stdout.as_slice()).expect("it is a result");
        assert_clean(&result, 200);
        assert_eq!(result.recording.counters.answered, 100);
        let logs = [one.log(), other.log()];
        let of_both = logs.each_ref().map(|log| connections(log));
        let all = || of_both.iter().flat_map(BTreeMap::values);
        let with_request = all().filter(|of| of.request.is_some());
        assert_eq!(with_request.count(), 100, "each has arrived once");
        let rejected = all().filter(|of| of.has_ticket() && !of.is_resumed());
        let rejected: Vec<_> = rejected.filter_map(|of| of.request).collect();
        assert!(!rejected.is_empty());
        assert!(!rejected.contains(&true), "{rejected:?}");
    }
}
