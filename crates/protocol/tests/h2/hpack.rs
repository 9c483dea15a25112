//! What the decoder of header blocks refuses, limits and reports.

use proptest::prelude::*;
use protocol::h2::error::ErrorCode;
use protocol::h2::hpack::{Decoder, ENTRY_OVERHEAD, Effect, Excess, Limits};

use crate::blocks::{Block, NEWEST, any_block, decode, like_nginx};

fn decoder() -> Decoder {
    Decoder::new(Limits::default())
}

#[track_caller]
fn refused(decoder: &mut Decoder, block: &[u8], reason: &str) {
    let violation = decode(decoder, block).expect_err("a bad block");
    assert_eq!(violation.code, ErrorCode::COMPRESSION_ERROR);
    assert_eq!((violation.stream, violation.reason), (None, reason));
}

#[test]
fn every_malformed_block_is_a_compression_error_of_the_connection() {
    let integer = "incomplete or overlong integer";
    let beyond = "index beyond the end of the dynamic table";
    let string = "string beyond the end of the block";
    let table: [(&[u8], &str); 14] = [
        (&[0x80], "index 0"),
        (&[0xbe], beyond),
        (&[0x7e, 0x01, b'v'], beyond),
        (&[0xff], integer),
        (&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], integer),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], integer),
        (&[0x40], integer),
        (&[0x40, 0x02, b'n'], string),
        (&[0x40, 0x01, b'n'], integer),
        (
            &[0x00, 0x01, b'n', 0x7f, 0x80, 0x80, 0x80, 0x80, 0x0f],
            string,
        ),
        (
            &[0x04, 0x84, 0xff, 0xff, 0xff, 0xff],
            "EOS in a Huffman-encoded string",
        ),
        (
            &[0x04, 0x81, 0x18],
            "bad padding of a Huffman-encoded string",
        ),
        (
            &[0x82, 0x20],
            "size of the dynamic table changed within a block",
        ),
        (
            &[0x3f, 0xe2, 0x1f],
            "dynamic table larger than SETTINGS_HEADER_TABLE_SIZE",
        ),
    ];
    for (block, reason) in table {
        refused(&mut decoder(), block, reason);
    }
}

#[test]
fn every_beginning_of_a_block_is_decoded_to_whole_fields_or_refused() {
    let block = like_nginx("now").0;
    let all = decode(&mut decoder(), &block).unwrap().0;
    for length in 0..block.len() {
        match decode(&mut decoder(), &block[..length]) {
            Ok((fields, _)) => assert!(all.starts_with(&fields)),
            Err(violation) => assert_eq!(violation.code, ErrorCode::COMPRESSION_ERROR),
        }
    }
}

#[test]
fn a_block_reports_references_insertions_and_sizes() {
    let mut decoder = decoder();
    let nothing = Effect::default();
    let mut check = |block: Block, effect| {
        assert_eq!(
            decode(&mut decoder, &block.0).unwrap().1,
            effect,
            "{block:?}"
        );
    };
    check(
        Block::default()
            .indexed(2)
            .literal("a", "b")
            .literal_named(4, "/"),
        nothing,
    );
    let inserted = 2 * ENTRY_OVERHEAD + "ab".len() + ":pathx".len();
    let block = Block::default().inserted("a", "b").inserted_named(4, "x");
    check(
        block,
        Effect {
            inserted,
            ..nothing
        },
    );
    let referred = true;
    check(
        Block::default().indexed(NEWEST),
        Effect {
            referred,
            ..nothing
        },
    );
    check(
        Block::default().literal_named(NEWEST + 1, "v"),
        Effect {
            referred,
            ..nothing
        },
    );
    let inserted = ENTRY_OVERHEAD + ":pathv".len();
    let block = Block::default().inserted_named(NEWEST, "v");
    check(
        block,
        Effect {
            referred,
            inserted,
            ..nothing
        },
    );
    let resized = true;
    check(
        Block::default().size(100).indexed(2),
        Effect { resized, ..nothing },
    );
}

#[test]
fn a_name_may_come_from_an_entry_that_its_own_insertion_evicts() {
    let mut decoder = decoder();
    let one_entry = ENTRY_OVERHEAD + "name".len() + "value".len();
    let block = Block::default().size(one_entry).inserted("name", "value");
    decode(&mut decoder, &block.0).unwrap();
    let block = Block::default()
        .inserted_named(NEWEST, "other")
        .indexed(NEWEST);
    let field = ("name".to_owned(), "other".to_owned());
    assert_eq!(
        decode(&mut decoder, &block.0).unwrap().0,
        [field.clone(), field]
    );
}

#[test]
fn the_size_of_the_table_may_change_only_up_to_the_setting() {
    let mut decoder = decoder();
    decode(
        &mut decoder,
        &Block::default().size(4096).size(0).size(4096).0,
    )
    .unwrap();
    decoder.set_capacity_max(8192);
    decode(&mut decoder, &Block::default().indexed(2).0).unwrap();
    decode(&mut decoder, &Block::default().size(8192).0).unwrap();
    let larger = "dynamic table larger than SETTINGS_HEADER_TABLE_SIZE";
    refused(&mut decoder, &Block::default().size(8193).0, larger);
}

#[test]
fn after_a_smaller_setting_the_next_block_must_begin_with_a_size() {
    let missing = "dynamic table not reduced to SETTINGS_HEADER_TABLE_SIZE";
    let larger = "dynamic table larger than SETTINGS_HEADER_TABLE_SIZE";
    let reduced = || {
        let mut decoder = decoder();
        decoder.set_capacity_max(100);
        assert!(decoder.is_resize_due());
        decoder
    };
    refused(&mut reduced(), &Block::default().indexed(2).0, missing);
    refused(&mut reduced(), &[], missing);
    refused(&mut reduced(), &Block::default().size(101).0, larger);
    let mut decoder = reduced();
    decode(&mut decoder, &Block::default().size(100).indexed(2).0).unwrap();
    decode(&mut decoder, &Block::default().indexed(2).0).unwrap();
    // The smaller of two settings must have been applied, even if the later one is larger.
    let mut decoder = reduced();
    decoder.set_capacity_max(4096);
    refused(&mut decoder, &Block::default().size(4096).0, larger);
    let mut decoder = reduced();
    decoder.set_capacity_max(4096);
    decode(&mut decoder, &Block::default().size(100).size(4096).0).unwrap();
}

#[test]
fn a_table_that_is_already_small_need_not_be_reduced() {
    let mut decoder = decoder();
    decode(&mut decoder, &Block::default().size(50).0).unwrap();
    decoder.set_capacity_max(50);
    decode(&mut decoder, &Block::default().indexed(2).0).unwrap();
}

#[test]
fn a_list_beyond_a_limit_is_reported_and_its_insertions_are_made() {
    let limits = Limits {
        list_bytes_max: 4 * (ENTRY_OVERHEAD + 2),
        fields_max: 3,
    };
    let literals = |count| (0..count).fold(Block::default(), |block, _| block.literal("a", "b"));
    let mut decoder = Decoder::new(limits);
    let (fields, effect) = decode(&mut decoder, &literals(3).0).unwrap();
    assert_eq!((fields.len(), effect.oversized), (3, None));
    let (fields, effect) = decode(&mut decoder, &literals(4).0).unwrap();
    assert_eq!((fields.len(), effect.oversized), (3, Some(Excess::Fields)));
    let block = literals(3).inserted("late", "entry").indexed(2);
    let (_, effect) = decode(&mut decoder, &block.0).unwrap();
    assert!(effect.oversized.is_some());
    let (_, effect) = decode(
        &mut decoder,
        &Block::default().literal("a", &"b".repeat(200)).0,
    )
    .unwrap();
    assert_eq!(effect.oversized, Some(Excess::Bytes));
    let late = vec![("late".to_owned(), "entry".to_owned())];
    assert_eq!(
        decode(&mut decoder, &Block::default().indexed(NEWEST).0)
            .unwrap()
            .0,
        late
    );
}

#[test]
fn a_megabyte_of_references_to_a_large_entry_takes_little_memory() {
    let mut decoder = decoder();
    let block = Block::default().inserted("bomb", &"x".repeat(4000));
    decode(&mut decoder, &block.0).unwrap();
    let bomb = vec![0x80 | NEWEST as u8; 1 << 20];
    let mut fields = protocol::Fields::default();
    let effect = decoder.decode(&bomb, &mut fields).unwrap();
    assert_eq!(effect.oversized, Some(Excess::Bytes));
    let bytes: usize = fields
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert!(bytes <= Limits::default().list_bytes_max, "{bytes}");
}

proptest! {
    #[test]
    fn no_block_makes_the_decoder_panic(
        blocks in prop::collection::vec(prop_oneof![
            any_block(),
            prop::collection::vec(any::<u8>(), 0..40),
        ], 0..20)
    ) {
        let mut decoder = decoder();
        for block in blocks {
            let _ = decode(&mut decoder, &block);
        }
    }
}
