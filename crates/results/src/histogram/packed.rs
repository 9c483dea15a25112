//! The buckets of a histogram that have samples, in few bytes.

/// Values in ascending order with their counts. Each value is written as its distance from the one
/// before, and all numbers have seven bits in each byte, the lowest first (LEB128).
#[derive(Debug, Clone)]
pub(super) struct Packed(Box<[u8]>);

impl Packed {
    pub(super) fn of(values: impl Iterator<Item = (u64, u64)>) -> Self {
        let (mut bytes, mut last) = (Vec::new(), 0);
        for (value, count) in values {
            write(&mut bytes, value - last);
            write(&mut bytes, count);
            last = value;
        }
        Self(bytes.into())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut rest, mut value) = (&*self.0, 0);
        std::iter::from_fn(move || {
            value += read(&mut rest)?;
            Some((value, read(&mut rest)?))
        })
    }

    /// The memory that they take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.len()
    }
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
