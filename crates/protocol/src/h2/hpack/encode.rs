//! Encoding of header blocks (RFC 7541 section 6) without a dynamic table: equal fields give equal
//! bytes in every block, so that a block can be encoded once and sent any number of times.

use super::table::STATIC;
use super::{huffman, integer};
use crate::h2::settings::Settings;

/// How a field that is not in the static table is represented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal {
    /// Not inserted into the peer's table (section 6.2.2).
    Unindexed,
    /// Not inserted, by nobody on the way: for credentials (section 6.2.3).
    NeverIndexed,
    /// Inserted into the peer's table, though this encoder never refers to it (section 6.2.1).
    Indexed,
}

impl Literal {
    /// Never indexed for fields with credentials, otherwise unindexed (section 7.1.3).
    #[must_use]
    pub fn for_field(name: &[u8]) -> Self {
        match name {
            b"authorization" | b"proxy-authorization" | b"cookie" | b"set-cookie" => {
                Self::NeverIndexed
            }
            _ => Self::Unindexed,
        }
    }
}

/// Appends a field. Its name must be in lower case (RFC 9113 section 8.2).
pub fn field(name: &[u8], value: &[u8], literal: Literal, output: &mut Vec<u8>) {
    let of_name = |entry: &(&[u8], &[u8])| entry.0 == name;
    let index = STATIC.iter().position(of_name).map_or(0, |at| at + 1);
    let same_name = STATIC
        .iter()
        .skip(index.saturating_sub(1))
        .take_while(|e| of_name(e));
    let is_secret = literal == Literal::NeverIndexed;
    if let Some(further) = same_name.enumerate().find(|(_, entry)| entry.1 == value)
        && !is_secret
    {
        integer::encode(index + further.0, 7, 0x80, output);
        return;
    }
    match literal {
        Literal::Unindexed => integer::encode(index, 4, 0x00, output),
        Literal::NeverIndexed => integer::encode(index, 4, 0x10, output),
        Literal::Indexed => integer::encode(index, 6, 0x40, output),
    }
    if index == 0 {
        string(name, output);
    }
    string(value, output);
}

/// Appends a string, Huffman-encoded if that is shorter.
fn string(string: &[u8], output: &mut Vec<u8>) {
    let length = huffman::encoded_length(string);
    if length < string.len() {
        integer::encode(length, 7, 0x80, output);
        huffman::encode(string, output);
    } else {
        integer::encode(string.len(), 7, 0x00, output);
        output.extend_from_slice(string);
    }
}

/// What an encoder owes the peer's decoder: a peer that has announced a smaller table must be told
/// that its table is smaller now, even if it is never used (RFC 7541 section 4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSize {
    capacity: u32,
    is_due: bool,
}

impl TableSize {
    /// The state at the beginning of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            capacity: Settings::INITIAL.header_table_size,
            is_due: false,
        }
    }

    /// The peer has sent SETTINGS_HEADER_TABLE_SIZE.
    pub fn limit(&mut self, bytes: u32) {
        if bytes < self.capacity {
            self.capacity = bytes;
            self.is_due = true;
        }
    }

    /// The block with what it must begin with. Almost always that is nothing, and the result is
    /// `None`.
    #[inline]
    #[must_use]
    pub fn begin_block(&mut self, block: &[u8]) -> Option<Vec<u8>> {
        std::mem::take(&mut self.is_due).then(|| {
            let mut with_update = Vec::new();
            integer::encode(self.capacity as usize, 5, 0x20, &mut with_update);
            with_update.extend_from_slice(block);
            with_update
        })
    }
}

impl Default for TableSize {
    fn default() -> Self {
        Self::new()
    }
}
