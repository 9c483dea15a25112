//! Decoding of header blocks (RFC 7541 section 3.2 and 6).

use super::table::{self, DynamicTable, STATIC};
use super::{huffman, integer};
use crate::Fields;
use crate::h2::error::{ErrorCode, Violation};
use crate::h2::settings::Settings;

/// Limits beyond which the fields of a block are left out ([`Effect::oversized`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size of the list by RFC 9113 section 6.5.2: names, values and 32 bytes for each field.
    pub list_bytes_max: usize,
    /// The largest number of fields.
    pub fields_max: usize,
}

impl Default for Limits {
    /// The limits for HTTP/1.1: 80 KiB, 256 fields.
    fn default() -> Self {
        let h1 = crate::h1::Limits::default();
        Self {
            list_bytes_max: h1.head_bytes_max,
            fields_max: h1.header_count_max,
        }
    }
}

/// The limit that a list of fields exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// [`Limits::list_bytes_max`].
    Bytes,
    /// [`Limits::fields_max`].
    Fields,
}

/// What a block did, besides yielding fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effect {
    /// The list exceeds a limit: the first one that it exceeds. Its fields up to the limit were
    /// decoded, and all of its insertions were made, so that the connection may go on.
    pub oversized: Option<Excess>,
    /// It refers to entries of the dynamic table: its meaning depends on earlier blocks.
    pub referred: bool,
    /// It changes the size of the dynamic table.
    pub resized: bool,
    /// The size of all entries that it inserts into the dynamic table (RFC 7541 section 4.1).
    pub inserted: usize,
}

/// The decoder of one direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    table: DynamicTable,
    /// The size of the dynamic table that this end allows.
    capacity_max: usize,
    /// The next block must begin with a size no larger than this.
    resize_due: Option<usize>,
}

impl Decoder {
    /// A decoder at the beginning of a connection, with a table of 4096 bytes.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let capacity = Settings::INITIAL.header_table_size as usize;
        Self {
            limits,
            table: DynamicTable::new(capacity),
            capacity_max: capacity,
            resize_due: None,
        }
    }

    /// The peer has acknowledged SETTINGS_HEADER_TABLE_SIZE. If its table was larger, its next
    /// block must begin with a new size (RFC 7541 section 4.2).
    pub fn set_capacity_max(&mut self, bytes: u32) {
        let bytes = bytes as usize;
        self.capacity_max = bytes;
        if bytes < self.resize_due.unwrap_or_else(|| self.table.capacity()) {
            self.resize_due = Some(bytes);
        }
    }

    /// Whether the next block must begin with a new size of the table.
    #[must_use]
    pub fn is_resize_due(&self) -> bool {
        self.resize_due.is_some()
    }

    /// The size of the dynamic table that the peer has chosen.
    pub(in crate::h2) fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Decodes a complete block into `fields`, which is cleared first.
    ///
    /// # Errors
    /// COMPRESSION_ERROR, which ends the connection: the table is no longer what the peer thinks.
    pub fn decode(&mut self, block: &[u8], fields: &mut Fields) -> Result<Effect, Violation> {
        fields.clear();
        let mut input = block;
        let mut effect = self.read_sizes(&mut input)?;
        let mut list_bytes = 0;
        while let Some(&first) = input.first() {
            let inserts = match first {
                0x80.. => {
                    let index = read_integer(&mut input, 7)?;
                    let (name, value) = self.field(index, &mut effect)?;
                    list_bytes += table::size(name, value);
                    match self.limits.excess(fields.len() + 1, list_bytes) {
                        None => fields.push(name, value),
                        excess => effect.oversized = effect.oversized.or(excess),
                    }
                    continue;
                }
                0x40.. => true,
                0x20.. => return Err(bad("size of the dynamic table changed within a block")),
                _ => false,
            };
            let index = read_integer(&mut input, if inserts { 6 } else { 4 })?;
            let buffer = fields.buffer();
            let begin = buffer.len();
            match index {
                0 => read_string(&mut input, buffer)?,
                _ => buffer.extend_from_slice(self.field(index, &mut effect)?.0),
            }
            let name_end = buffer.len();
            read_string(&mut input, buffer)?;
            let (name, value) = buffer[begin..].split_at(name_end - begin);
            let size = table::size(name, value);
            if inserts {
                self.table.insert(name, value);
                effect.inserted += size;
            }
            list_bytes += size;
            match self.limits.excess(fields.len() + 1, list_bytes) {
                None => fields.push_buffered(name_end),
                excess => {
                    fields.buffer().truncate(begin);
                    effect.oversized = effect.oversized.or(excess);
                }
            }
        }
        Ok(effect)
    }

    /// Reads the sizes of the table at the beginning of a block.
    fn read_sizes(&mut self, input: &mut &[u8]) -> Result<Effect, Violation> {
        let mut effect = Effect::default();
        while let Some(0x20..0x40) = input.first() {
            let size = read_integer(input, 5)?;
            // The smallest size comes first, then the final one (section 4.2).
            if size > self.resize_due.take().unwrap_or(self.capacity_max) {
                return Err(bad("dynamic table larger than SETTINGS_HEADER_TABLE_SIZE"));
            }
            self.table.set_capacity(size);
            effect.resized = true;
        }
        match self.resize_due {
            Some(_) => Err(bad(
                "dynamic table not reduced to SETTINGS_HEADER_TABLE_SIZE",
            )),
            None => Ok(effect),
        }
    }

    /// The field with this index in both tables.
    #[inline]
    fn field(&self, index: usize, effect: &mut Effect) -> Result<(&[u8], &[u8]), Violation> {
        let Some(position) = index.checked_sub(1) else {
            return Err(bad("index 0"));
        };
        if let Some(field) = STATIC.get(position) {
            return Ok(*field);
        }
        effect.referred = true;
        self.table
            .get(position - STATIC.len())
            .ok_or_else(|| bad("index beyond the end of the dynamic table"))
    }
}

impl Limits {
    /// The limit that a list with so many fields, and of this size, exceeds.
    pub(crate) fn excess(&self, fields: usize, list_bytes: usize) -> Option<Excess> {
        if list_bytes > self.list_bytes_max {
            return Some(Excess::Bytes);
        }
        (fields > self.fields_max).then_some(Excess::Fields)
    }
}

#[inline]
fn read_integer(input: &mut &[u8], prefix_bits: u32) -> Result<usize, Violation> {
    integer::decode(input, prefix_bits)
        .map(|value| value as usize)
        .ok_or_else(|| bad("incomplete or overlong integer"))
}

/// Appends a string. A string cannot be longer than its block allows: eight fifths of its bytes.
fn read_string(input: &mut &[u8], output: &mut Vec<u8>) -> Result<(), Violation> {
    let is_huffman = input.first().is_some_and(|first| first & 0x80 != 0);
    let length = read_integer(input, 7)?;
    let Some((string, rest)) = input.split_at_checked(length) else {
        return Err(bad("string beyond the end of the block"));
    };
    *input = rest;
    if is_huffman {
        huffman::decode(string, output).map_err(|error| match error {
            huffman::HuffmanError::Eos => bad("EOS in a Huffman-encoded string"),
            huffman::HuffmanError::Padding => bad("bad padding of a Huffman-encoded string"),
        })
    } else {
        output.extend_from_slice(string);
        Ok(())
    }
}

#[cold]
fn bad(reason: &'static str) -> Violation {
    Violation::connection(ErrorCode::COMPRESSION_ERROR, reason)
}
