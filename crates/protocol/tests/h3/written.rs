//! Frames of HTTP/3 as a peer writes them.

use protocol::h3::frame::{self, frame_type};
use protocol::h3::qpack::encode;

/// A HEADERS frame.
pub(crate) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    framed(frame_type::HEADERS, &section(fields))
}

/// A field section.
pub(crate) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    encode::prefix(&mut section);
    for (name, value) in fields {
        encode::field(name.as_bytes(), value.as_bytes(), &mut section);
    }
    section
}

/// A DATA frame.
pub(crate) fn data(content: &[u8]) -> Vec<u8> {
    framed(frame_type::DATA, content)
}

/// A frame of any type.
pub(crate) fn framed(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    frame::append(kind, payload, &mut output);
    output
}
