//! Ten thousand connections on one worker.

use std::fs;

use origin::Counts;
use testkit::{Folder, Process};

use crate::harness::{io_arguments, load, program, site};
use crate::judge;

/// The wanted number; fewer where the hard limit of open files is lower.
const CONNECTIONS: u64 = 10_000;
/// More than the open files of the program that are no connections.
const OTHER_FILES: u64 = 200;

fn hard_limit_of_open_files() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let hard = line.split_whitespace().nth(4).unwrap();
    hard.parse().unwrap_or(u64::MAX)
}

/// The server is another process, so that each end has its own limit of open files.
#[test]
fn ten_thousand_connections_of_one_worker_are_opened_and_get_responses() {
    let connections = CONNECTIONS.min(hard_limit_of_open_files() - OTHER_FILES);
    if connections < CONNECTIONS {
        println!("only {connections} connections: the hard limit of open files is lower");
    }
    let mut server = Process::start(program(&["serve", "--listen", "0", "--io", "epoll"]));
    let line = server.next_line().unwrap();
    let url = line.strip_prefix("serving ").unwrap().trim_end();

    let folder = Folder::new();
    let json = folder.file("r.json");
    let requests = 2 * connections;
    let mut run = program(&["-t1", "-T60s", "-q", "--json", &json]);
    // So slow that every connection sends its first request before any gets its second response.
    run.arg(format!("-c{connections}"))
        .arg(format!("-n{requests}"));
    run.args(io_arguments()).arg(format!("{url}?delay=2s"));
    let output = Process::start(run).finish();
    assert_eq!(
        (output.code, output.stderr.as_str()),
        (Some(0), ""),
        "{output:?}"
    );

    let result = judge::document(&fs::read(json).unwrap());
    judge::report(&result, &output.stdout);
    let counters = &result.recording.counters;
    assert_eq!(result.recording.errors.events(), 0, "{output:?}");
    assert_eq!((counters.sent, counters.answered), (requests, requests));
    assert_eq!(counters.connections_opened, connections);

    server.signal("INT");
    let counts = counts_of(&server.finish().stdout);
    assert_eq!(counts.connections, connections + 1);
    assert_eq!((counts.requests, counts.responses), (requests, requests));
    assert_eq!(counts.bytes_out, counters.bytes);
}

/// The counts that the server prints at its end, after the line with its address.
/// Opening them takes a part of the window, in which they have no request in flight.
#[test]
fn connections_that_wait_for_others_to_open_are_no_contradiction() {
    let site = site();
    let run = load(&site)
        .connections(1000)
        .for_ms(2000)
        .timeout_ms(10_000);
    let run = run.run().expect_answered_only();
    assert!(run.result.recording.counters.opening_ns > 0);
}

fn counts_of(stdout: &str) -> Counts {
    let last = stdout.lines().last().unwrap();
    let value: serde_json::Value = serde_json::from_str(last).unwrap();
    let count = |name: &str| value[name].as_u64().unwrap();
    Counts {
        connections: count("connections"),
        requests: count("requests"),
        responses: count("responses"),
        refused: count("refused"),
        bytes_in: count("bytes_in"),
        bytes_out: count("bytes_out"),
        tls_failures: count("tls_failures"),
        tokens_sent: count("tokens_sent"),
    }
}
