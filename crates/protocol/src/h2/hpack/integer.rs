//! Integers with a prefix of 1 to 8 bits (RFC 7541 section 5.1).

/// A 32-bit number takes at most five bytes after the prefix.
const CONTINUATION_BYTES_MAX: u32 = 5;

/// Reads an integer from the beginning of `input` and removes it. `None` if it is incomplete, above
/// 2^32-1, or longer than such a number can be.
#[inline]
pub(crate) fn decode(input: &mut &[u8], prefix_bits: u32) -> Option<u32> {
    let (&first, rest) = input.split_first()?;
    *input = rest;
    let prefix_max = (1 << prefix_bits) - 1;
    let prefix = u32::from(first) & prefix_max;
    if prefix < prefix_max {
        return Some(prefix);
    }
    decode_long(input, prefix)
}

fn decode_long(input: &mut &[u8], prefix: u32) -> Option<u32> {
    let mut value = u64::from(prefix);
    for position in 0..CONTINUATION_BYTES_MAX {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        value += u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return u32::try_from(value).ok();
        }
    }
    None
}

/// Appends an integer. `pattern` has the bits above the prefix.
pub(crate) fn encode(value: usize, prefix_bits: u32, pattern: u8, output: &mut Vec<u8>) {
    let prefix_max = (1 << prefix_bits) - 1;
    if value < prefix_max {
        output.push(pattern | low_byte(value));
        return;
    }
    output.push(pattern | low_byte(prefix_max));
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        output.push(low_byte(rest) | 0x80);
        rest >>= 7;
    }
    output.push(low_byte(rest));
}

fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: usize, prefix_bits: u32) -> Vec<u8> {
        let mut output = Vec::new();
        encode(value, prefix_bits, 0, &mut output);
        output
    }

    #[test]
    fn the_examples_of_rfc_7541_appendix_c_1() {
        assert_eq!(encoded(10, 5), [0b01010]);
        assert_eq!(encoded(1337, 5), [0b11111, 0b1001_1010, 0b0000_1010]);
        assert_eq!(encoded(42, 8), [0b0010_1010]);
        assert_eq!(decode(&mut [0b1110_1010].as_slice(), 5), Some(10));
        let mut input = [0b1111_1111, 0b1001_1010, 0b0000_1010, 7].as_slice();
        assert_eq!(decode(&mut input, 5), Some(1337));
        assert_eq!(input, [7], "what follows is left");
    }

    #[test]
    fn every_integer_survives_with_every_prefix_and_is_incomplete_without_its_last_byte() {
        let around_powers = (0..32).flat_map(|bit| [(1_u32 << bit) - 1, 1 << bit]);
        for value in around_powers.chain([u32::MAX]) {
            for prefix_bits in 1..=8 {
                let bytes = encoded(value as usize, prefix_bits);
                assert_eq!(decode(&mut bytes.as_slice(), prefix_bits), Some(value));
                let short = &bytes[..bytes.len() - 1];
                assert_eq!(
                    decode(&mut &*short, prefix_bits),
                    None,
                    "{value} {prefix_bits}"
                );
            }
        }
    }

    #[test]
    fn integers_that_are_too_large_or_too_long_are_refused() {
        let above = encoded(u32::MAX as usize + 1, 5);
        assert_eq!(decode(&mut above.as_slice(), 5), None);
        let padded = [0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00];
        assert_eq!(decode(&mut padded.as_slice(), 5), None);
        assert_eq!(
            decode(&mut padded[1..].as_ref(), 8),
            Some(0x80),
            "no prefix of ones"
        );
        let endless = [0xff; 100];
        assert_eq!(decode(&mut endless.as_slice(), 7), None);
    }
}
