//! Field sections: the examples of RFC 9204, all that is valid without a dynamic table, and what
//! is not.

use proptest::prelude::*;
use protocol::Fields;
use protocol::h2::hpack::Excess;
use protocol::h3::error::ErrorCode;
use protocol::h3::qpack::{DecoderStream, EncoderStream, SectionLimits, decode, encode};

use crate::hex::bytes as hex;

type Pairs = Vec<(String, String)>;

fn decoded(section: &[u8]) -> Result<Pairs, ErrorCode> {
    let mut fields = Fields::default();
    let oversized = decode(section, SectionLimits::default(), &mut fields);
    assert_eq!(oversized.unwrap_or(None), None);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let pairs = fields.iter().map(|(name, value)| (text(name), text(value)));
    oversized
        .map(|_| pairs.collect())
        .map_err(|violation| violation.code)
}

fn encoded(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut output = Vec::new();
    encode::prefix(&mut output);
    for (name, value) in fields {
        encode::field(name.as_bytes(), value.as_bytes(), &mut output);
    }
    output
}

fn pairs(fields: &[(&str, &str)]) -> Pairs {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    fields.iter().map(owned).collect()
}

#[test]
fn the_example_of_rfc_9204_appendix_b_1_is_decoded() {
    let section = hex("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    assert_eq!(decoded(&section), Ok(pairs(&[(":path", "/index.html")])));
}

#[test]
fn each_representation_is_encoded_and_decoded() {
    for (field, expected) in [
        // Indexed.
        ((":method", "GET"), "d1"),
        ((":status", "500"), "ff08"),
        (("x-frame-options", "sameorigin"), "ff23"),
        // A name of the table; the values are shorter without Huffman.
        ((":path", "&"), "51 01 26"),
        (("age", "\u{7f}"), "52 01 7f"),
        (("server", "\u{7f}"), "5f4d 01 7f"),
        // Names that are not in it.
        (("~", "1"), "21 7e 01 31"),
        // Huffman.
        (
            (":authority", "www.example.com"),
            "50 8c f1e3c2e5f23a6ba0ab90f4ff",
        ),
        (
            ("custom-key", "custom-value"),
            "2f01 25a849e95ba97d7f 89 25a849e95bb8e8b4bf",
        ),
        // Credentials.
        (("authorization", "&"), "7f45 01 26"),
        (("cookie", ""), "75 00"),
    ] {
        let section = [hex("0000"), hex(expected)].concat();
        assert_eq!(encoded(&[field]), section, "{field:?}");
        assert_eq!(decoded(&section), Ok(pairs(&[field])));
    }
}

#[test]
fn a_request_is_as_short_as_it_can_be_without_a_dynamic_table() {
    let request = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "test.example"),
        (":path", "/"),
    ];
    let section = encoded(&request);
    assert_eq!(section.len(), 2 + 1 + 1 + 11 + 1);
    assert_eq!(decoded(&section), Ok(pairs(&request)));
}

/// RFC 9204 appendix A, some entries of each part.
#[test]
fn the_static_table_is_that_of_the_rfc() {
    for (index, name, value) in [
        (0, ":authority", ""),
        (1, ":path", "/"),
        (2, "age", "0"),
        (4, "content-length", "0"),
        (14, "set-cookie", ""),
        (15, ":method", "CONNECT"),
        (21, ":method", "PUT"),
        (22, ":scheme", "http"),
        (24, ":status", "103"),
        (25, ":status", "200"),
        (28, ":status", "503"),
        (29, "accept", "*/*"),
        (31, "accept-encoding", "gzip, deflate, br"),
        (35, "access-control-allow-origin", "*"),
        (41, "cache-control", "public, max-age=31536000"),
        (46, "content-type", "application/json"),
        (52, "content-type", "text/html; charset=utf-8"),
        (54, "content-type", "text/plain;charset=utf-8"),
        (
            58,
            "strict-transport-security",
            "max-age=31536000; includesubdomains; preload",
        ),
        (62, "x-xss-protection", "1; mode=block"),
        (63, ":status", "100"),
        (71, ":status", "500"),
        (72, "accept-language", ""),
        (74, "access-control-allow-credentials", "TRUE"),
        (80, "access-control-request-headers", "content-type"),
        (84, "authorization", ""),
        (86, "early-data", "1"),
        (92, "server", ""),
        (95, "user-agent", ""),
        (98, "x-frame-options", "sameorigin"),
    ] {
        let mut section = vec![0, 0];
        match index {
            0..63 => section.push(0xc0 | index),
            _ => section.extend([0xff, index - 63]),
        }
        assert_eq!(decoded(&section), Ok(pairs(&[(name, value)])), "{index}");
    }
}

#[test]
fn what_is_not_valid_without_a_dynamic_table_ends_the_connection() {
    for section in [
        "",
        "00",
        // A required insert count, RFC 9204 appendix B.2.
        "0381 10 11",
        "0100 d1",
        // A negative base.
        "0080 d1",
        // The dynamic table: indexed, by name, and both after the base.
        "0000 80",
        "0000 40 00",
        "0000 10",
        "0000 00 00",
        // Beyond the end of the static table.
        "0000 ff24",
        "0000 5f54 00",
        // Incomplete.
        "0000 ff",
        "0000 51",
        "0000 51 05 61",
        "0000 21",
        "0000 21 61",
        "0000 21 61 02 61",
        // An overlong integer.
        "0000 ff80808080808080",
        // Huffman: EOS and bad padding.
        "0000 51 84 ffffffff",
        "0000 51 81 00",
    ] {
        let bytes = hex(section);
        assert_eq!(
            decoded(&bytes),
            Err(ErrorCode::QPACK_DECOMPRESSION_FAILED),
            "{section}"
        );
    }
}

#[test]
fn a_section_cut_anywhere_is_another_section_or_an_error() {
    let section = encoded(&[
        (":status", "200"),
        ("server", "nginx"),
        ("x-long", "abcdef"),
    ]);
    let whole = decoded(&section).expect("it is valid");
    for end in 0..section.len() {
        match decoded(&section[..end]) {
            Ok(fields) => assert!(fields.len() < whole.len() && whole.starts_with(&fields)),
            Err(code) => assert_eq!(code, ErrorCode::QPACK_DECOMPRESSION_FAILED),
        }
    }
}

#[test]
fn a_list_beyond_the_limits_is_decoded_up_to_them() {
    let limits = SectionLimits {
        list_bytes_max: 105,
        fields_max: 2,
    };
    let mut fields = Fields::default();
    for (given, kept) in [
        (vec![("a", "1"), ("b", "2")], None),
        (
            vec![("a", "1"), ("b", "2"), ("c", "3")],
            Some((2, Excess::Fields)),
        ),
        (
            vec![("a", "1234567890123456789012345678901234"), ("b", "123456")],
            Some((1, Excess::Bytes)),
        ),
    ] {
        let oversized = decode(&encoded(&given), limits, &mut fields);
        assert_eq!(oversized, Ok(kept.map(|(_, excess)| excess)));
        assert_eq!(fields.len(), kept.map_or(given.len(), |(kept, _)| kept));
    }
}

#[test]
fn the_encoder_of_the_peer_may_only_say_that_it_has_no_table() {
    for (bytes, expected) in [
        ("", Ok(0)),
        ("20", Ok(1)),
        ("20 20 20", Ok(3)),
        ("21", Err(())),
        ("3f 00", Err(())),
        ("3f e1 1f", Err(())),
        ("c0 00", Err(())),
        ("41 61 00", Err(())),
        ("00", Err(())),
        ("3f ffffffffffffffffffff", Err(())),
    ] {
        let bytes = hex(bytes);
        let mut stream = EncoderStream::default();
        let whole = stream.receive(&bytes).map_err(|violation| violation.code);
        let code = ErrorCode::QPACK_ENCODER_STREAM_ERROR;
        assert_eq!(whole, expected.map_err(|()| code), "{bytes:02x?}");
        let mut stream = EncoderStream::default();
        let singly: Result<u32, _> = bytes.iter().map(|byte| stream.receive(&[*byte])).sum();
        assert_eq!(singly.map_err(|violation| violation.code), whole);
    }
}

#[test]
fn the_decoder_of_the_peer_may_only_cancel_streams() {
    for (bytes, expected) in [
        ("", Ok(0)),
        ("44", Ok(1)),
        ("7f 00 7f ff 01 40", Ok(3)),
        ("84", Err(())),
        ("01", Err(())),
        ("00", Err(())),
        ("7f 8080808080808080808000", Err(())),
        ("7f ffffffffffffffffff7f", Err(())),
    ] {
        let bytes = hex(bytes);
        let mut stream = DecoderStream::default();
        let whole = stream.receive(&bytes).map_err(|violation| violation.code);
        let code = ErrorCode::QPACK_DECODER_STREAM_ERROR;
        assert_eq!(whole, expected.map_err(|()| code), "{bytes:02x?}");
        let mut stream = DecoderStream::default();
        let singly: Result<u32, _> = bytes.iter().map(|byte| stream.receive(&[*byte])).sum();
        assert_eq!(singly.map_err(|violation| violation.code), whole);
    }
}

proptest! {
    #[test]
    fn any_fields_survive(
        fields in proptest::collection::vec(
            ("[a-z:-]{1,20}", proptest::collection::vec(any::<u8>(), 0..200)),
            0..20,
        ),
    ) {
        let mut section = Vec::new();
        encode::prefix(&mut section);
        for (name, value) in &fields {
            encode::field(name.as_bytes(), value, &mut section);
        }
        let mut found = Fields::default();
        prop_assert_eq!(decode(&section, SectionLimits::default(), &mut found), Ok(None));
        let found: Vec<_> = found.iter().collect();
        let given: Vec<_> = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_slice()))
            .collect();
        prop_assert_eq!(found, given);
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        section in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let _ = decode(&section, SectionLimits::default(), &mut Fields::default());
        let bounded = [&[0, 0], section.as_slice()].concat();
        let _ = decode(&bounded, SectionLimits::default(), &mut Fields::default());
    }
}
