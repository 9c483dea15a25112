//! Bytes as what happens to the decoder of a connection.

pub enum Step<'a> {
    /// A header block arrives.
    Block(&'a [u8]),
    /// The acknowledgement of SETTINGS_HEADER_TABLE_SIZE with this value.
    Setting(u32),
}

/// A byte below 240 is the length of a block, which follows it. With a larger one, two bytes follow
/// that are the size.
pub fn read(mut data: &[u8]) -> impl Iterator<Item = Step<'_>> {
    std::iter::from_fn(move || {
        let (&first, rest) = data.split_first()?;
        if first >= 240 {
            let (size, rest) = rest.split_first_chunk()?;
            data = rest;
            return Some(Step::Setting(u16::from_be_bytes(*size).into()));
        }
        let (block, rest) = rest.split_at(rest.len().min(first.into()));
        data = rest;
        Some(Step::Block(block))
    })
}
