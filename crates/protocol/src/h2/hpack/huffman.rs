//! The Huffman code for strings (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive numbers in the order of their
//! symbols, and follow on the shorter ones. The lengths therefore determine all codes, and
//! everything here is computed from them when the program is compiled.

/// Bits of the code of each byte and, last, of EOS.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

const SYMBOLS: usize = 257;
const LENGTH_MAX: usize = 30;

/// Codes of up to this many bits, which all common characters have, are found in a table.
const SHORT_BITS: u32 = 8;

/// Why a string is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HuffmanError {
    /// It contains the code of EOS.
    Eos,
    /// Its last bits are no code, and not up to seven ones.
    Padding,
}

/// Codes of one length.
#[derive(Clone, Copy)]
struct Group {
    /// The first code, in the highest bits.
    first: u32,
    /// The first code of a longer group, in the highest bits. All codes below it end here.
    end: u64,
    /// Where the symbols of the group begin in `Code::sorted`.
    at: usize,
}

struct Code {
    /// The code of each symbol, in the lowest bits.
    codes: [u32; SYMBOLS],
    /// Symbols in the order of their codes.
    sorted: [u16; SYMBOLS],
    groups: [Group; LENGTH_MAX + 1],
    /// Symbol and length of the short code that a byte begins with; length 0 if it is a long one.
    short: [(u8, u8); 1 << SHORT_BITS],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        codes: [0; SYMBOLS],
        sorted: [0; SYMBOLS],
        groups: [Group {
            first: 0,
            end: 0,
            at: 0,
        }; LENGTH_MAX + 1],
        short: [(0, 0); 1 << SHORT_BITS],
    };
    // The next code, in the highest bits of 32.
    let mut next: u64 = 0;
    let mut at = 0;
    let mut length = 1;
    while length <= LENGTH_MAX {
        code.groups[length].first = next as u32;
        code.groups[length].at = at;
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                code.codes[symbol] = (next >> (32 - length)) as u32;
                code.sorted[at] = symbol as u16;
                if length <= SHORT_BITS as usize {
                    let begin = (next >> (32 - SHORT_BITS)) as usize;
                    let mut byte = begin;
                    while byte < begin + (1 << (SHORT_BITS as usize - length)) {
                        code.short[byte] = (symbol as u8, length as u8);
                        byte += 1;
                    }
                }
                at += 1;
                next += 1 << (32 - length);
            }
            symbol += 1;
        }
        code.groups[length].end = next;
        length += 1;
    }
    assert!(next == 1 << 32, "every sequence of bits begins with a code");
    code
}

/// Appends the bytes of an encoded string.
///
/// # Errors
/// If it is not valid. `output` then has the bytes before the error.
pub(crate) fn decode(mut input: &[u8], output: &mut Vec<u8>) -> Result<(), HuffmanError> {
    // No code is shorter than five bits.
    output.reserve(input.len() * 8 / 5);
    // The next bits, highest first, and how many of them are from the input.
    let (mut bits, mut count) = (0_u64, 0_u32);
    loop {
        if count <= 32 {
            if let Some((word, rest)) = input.split_first_chunk() {
                bits |= u64::from(u32::from_be_bytes(*word)) << (32 - count);
                count += 32;
                input = rest;
            } else if let Some((byte, rest)) = input.split_first() {
                bits |= u64::from(*byte) << (56 - count);
                count += 8;
                input = rest;
                continue;
            } else if count == 0 {
                return Ok(());
            }
        }
        let (symbol, length) = first_symbol(bits, count);
        if length > count {
            // The rest of the input is no code. Seven ones are the beginning of EOS.
            let is_padding = count < 8 && bits >> (64 - count) == (1 << count) - 1;
            return if is_padding {
                Ok(())
            } else {
                Err(HuffmanError::Padding)
            };
        }
        let Ok(byte) = u8::try_from(symbol) else {
            return Err(HuffmanError::Eos);
        };
        output.push(byte);
        bits <<= length;
        count -= length;
    }
}

/// The symbol that the bits begin with, and its length. Missing bits count as ones, so that padding
/// is the beginning of EOS.
#[inline]
fn first_symbol(bits: u64, count: u32) -> (u16, u32) {
    let (symbol, length) = CODE.short[(bits >> (64 - SHORT_BITS)) as usize];
    if length != 0 && u32::from(length) <= count {
        return (u16::from(symbol), u32::from(length));
    }
    let ones = u64::MAX.checked_shr(count).unwrap_or(0);
    let bits = ((bits | ones) >> 32) as u32;
    let is_here = |group: &Group| u64::from(bits) < group.end;
    let length = CODE.groups.iter().position(is_here).unwrap_or(LENGTH_MAX);
    let group = &CODE.groups[length];
    let within = (bits - group.first) >> (32 - length);
    (CODE.sorted[group.at + within as usize], length as u32)
}

/// Bytes that `encode` appends for a string.
pub(crate) fn encoded_length(string: &[u8]) -> usize {
    let bits: usize = string
        .iter()
        .map(|byte| usize::from(LENGTHS[usize::from(*byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends an encoded string.
pub(crate) fn encode(string: &[u8], output: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0_u32);
    for byte in string {
        let symbol = usize::from(*byte);
        bits = bits << LENGTHS[symbol] | u64::from(CODE.codes[symbol]);
        count += u32::from(LENGTHS[symbol]);
        while count >= 8 {
            count -= 8;
            output.push((bits >> count).to_le_bytes()[0]);
        }
    }
    if count > 0 {
        let ones = 0xff_u64 >> count;
        output.push((bits << (8 - count) | ones).to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, HuffmanError> {
        let mut output = Vec::new();
        decode(input, &mut output).map(|()| output)
    }

    fn encoded(string: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        encode(string, &mut output);
        assert_eq!(output.len(), encoded_length(string));
        output
    }

    /// Reads bit by bit and compares with all codes.
    fn decoded_slowly(input: &[u8]) -> Result<Vec<u8>, HuffmanError> {
        let (mut code, mut length, mut output) = (0_u32, 0_u8, Vec::new());
        for bit in input
            .iter()
            .flat_map(|byte| (0..8).map(move |at| byte >> (7 - at) & 1))
        {
            (code, length) = (code << 1 | u32::from(bit), length + 1);
            let found = (0..SYMBOLS)
                .find(|symbol| LENGTHS[*symbol] == length && CODE.codes[*symbol] == code);
            match found.map(u8::try_from) {
                Some(Ok(byte)) => output.push(byte),
                Some(Err(_)) => return Err(HuffmanError::Eos),
                None => continue,
            }
            (code, length) = (0, 0);
        }
        if length < 8 && code == (1 << length) - 1 {
            Ok(output)
        } else {
            Err(HuffmanError::Padding)
        }
    }

    #[test]
    fn the_codes_are_those_of_rfc_7541_appendix_b() {
        let table = [
            (0, 0x1ff8, 13),
            (b'\n', 0x3fff_fffc, 30),
            (b' ', 0x14, 6),
            (b'0', 0x0, 5),
            (b't', 0x9, 5),
            (b'X', 0xfc, 8),
            (b'Z', 0xfd, 8),
            (b'\\', 0x7fff0, 19),
            (b'~', 0x1ffd, 13),
            (199, 0x1ffffec, 25),
            (255, 0x3ffffee, 26),
        ];
        for (symbol, code, length) in table {
            let symbol = usize::from(symbol);
            assert_eq!(
                (CODE.codes[symbol], LENGTHS[symbol]),
                (code, length),
                "{symbol}"
            );
        }
        assert_eq!(CODE.codes[SYMBOLS - 1], 0x3fff_ffff);
    }

    #[test]
    fn padding_is_at_most_seven_ones() {
        // 'a' is 00011, '0' is 00000, '&' is 11111000.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        assert_eq!(decoded(&[0b0001_1110]), Err(HuffmanError::Padding));
        assert_eq!(decoded(&[0b0001_1011]), Err(HuffmanError::Padding));
        assert_eq!(decoded(&[0b0001_1000]), Err(HuffmanError::Padding));
        assert_eq!(decoded(&[0b1111_1000]), Ok(b"&".to_vec()));
        assert_eq!(
            decoded(&[0b1111_1000, 0xff]),
            Err(HuffmanError::Padding),
            "eight ones"
        );
        assert_eq!(decoded(&[0xff]), Err(HuffmanError::Padding));
        assert_eq!(
            decoded(&[0b0001_1111, 0xff]),
            Err(HuffmanError::Padding),
            "eleven ones"
        );
        assert_eq!(decoded(&[]), Ok(Vec::new()));
    }

    #[test]
    fn the_code_of_eos_is_an_error_even_with_a_string_around_it() {
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(HuffmanError::Eos));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), Err(HuffmanError::Eos));
        let eos_after_a = [0b0001_1111, 0xff, 0xff, 0xff, 0b1110_0000];
        assert_eq!(decoded(&eos_after_a), Err(HuffmanError::Eos));
    }

    proptest! {
        #[test]
        fn every_string_survives(string in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(decoded(&encoded(&string)), Ok(string));
        }

        #[test]
        fn any_bytes_are_decoded_as_bit_by_bit(
            input in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..20)
        ) {
            prop_assert_eq!(decoded(&input), decoded_slowly(&input));
        }
    }
}
