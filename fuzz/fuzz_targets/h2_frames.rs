//! Any bytes as frames, cut at three places: the pieces give the frames that the whole gives, and
//! what is buffered is bounded.

#![no_main]

#[path = "../given.rs"]
mod given;

use libfuzzer_sys::fuzz_target;
use protocol::h2::error::Violation;
use protocol::h2::frame::Frame;
use protocol::h2::reader::Reader;

/// Small, so that inputs reach it.
const BLOCK_BYTES_MAX: usize = 300;

fuzz_target!(|data: &[u8]| given::cut_anywhere(data, read));

#[derive(Debug, PartialEq)]
enum Found {
    Data(u32, Vec<u8>, u32, bool),
    Other(String),
    Broken(Violation),
}

/// All frames, and the error of the connection that has ended them. Pieces of DATA are joined.
fn read(pieces: &[&[u8]]) -> (Vec<Found>, Option<Violation>) {
    let mut reader = Reader::new(BLOCK_BYTES_MAX);
    let mut found = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            match reader.next(&mut rest) {
                Ok(None) => break,
                Ok(Some(Frame::Data(data))) => {
                    if let Some(Found::Data(stream, content, padding, end @ false)) =
                        found.last_mut()
                        && *stream == data.stream
                    {
                        content.extend_from_slice(data.content);
                        *padding += data.padding;
                        *end = data.end_stream;
                        continue;
                    }
                    let content = data.content.to_vec();
                    found.push(Found::Data(
                        data.stream,
                        content,
                        data.padding,
                        data.end_stream,
                    ));
                }
                Ok(Some(frame)) => {
                    match frame {
                        Frame::Headers(headers) => {
                            assert!(headers.end_headers);
                            assert!(headers.block.len() <= BLOCK_BYTES_MAX);
                        }
                        Frame::PushPromise(push) => assert!(push.end_headers),
                        Frame::Continuation { .. } => panic!("a reader joins header blocks"),
                        _ => {}
                    }
                    found.push(Found::Other(format!("{frame:?}")));
                }
                Err(violation) if violation.stream.is_some() => {
                    found.push(Found::Broken(violation));
                }
                Err(violation) => return (found, Some(violation)),
            }
        }
        assert!(rest.is_empty());
    }
    (found, None)
}
