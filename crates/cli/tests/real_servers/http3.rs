//! HTTP/3: Caddy, whose QUIC is that of quic-go. What it logs is what wrkbench counts.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use results::RunResult;
use testkit::{Folder, require};

use crate::certificate::Certificate;
use crate::daemon::{Daemon, free_port};
use crate::http2::{PAGE, REQUESTS, assert_all_answered, page};
use crate::trial::{assert_clean, backends, each_backend, run};

const LOAD: [&str; 4] = ["--http3", "-m4", "-n1003", "-d1m"];

struct Caddy {
    daemon: Daemon,
    place: Folder,
    port: u16,
}

impl Caddy {
    /// `None` if Caddy or openssl is not installed.
    fn start(protocols: &str) -> Option<Self> {
        let program = require("caddy")?;
        let place = Folder::for_all_users();
        page(&place);
        let Certificate { key, chain } = Certificate::make(&place)?;
        let at = place.file("");
        let (daemon, port) = Daemon::start("serving initial configuration", || {
            let port = free_port();
            let configuration = format!(
                "{{\n  admin off\n  auto_https off\n  default_sni localhost\n  \
                 storage file_system {at}/storage\n  \
                 servers {{\n    protocols {protocols}\n  }}\n}}\n\
                 https://localhost:{port} {{\n  bind 127.0.0.1\n  tls {chain} {key}\n  \
                 log {{\n    output file {at}/access.log\n  }}\n  \
                 root * {at}/www\n  respond /taken 200\n  file_server\n}}\n"
            );
            let file = place.file_with("Caddyfile", configuration);
            let mut command = Command::new(&program);
            command.args(["run", "--adapter", "caddyfile", "--config", &file]);
            command.env("HOME", place.path());
            (command, port)
        });
        Some(Self {
            daemon,
            place,
            port,
        })
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}/{path}", self.port)
    }

    /// How many requests of HTTP/3 it has logged.
    fn logged(self) -> u64 {
        self.requests().len() as u64
    }

    /// The lines of its log about requests of HTTP/3.
    fn requests(self) -> Vec<String> {
        self.daemon.end("TERM");
        let log = self.place.read("access.log");
        let lines = log.lines().filter(|line| line.contains("\"HTTP/3.0\""));
        lines.map(str::to_owned).collect()
    }

    /// How many connections had requests, each from a port of its own.
    fn connections(self) -> u64 {
        let requests = self.requests();
        let ports = requests.iter().map(|line| {
            let (_, rest) = line
                .split_once("\"remote_port\":\"")
                .expect("it has a port");
            rest.split_once('"').expect("it ends").0
        });
        ports.collect::<BTreeSet<&str>>().len() as u64
    }
}

fn answered(results: &[RunResult]) -> u64 {
    let counters = results.iter().map(|result| &result.recording.counters);
    counters.map(|counters| counters.answered).sum()
}

#[test]
fn every_request_is_answered_once_and_logged_as_http_3() {
    let Some(caddy) = Caddy::start("h1 h2 h3") else {
        return;
    };
    let results = each_backend(&LOAD, &caddy.url(PAGE));
    assert_all_answered(&results);
    assert_eq!(caddy.logged(), REQUESTS * results.len() as u64);
}

#[test]
fn packets_and_handshakes_are_those_of_the_connections() {
    let Some(caddy) = Caddy::start("h1 h2 h3") else {
        return;
    };
    // Caddy logs requests. With a number of them, one connection may send all before the others are
    // open.
    let results = each_backend(&["--http3", "-d1s"], &caddy.url(PAGE));
    let mut connections = 0;
    for result in &results {
        let recording = &result.recording;
        let quic = recording.parts.quic.as_ref().expect("it used QUIC");
        let counters = &recording.counters;
        // A thread that starts after the first handshakes of the other may resume their session.
        let handshakes = counters.tls_full + counters.tls_resumed;
        assert_eq!(handshakes, recording.phases.tls.count());
        assert_eq!(handshakes, quic.rtt.count(), "{quic:?}");
        assert!(quic.datagrams_sent >= quic.batches_sent, "{quic:?}");
        assert!(quic.datagrams_received >= quic.batches_received, "{quic:?}");
        assert!(
            quic.batches_sent > 0 && quic.batches_received > 0,
            "{quic:?}"
        );
        assert!(quic.bytes_received >= counters.bytes, "{quic:?}");
        assert_eq!((quic.packets_lost, quic.retries), (0, 0), "{quic:?}");
        assert!(quic.min_rtt.max_ns() <= quic.rtt.max_ns(), "{quic:?}");
        connections += handshakes;
    }
    assert_eq!(caddy.connections(), connections);
}

/// Forwards datagrams of one client to this port of loopback and back, and drops one in ten of
/// those to the server. Returns the port at which it receives.
fn lossy_relay(to: u16) -> u16 {
    /// The handshake passes.
    const PASSED: u64 = 10;
    const WAIT_LIMIT: Option<Duration> = Some(Duration::from_secs(60));
    let bind = || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback works");
        socket
            .set_read_timeout(WAIT_LIMIT)
            .expect("it has timeouts");
        Arc::new(socket)
    };
    let (front, back) = (bind(), bind());
    back.connect(("127.0.0.1", to)).expect("loopback works");
    let port = front.local_addr().expect("it is bound").port();
    let client = Arc::new(Mutex::new(None));
    let (of_replies, sender, receiver) = (Arc::clone(&client), front.clone(), back.clone());
    std::thread::spawn(move || {
        let mut datagram = [0; 65_536];
        while let Ok(length) = receiver.recv(&mut datagram) {
            if let Some(client) = *of_replies.lock().expect("no thread panics") {
                let _ = sender.send_to(&datagram[..length], client);
            }
        }
    });
    std::thread::spawn(move || {
        let mut datagram = [0; 65_536];
        let mut count = 0_u64;
        while let Ok((length, from)) = front.recv_from(&mut datagram) {
            *client.lock().expect("no thread panics") = Some(from);
            count += 1;
            if count <= PASSED || !count.is_multiple_of(10) {
                let _ = back.send(&datagram[..length]);
            }
        }
    });
    port
}

#[test]
fn packets_that_a_link_has_lost_are_counted_and_their_requests_are_answered() {
    let Some(caddy) = Caddy::start("h1 h2 h3") else {
        return;
    };
    for io in backends() {
        let port = lossy_relay(caddy.port);
        let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
            .args([
                "--http3",
                "--io",
                io,
                "-t1",
                "-c1",
                "-n300",
                "-d1m",
                "--timeout",
                "30s",
            ])
            .args(["--json", "-", &format!("https://localhost:{port}/{PAGE}")])
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let result = results::file::load(output.stdout.as_slice());
        let result = result.unwrap_or_else(|error| panic!("{io}: {error}: {said}"));
        assert_eq!(results::check(&result), Ok(()), "{io}");
        assert_eq!(result.recording.counters.answered, 300, "{io}: {said}");
        let quic = result.recording.parts.quic.as_ref().expect("it used QUIC");
        // Each request needs a packet, and one in ten is lost.
        assert!(quic.packets_lost >= 20, "{io}: {quic:?}");
        assert!(quic.packets_lost < quic.packets_sent / 2, "{io}: {quic:?}");
        assert!(quic.congestion_events > 0, "{io}: {quic:?}");
        // Nothing was lost for lack of room in this machine.
        assert_eq!(quic.datagrams_dropped, 0, "{io}: {quic:?}");
    }
}

#[test]
fn a_condition_on_lost_packets_is_judged_and_a_line_has_the_packets() {
    let Some(caddy) = Caddy::start("h1 h2 h3") else {
        return;
    };
    for (limit, fails) in [("quic_lost>=0%", true), ("quic_lost>50%", false)] {
        let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
            .args(["--http3", "-t1", "-c2", "-n100", "-d1m", "--fail-if", limit])
            .arg(caddy.url(PAGE))
            .output()
            .expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let has_failed = said.contains("failed: quic_lost is 0 % (0 of ");
        assert_eq!(has_failed, fails, "{limit}: {said}");
        assert!(said.contains("note: QUIC: "), "{said}");
    }
}

#[test]
fn rates_files_bodies_and_new_connections_work_over_quic() {
    let Some(caddy) = Caddy::start("h1 h2 h3") else {
        return;
    };
    let lines = format!(
        "{{\"path\": \"/{PAGE}?{{{{seq}}}}\", \"name\": \"page\"}}\n\
         {{\"path\": \"/taken\", \"name\": \"upload\", \"body_text\": \"{}\"}}\n",
        "u".repeat(300_000)
    );
    let file = caddy.place.file_with("load.jsonl", lines);
    let mut results = Vec::new();
    for io in backends() {
        for more in [
            &["-R200", "-n200", "-d1m"][..],
            &["-n200", "-d1m", "--requests", &file, "-m2"],
            &["-n200", "-d1m", "--requests-per-connection", "10"],
            &["-n200", "-d1m", "--body", "x", "-H", "X-A: b"],
        ] {
            let options = [&["--http3"], more].concat();
            let path = if more.contains(&"--body") {
                "taken"
            } else {
                PAGE
            };
            let result = run(io, &options, &caddy.url(path));
            assert_clean(&result, 200);
            if more.contains(&"--requests-per-connection") {
                let opened = result.recording.counters.connections_opened;
                assert!(opened >= 20, "{opened}");
            }
            results.push(result);
        }
    }
    assert_eq!(caddy.logged(), answered(&results));
}

#[test]
fn once_prints_the_exchange_over_quic() {
    let Some(caddy) = Caddy::start("h1 h2 h3") else {
        return;
    };
    let ca = caddy.place.file("cert.pem");
    for (options, path, code, lines) in [
        (
            &["--body", "a=b", "-H", "X-A: 1"][..],
            "taken",
            0,
            &[
                "* TLS 1.3, TLS_AES_128_GCM_SHA256, ALPN h3",
                "* certificate: ",
                "> POST /taken HTTP/3",
                "> X-A: 1",
                "a=b",
                "< HTTP/3 200 OK",
                "TLS handshake",
                "first byte",
            ][..],
        ),
        (
            &["--cacert", &ca],
            PAGE,
            0,
            &[", verified", "< HTTP/3 200 OK", "pppp"],
        ),
        (&["--method", "HEAD"], PAGE, 0, &["< HTTP/3 200 OK"]),
        (&[], "none", 7, &["< HTTP/3 404 Not Found"]),
        (&["--json", "-"], PAGE, 0, &["\"protocol\": \"HTTP/3\""]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
            .args(["--once", "--http3"])
            .args(options)
            .arg(caddy.url(path))
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(code), "{options:?}: {output:?}");
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut rest = printed.lines();
        for expected in lines {
            assert!(
                rest.any(|line| line.contains(expected)),
                "{expected:?}: {printed}"
            );
        }
    }
    assert_eq!(caddy.logged(), 5);
}

/// The exit code and stderr of a run that cannot be made.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_wrkbench"))
        .args(["-t1", "-c2", "-n10", "-d2s"])
        .args(arguments)
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_server_without_quic_and_a_wrong_certificate_end_the_run_with_the_reason() {
    let Some(caddy) = Caddy::start("h1 h2") else {
        return;
    };
    let said = refused(&["--http3", &caddy.url(PAGE)]);
    assert!(said.contains("unable to connect to localhost"), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
    drop(caddy);
    let Some(caddy) = Caddy::start("h1 h2 h3") else {
        return;
    };
    let said = refused(&["--http3", "--verify", &caddy.url(PAGE)]);
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn what_quic_does_not_have_is_refused_before_the_run() {
    for (arguments, expected) in [
        (&["http://h/"][..], "--http3: is for https:// URLs"),
        (
            &["-x", "http://p:1", "https://h/"],
            "--http3: cannot be used with a proxy",
        ),
        (
            &["--http2", "https://h/"],
            "--http3: cannot be used together with --http2",
        ),
        (
            &["--sockets=dport = 1", "https://h/"],
            "--http3: has no TCP sockets to sample",
        ),
        (
            &["--early-data", "--tls-resume", "off", "https://h/"],
            "--early-data: needs resumed sessions",
        ),
        (
            &["--early-data", "--body", "x", "https://h/"],
            "--early-data: is for the methods GET, HEAD and OPTIONS",
        ),
        (
            &["--pipeline", "2", "https://h/"],
            "--pipeline 2: is for HTTP/1.1",
        ),
    ] {
        let said = refused(&[&["--http3"], arguments].concat());
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}
