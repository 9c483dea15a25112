//! Integers of variable length (RFC 9000 section 16): the two highest bits of the first byte tell
//! the length, 1, 2, 4 or 8 bytes.

/// The largest integer.
pub const MAX: u64 = (1 << 62) - 1;

/// The length of the integer that begins with this byte.
#[must_use]
pub fn length(first: u8) -> usize {
    1 << (first >> 6)
}

/// Reads an integer from the beginning of `input` and removes it. `None` if it is incomplete.
#[inline]
pub fn take(input: &mut &[u8]) -> Option<u64> {
    let (bytes, rest) = input.split_at_checked(length(*input.first()?))?;
    *input = rest;
    let folded = bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte));
    // The two bits of the length are above the value.
    Some(folded & (u64::MAX >> (66 - 8 * bytes.len())))
}

/// Appends an integer, which is at most [`MAX`], in its shortest form.
pub fn append(value: u64, output: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    match value {
        0..=0x3f => output.push(bytes[7]),
        0x40..=0x3fff => output.extend_from_slice(&[0x40 | bytes[6], bytes[7]]),
        0x4000..=0x3fff_ffff => {
            output.push(0x80 | bytes[4]);
            output.extend_from_slice(&bytes[5..]);
        }
        _ => {
            output.push(0xc0 | bytes[0]);
            output.extend_from_slice(&bytes[1..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_rfc_9000_appendix_a_1() {
        let examples: [(&[u8], u64); 5] = [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in examples {
            let mut input = bytes;
            assert_eq!(take(&mut input), Some(value));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn every_length_survives_and_is_incomplete_without_its_last_byte() {
        let edges = [6, 14, 30, 62].map(|bits| 1_u64 << bits);
        for value in edges.into_iter().flat_map(|edge| [edge - 1, edge]) {
            if value > MAX {
                continue;
            }
            let mut bytes = Vec::new();
            append(value, &mut bytes);
            assert_eq!(take(&mut bytes.as_slice()), Some(value));
            let mut short = &bytes[..bytes.len() - 1];
            assert_eq!(take(&mut short), None, "{value}");
        }
        assert_eq!(take(&mut [].as_slice()), None);
    }
}
