//! A session and a server that a test plays frame by frame.

use protocol::h2::error::ErrorCode;
use protocol::h2::frame::Frame;
use protocol::h2::hpack::{Decoder, Limits};
use protocol::h2::reader::Reader;
use protocol::h2::{ClientSettings, H2, H2Context, PREFACE, Prepared, StreamId, writer};
use protocol::request::split;
use protocol::{Event, ExchangeId, Failure, Fields, Requests, Response, Session, SessionError};

use crate::written::block;

pub(crate) const GET: &str = "GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";

/// What the server received, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Received {
    /// The stream, its fields, and whether the request has no body.
    Headers(StreamId, Vec<(String, String)>, bool),
    /// The stream, the length, and whether it is the end.
    Data(StreamId, usize, bool),
    Reset(StreamId, ErrorCode),
    Goaway(ErrorCode),
    Pong([u8; 8]),
    SettingsAck,
    /// SETTINGS or WINDOW_UPDATE, which tests do not look at.
    Other,
}

pub(crate) struct Peer {
    pub(crate) shared: H2Context,
    pub(crate) session: H2,
    pub(crate) output: Vec<u8>,
    pub(crate) events: Vec<Event>,
    reader: Reader,
    decoder: Decoder,
    next_exchange: u32,
}

impl Peer {
    /// A connection for up to this many streams, before the server's SETTINGS.
    pub(crate) fn new(streams_max: u32) -> Self {
        Self::with(ClientSettings {
            streams_max,
            scheme: "http",
            calls: false,
            capture: false,
            captured_body_bytes_max: 1000,
        })
    }

    /// A connection that captures responses, ready for requests.
    pub(crate) fn capturing() -> Self {
        let mut this = Self::with(ClientSettings {
            streams_max: 4,
            scheme: "https",
            calls: false,
            capture: true,
            captured_body_bytes_max: 1000,
        });
        this.settings(&[]);
        this
    }

    /// A connection for gRPC calls, ready for them.
    pub(crate) fn calling() -> Self {
        let mut this = Self::with(ClientSettings {
            streams_max: 4,
            scheme: "http",
            calls: true,
            capture: false,
            captured_body_bytes_max: 0,
        });
        this.settings(&[]);
        this.received();
        this
    }

    fn with(settings: ClientSettings) -> Self {
        let mut shared = H2Context::new(settings);
        let mut session = H2::new(&mut shared);
        let mut output = Vec::new();
        session.begin(&mut shared, &mut output).expect("it begins");
        assert!(output.starts_with(PREFACE));
        output.drain(..PREFACE.len());
        Self {
            shared,
            session,
            output,
            events: Vec::new(),
            reader: Reader::new(1 << 20),
            decoder: Decoder::new(Limits::default()),
            next_exchange: 0,
        }
    }

    /// A connection that is ready for requests.
    pub(crate) fn ready(streams_max: u32) -> Self {
        let mut this = Self::new(streams_max);
        this.settings(&[]);
        assert!(this.session.is_ready());
        this.received();
        this
    }

    /// The server sends SETTINGS.
    pub(crate) fn settings(&mut self, entries: &[(u16, u32)]) {
        self.send(|output| writer::settings(entries.iter().copied(), output));
    }

    /// Starts an exchange with this request. Returns its number.
    pub(crate) fn request(&mut self, text: &str) -> ExchangeId {
        let request = split(text.as_bytes()).next().expect("there is one");
        let prepared: Prepared = H2::prepare(&mut self.shared, &request.expect("it is valid"));
        let exchange = ExchangeId(self.next_exchange);
        self.next_exchange += 1;
        let requests = Requests {
            text: b"",
            prepared: &[prepared],
        };
        self.session
            .start(&mut self.shared, exchange, requests, &mut self.output)
            .expect("it can send");
        exchange
    }

    /// The server sends these frames in one piece.
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let result = self.try_send(write);
        assert_eq!(result, Ok(()));
    }

    pub(crate) fn try_send(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), SessionError> {
        let mut input = Vec::new();
        write(&mut input);
        self.deliver(&input)
    }

    pub(crate) fn deliver(&mut self, input: &[u8]) -> Result<(), SessionError> {
        let (output, events) = (&mut self.output, &mut self.events);
        self.session
            .receive(&mut self.shared, input, output, events)
    }

    /// What the client has sent since the last call.
    pub(crate) fn received(&mut self) -> Vec<Received> {
        let output = std::mem::take(&mut self.output);
        let mut input = output.as_slice();
        let mut received = Vec::new();
        while let Some(frame) = self.reader.next(&mut input).expect("it keeps the rules") {
            received.push(match frame {
                Frame::Headers(headers) => {
                    let mut fields = Fields::default();
                    self.decoder
                        .decode(headers.block, &mut fields)
                        .expect("the block is good");
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let fields = fields.iter().map(|(name, value)| (text(name), text(value)));
                    Received::Headers(headers.stream, fields.collect(), headers.end_stream)
                }
                Frame::Data(data) => {
                    Received::Data(data.stream, data.content.len(), data.end_stream)
                }
                Frame::Reset { stream, code } => Received::Reset(stream, code),
                Frame::Goaway { code, .. } => Received::Goaway(code),
                Frame::Ping { ack: true, opaque } => Received::Pong(opaque),
                Frame::SettingsAck => Received::SettingsAck,
                Frame::Settings(_) | Frame::WindowUpdate { .. } => Received::Other,
                other => panic!("{other:?}"),
            });
        }
        received
    }

    /// The events since the last call.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The only event since the last call, a complete response.
    pub(crate) fn response(&mut self) -> (ExchangeId, Response) {
        match <[Event; 1]>::try_from(self.events()) {
            Ok([Event::Finished(exchange, response)]) => (exchange, response),
            other => panic!("{other:?}"),
        }
    }

    /// The only event since the last call, a failed exchange.
    pub(crate) fn failure(&mut self) -> (ExchangeId, SessionError) {
        match <[Event; 1]>::try_from(self.events()) {
            Ok([Event::Failed(exchange, failure)]) => {
                let Failure { error, .. } = *failure;
                (exchange, error)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// HEADERS with a status and further fields.
pub(crate) fn head(
    stream: StreamId,
    fields: &[(&str, &str)],
    end_stream: bool,
    output: &mut Vec<u8>,
) {
    writer::headers(stream, &block(fields), end_stream, 16_384, output);
}

/// A response with this status and body.
pub(crate) fn answer(stream: StreamId, status: &str, body: &str, output: &mut Vec<u8>) {
    let length = body.len().to_string();
    let fields = [(":status", status), ("content-length", &length)];
    head(stream, &fields, body.is_empty(), output);
    if !body.is_empty() {
        writer::data(stream, body.as_bytes(), true, output);
    }
}
