//! Any bytes as replies of sock_diag, and recorded replies with some bytes changed: reading them
//! ends, and the sockets can be serialized, filtered and shown.

#![no_main]

#[path = "../given.rs"]
mod given;

use libfuzzer_sys::fuzz_target;
use telemetry::sockets::{Filter, Socket, parse_datagram};

const RECORDINGS: [&[u8]; 3] = [
    include_bytes!("../../crates/telemetry/tests/data/sockets/ipv4.bin"),
    include_bytes!("../../crates/telemetry/tests/data/sockets/ipv6.bin"),
    include_bytes!("../../crates/telemetry/tests/data/sockets/destroyed.bin"),
];

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else {
        return;
    };
    let recording = RECORDINGS.get(usize::from(how % 4));
    let bytes = recording.map_or_else(|| rest.to_vec(), |bytes| with_changes(bytes, rest));
    let sockets = parse_datagram(&bytes);
    // A message takes at least 88 bytes.
    assert!(sockets.len() * 88 <= bytes.len());
    for socket in &sockets {
        check(socket);
    }
    let text = String::from_utf8_lossy(rest);
    match Filter::parse(&text) {
        Ok(filter) => {
            for socket in &sockets {
                let wanted = filter.takes_endpoints(socket);
                let state = filter.states().has(socket.state);
                assert_eq!(filter.takes(socket), wanted && state);
            }
        }
        Err(error) => given::one_line(&error.to_string()),
    }
});

/// Each change takes three bytes: the position (two) and the new byte.
fn with_changes(recording: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut bytes = recording.to_vec();
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % bytes.len();
        bytes[at] = change[2];
    }
    bytes
}

fn check(socket: &Socket) {
    let object = serde_json::to_value(socket).unwrap();
    let object = object.as_object().unwrap();
    assert_eq!(object["local_address_port"], socket.local_address_port());
    assert_eq!(object.contains_key("rtt"), object.contains_key("rttvar"));
    assert_eq!(object.contains_key("cwnd"), socket.info.is_some());
    // A filter made of its own properties matches it.
    let port = socket.local_port;
    let itself = format!("sport = :{port} and src {}", socket.local_address);
    assert!(Filter::parse(&itself).unwrap().takes_endpoints(socket));
}
