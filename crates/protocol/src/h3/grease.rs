//! Frames, streams, settings and codes of reserved types, which mean nothing: a client must ignore
//! them (RFC 9114 sections 6.2.3, 7.2.4.1, 7.2.8 and 8.1).

use std::sync::Arc;

use quinn_proto::{Connection, Dir};

use super::error::ErrorCode;
use super::transport::Random;
use super::{frame, varint};

/// Reserved numbers are these: FIRST + STEP * N.
const FIRST: u64 = 0x21;
const STEP: u64 = 0x1f;

/// Bytes of a reserved frame, or of a reserved stream after its type. Any length will do.
const PAYLOAD_BYTES_MAX: u64 = 40;

/// What makes up reserved numbers.
#[derive(Debug, Clone)]
pub(super) struct Grease(pub(super) Arc<Random>);

impl Grease {
    fn number(&self) -> u64 {
        let count = (varint::MAX - FIRST) / STEP + 1;
        FIRST + STEP * (self.0.next() % count)
    }

    fn payload(&self) -> Vec<u8> {
        let mut payload = vec![0; (self.0.next() % (PAYLOAD_BYTES_MAX + 1)) as usize];
        self.0.fill(&mut payload);
        payload
    }

    /// A setting and its value.
    pub(super) fn setting(&self) -> (u64, u64) {
        (self.number(), self.0.next() & varint::MAX)
    }

    pub(super) fn append_frame(&self, output: &mut Vec<u8>) {
        frame::append(self.number(), &self.payload(), output);
    }

    /// Opens a unidirectional stream and ends it.
    pub(super) fn open_stream(&self, quic: &mut Connection) {
        let Some(id) = quic.streams().open(Dir::Uni) else {
            return;
        };
        let mut content = Vec::new();
        varint::append(self.number(), &mut content);
        content.extend(self.payload());
        let mut stream = quic.send_stream(id);
        // The client may allow less; any part of it means as little as the whole.
        let _ = stream.write(&content);
        let _ = stream.finish();
    }

    /// A code in place of H3_NO_ERROR.
    pub(super) fn code(&self) -> ErrorCode {
        ErrorCode(self.number())
    }
}
