//! Any bytes as header blocks of a connection: our decoder and nghttp2's agree on what is valid and
//! on the fields.

#![no_main]

#[path = "../inflater/mod.rs"]
mod inflater;
#[path = "../steps.rs"]
mod steps;

use inflater::Inflater;
use libfuzzer_sys::fuzz_target;
use protocol::Fields;
use protocol::h2::hpack::{Decoder, Limits};
use steps::Step;

fuzz_target!(|data: &[u8]| {
    let limits = Limits {
        list_bytes_max: usize::MAX,
        fields_max: usize::MAX,
    };
    let mut ours = Decoder::new(limits);
    let mut theirs = Inflater::new();
    let mut fields = Fields::default();
    for step in steps::read(data) {
        match step {
            Step::Setting(bytes) => {
                ours.set_capacity_max(bytes);
                theirs.change_table_size(bytes);
            }
            Step::Block(block) => {
                let effect = ours.decode(block, &mut fields);
                let expected = theirs.decode(block);
                assert_eq!(
                    effect.is_ok(),
                    expected.is_some(),
                    "{effect:?} {block:02x?}"
                );
                let Some(expected) = expected else {
                    return;
                };
                let found = fields
                    .iter()
                    .map(|(name, value)| (name.to_vec(), value.to_vec()));
                assert_eq!(found.collect::<Vec<_>>(), expected, "{block:02x?}");
            }
        }
    }
});
