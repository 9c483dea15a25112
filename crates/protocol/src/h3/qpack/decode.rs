//! Decoding of field sections (RFC 9204 section 4.5).

use super::SectionLimits;
use super::table::STATIC;
use crate::Fields;
use crate::h2::hpack::{Excess, huffman, integer, table};
use crate::h3::error::{ErrorCode, Violation};

/// Decodes a complete field section into `fields`, which is cleared first. Returns the first limit
/// that the list exceeds; its fields up to the limit were decoded then.
///
/// # Errors
/// QPACK_DECOMPRESSION_FAILED, which ends the connection. A reference to the dynamic table is such
/// an error, because there is none.
pub fn decode(
    section: &[u8],
    limits: SectionLimits,
    fields: &mut Fields,
) -> Result<Option<Excess>, Violation> {
    fields.clear();
    let mut input = section;
    read_prefix(&mut input)?;
    let (mut list_bytes, mut oversized) = (0, None);
    while let Some(&first) = input.first() {
        let buffer = fields.buffer();
        let begin = buffer.len();
        let name_end = match first {
            // Indexed field line: 1, T, index.
            0x80.. => {
                let (name, value) = static_entry(first & 0x40 != 0, 6, &mut input)?;
                buffer.extend_from_slice(name);
                buffer.extend_from_slice(value);
                begin + name.len()
            }
            // Literal field line with name reference: 01, N, T, index, value.
            0x40.. => {
                let (name, _) = static_entry(first & 0x10 != 0, 4, &mut input)?;
                buffer.extend_from_slice(name);
                read_string(&mut input, 7, buffer)?;
                begin + name.len()
            }
            // Literal field line with literal name: 001, N, name, value.
            0x20.. => {
                read_string(&mut input, 3, buffer)?;
                let name_end = buffer.len();
                read_string(&mut input, 7, buffer)?;
                name_end
            }
            // With a post-base index, of which the static table has none.
            _ => return Err(dynamic()),
        };
        let (name, value) = buffer[begin..].split_at(name_end - begin);
        list_bytes += table::size(name, value);
        match limits.excess(fields.len() + 1, list_bytes) {
            None => fields.push_buffered(name_end),
            excess => {
                fields.buffer().truncate(begin);
                oversized = oversized.or(excess);
            }
        }
    }
    Ok(oversized)
}

/// Section 4.5.1. Without a dynamic table the required insert count is 0, and a base below that is
/// invalid.
fn read_prefix(input: &mut &[u8]) -> Result<(), Violation> {
    if read_integer(input, 8)? != 0 {
        return Err(dynamic());
    }
    let is_negative = input.first().is_some_and(|first| first & 0x80 != 0);
    read_integer(input, 7)?;
    if is_negative {
        Err(bad("a negative base"))
    } else {
        Ok(())
    }
}

/// The entry of the static table that an index stands for.
fn static_entry(
    is_static: bool,
    prefix_bits: u32,
    input: &mut &[u8],
) -> Result<(&'static [u8], &'static [u8]), Violation> {
    let index = read_integer(input, prefix_bits)?;
    if !is_static {
        return Err(dynamic());
    }
    let entry = STATIC.get(index as usize).copied();
    entry.ok_or_else(|| bad("index beyond the end of the static table"))
}

fn read_integer(input: &mut &[u8], prefix_bits: u32) -> Result<u32, Violation> {
    integer::decode(input, prefix_bits).ok_or_else(|| bad("incomplete or overlong integer"))
}

/// Appends a string, the bit above whose prefix says that it is Huffman-encoded. It cannot be
/// longer than its section allows: eight fifths of its bytes.
fn read_string(input: &mut &[u8], prefix_bits: u32, output: &mut Vec<u8>) -> Result<(), Violation> {
    let huffman_bit = 1 << prefix_bits;
    let is_huffman = input.first().is_some_and(|first| first & huffman_bit != 0);
    let length = read_integer(input, prefix_bits)? as usize;
    let Some((string, rest)) = input.split_at_checked(length) else {
        return Err(bad("string beyond the end of the field section"));
    };
    *input = rest;
    if !is_huffman {
        output.extend_from_slice(string);
        return Ok(());
    }
    huffman::decode(string, output).map_err(|error| match error {
        huffman::HuffmanError::Eos => bad("EOS in a Huffman-encoded string"),
        huffman::HuffmanError::Padding => bad("bad padding of a Huffman-encoded string"),
    })
}

#[cold]
fn dynamic() -> Violation {
    bad("a reference to the dynamic table, which has no room")
}

#[cold]
fn bad(reason: &'static str) -> Violation {
    Violation::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, reason)
}
