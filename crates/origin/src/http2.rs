//! A connection that speaks HTTP/2.

use std::rc::Rc;

use protocol::h2::error::ErrorCode;
use protocol::h2::heads::Heads;
use protocol::h2::hpack::Limits;
use protocol::h2::hpack::encode::{Literal, field};
use protocol::h2::{PREFACE, Received, RequestHead, Server, ServerSettings, StreamId};

use crate::context::Context;
use crate::prepared::{AfterFin, ConnectionStep};
use crate::request::{HEAD_MAX_BYTES, HEADERS_MAX};
use crate::streams::response::Encoding;
use crate::streams::{FRAMES_BYTES, KnownResponses, Pause, Rest, Streams, Writer};

/// Frames that wait for a client that does not read. Beyond that the connection is reset: a client
/// can ask for frames (PING, SETTINGS) without end.
const FRAMES_MAX_BYTES: usize = 4 * 1024 * 1024;

/// What the HTTP/2 connections of a worker share.
#[derive(Debug)]
pub(crate) struct Http2Context {
    settings: ServerSettings,
    heads: Heads<Rc<RequestHead>>,
    known: KnownResponses,
}

impl Http2Context {
    pub(crate) fn new(settings: ServerSettings) -> Self {
        Self {
            settings,
            heads: Heads::new(Limits {
                list_bytes_max: HEAD_MAX_BYTES,
                fields_max: HEADERS_MAX,
            }),
            known: KnownResponses::default(),
        }
    }
}

/// Whether a connection speaks HTTP/2, by its first bytes. `None` if they are too few.
pub(crate) fn is_preface(bytes: &[u8]) -> Option<bool> {
    let length = bytes.len().min(PREFACE.len());
    let begins = bytes[..length] == PREFACE[..length];
    (!begins || length == PREFACE.len()).then_some(begins)
}

/// What the connection must do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Ask again: there may be more.
    More,
    /// Nothing can be done now.
    Rest(Rest),
    /// Reset the connection: too much waits for a client that does not read.
    Broken,
}

#[derive(Debug)]
pub(crate) struct Http2 {
    streams: Streams<FrameWriter>,
}

/// A session, and what it has to send.
#[derive(Debug)]
struct FrameWriter {
    session: Server,
    /// Frames that the connection has not taken.
    frames: Vec<u8>,
    /// Bytes of those that it has.
    taken_bytes: u64,
}

impl Http2 {
    /// A connection at its beginning; `None` if only HTTP/1 is spoken.
    pub(crate) fn begin(number: u64, context: &Context) -> Option<Self> {
        let shared = context.http2.as_ref()?;
        let mut writer = FrameWriter {
            session: Server::new(&shared.heads),
            frames: Vec::new(),
            taken_bytes: 0,
        };
        writer.session.begin(&shared.settings, &mut writer.frames);
        let streams = Streams::new(number, writer);
        Some(Self { streams })
    }

    /// Processes bytes of the client.
    pub(crate) fn receive(&mut self, bytes: &[u8], at_ns: u64, context: &mut Context) {
        let mut rest = bytes;
        let streams = &mut self.streams;
        while !streams.has_ended() {
            let Some(shared) = &mut context.http2 else {
                return;
            };
            let FrameWriter {
                session, frames, ..
            } = &mut streams.writer;
            match session.next(&mut shared.heads, &mut rest, frames) {
                Ok(None) => return,
                Ok(Some(Received::Handled)) => {}
                Ok(Some(Received::Request {
                    stream,
                    head,
                    is_whole,
                })) => streams.on_request(stream, &head, is_whole, at_ns, context),
                Ok(Some(Received::Content {
                    stream,
                    content,
                    is_last,
                })) => {
                    if let Some(upload) = streams.uploads.get_mut(&stream) {
                        upload.add(content);
                    }
                    if is_last {
                        streams.on_request_end(stream, at_ns, context);
                    }
                }
                Ok(Some(Received::Reset { stream })) => streams.on_reset(stream),
                Ok(Some(Received::Window)) => streams.unblock(),
                Err(_) => {
                    context.counters().refused.add(1);
                    streams.end_with(vec![ConnectionStep::Fin(AfterFin::Linger)]);
                }
            }
        }
    }

    /// What to do now. Appends to `output` what is to be sent; `has_room` if more may be made.
    pub(crate) fn advance(
        &mut self,
        now_ns: u64,
        has_room: bool,
        output: &mut Vec<u8>,
        context: &mut Context,
    ) -> Next {
        let streams = &mut self.streams;
        streams.wake(now_ns);
        while has_room && !streams.writer.is_full() && streams.advance(now_ns, context) {}
        let frames = &mut streams.writer.frames;
        if !has_room && frames.len() > FRAMES_MAX_BYTES {
            return Next::Broken;
        }
        if frames.is_empty() {
            return Next::Rest(streams.rest());
        }
        if !has_room {
            return Next::Rest(Rest::Blocked);
        }
        streams.writer.taken_bytes += frames.len() as u64;
        if output.is_empty() {
            std::mem::swap(output, frames);
        } else {
            output.append(frames);
        }
        Next::More
    }
}

impl FrameWriter {
    fn is_full(&self) -> bool {
        self.frames.len() >= FRAMES_BYTES
    }
}

impl Writer for FrameWriter {
    type Stream = StreamId;

    const IS_HTTP3: bool = false;

    const ENCODING: Encoding = Encoding {
        begin: |_| {},
        field: |name, value, block| field(name, value, Literal::for_field(name), block),
    };

    fn known(context: &mut Context) -> Option<&mut KnownResponses> {
        context.http2.as_mut().map(|shared| &mut shared.known)
    }

    fn window(&self, stream: StreamId) -> u32 {
        let window = self.session.window(stream);
        window.min(self.session.frame_bytes_max())
    }

    fn is_open(&self, stream: StreamId) -> bool {
        self.session.is_open(stream)
    }

    fn pause(&self, _stream: StreamId) -> Option<Pause> {
        self.is_full().then_some(Pause::Connection)
    }

    fn sent_bytes(&self) -> u64 {
        self.taken_bytes + self.frames.len() as u64
    }

    fn send_head(&mut self, stream: StreamId, block: &[u8], ends_stream: bool) {
        self.session
            .send_head(stream, block, ends_stream, &mut self.frames);
    }

    fn send_data(
        &mut self,
        stream: StreamId,
        length: u32,
        ends_stream: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let frames = &mut self.frames;
        self.session
            .send_data(stream, length, ends_stream, frames, write);
    }

    fn send_goaway(&mut self) {
        let last_stream = self.session.last_stream();
        self.session
            .send_goaway(last_stream, ErrorCode::NO_ERROR, &mut self.frames);
    }
}
