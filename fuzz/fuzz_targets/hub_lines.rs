//! What the hub of a fleet sends, in pieces: the pieces give the same as the whole, and an error is
//! one line.

#![no_main]
#![allow(dead_code, reason = "the client uses the rest of the module")]

#[path = "../../crates/cluster/src/bus/nats/framing.rs"]
mod framing;
#[path = "../given.rs"]
mod given;

// For the module above, which is a part of its crate.
use cluster::message;
use framing::{Framing, FramingError, Operation};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&piece_bytes, data)) = data.split_first() else {
        return;
    };
    let (whole, error) = found(data, data.len().max(1));
    let pieces = found(data, 1 + usize::from(piece_bytes));
    assert_eq!((&whole, &error), (&pieces.0, &pieces.1));
    if let Some(error) = error {
        given::one_line(&error.to_string());
    }
    for operation in whole {
        if let Operation::Message(delivery) = operation {
            assert!(delivery.payload.len() <= message::MAX_MESSAGE_BYTES);
        }
    }
});

fn found(bytes: &[u8], piece_bytes: usize) -> (Vec<Operation>, Option<FramingError>) {
    let (mut framing, mut found) = (Framing::default(), Vec::new());
    let mut hand_out = |operation| found.push(operation);
    let error = bytes
        .chunks(piece_bytes)
        .find_map(|piece| framing.take(piece, &mut hand_out).err());
    (found, error)
}
