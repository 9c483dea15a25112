//! Header blocks as a peer writes them.

use protocol::h2::hpack::encode::{Literal, field};

/// A header block with these fields.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        field(name, value, Literal::Indexed, &mut block);
    }
    block
}
