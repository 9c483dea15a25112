//! The streams of the peer's encoder and decoder (RFC 9204 sections 4.3 and 4.4). Without dynamic
//! tables, few instructions are valid, and none has an effect.

use crate::h3::error::{ErrorCode, Violation};

/// An integer is at most 2^62-1 (section 4.1.1): ten bytes after the prefix.
const INTEGER_BYTES_MAX: u8 = 10;

/// Reads integers with a prefix that may be cut anywhere.
#[derive(Debug, Clone, Copy, Default)]
struct Integer {
    value: u64,
    /// Bytes after the prefix.
    bytes: u8,
    is_open: bool,
}

impl Integer {
    /// Takes the first byte. Returns the value if that is all.
    fn begin(&mut self, byte: u8, prefix_bits: u32) -> Option<u64> {
        let prefix_max = (1 << prefix_bits) - 1;
        let value = u64::from(byte & prefix_max);
        *self = Self {
            value,
            bytes: 0,
            is_open: value == u64::from(prefix_max),
        };
        (!self.is_open).then_some(value)
    }

    /// Takes a further byte. Returns the value if it is the last one; an error is too long.
    fn add(&mut self, byte: u8) -> Result<Option<u64>, ()> {
        if self.bytes == INTEGER_BYTES_MAX {
            return Err(());
        }
        let part = u64::from(byte & 0x7f).checked_shl(7 * u32::from(self.bytes));
        let sum = part.and_then(|part| self.value.checked_add(part));
        self.value = sum.ok_or(())?;
        self.bytes += 1;
        self.is_open = byte & 0x80 != 0;
        Ok((!self.is_open).then_some(self.value))
    }
}

/// What the peer's encoder sends. It has no table to insert into, because this end announces a
/// capacity of 0.
#[derive(Debug, Clone, Copy, Default)]
pub struct EncoderStream {
    integer: Integer,
}

impl EncoderStream {
    /// Checks the next bytes. Returns how many instructions they complete.
    ///
    /// # Errors
    /// QPACK_ENCODER_STREAM_ERROR, which ends the connection.
    pub fn receive(&mut self, input: &[u8]) -> Result<u32, Violation> {
        let mut instructions = 0;
        for byte in input {
            let capacity = match self.integer.is_open {
                true => self
                    .integer
                    .add(*byte)
                    .map_err(|()| bad_encoder("overlong integer"))?,
                false if byte >> 5 != 1 => {
                    return Err(bad_encoder("an insertion into a table without room"));
                }
                false => self.integer.begin(*byte, 5),
            };
            match capacity {
                None => {}
                Some(0) => instructions += 1,
                Some(_) => return Err(bad_encoder("a table that is larger than allowed")),
            }
        }
        Ok(instructions)
    }
}

/// What the peer's decoder sends. It has nothing to acknowledge, because this end's encoder inserts
/// nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecoderStream {
    integer: Integer,
}

impl DecoderStream {
    /// Checks the next bytes. Returns how many instructions they complete.
    ///
    /// # Errors
    /// QPACK_DECODER_STREAM_ERROR, which ends the connection.
    pub fn receive(&mut self, input: &[u8]) -> Result<u32, Violation> {
        let mut instructions = 0;
        for byte in input {
            let cancelled = match (self.integer.is_open, byte >> 6) {
                (true, _) => self
                    .integer
                    .add(*byte)
                    .map_err(|()| bad_decoder("overlong integer"))?,
                (false, 0b01) => self.integer.begin(*byte, 6),
                (false, 0b00) => return Err(bad_decoder("an insertion that was not made")),
                (false, _) => return Err(bad_decoder("a section without references")),
            };
            // The stream whose response the peer will not read. That changes nothing here.
            instructions += u32::from(cancelled.is_some());
        }
        Ok(instructions)
    }
}

#[cold]
fn bad_encoder(reason: &'static str) -> Violation {
    Violation::new(ErrorCode::QPACK_ENCODER_STREAM_ERROR, reason)
}

#[cold]
fn bad_decoder(reason: &'static str) -> Violation {
    Violation::new(ErrorCode::QPACK_DECODER_STREAM_ERROR, reason)
}
