//! The response on one stream: which frames may follow each other, and when it is complete (RFC
//! 9114 section 4.1).

use std::rc::Rc;

use super::context::H3Context;
use super::error::{ErrorCode, Violation};
use super::frame::Frame;
use crate::h2::grpc;
use crate::h2::head::{self, Head};
use crate::{
    Captured, Event, ExchangeId, Failure, RequestKind, Response, SessionError, StreamReader,
};

/// Interim responses before one final response, as for HTTP/1.
const INTERIM_MAX: u8 = 64;

/// Frames without a meaning, and other things that move nothing forward, between two pieces of
/// responses. Servers send a few to keep the field open (RFC 9114 section 7.2.8).
const IDLE_FRAMES_MAX: u32 = 1 << 16;

/// How much the peer has sent that moves nothing forward.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Idle(u32);

impl Idle {
    /// Notes such a frame, or several. Too many are a flood.
    pub(super) fn add(&mut self, frames: u32) -> Result<(), Violation> {
        self.0 = self.0.saturating_add(frames);
        if self.0 > IDLE_FRAMES_MAX {
            Err(Violation::new(ErrorCode::EXCESSIVE_LOAD, "endless frames"))
        } else {
            Ok(())
        }
    }

    /// A piece of a message has arrived.
    pub(super) fn end(&mut self) {
        self.0 = 0;
    }
}

/// What ends an exchange, or the connection.
#[derive(Debug)]
pub(super) enum Fault {
    /// The stream is reset with this code, and its exchange fails.
    Stream(ErrorCode, SessionError),
    /// The connection is closed.
    Connection(Violation),
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self::Connection(violation)
    }
}

/// A response as far as it has arrived.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) exchange: ExchangeId,
    kind: RequestKind,
    /// The head of the final response has arrived.
    has_head: bool,
    has_trailers: bool,
    status: u16,
    content_length: Option<u64>,
    /// How a gRPC call has ended, by the last head so far; nothing if content follows it.
    call: Option<grpc::Status>,
    pub(super) captured: Option<Box<Captured>>,
    /// Present if responses are split into events. It stays for the next stream.
    pub(super) reader: Option<Box<StreamReader>>,
    /// Bytes of the response so far, and of its content.
    pub(super) bytes: u64,
    content_bytes: u64,
    interim: u8,
}

impl Incoming {
    /// For a place in the table that was never used.
    pub(super) fn unused() -> Self {
        Self {
            exchange: ExchangeId(0),
            kind: RequestKind::Plain,
            has_head: false,
            has_trailers: false,
            status: 0,
            content_length: None,
            call: None,
            captured: None,
            reader: None,
            bytes: 0,
            content_bytes: 0,
            interim: 0,
        }
    }

    /// A request was sent.
    pub(super) fn begin(&mut self, exchange: ExchangeId, kind: RequestKind) {
        *self = Self {
            exchange,
            kind,
            reader: self.reader.take(),
            ..Self::unused()
        };
    }

    /// The next frame of the stream.
    #[inline]
    pub(super) fn on_frame(
        &mut self,
        context: &mut H3Context,
        frame: Frame<'_>,
        idle: &mut Idle,
    ) -> Result<(), Fault> {
        match frame {
            Frame::Data(content) => self.on_content(context, content, idle),
            Frame::Headers(section) => {
                let captures = context.settings.capture;
                let head = context.heads.read(section, |fields, effect| {
                    Rc::new(Head::read(fields, effect, captures))
                })?;
                idle.end();
                self.on_head(context, &head)
            }
            Frame::HeadersTooLarge => Err(Fault::Stream(
                ErrorCode::REQUEST_CANCELLED,
                SessionError::HeaderTooLarge,
            )),
            Frame::Unknown(_) => Ok(idle.add(1)?),
            // This end has allowed no push (RFC 9114 section 7.2.5).
            Frame::PushPromise => Err(Fault::Connection(Violation::new(
                ErrorCode::ID_ERROR,
                "PUSH_PROMISE, which was not allowed",
            ))),
            Frame::CancelPush(_) | Frame::Settings(_) | Frame::Goaway(_) | Frame::MaxPushId(_) => {
                Err(unexpected("a frame of the control stream in a response"))
            }
        }
    }

    #[inline]
    fn on_content(
        &mut self,
        context: &H3Context,
        content: &[u8],
        idle: &mut Idle,
    ) -> Result<(), Fault> {
        if !self.has_head || self.has_trailers {
            return Err(unexpected("DATA before the head or after the trailers"));
        }
        if content.is_empty() {
            return Ok(idle.add(1)?);
        }
        idle.end();
        self.call = None;
        self.content_bytes += content.len() as u64;
        if let Some(captured) = self.captured.as_mut().filter(|_| !context.heads_only) {
            if captured.body.len() + content.len() > context.settings.captured_body_bytes_max {
                return Err(Fault::Stream(
                    ErrorCode::REQUEST_CANCELLED,
                    SessionError::BodyTooLargeToCapture,
                ));
            }
            captured.body.extend_from_slice(content);
        }
        if let Some(reader) = &mut self.reader {
            reader.content(content);
        }
        Ok(())
    }

    fn on_head(&mut self, context: &mut H3Context, head: &Head) -> Result<(), Fault> {
        if self.has_trailers {
            return Err(unexpected("HEADERS after the trailers"));
        }
        // Only trailers end a stream; what follows them is judged when it comes.
        match head.fault(self.has_head, head.status.is_none()) {
            None => {}
            Some(head::Fault::Malformed(reason)) => return Err(malformed(reason)),
            Some(head::Fault::TooLarge(excess)) => {
                return Err(Fault::Stream(
                    ErrorCode::REQUEST_CANCELLED,
                    SessionError::of_excess(excess),
                ));
            }
        }
        if head.is_interim() {
            self.interim += 1;
            return if self.interim > INTERIM_MAX {
                Err(Fault::Stream(
                    ErrorCode::REQUEST_CANCELLED,
                    SessionError::TooManyInterim,
                ))
            } else {
                Ok(())
            };
        }
        self.has_trailers = self.has_head;
        if context.settings.calls {
            self.call = head.call.as_deref().cloned();
        }
        if let Some(status) = head.status {
            self.has_head = true;
            self.status = status;
            self.content_length = head.content_length;
            if let Some(spec) = &context.stream {
                let make = || Box::new(StreamReader::new(spec));
                self.reader
                    .get_or_insert_with(make)
                    .begin(status, head.stream.meaning());
            }
        }
        if context.settings.capture {
            let captured = self.captured.get_or_insert_default();
            captured.status = self.status;
            captured.headers.extend(head.fields.iter());
        }
        if context.redirect_location.is_none() {
            context.redirect_location.clone_from(&head.location);
        }
        Ok(())
    }

    /// A DATA frame is complete.
    pub(super) fn end_data(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.end_chunk();
        }
    }

    /// The server has ended the stream. Reports the response.
    pub(super) fn finish(
        &mut self,
        context: &H3Context,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault> {
        if !self.has_head {
            return Err(malformed("a stream that ends before the response"));
        }
        // A response to HEAD, a 204 and a 304 have no content. The length that they may give is
        // that of another response (RFC 9110 section 8.6).
        let has_content = self.kind != RequestKind::Head && !matches!(self.status, 204 | 304);
        if !has_content && self.content_bytes > 0 {
            return Err(malformed("content where there must be none"));
        }
        if has_content
            && self
                .content_length
                .is_some_and(|length| length != self.content_bytes)
        {
            return Err(malformed("content-length differs from the length of DATA"));
        }
        if context.settings.calls
            && let Some(error) = self.error_of_call()
        {
            self.fail(error, events);
            return Ok(());
        }
        if self.reader.is_some() {
            self.finish_stream(events);
        }
        let response = Response {
            status: self.status,
            reusable: true,
            bytes: self.bytes,
            captured: self.captured.take(),
        };
        events.push(Event::Finished(self.exchange, response));
        Ok(())
    }

    /// The body of a stream that is read is complete.
    #[cold]
    fn finish_stream(&mut self, events: &mut Vec<Event>) {
        let total = self.reader.as_mut().and_then(|it| it.finish());
        self.tell_found(events);
        let said = self.reader.iter_mut().flat_map(|it| it.take_said());
        events.extend(said.map(|said| Event::Said(self.exchange, said)));
        events.extend(total.map(|total| Event::StreamEnded(self.exchange, total)));
    }

    /// The error of a gRPC call whose response is complete.
    fn error_of_call(&mut self) -> Option<SessionError> {
        match self.call.take() {
            Some(status) if status.code == grpc::Code::OK => None,
            Some(status) => Some(SessionError::Grpc(status)),
            None => Some(SessionError::GrpcNoStatus(self.status)),
        }
    }

    /// Reports that the exchange has failed.
    pub(super) fn fail(&mut self, error: SessionError, events: &mut Vec<Event>) {
        self.tell_found(events);
        let failure = Box::new(Failure {
            error,
            bytes: self.bytes,
            captured: self.captured.take(),
        });
        events.push(Event::Failed(self.exchange, failure));
    }

    /// Reports the events that were not reported yet.
    pub(super) fn tell_found(&mut self, events: &mut Vec<Event>) {
        let found = self.reader.as_mut().map(|it| it.take_found());
        if let Some(found) = found.filter(|found| found.events > 0) {
            events.push(Event::Streamed(self.exchange, found));
        }
    }
}

#[cold]
fn unexpected(reason: &'static str) -> Fault {
    Fault::Connection(Violation::new(ErrorCode::FRAME_UNEXPECTED, reason))
}

/// A malformed message is an error of its stream (RFC 9114 section 4.1.2).
#[cold]
fn malformed(reason: &'static str) -> Fault {
    Fault::Stream(ErrorCode::MESSAGE_ERROR, SessionError::BadHttp3(reason))
}
