//! `-b`: the addresses that the server sees.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

use results::RunResult;
use testkit::{Folder, Output, TestServer, eventually};

use crate::harness::{Call, io_arguments, program};
use crate::judge;

/// A server that answers every request.
fn server_at(listen: &str) -> TestServer {
    TestServer::start_at(listen, |stream| answer(&stream)).unwrap()
}

/// The number of connections from each address. The first connection only checks whether anybody
/// listens and is not bound to a source address.
fn peers(server: &TestServer, connections: u64) -> BTreeMap<IpAddr, u64> {
    let peers = eventually(|| {
        let peers = server.peers();
        let missing = format!("{connections} connections and the first one: {peers:?}");
        (peers.len() as u64 > connections)
            .then_some(peers)
            .ok_or(missing)
    });
    let bound = &peers[1..];
    assert_eq!(bound.len() as u64, connections, "{peers:?}");
    let distinct: BTreeSet<&SocketAddr> = bound.iter().collect();
    assert_eq!(
        distinct.len() as u64,
        connections,
        "an address and port came twice"
    );
    let mut seen = BTreeMap::new();
    for peer in bound {
        *seen.entry(peer.ip()).or_default() += 1;
    }
    seen
}

/// Requests without bodies, one after the other.
fn answer(stream: &TcpStream) -> std::io::Result<()> {
    let mut writer = stream;
    for line in BufReader::new(stream).split(b'\n') {
        if line? == b"\r" {
            writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        }
    }
    Ok(())
}

fn run(server: &TestServer, more: &[&str]) -> Output {
    let mut command = program(more);
    command
        .args(io_arguments())
        .arg(format!("http://{}/", server.address()));
    Call::of(&command).finish()
}

fn run_to_document(server: &TestServer, more: &[&str]) -> RunResult {
    let folder = Folder::new();
    let json = folder.file("r.json");
    let arguments: Vec<&str> = more.iter().copied().chain(["--json", &json]).collect();
    let output = run(server, &arguments);
    assert_eq!(output.code, Some(0), "{output:?}");
    let result = judge::document(&std::fs::read(json).unwrap());
    judge::report(&result, &output.stdout);
    assert_eq!(result.recording.errors.events(), 0, "{output:?}");
    result
}

fn addresses(texts: &[(&str, u64)]) -> BTreeMap<IpAddr, u64> {
    texts
        .iter()
        .map(|(text, count)| (text.parse().unwrap(), *count))
        .collect()
}

#[test]
fn connections_use_the_source_addresses_in_turn() {
    for (source, threads, connections, expected) in [
        ("127.0.0.9", "-t1", 4, &[("127.0.0.9", 4)][..]),
        (
            "127.0.0.4/30",
            "-t1",
            6,
            &[("127.0.0.5", 2), ("127.0.0.6", 2), ("127.0.0.7", 2)],
        ),
        // Host bits do not matter, and /31 has two addresses.
        (
            "127.0.0.4/31",
            "-t1",
            3,
            &[("127.0.0.4", 2), ("127.0.0.5", 1)],
        ),
        // The workers use different addresses.
        (
            "127.0.1.0/24",
            "-t2",
            4,
            &[
                ("127.0.1.1", 1),
                ("127.0.1.2", 1),
                ("127.0.1.3", 1),
                ("127.0.1.4", 1),
            ],
        ),
        (
            "127.0.0.4/30",
            "-t3",
            6,
            &[("127.0.0.5", 2), ("127.0.0.6", 2), ("127.0.0.7", 2)],
        ),
    ] {
        let server = server_at("127.0.0.1:0");
        let count = format!("-c{connections}");
        let result = run_to_document(&server, &[threads, &count, "-n60", "-b", source]);
        assert_eq!(result.recording.counters.connections_opened, connections);
        assert_eq!(peers(&server, connections), addresses(expected), "{source}");
        let plan = serde_json::to_value(result.plan.load.source).unwrap();
        assert_eq!(result.plan.load.source.unwrap().to_string(), plan);
    }
}

#[test]
fn reconnects_use_the_next_address() {
    let server = server_at("127.0.0.1:0");
    let more = ["-t1", "-c1", "-n7", "--no-keepalive", "-b127.0.0.4/30"];
    run_to_document(&server, &more);
    let expected = [("127.0.0.5", 3), ("127.0.0.6", 2), ("127.0.0.7", 2)];
    assert_eq!(peers(&server, 7), addresses(&expected));
}

#[test]
fn source_addresses_work_with_a_rate() {
    let server = server_at("127.0.0.1:0");
    run_to_document(
        &server,
        &["-t1", "-c2", "-n20", "-R1k", "--bind-ip=127.0.0.2/31"],
    );
    let expected = [("127.0.0.2", 1), ("127.0.0.3", 1)];
    assert_eq!(peers(&server, 2), addresses(&expected));
}

#[test]
fn ipv6_source_addresses_work() {
    let server = server_at("[::1]:0");
    run_to_document(&server, &["-t1", "-c2", "-n20", "-b::1/128"]);
    assert_eq!(peers(&server, 2), addresses(&[("::1", 2)]));
}

#[test]
fn a_foreign_source_address_is_refused_before_the_start() {
    // 203.0.113.0/24 is for documentation (RFC 5737).
    let server = server_at("127.0.0.1:0");
    let output = run(&server, &["-n5", "-b203.0.113.7"]);
    assert_eq!(
        output.only_line(),
        "wrkbench: --bind-ip: unable to bind to 203.0.113.7 Cannot assign requested address (it \
         must be an address of this machine)"
    );
    assert_eq!(server.peers(), []);
}

#[test]
fn a_target_of_another_address_family_is_refused_before_the_start() {
    let server = server_at("127.0.0.1:0");
    let line = run(&server, &["-n5", "-b::1"]);
    let expected = format!(
        "wrkbench: unable to resolve 127.0.0.1:{} no IPv6 address (connections from ::1 need one)",
        server.address().port()
    );
    assert_eq!(line.only_line(), expected);
}
