//! Any bytes as header blocks of two connections, each twice: a decoder with a memory and one
//! without agree.

#![no_main]

#[path = "../steps.rs"]
mod steps;

use libfuzzer_sys::fuzz_target;
use protocol::Fields;
use protocol::h2::heads::{HeadDecoder, Heads};
use protocol::h2::hpack::{Decoder, Excess, Limits};
use steps::Step;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fuzz_target!(|data: &[u8]| {
    // Small, so that inputs reach them.
    let limits = Limits {
        list_bytes_max: 2000,
        fields_max: 10,
    };
    let mut heads = Heads::new(limits);
    let steps: Vec<_> = steps::read(data).collect();
    'connections: for connection in 0..2 {
        let mut with = HeadDecoder::new(&heads);
        let mut without = Decoder::new(limits);
        // The second connection finds what the first has remembered.
        for (at, step) in steps.iter().enumerate().cycle().take(2 * steps.len()) {
            match step {
                Step::Setting(bytes) => {
                    with.set_capacity_max(*bytes);
                    without.set_capacity_max(*bytes);
                }
                Step::Block(block) => {
                    let times = 1 + (at + connection) % 3;
                    for _ in 0..times {
                        if !agree(&mut heads, &mut with, &mut without, block) {
                            continue 'connections;
                        }
                    }
                }
            }
        }
        let entries = (0xbe..=0xff_u8)
            .take_while(|entry| agree(&mut heads, &mut with, &mut without, &[*entry]));
        entries.count();
    }
});

/// Whether the block is valid.
fn agree(
    heads: &mut Heads<(Pairs, Option<Excess>)>,
    with: &mut HeadDecoder<(Pairs, Option<Excess>)>,
    without: &mut Decoder,
    block: &[u8],
) -> bool {
    let pairs = |fields: &Fields| -> Pairs {
        fields
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect()
    };
    let mut fields = Fields::default();
    let expected = without.decode(block, &mut fields);
    let expected = expected.map(|effect| (pairs(&fields), effect.oversized));
    let found = with.read(heads, block, |fields, effect| {
        (pairs(fields), effect.oversized)
    });
    assert_eq!(found, expected, "{block:02x?}");
    expected.is_ok()
}
