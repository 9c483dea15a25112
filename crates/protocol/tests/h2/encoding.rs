//! What the encoder of header blocks produces.

use proptest::prelude::*;
use protocol::h2::hpack::encode::{Literal, TableSize, field};
use protocol::h2::hpack::{Decoder, Limits};

use crate::blocks::decode;
use crate::hex::bytes;

fn encoded(name: &str, value: &str, literal: Literal) -> Vec<u8> {
    let mut output = Vec::new();
    field(name.as_bytes(), value.as_bytes(), literal, &mut output);
    output
}

#[test]
fn a_field_of_the_static_table_is_one_byte() {
    let table = [
        (":method", "GET", 2),
        (":method", "POST", 3),
        (":path", "/index.html", 5),
        (":status", "404", 13),
        ("accept-encoding", "gzip, deflate", 16),
        ("accept", "", 19),
        ("www-authenticate", "", 61),
    ];
    for (name, value, index) in table {
        assert_eq!(
            encoded(name, value, Literal::Unindexed),
            [0x80 | index],
            "{name}: {value}"
        );
    }
}

#[test]
fn a_literal_has_the_static_name_with_the_lowest_index_and_the_requested_representation() {
    let authority = "8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff";
    for (first, literal) in [
        ("01", Literal::Unindexed),
        ("11", Literal::NeverIndexed),
        ("41", Literal::Indexed),
    ] {
        let expected = bytes(&format!("{first}{authority}"));
        assert_eq!(encoded(":authority", "www.example.com", literal), expected);
    }
    assert_eq!(encoded(":method", "PUT", Literal::Unindexed)[0], 2);
    assert_eq!(
        encoded("cookie", "", Literal::NeverIndexed)[..2],
        [0x1f, 32 - 15]
    );
}

#[test]
fn a_string_is_huffman_encoded_only_if_that_is_shorter() {
    let shorter = encoded("x", "aaaaaaaa", Literal::Unindexed);
    assert_eq!(shorter[3], 0x80 | 5);
    let longer = encoded("x", "\u{1}\u{2}", Literal::Unindexed);
    assert_eq!(longer, [0x00, 0x01, b'x', 0x02, 1, 2]);
}

#[test]
fn credentials_are_never_indexed() {
    for name in [
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
    ] {
        assert_eq!(Literal::for_field(name.as_bytes()), Literal::NeverIndexed);
    }
    assert_eq!(Literal::for_field(b"accept"), Literal::Unindexed);
}

#[test]
fn a_smaller_table_of_the_peer_is_confirmed_once_at_the_beginning_of_the_next_block() {
    let mut size = TableSize::new();
    let mut begun = |limit: Option<u32>| {
        limit.into_iter().for_each(|bytes| size.limit(bytes));
        size.begin_block(b"block")
    };
    assert_eq!(begun(None), None);
    assert_eq!(begun(Some(65_536)), None);
    assert_eq!(begun(Some(4096)), None);
    assert_eq!(begun(Some(100)).as_deref(), Some(&b"\x3f\x45block"[..]));
    assert_eq!(begun(None), None);
    assert_eq!(
        begun(Some(4096)),
        None,
        "the table stays as small as it was"
    );
    assert_eq!(begun(Some(0)).as_deref(), Some(&b"\x20block"[..]));
}

#[test]
fn a_decoder_with_a_smaller_table_accepts_what_the_encoder_sends() {
    let mut decoder = Decoder::new(Limits::default());
    let mut size = TableSize::new();
    for limit in [4096, 10, 5000, 9, 0] {
        size.limit(limit);
        decoder.set_capacity_max(limit);
        let mut block = Vec::new();
        field(b":status", b"200", Literal::Unindexed, &mut block);
        let block = size.begin_block(&block).unwrap_or(block);
        decode(&mut decoder, &block).expect("a valid block");
    }
}

proptest! {
    #[test]
    fn every_list_of_fields_survives_in_every_representation_and_block(
        fields in prop::collection::vec(
            (any::<(u8, Vec<u8>)>(), prop::collection::vec(any::<u8>(), 0..300)), 0..10)
    ) {
        let mut decoder = Decoder::new(Limits::default());
        let mut block = Vec::new();
        for ((how, name), value) in &fields {
            let name = match how / 3 {
                0..30 => b"accept".as_slice(),
                30..50 => b":status",
                _ => name,
            };
            let how = [Literal::Unindexed, Literal::NeverIndexed, Literal::Indexed][*how as usize % 3];
            field(name, value, how, &mut block);
        }
        let first = decode(&mut decoder, &block).expect("a valid block").0;
        prop_assert_eq!(first.len(), fields.len());
        for ((_, value), (_, given)) in first.iter().zip(&fields) {
            prop_assert!(value.chars().eq(given.iter().map(|byte| char::from(*byte))));
        }
        let again = decode(&mut decoder, &block).expect("a valid block").0;
        prop_assert_eq!(first, again);
    }
}
