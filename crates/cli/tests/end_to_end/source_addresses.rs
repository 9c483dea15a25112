//! `-b`: the addresses that the server sees.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use results::RunResult;

use crate::harness::{Folder, Output, PATIENCE, Process, io_arguments, program};
use crate::judge;

/// Answers every request on every connection, and says where each connection came from.
struct Door {
    address: SocketAddr,
    peers: Receiver<SocketAddr>,
}

impl Door {
    fn open(listen: &str) -> Self {
        let listener = TcpListener::bind(listen).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, peers) = channel();
        // Ends with the process: nobody connects any more when the test is over.
        std::thread::spawn(move || accept(&listener, &sender));
        Self { address, peers }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// So many connections by their address, the ports being the kernel's choice. The first is the
    /// one that looked whether anybody listens, which is not bound.
    fn peers(&self, connections: u64) -> BTreeMap<IpAddr, u64> {
        let mut seen = BTreeMap::new();
        let mut ports = Vec::new();
        for number in 0..=connections {
            let peer = self.peers.recv_timeout(PATIENCE).unwrap();
            if number > 0 {
                *seen.entry(peer.ip()).or_default() += 1;
                ports.push(peer);
            }
        }
        ports.sort();
        ports.dedup();
        assert_eq!(
            ports.len() as u64,
            connections,
            "an address and port came twice"
        );
        seen
    }
}

fn accept(listener: &TcpListener, peers: &Sender<SocketAddr>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else { return };
        // A test that has seen enough does not listen any more.
        let _ = stream.peer_addr().map(|peer| peers.send(peer));
        std::thread::spawn(move || answer(&stream));
    }
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

fn run(door: &Door, more: &[&str]) -> Output {
    let mut command = program(more);
    command.args(io_arguments()).arg(door.url());
    Process::start(command).finish()
}

fn run_to_document(door: &Door, more: &[&str]) -> RunResult {
    let folder = Folder::new();
    let json = folder.file("r.json");
    let arguments: Vec<&str> = more.iter().copied().chain(["--json", &json]).collect();
    let output = run(door, &arguments);
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
fn connections_come_from_the_one_address_or_from_all_of_a_network_in_turn() {
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
        // The cursors of the workers do not meet.
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
        let door = Door::open("127.0.0.1:0");
        let count = format!("-c{connections}");
        let result = run_to_document(&door, &[threads, &count, "-n60", "-b", source]);
        assert_eq!(result.recording.counters.connections_opened, connections);
        assert_eq!(door.peers(connections), addresses(expected), "{source}");
        let plan = serde_json::to_value(result.plan.load.source).unwrap();
        assert_eq!(result.plan.load.source.unwrap().to_string(), plan);
    }
}

#[test]
fn connections_that_follow_go_on_with_the_next_address() {
    let door = Door::open("127.0.0.1:0");
    let more = ["-t1", "-c1", "-n7", "--no-keepalive", "-b127.0.0.4/30"];
    run_to_document(&door, &more);
    let expected = [("127.0.0.5", 3), ("127.0.0.6", 2), ("127.0.0.7", 2)];
    assert_eq!(door.peers(7), addresses(&expected));
}

#[test]
fn source_addresses_work_with_a_rate() {
    let door = Door::open("127.0.0.1:0");
    run_to_document(
        &door,
        &["-t1", "-c2", "-n20", "-R1k", "--bind-ip=127.0.0.2/31"],
    );
    let expected = [("127.0.0.2", 1), ("127.0.0.3", 1)];
    assert_eq!(door.peers(2), addresses(&expected));
}

#[test]
fn ipv6_addresses_are_bound_as_well() {
    let door = Door::open("[::1]:0");
    run_to_document(&door, &["-t1", "-c2", "-n20", "-b::1/128"]);
    assert_eq!(door.peers(2), addresses(&[("::1", 2)]));
}

#[test]
fn an_address_that_is_not_this_machines_is_refused_before_the_start() {
    // 203.0.113.0/24 is for documentation (RFC 5737).
    let door = Door::open("127.0.0.1:0");
    let output = run(&door, &["-n5", "-b203.0.113.7"]);
    assert_eq!(
        output.only_line(),
        "wrkbench: --bind-ip: unable to bind to 203.0.113.7 Cannot assign requested address (it must be an address of this machine)"
    );
    let nobody = door.peers.try_recv();
    assert!(nobody.is_err(), "{nobody:?}");
}

#[test]
fn a_target_of_another_family_is_refused_before_the_start() {
    let door = Door::open("127.0.0.1:0");
    let line = run(&door, &["-n5", "-b::1"]);
    let expected = format!(
        "wrkbench: unable to resolve 127.0.0.1:{} no IPv6 address (connections from ::1 need one)",
        door.address.port()
    );
    assert_eq!(line.only_line(), expected);
}
