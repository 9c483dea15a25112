//! Any bytes as what a client of HTTP/2 sends, cut at three places: the pieces give the requests
//! that the whole gives, and what the server sends can be read.

#![no_main]

#[path = "../given.rs"]
mod given;

use std::collections::BTreeMap;
use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use protocol::h2::error::Violation;
use protocol::h2::heads::Heads;
use protocol::h2::hpack::Limits;
use protocol::h2::reader::Reader;
use protocol::h2::{PREFACE, Received, RequestHead, Server, ServerSettings, StreamId, writer};

const SETTINGS: ServerSettings = ServerSettings {
    streams_max: 5,
    window_bytes: 300,
};

/// The body of every response, as far as windows allow.
const BODY_BYTES: u32 = 20;

fuzz_target!(|data: &[u8]| {
    let Some((cuts, frames)) = data.split_first_chunk::<3>() else {
        return;
    };
    let mut input = PREFACE.to_vec();
    writer::settings([], &mut input);
    input.extend_from_slice(frames);
    let whole = serve(&[&input]);
    assert_eq!(serve(&given::pieces(&input, *cuts)), whole);
});

#[derive(Debug, PartialEq)]
enum Found {
    Head(StreamId, Rc<RequestHead>),
    /// The end of a request, with its body.
    End(StreamId, Vec<u8>),
    Reset(StreamId),
}

fn serve(pieces: &[&[u8]]) -> (Vec<Found>, Option<Violation>) {
    let mut heads = Heads::new(Limits::default());
    let mut server = Server::new(&heads);
    let mut output = Vec::new();
    server.begin(&SETTINGS, &mut output);
    let mut bodies = BTreeMap::<StreamId, Vec<u8>>::new();
    let mut found = Vec::new();
    let mut end = None;
    for mut piece in pieces.iter().copied() {
        loop {
            let ended = match server.next(&mut heads, &mut piece, &mut output) {
                Ok(None) => break,
                Ok(Some(Received::Handled | Received::Window)) => None,
                Ok(Some(Received::Request {
                    stream,
                    head,
                    is_whole,
                })) => {
                    found.push(Found::Head(stream, head));
                    bodies.insert(stream, Vec::new());
                    is_whole.then_some(stream)
                }
                Ok(Some(Received::Content {
                    stream,
                    content,
                    is_last,
                })) => {
                    let body = bodies.get_mut(&stream).expect("a request has begun");
                    body.extend_from_slice(content);
                    is_last.then_some(stream)
                }
                Ok(Some(Received::Reset { stream })) => {
                    bodies.remove(&stream);
                    found.push(Found::Reset(stream));
                    None
                }
                Err(violation) => {
                    end = Some(violation);
                    break;
                }
            };
            if let Some(stream) = ended {
                let body = bodies.remove(&stream).expect("it ends once");
                found.push(Found::End(stream, body));
                respond(&mut server, stream, &mut output);
            }
        }
        if end.is_some() {
            break;
        }
    }
    check(&output);
    (found, end)
}

fn respond(server: &mut Server, stream: StreamId, output: &mut Vec<u8>) {
    // :status 200
    server.send_head(stream, &[0x88], false, output);
    let length = server.window(stream).min(BODY_BYTES);
    server.send_data(stream, length, true, output, |output| {
        output.resize(output.len() + length as usize, b'x');
    });
    assert!(!server.is_open(stream));
}

/// Everything that the server has sent keeps the rules of frames.
fn check(output: &[u8]) {
    let mut reader = Reader::new(1 << 20);
    let mut rest = output;
    while reader
        .next(&mut rest)
        .expect("the server keeps the rules")
        .is_some()
    {}
    assert!(rest.is_empty());
}
