//! The server over HTTP/2: a session that follows the rules reads the requests, and the steps of
//! the misbehavior write what they like.

use std::io;
use std::slice;
use std::sync::atomic::Ordering;

use protocol::h2::error::ErrorCode;
use protocol::h2::frame::{flag, kind};
use protocol::h2::heads::Heads;
use protocol::h2::hpack::Limits;
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::{Received, Server, ServerSettings, StreamId, writer};

use super::{Flow, Link, Misbehavior, ServerStep, Tally, bare_fin, is_chosen, perform};

/// How the server speaks HTTP/2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Http2 {
    /// The window for the body of a request. `None`: it sends no SETTINGS.
    pub(crate) window_bytes: Option<u32>,
    pub(crate) refills_windows: bool,
}

impl Http2 {
    /// It sends no SETTINGS.
    pub(crate) const SILENT: Self = Self {
        window_bytes: None,
        refills_windows: true,
    };

    /// It sends SETTINGS with this window.
    pub(crate) fn with_window(window_bytes: u32) -> Self {
        Self {
            window_bytes: Some(window_bytes),
            ..Self::SILENT
        }
    }
}

/// Bytes of the body of the normal response.
const BODY_BYTES: u32 = 100;

/// An affected request: its stream, the session of its connection, and the frames to be sent.
pub(crate) struct Exchange<'a> {
    pub(crate) session: &'a mut Server,
    pub(crate) stream: StreamId,
    pub(crate) output: &'a mut Vec<u8>,
}

impl Exchange<'_> {
    /// Sends the normal response with these fields, too.
    pub(crate) fn respond(&mut self, fields: &[(&str, &str)]) {
        self.head("200", fields, false);
        self.data(BODY_BYTES, true);
    }

    /// Sends a head, or trailers if the status is empty.
    pub(crate) fn head(&mut self, status: &str, fields: &[(&str, &str)], ends_stream: bool) {
        let block = block(status, fields);
        self.session
            .send_head(self.stream, &block, ends_stream, self.output);
    }

    /// Sends content in one frame.
    pub(crate) fn data(&mut self, bytes: u32, ends_stream: bool) {
        self.session
            .send_data(self.stream, bytes, ends_stream, self.output, |output| {
                output.resize(output.len() + bytes as usize, b'x');
            });
    }

    /// Sends a setting, allowed or not, and the normal response.
    pub(crate) fn set(&mut self, id: u16, value: u32) {
        self.session.send_setting(id, value, self.output);
        self.respond(&[]);
    }

    /// Sends RST_STREAM.
    pub(crate) fn reset(&mut self, code: ErrorCode) {
        self.session.reset(self.stream, code, self.output);
    }

    /// Sends GOAWAY.
    pub(crate) fn goaway(&mut self, last_stream: StreamId, code: ErrorCode) {
        self.session.send_goaway(last_stream, code, self.output);
    }

    /// Sends a frame, whether or not the session allows it.
    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: StreamId, payload: &[u8]) {
        writer::frame(kind, flags, stream, payload, self.output);
    }

    /// Sends a header block that ends the stream, whether or not the session allows it.
    pub(crate) fn bare_head(&mut self, stream: StreamId, block: &[u8]) {
        let flags = flag::END_HEADERS | flag::END_STREAM;
        self.frame(kind::HEADERS, flags, stream, block);
    }
}

/// A header block with this status, if it is not empty.
pub(crate) fn block(status: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let status = [(":status", status)];
    let status = status.iter().filter(|(_, status)| !status.is_empty());
    for (name, value) in status.chain(fields) {
        let name = name.as_bytes();
        field(name, value.as_bytes(), Literal::for_field(name), &mut block);
    }
    block
}

/// Answers the requests of a connection.
pub(super) fn answer(
    link: &mut Link,
    http2: Http2,
    misbehavior: &Misbehavior,
    tally: &Tally,
) -> io::Result<()> {
    let mut heads = Heads::new(Limits::default());
    let mut session = Server::new(&heads);
    let mut output = Vec::new();
    if let Some(window_bytes) = http2.window_bytes {
        let settings = ServerSettings {
            streams_max: 256,
            window_bytes,
        };
        session.begin(&settings, &mut output);
    }
    if !http2.refills_windows {
        session.stop_refilling_windows();
    }
    let mut input = [0; 64 * 1024];
    loop {
        link.send(&std::mem::take(&mut output))?;
        let count = link.read(&mut input)?;
        if count == 0 {
            return Ok(());
        }
        let mut rest = &input[..count];
        loop {
            let stream = match session.next(&mut heads, &mut rest, &mut output) {
                Ok(None) => break,
                Ok(Some(
                    Received::Request {
                        stream,
                        is_whole: true,
                        ..
                    }
                    | Received::Content {
                        stream,
                        is_last: true,
                        ..
                    },
                )) => stream,
                Ok(Some(_)) => continue,
                Err(_) => {
                    link.send(&output)?;
                    return bare_fin(link);
                }
            };
            let mut exchange = Exchange {
                session: &mut session,
                stream,
                output: &mut output,
            };
            let number = tally.requests.fetch_add(1, Ordering::SeqCst);
            if !is_chosen(number, misbehavior.every) {
                exchange.respond(&[]);
            } else if misbehave(&misbehavior.steps, &mut exchange, link, tally)? == Flow::Over {
                return Ok(());
            }
        }
    }
}

/// Does the steps. Frames are sent before a step that is about the connection.
fn misbehave(
    steps: &[ServerStep],
    exchange: &mut Exchange<'_>,
    link: &mut Link,
    tally: &Tally,
) -> io::Result<Flow> {
    let number = tally.wrong.fetch_add(1, Ordering::SeqCst);
    for step in steps {
        if let ServerStep::Frames(write) = step {
            write(exchange);
            continue;
        }
        let frames = std::mem::take(exchange.output);
        if let ServerStep::Split = step {
            perform(&[ServerStep::EachByte(frames)], number, link)?;
            continue;
        }
        link.send(&frames)?;
        if perform(slice::from_ref(step), number, link)? == Flow::Over {
            return Ok(Flow::Over);
        }
    }
    Ok(Flow::Goes)
}
