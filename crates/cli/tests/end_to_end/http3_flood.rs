//! `serve --http3` under a flood of handshakes that do not go on: its memory, and other clients.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use protocol::h3::ALPN;
use protocol::tls::{self, Options};
use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{ClientConnection, Keys, Version};
use testkit::Process;

use crate::harness::{io_arguments, program};

/// Datagrams of the flood, several times as many as there may be handshakes.
const DATAGRAMS: u64 = 20_000;

/// Datagrams that are sent before the server must have responded: it has to be busy, and its
/// receive buffer must not be full, since what the kernel drops tests nothing.
const WINDOW: u64 = 16;

/// Memory that the flood may take, kB: 1024 handshakes of 60 kB, and the response to others.
const GROWTH_KB_MAX: u64 = 100_000;

/// RFC 9000 section 14.1.
const INITIAL_BYTES: usize = 1200;

/// A connection ID, client's or server's.
const ID_BYTES: usize = 8;

/// Bytes before the packet number: the first byte, the version, both IDs with their lengths, the
/// length of the token, and the length of the rest (RFC 9000 section 17.2.2).
const HEADER_BYTES: usize = 1 + 4 + 2 * (1 + ID_BYTES) + 1 + 2;

const TAG_BYTES: usize = 16;

/// A place for a connection ID in the client's first message.
const ID_PLACE: [u8; ID_BYTES] = *b"ID-PLACE";

/// The client's first message of TLS. Its transport parameters have nothing but its connection ID
/// (RFC 9000 section 18.2).
fn client_hello() -> Vec<u8> {
    let options = Options {
        alpn: &[ALPN],
        ..Options::default()
    };
    let config = tls::config(&options).unwrap();
    let name = tls::server_name("localhost").unwrap();
    let parameters = [&[0xf, ID_BYTES as u8][..], &ID_PLACE].concat();
    let config = Arc::new(config.as_ref().clone());
    let mut tls = ClientConnection::new(config, Version::V1, name, parameters).unwrap();
    let mut hello = Vec::new();
    tls.write_hs(&mut hello);
    hello
}

/// The header of an Initial packet, up to its packet number, which is 0. Both IDs are this number.
fn header(id: u64) -> Vec<u8> {
    let rest = INITIAL_BYTES - HEADER_BYTES;
    let length = [0x40 | (rest >> 8) as u8, rest as u8];
    let id = id.to_be_bytes();
    let length_of_id = [ID_BYTES as u8];
    let parts: [&[u8]; 9] = [
        &[0xc0],
        &[0, 0, 0, 1],
        &length_of_id,
        &id,
        &length_of_id,
        &id,
        &[0],
        &length,
        &[0],
    ];
    parts.concat()
}

/// An Initial packet that begins a handshake (RFC 9001 section 5).
fn initial(id: u64, hello: &[u8]) -> Vec<u8> {
    let mut packet = header(id);
    let id = id.to_be_bytes();
    let mut payload = vec![0x6, 0, 0x40 | (hello.len() >> 8) as u8, hello.len() as u8];
    let place = hello.windows(ID_BYTES).position(|bytes| bytes == ID_PLACE);
    let place = payload.len() + place.unwrap();
    payload.extend_from_slice(hello);
    payload[place..][..ID_BYTES].copy_from_slice(&id);
    payload.resize(INITIAL_BYTES - packet.len() - TAG_BYTES, 0);
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let quic = suite.quic.unwrap();
    let keys = Keys::initial(Version::V1, suite, quic, &id, Side::Client);
    let sealed = keys.local.packet.encrypt_in_place(0, &packet, &mut payload);
    payload.extend_from_slice(sealed.unwrap().as_ref());
    let sample = &payload[3..][..keys.local.header.sample_len()];
    let (first, number) = packet.split_at_mut(HEADER_BYTES);
    let protect = &keys.local.header;
    protect
        .encrypt_in_place(sample, &mut first[0], number)
        .unwrap();
    packet.extend(payload);
    packet
}

/// A datagram of the flood: every fourth begins a handshake, and the others look like that, or like
/// nothing.
fn datagram(number: u64, hello: &[u8]) -> Vec<u8> {
    match number % 4 {
        0 => initial(number, hello),
        1 => {
            let mut packet = header(number);
            packet.resize(INITIAL_BYTES, 0x5a);
            packet
        }
        2 => (0..INITIAL_BYTES)
            .map(|at| (at as u64 * number) as u8)
            .collect(),
        _ => number.to_be_bytes().to_vec(),
    }
}

/// Sends the flood from many addresses.
fn flood(server: SocketAddr) {
    let hello = client_hello();
    let sockets: Vec<_> = (1..=50)
        .map(|host| {
            let socket = UdpSocket::bind((format!("127.0.1.{host}"), 0)).unwrap();
            socket.connect(server).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            socket
        })
        .collect();
    for first in (0..DATAGRAMS).step_by(WINDOW as usize) {
        let socket = &sockets[(first / WINDOW) as usize % sockets.len()];
        for number in first..first + WINDOW {
            socket.send(&datagram(number, &hello)).unwrap();
        }
        // The first one of a window begins a handshake. The ID is behind the version and a length.
        let mut reply = [0; 1500];
        while reply[6..][..ID_BYTES] != first.to_be_bytes() {
            socket.recv(&mut reply).expect("the server responds");
        }
    }
}

/// The memory of a process now, kB (proc(5)).
fn resident_kb(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.unwrap().parse().unwrap()
}

#[test]
fn handshakes_that_do_not_go_on_take_bounded_memory_and_others_are_served() {
    let mut command = program(&["serve", "--listen", "127.0.0.1:0", "--tls", "--http3"]);
    command.args(io_arguments());
    let mut server = Process::start(command);
    let line = server.next_line().unwrap();
    let url = line.strip_prefix("serving ").unwrap();
    let url = url.strip_suffix(" with HTTP/3\n").unwrap();
    let address = url.trim_start_matches("https://").trim_end_matches('/');
    let before_kb = resident_kb(&server);

    let mut command = program(&["--http3", "-t1", "-c2", "-R50", "-n100", "-T20s", url]);
    command.args(io_arguments());
    let others = Process::start(command);
    flood(address.parse().unwrap());
    let output = others.finish();
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stdout.contains(" 100 requests in "), "{output:?}");
    assert!(!output.stdout.contains("errors"), "{output:?}");

    let growth_kb = resident_kb(&server) - before_kb;
    assert!(growth_kb < GROWTH_KB_MAX, "{growth_kb} kB");
    // A new client has to show its address, and is served.
    let again = Process::start(program(&["--http3", "-t1", "-c1", "-n10", url])).finish();
    assert_eq!(again.code, Some(0), "{again:?}");
    server.signal("INT");
    assert_eq!(server.finish().code, Some(0));
}
