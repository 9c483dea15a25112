//! Encoding of field sections (RFC 9204 section 4.5) with the static table and literals: equal
//! fields give equal bytes, on any stream of any connection.

use super::table;
use crate::h2::hpack::encode::Literal;
use crate::h2::hpack::{huffman, integer};

/// Appends what a field section begins with: no entry of the dynamic table is needed (section
/// 4.5.1).
pub fn prefix(output: &mut Vec<u8>) {
    output.extend_from_slice(&[0, 0]);
}

/// Appends a field. Its name must be in lower case (RFC 9114 section 4.2). Credentials are marked
/// so that nobody on the way puts them into a table (RFC 9204 section 7.1.3).
pub fn field(name: &[u8], value: &[u8], output: &mut Vec<u8>) {
    let is_secret = Literal::for_field(name) == Literal::NeverIndexed;
    match table::find(name, value) {
        Some((index, true)) if !is_secret => integer::encode(index, 6, 0xc0, output),
        Some((index, _)) => {
            let pattern = if is_secret { 0x70 } else { 0x50 };
            integer::encode(index, 4, pattern, output);
            string(value, 7, 0, output);
        }
        None => {
            let pattern = if is_secret { 0x30 } else { 0x20 };
            string(name, 3, pattern, output);
            string(value, 7, 0, output);
        }
    }
}

/// Appends a string, Huffman-encoded if that is shorter. The bit above the prefix of its length
/// says so (section 4.1.2).
fn string(string: &[u8], prefix_bits: u32, pattern: u8, output: &mut Vec<u8>) {
    let length = huffman::encoded_length(string);
    if length < string.len() {
        integer::encode(length, prefix_bits, pattern | 1 << prefix_bits, output);
        huffman::encode(string, output);
    } else {
        integer::encode(string.len(), prefix_bits, pattern, output);
        output.extend_from_slice(string);
    }
}
