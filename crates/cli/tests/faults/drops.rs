//! F67 over HTTP/3: datagrams arrive while the program is stopped, and fill its receive buffer.

use std::fs;
use std::net::SocketAddr;

use results::{RunResult, Symptom, Warning};
use testkit::{Folder, Output, Process, eventually};

use crate::adversary::{Http3, Http3Adversary};
use crate::harness::{io_arguments, program};
use crate::judge;
use crate::row::FaultRow;

/// A datagram that belongs to no connection.
const JUNK: [u8; 1200] = [0xff; 1200];

/// More than any receive buffer takes. One of 4 MiB takes about 4,000.
const JUNK_MAX: u64 = 1_000_000;

pub(crate) fn rows() -> Vec<FaultRow> {
    vec![
        FaultRow::told(
            "F67",
            "HTTP/3: the program is stopped, and many datagrams are dropped",
            "each is counted, and the load generator is saturated",
            many,
        ),
        FaultRow::told(
            "F67",
            "HTTP/3: the program is stopped, and a datagram is dropped",
            "it is counted, and there is a warning",
            few,
        ),
    ]
}

fn many() {
    let (result, output, dropped) = stopped_until_dropped(1_000, 0);
    assert_eq!(dropped_by(&result), dropped, "{output:?}");
    assert_eq!(symptoms(&result), [dropped], "{output:?}");
    assert!(
        output.stderr.contains("load generator saturated"),
        "{output:?}"
    );
    assert!(
        output.stderr.contains("raise net.core.rmem_max"),
        "{output:?}"
    );
}

fn few() {
    // From 1 in 1,000 on, drops would limit the load.
    let (result, output, dropped) = stopped_until_dropped(1, 1_500);
    assert_eq!(dropped_by(&result), dropped, "{output:?}");
    assert!(symptoms(&result).is_empty(), "{output:?}");
    let warnings = result.warnings.iter().filter_map(|found| match found.data {
        Warning::DatagramsDropped { dropped, .. } => Some(dropped),
        _ => None,
    });
    assert_eq!(Vec::from_iter(warnings), [dropped], "{output:?}");
}

fn dropped_by(result: &RunResult) -> u64 {
    let quic = result.recording.parts.quic.as_ref().expect("it used QUIC");
    quic.datagrams_dropped
}

/// The numbers of dropped datagrams by which the load generator is called saturated.
fn symptoms(result: &RunResult) -> Vec<u64> {
    let evidence = result.generator.verdict.evidence().0.iter();
    let dropped = evidence.filter_map(|found| match found.data {
        Symptom::DatagramsDropped { dropped, .. } => Some(dropped),
        _ => None,
    });
    dropped.collect()
}

/// A run that is stopped until its kernel has dropped this many datagrams at least. Then it makes
/// this many requests for each of them. Returns how many were dropped, by the kernel's own count.
fn stopped_until_dropped(at_least: u64, requests_per_drop: u64) -> (RunResult, Output, u64) {
    let server = Http3Adversary::start(Http3::default());
    let folder = Folder::new();
    let mut command = program(&["--http3", "-t1", "-c1", "-m4", "-d1h", "-T1m"]);
    command
        .args(io_arguments())
        .args(["--json", &folder.file("r.json"), &server.url()]);
    let process = Process::start(command);
    await_requests(&server, 20);
    process.signal("STOP");
    await_stop(process.id());
    let before = server.tally().requests();
    let clients = server.clients();
    let [client] = clients[..] else {
        panic!("{clients:?}");
    };
    let mut sent = 0;
    while dropped_at(client) < at_least {
        server.send_raw(&JUNK, client);
        sent += 1;
        assert!(sent < JUNK_MAX, "{} were dropped", dropped_at(client));
    }
    process.signal("CONT");
    await_requests(&server, before + 100);
    // The buffer is empty again. The server may have sent something while it was full.
    let dropped = dropped_at(client);
    await_requests(&server, before + 100 + requests_per_drop * dropped);
    process.signal("INT");
    let output = process.finish();
    let document = fs::read(folder.file("r.json"));
    let document = document.unwrap_or_else(|why| panic!("no document: {why}; {output:?}"));
    let result = judge::document(&document);
    assert_eq!(result.recording.errors.events(), 0, "{output:?}");
    (result, output, dropped)
}

fn await_requests(server: &Http3Adversary, at_least: u64) {
    eventually(|| match server.tally().requests() {
        some if some >= at_least => Ok(()),
        few => Err(format!("{few} requests of {at_least}")),
    });
}

/// Waits until all threads of a process are stopped.
fn await_stop(id: u32) {
    eventually(|| {
        let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        for task in tasks {
            let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            // The state is behind the name, which may have parentheses in it (proc(5)).
            let state = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.chars().next());
            if state != Some('T') {
                return Err(format!("a thread has the state {state:?}"));
            }
        }
        Ok(())
    });
}

/// How many datagrams the kernel has dropped at the socket with this local address.
fn dropped_at(address: SocketAddr) -> u64 {
    // Field 1 has the local port in hexadecimal, and the last field counts drops (proc_net_udp).
    let port = format!(":{:04X}", address.port());
    let table = fs::read_to_string("/proc/self/net/udp").unwrap();
    let mut lines = table.lines().map(|line| line.split_whitespace());
    let line = lines.find(|line| line.clone().nth(1).is_some_and(|it| it.ends_with(&port)));
    let last = line.and_then(Iterator::last).expect("the socket is open");
    last.parse().unwrap()
}
