//! Any bytes as frames of HTTP/3, cut at three places: the pieces give the frames that the whole
//! gives, and what is buffered is bounded.

#![no_main]

#[path = "../given.rs"]
mod given;

use libfuzzer_sys::fuzz_target;
use protocol::h3::error::Violation;
use protocol::h3::frame::{Frame, FrameReader};

/// Small, so that inputs reach it.
const SECTION_BYTES_MAX: usize = 300;

/// Twice the longest payload that is needed as a whole, as a growing buffer may have.
const BUFFERED_BYTES_MAX: usize = 2 * 4096;

fuzz_target!(|data: &[u8]| given::cut_anywhere(data, read));

#[derive(Debug, PartialEq)]
enum Found {
    /// The content, and whether the frame is complete.
    Data(Vec<u8>, bool),
    Other(String),
}

/// All frames, the error that has ended them, and whether the stream may end. Pieces of DATA are
/// joined.
fn read(pieces: &[&[u8]]) -> (Vec<Found>, Option<Violation>, bool) {
    let mut reader = FrameReader::new(SECTION_BYTES_MAX);
    let mut found = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            match reader.next(&mut rest) {
                Ok(None) => break,
                Ok(Some(Frame::Data(content))) => {
                    let content = content.to_vec();
                    let is_complete = reader.is_between_frames();
                    if let Some(Found::Data(before, complete @ false)) = found.last_mut() {
                        before.extend(content);
                        *complete = is_complete;
                    } else {
                        found.push(Found::Data(content, is_complete));
                    }
                }
                Ok(Some(frame)) => {
                    if let Frame::Headers(section) = frame {
                        assert!(section.len() <= SECTION_BYTES_MAX);
                    }
                    found.push(Found::Other(format!("{frame:?}")));
                }
                Err(violation) => return (found, Some(violation), false),
            }
            assert!(reader.buffered_bytes() <= BUFFERED_BYTES_MAX);
        }
        assert!(rest.is_empty());
    }
    (found, None, reader.is_between_frames())
}
