//! The buckets of a histogram that have samples, in few bytes.

use super::PARTS;

/// Buckets of one width, except for the narrowest, of which there are twice as many.
const OF_ONE_WIDTH: u64 = PARTS as u64 / 2;

/// Buckets in ascending order with their counts. Each is written as the number of buckets from the
/// one before to it, and all numbers have seven bits in each byte, the lowest first (LEB128). So
/// neighbours take two bytes each, however wide they are.
#[derive(Debug, Clone)]
pub(super) struct PackedBuckets(Box<[u8]>);

impl PackedBuckets {
    pub(super) fn of(values: impl Iterator<Item = (u64, u64)>) -> Self {
        let (mut bytes, mut last) = (Vec::new(), 0);
        for (value, count) in values {
            let number = number_of(value);
            write(&mut bytes, number - last);
            write(&mut bytes, count);
            last = number;
        }
        Self(bytes.into())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut rest, mut number) = (&*self.0, 0);
        std::iter::from_fn(move || {
            number += read(&mut rest)?;
            Some((value_of(number), read(&mut rest)?))
        })
    }

    /// The memory that they take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// The number of the bucket of a value, from 0. The first `PARTS` buckets are one wide, and then
/// each `OF_ONE_WIDTH` are twice as wide as those before.
fn number_of(value: u64) -> u64 {
    let bits = u64::BITS - value.leading_zeros();
    let width_bits = bits.saturating_sub(PARTS.ilog2());
    u64::from(width_bits) * OF_ONE_WIDTH + (value >> width_bits)
}

/// The lowest value of the bucket with this number.
fn value_of(number: u64) -> u64 {
    let width_bits = (number / OF_ONE_WIDTH).saturating_sub(1);
    (number - width_bits * OF_ONE_WIDTH) << width_bits
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_has_a_number_and_neighbours_follow_each_other() {
        let (mut value, mut number) = (0_u64, 0);
        while value < 1 << 50 {
            assert_eq!((number_of(value), value_of(number)), (number, value));
            let end = super::super::bucket_end(value);
            assert_eq!(number_of(end), number, "{value}..={end}");
            (value, number) = (end + 1, number + 1);
        }
    }
}
