//! Header blocks, built field by field, and their fields in a comparable form.

use proptest::prelude::*;
use proptest::sample::select;
use protocol::Fields;
use protocol::h2::error::Violation;
use protocol::h2::hpack::{Decoder, Effect};

/// The index of the newest entry of the dynamic table.
pub(crate) const NEWEST: usize = 62;

pub(crate) type Pairs = Vec<(String, String)>;

pub(crate) fn pairs(fields: &Fields) -> Pairs {
    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect();
    fields
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

/// The fields of a block, and what else it did.
pub(crate) fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<(Pairs, Effect), Violation> {
    let mut fields = Fields::default();
    let effect = decoder.decode(block, &mut fields)?;
    Ok((pairs(&fields), effect))
}

/// A block, built by the rules of RFC 7541 section 6 and without Huffman.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block(pub(crate) Vec<u8>);

impl Block {
    pub(crate) fn indexed(mut self, index: usize) -> Self {
        self.integer(index, 7, 0x80);
        self
    }

    pub(crate) fn size(mut self, size: usize) -> Self {
        self.integer(size, 5, 0x20);
        self
    }

    /// A literal that is inserted into the table.
    pub(crate) fn inserted(mut self, name: &str, value: &str) -> Self {
        self.integer(0, 6, 0x40);
        self.string(name);
        self.string(value);
        self
    }

    /// A literal that is inserted, with the name of another field.
    pub(crate) fn inserted_named(mut self, index: usize, value: &str) -> Self {
        self.integer(index, 6, 0x40);
        self.string(value);
        self
    }

    pub(crate) fn literal(mut self, name: &str, value: &str) -> Self {
        self.integer(0, 4, 0x00);
        self.string(name);
        self.string(value);
        self
    }

    pub(crate) fn literal_named(mut self, index: usize, value: &str) -> Self {
        self.integer(index, 4, 0x10);
        self.string(value);
        self
    }

    fn string(&mut self, text: &str) {
        self.integer(text.len(), 7, 0x00);
        self.0.extend_from_slice(text.as_bytes());
    }

    fn integer(&mut self, value: usize, prefix_bits: u32, pattern: u8) {
        let prefix_max = (1 << prefix_bits) - 1;
        if value < prefix_max {
            return self.0.push(pattern | value as u8);
        }
        self.0.push(pattern | prefix_max as u8);
        let mut rest = value - prefix_max;
        while rest > 0x7f {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }
}

/// The response of an nginx: a field of the static table, and five that are inserted.
pub(crate) fn like_nginx(date: &str) -> Block {
    Block::default()
        .indexed(8)
        .inserted_named(54, "nginx/1.22.1")
        .inserted_named(33, date)
        .inserted_named(31, "text/plain")
        .inserted_named(28, "63")
        .inserted_named(44, "Thu, 01 Jan 1970 00:00:00 GMT")
        .literal_named(34, "\"65a0b1c2-3f\"")
        .literal_named(18, "bytes")
}

/// Blocks of a few fields, often valid: references reach a little beyond the dynamic table, sizes
/// may change, and some blocks are damaged.
pub(crate) fn any_block() -> impl Strategy<Value = Vec<u8>> {
    let text = || {
        prop_oneof![
            select(vec!["", "a", "b", "x-name"]).prop_map(str::to_owned),
            (1_usize..60).prop_map(|length| "long".repeat(length)),
        ]
    };
    let field = prop_oneof![
        6 => (1_usize..62).prop_map(|index| Block::default().indexed(index)),
        4 => (NEWEST..NEWEST + 8).prop_map(|index| Block::default().indexed(index)),
        4 => (text(), text()).prop_map(|(n, v)| Block::default().inserted(&n, &v)),
        3 => (1_usize..62, text()).prop_map(|(i, v)| Block::default().inserted_named(i, &v)),
        2 => (NEWEST..NEWEST + 4, text())
            .prop_map(|(i, v)| Block::default().inserted_named(i, &v)),
        2 => (text(), text()).prop_map(|(n, v)| Block::default().literal(&n, &v)),
        1 => (NEWEST..NEWEST + 4, text())
            .prop_map(|(i, v)| Block::default().literal_named(i, &v)),
    ];
    let size = prop_oneof![
        12 => Just(Block::default()),
        1 => (0_usize..300).prop_map(|size| Block::default().size(size)),
        1 => Just(Block::default().size(4096)),
    ];
    let damage = prop_oneof![30 => Just(None), 1 => any::<(u8, u8)>().prop_map(Some)];
    (size, prop::collection::vec(field, 0..5), damage).prop_map(|(size, fields, damage)| {
        let mut block = size.0;
        fields
            .iter()
            .for_each(|field| block.extend_from_slice(&field.0));
        if let (Some((at, byte)), false) = (damage, block.is_empty()) {
            let at = usize::from(at) % block.len();
            block[at] = byte;
        }
        block
    })
}
