//! A session on a socket that blocks.

use std::io::ErrorKind;

use eventloop::monotonic_ns;
use protocol::request::split;
use protocol::tls::{Certificate, Details};
use protocol::{
    Captured, Event, ExchangeId, Failure, RequestKind, Requests, Response, Session, SessionError,
    Transport,
};
use results::exchange::{CertificateFacts, Exchange, ReceivedResponse, TlsFacts};

use crate::client::ExchangeError;
use crate::stream::{Deadline, Stream, is_timeout};

const EXCHANGE: ExchangeId = ExchangeId(0);

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Bytes that are kept of something that is no response.
const HEARD_BYTES_MAX: usize = 1024;

/// A connection, whatever its protocol.
pub(crate) trait Talk {
    /// Sends a request and reads its response; before the first one, the handshake is made. Notes
    /// the times of all steps. If what arrives is no response, the exchange has its beginning.
    fn talk(&mut self, text: &[u8], exchange: &mut Exchange) -> Result<Response, ExchangeError>;

    /// Says goodbye, if the protocol has a word for it.
    fn close(&mut self);
}

/// A session on a connection.
pub(crate) struct Connection<S: Session> {
    session: S,
    context: S::Context,
    stream: Box<dyn Stream>,
    deadline: Deadline,
    details: fn(&S) -> Option<Details>,
    /// A response is complete with its head. Only over HTTP/1.
    heads_only: bool,
    is_open: bool,
    output: Vec<u8>,
    events: Vec<Event>,
    buffer: Vec<u8>,
    /// The first bytes that arrived, if the session does not encrypt them.
    heard: Vec<u8>,
}

impl<S: Session> Connection<S> {
    /// `details` tells what the handshake of TLS has agreed on.
    pub(crate) fn new(
        mut context: S::Context,
        stream: Box<dyn Stream>,
        deadline: Deadline,
        details: fn(&S) -> Option<Details>,
        heads_only: bool,
    ) -> Self {
        S::at(&mut context, monotonic_ns());
        Self {
            session: S::new(&mut context),
            context,
            stream,
            deadline,
            details,
            heads_only,
            is_open: false,
            output: Vec::new(),
            events: Vec::new(),
            buffer: vec![0; READ_BYTES],
            heard: Vec::new(),
        }
    }

    fn exchange(
        &mut self,
        text: &[u8],
        exchange: &mut Exchange,
    ) -> Result<Response, ExchangeError> {
        let handshake_ns = monotonic_ns();
        let ready = if self.is_open {
            Ok(())
        } else {
            self.handshake()
        };
        exchange.tls = (self.details)(&self.session).map(facts);
        ready?;
        let begin_ns = monotonic_ns();
        if !self.is_open && exchange.tls.is_some() {
            exchange.phases.tls_ns = Some(begin_ns.saturating_sub(handshake_ns));
        }
        self.is_open = true;
        self.send(text)?;
        let sent_ns = monotonic_ns();
        exchange.phases.send_ns = Some(sent_ns.saturating_sub(begin_ns));
        let mut first_ns = None;
        let outcome = loop {
            if first_ns.is_none() && self.events.iter().any(is_of_response) {
                let now_ns = *first_ns.insert(monotonic_ns());
                exchange.phases.first_byte_ns = Some(now_ns.saturating_sub(sent_ns));
            }
            if let Some(outcome) = self.outcome() {
                break outcome;
            }
            self.read()?;
        };
        let rest_ns = monotonic_ns().saturating_sub(first_ns.unwrap_or(sent_ns));
        let is_complete = |failure: &Failure| failure.error.is_response();
        if outcome.as_ref().err().is_none_or(is_complete) {
            exchange.phases.rest_ns = Some(rest_ns);
        }
        outcome.map_err(|failure| {
            // It is complete, and says itself that the call has failed.
            if is_complete(&failure) {
                let captured = failure.captured.unwrap_or_default();
                exchange.response = Some(received(Response {
                    status: captured.status,
                    reusable: false,
                    bytes: failure.bytes,
                    captured: Some(captured),
                }));
            }
            failure.error.into()
        })
    }

    fn handshake(&mut self) -> Result<(), ExchangeError> {
        self.deadline.begin_step();
        self.session.begin(&mut self.context, &mut self.output)?;
        self.write()?;
        while !self.session.is_ready() || self.session.capacity() == 0 {
            self.read()?;
        }
        Ok(())
    }

    fn send(&mut self, text: &[u8]) -> Result<(), ExchangeError> {
        self.deadline.begin_step();
        let mut prepared = Vec::new();
        for request in split(text) {
            let mut request = request?;
            if self.heads_only {
                // A response without a body, whatever its headers say.
                request.kind = RequestKind::Head;
            }
            prepared.push(S::prepare(&mut self.context, &request));
            if !S::SENDS_TEXT {
                break;
            }
        }
        let requests = Requests {
            text,
            prepared: &prepared,
        };
        self.session
            .start(&mut self.context, EXCHANGE, requests, &mut self.output)?;
        if S::TRANSPARENT {
            self.output.extend_from_slice(text);
        }
        self.write()
    }

    /// Writes all output, also what the session has held back.
    fn write(&mut self) -> Result<(), ExchangeError> {
        S::at(&mut self.context, monotonic_ns());
        self.session.flush(&mut self.context, &mut self.output)?;
        while !self.output.is_empty() {
            let written = self.stream.write_all(&self.output);
            let written = written.and_then(|()| self.stream.flush());
            let missing = "the server did not take the request";
            written.map_err(|error| self.deadline.error(error, missing))?;
            self.output.clear();
            self.session.resume(&mut self.context, &mut self.output)?;
        }
        Ok(())
    }

    /// Reads once, and answers what has to be answered.
    fn read(&mut self) -> Result<(), ExchangeError> {
        let end_ns = self.deadline.ns();
        let timer_ns = self.session.next_timeout_ns().unwrap_or(u64::MAX);
        self.deadline.set_ns(end_ns.min(timer_ns));
        let read = self.stream.read(&mut self.buffer);
        self.deadline.set_ns(end_ns);
        let length = match read {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            // Only a timer of the session is due.
            Err(error) if is_timeout(&error) && monotonic_ns() < end_ns => {
                return self.handle_timer();
            }
            Err(error) => return Err(self.deadline.error(error, self.missing()).into()),
        };
        if length == 0 && S::TRANSPORT == Transport::Stream {
            return self.end();
        }
        if S::TRANSPARENT {
            let more = HEARD_BYTES_MAX.saturating_sub(self.heard.len()).min(length);
            self.heard.extend_from_slice(&self.buffer[..more]);
        }
        S::at(&mut self.context, monotonic_ns());
        let received = self.session.receive(
            &mut self.context,
            &self.buffer[..length],
            &mut self.output,
            &mut self.events,
        );
        self.go_on(received)
    }

    /// What the server has not sent.
    fn missing(&self) -> &'static str {
        match self.session.awaits() {
            Some(missing) => missing,
            None if self.session.partial_bytes() > 0 => "no complete response",
            None => "no response",
        }
    }

    /// A timer of the session may be due.
    fn handle_timer(&mut self) -> Result<(), ExchangeError> {
        let (context, output, events) = (&mut self.context, &mut self.output, &mut self.events);
        let now_ns = monotonic_ns();
        let handled = self.session.handle_timeout(context, now_ns, output, events);
        self.go_on(handled)
    }

    /// Sends what the session has to send after it was called with this outcome.
    fn go_on(&mut self, called: Result<(), SessionError>) -> Result<(), ExchangeError> {
        // An alert tells the server what it did wrong.
        let written = self.write();
        match called {
            // Events before the error remain valid.
            Err(_) if self.events.iter().any(is_outcome) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(()) if self.session.has_ended() => self.end(),
            Ok(()) => written,
        }
    }

    /// The server has closed the connection.
    fn end(&mut self) -> Result<(), ExchangeError> {
        let ended = self.session.end(&mut self.context, &mut self.events);
        if self.events.iter().any(is_outcome) {
            Ok(())
        } else {
            ended?;
            Err(SessionError::ClosedEarly.into())
        }
    }

    /// The first response, or how the exchange has failed.
    fn outcome(&mut self) -> Option<Result<Response, Failure>> {
        self.events.drain(..).find_map(|event| match event {
            Event::Finished(_, response) => Some(Ok(response)),
            Event::Failed(_, failure) => Some(Err(*failure)),
            Event::Ready(_)
            | Event::Began(_)
            | Event::Streamed(..)
            | Event::Said(..)
            | Event::StreamEnded(..)
            | Event::Draining
            | Event::ProxyReady => None,
        })
    }
}

impl<S: Session> Talk for Connection<S> {
    fn talk(&mut self, text: &[u8], exchange: &mut Exchange) -> Result<Response, ExchangeError> {
        self.heard.clear();
        let outcome = self.exchange(text, exchange);
        if outcome.is_err() && exchange.response.is_none() && !self.heard.is_empty() {
            exchange.unreadable = Some(String::from_utf8_lossy(&self.heard).into_owned());
        }
        outcome
    }

    fn close(&mut self) {
        self.session.close(&mut self.context, &mut self.output);
        // The server may have closed already.
        let _ = self.stream.write_all(&self.output);
    }
}

/// Whether the event means that bytes of the response have arrived. Other bytes of the server, such
/// as session tickets of TLS 1.3 or late SETTINGS, are none of it.
fn is_of_response(event: &Event) -> bool {
    matches!(event, Event::Began(_) | Event::Streamed(..)) || is_outcome(event)
}

fn is_outcome(event: &Event) -> bool {
    matches!(event, Event::Finished(..) | Event::Failed(..))
}

pub(crate) fn received(response: Response) -> ReceivedResponse {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Captured { headers, body, .. } = response.captured.map(|it| *it).unwrap_or_default();
    ReceivedResponse {
        status: response.status,
        headers: headers
            .iter()
            .map(|(name, value)| (text(name), text(value)))
            .collect(),
        body,
        messages: Vec::new(),
        bytes: response.bytes,
    }
}

fn facts(details: Details) -> TlsFacts {
    let Details {
        version,
        cipher,
        alpn,
        certificates,
    } = details;
    TlsFacts {
        version,
        cipher,
        alpn,
        is_verified: false,
        certificate: certificates.into_iter().next().map(certificate),
    }
}

pub(crate) fn certificate(parsed: Certificate) -> CertificateFacts {
    CertificateFacts {
        subject: parsed.subject,
        issuer: parsed.issuer,
        not_before: parsed.not_before,
        not_after: parsed.not_after,
        names: parsed.names,
    }
}
