//! One exchange on a connection of its own, through the sessions of a run.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::source::RequestSource;
use engine::{Address, ProxyClient, TlsClient, monotonic_ns};
use plan::{Alpn, Protocol, RunPlan, Scheme, Target};
use protocol::h1::{self, H1};
use protocol::h2::{self, H2};
use protocol::h3::{self, H3};
use protocol::proxy::Route;
use protocol::request::{RequestError, RequestText, split};
use protocol::tls::{
    self, AlpnProtocol, Certificate, Details, SeenCertificate, Tls, TlsConfigError,
};
use protocol::{Captured, Event, ExchangeId, Failure, Requests, Response, Session, SessionError};
use requests::Renderer;
use results::exchange::{
    Attempt, CertificateFacts, Exchange, ReceivedResponse, SentRequest, TlsFacts,
};

use crate::blocking::{self, Datagrams, NoConnection, Stream, StreamError, TunnelError};
use crate::messages::{self, encode_message};
use crate::resolve::{SystemNetwork, plain};
use crate::sources::{self, RequestParts};
use crate::{
    ClockReading, Invocation, RunnerError, TargetError, proxy, scheme_advice, tls as tls_settings,
};

const EXCHANGE: ExchangeId = ExchangeId(0);

/// Limits of a wait for datagrams: the kernel takes 0 for no limit, and cannot count all times.
const SHORTEST_WAIT_NS: u64 = 1_000;
const LONGEST_WAIT_NS: u64 = 1 << 60;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Bytes that are kept of something that is no response.
const HEARD_BYTES_MAX: usize = 1024;

/// Sends one request and reads its response. With a script or a file it is their first one.
///
/// Only what is wrong before the first packet is an error; the rest is part of the exchange.
///
/// # Errors
/// If a file cannot be read, or the script or TLS cannot be set up.
pub fn once(mut plan: RunPlan, invocation: &Invocation) -> Result<Exchange, RunnerError> {
    (plan.load.threads, plan.load.connections) = (1, 1);
    (plan.load.streams, plan.load.pipeline) = (1, 1);
    let method = encode_message(&mut plan, invocation)?;
    let mut exchange = Exchange::default();
    let begin_ns = monotonic_ns();
    let first = first_request(&plan, invocation)?;
    if let Some(target) = first.target {
        plan.target = target;
    }
    let seen = SeenCertificate::default();
    let tls = match plan.target.scheme {
        Scheme::Http => None,
        Scheme::Https => Some(tls_settings::client_noting(&plan, Some(seen.clone()))?),
    };
    let proxy = proxy::client(&plan, &invocation.permit)?;
    let addresses = match first.address {
        Some(address) => Ok(vec![address]),
        None => look_up(&plan, invocation, &mut exchange),
    };
    let text = for_proxy(first.text, proxy.as_ref());
    exchange.request = sent(&text)?;
    exchange.protocol = name_of(plan.load.protocol);
    let connected = addresses
        .map_err(OnceError::from)
        .and_then(|addresses| Ok(connect(&plan, &addresses, &mut exchange)?));
    if let Ok((_, address)) = &connected
        && let Some(client) = tls.as_ref().filter(|_| plan.lets_server_choose())
    {
        tls_settings::negotiate(&mut plan, client, proxy.as_ref(), address)?;
        exchange.protocol = name_of(plan.load.protocol);
    }
    let connected = connected.and_then(|(connected, _)| match &proxy {
        Some(proxy) => Ok(connected.through(proxy, &mut exchange)?),
        None => Ok(connected),
    });
    let mut connected = match connected {
        Ok(connected) => connected,
        Err(error) => {
            exchange.error = Some(error.to_string());
            exchange.phases.whole_ns = monotonic_ns().saturating_sub(begin_ns);
            return Ok(exchange);
        }
    };
    let line = TimedStream::new(&plan, &mut *connected.stream, connected.socket.as_ref());
    let outcome = with_protocol(&plan, tls, line, &text, &mut exchange);
    exchange.phases.whole_ns = monotonic_ns().saturating_sub(begin_ns);
    if exchange.tls.is_none() {
        exchange.refused_certificate = seen.get().map(certificate);
    }
    match outcome {
        Ok(response) => exchange.response = Some(received(response)),
        Err(error) => exchange.error = Some(error.to_string()),
    }
    let method = match messages::types_of_file(&plan, invocation) {
        Ok(Some(types)) => types.method(&exchange.request.target).ok(),
        _ => method,
    };
    if let Some((method, response)) = method.as_ref().zip(exchange.response.as_mut()) {
        response.messages = messages::decoded(method, &response.body);
    }
    Ok(exchange)
}

/// Why there is no response, one line.
#[derive(Debug, thiserror::Error)]
enum OnceError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Connect(#[from] NoConnection),
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    #[error("HTTP/3 needs TLS")]
    NoTls,
    #[error(transparent)]
    Tls(#[from] TlsConfigError),
    #[error(transparent)]
    Request(#[from] RequestError),
    /// With what to try if the two sides do not agree on TLS.
    #[error("{}{}", .0, advice(.0))]
    Session(#[from] SessionError),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// The addresses of the target, or of the proxy.
fn look_up(
    plan: &RunPlan,
    invocation: &Invocation,
    exchange: &mut Exchange,
) -> Result<Vec<Address>, TargetError> {
    let network = SystemNetwork::new(plan, invocation.permit.clone());
    let target = &plan.target;
    let begin_ns = monotonic_ns();
    let addresses = network.permitted_addresses(&target.host, &target.service);
    let lookup_ns = monotonic_ns().saturating_sub(begin_ns);
    exchange.phases.lookup_ns = target.unix_socket.is_none().then_some(lookup_ns);
    addresses.map_err(|error| network.unresolved(target, error))
}

/// The request as a proxy that gets each request wants it.
fn for_proxy(text: Vec<u8>, proxy: Option<&ProxyClient>) -> Vec<u8> {
    match proxy.map(|proxy| &*proxy.route) {
        Some(Route::Forward(forward)) => {
            let mut rewritten = Vec::new();
            forward.rewrite(&text, &mut rewritten);
            rewritten
        }
        _ => text,
    }
}

fn name_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http1 => "HTTP/1.1",
        Protocol::Http2 => "HTTP/2",
        Protocol::Grpc => "gRPC",
        Protocol::Http3 => "HTTP/3",
        Protocol::GrpcHttp3 => "gRPC over HTTP/3",
    }
}

/// The request that is sent.
struct FirstRequest {
    text: Vec<u8>,
    /// The address, if a script has looked it up or a file has requests.
    address: Option<Address>,
    /// Where it goes, if not to the target of the plan.
    target: Option<Target>,
}

fn first_request(plan: &RunPlan, invocation: &Invocation) -> Result<FirstRequest, RunnerError> {
    if plan.request.script.is_none() && plan.request.file.is_none() {
        return Ok(FirstRequest {
            text: RequestParts::of(plan)?.encode(plan),
            address: None,
            target: None,
        });
    }
    let read_at = ClockReading {
        unix_ms: invocation.unix_ms,
        monotonic_ns: monotonic_ns(),
    };
    let mut prepared = sources::prepare(plan, invocation, read_at)?;
    let source: &mut Box<dyn RequestSource> = prepared
        .workers
        .first_mut()
        .ok_or_else(|| RunnerError::Script("there are no requests".to_owned()))?;
    let mut text = Vec::new();
    let mut host = 0;
    match (source.fixed(), source.file()) {
        (Some(fixed), _) => text = fixed,
        (None, Some(file)) => {
            let set = Arc::clone(&file.set);
            let mut renderer = Renderer::new(file.set, file.seed, 0, 1);
            let first = renderer.next_request(0);
            renderer.render(first, 0, file.wall_clock, &mut text);
            host = set.host(first) as usize;
        }
        (None, None) => source
            .next(0, &mut text)
            .map_err(|error| RunnerError::Script(error.to_string()))?,
    }
    let addresses = prepared.addresses.into_iter().nth(host).unwrap_or_default();
    let mut others = prepared.more_hosts.into_iter();
    Ok(FirstRequest {
        text,
        address: addresses.into_iter().next(),
        target: host.checked_sub(1).and_then(|at| others.nth(at)),
    })
}

/// The first request of the text.
fn sent(text: &[u8]) -> Result<SentRequest, RunnerError> {
    let request = match split(text).next() {
        Some(Ok(request)) => request,
        Some(Err(error)) => return Err(RunnerError::Script(error.to_string())),
        None => RequestText::OPAQUE,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = request.fields();
    Ok(SentRequest {
        method: text(request.method),
        target: text(request.target),
        headers: headers
            .map(|(name, value)| (text(name), text(&value)))
            .collect(),
        body: request.body().into_owned(),
    })
}

fn received(response: Response) -> ReceivedResponse {
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

/// A connection.
struct OpenConnection {
    stream: Box<dyn Stream>,
    /// Its socket if it is one of datagrams.
    socket: Option<UdpSocket>,
}

impl OpenConnection {
    fn to(plan: &RunPlan, address: &Address) -> io::Result<Self> {
        match (plan.load.protocol.is_http3(), address) {
            (true, Address::Tcp(address)) => {
                let datagrams = Datagrams::connect(plan, *address)?;
                let socket = Some(datagrams.handle()?);
                let stream = Box::new(datagrams);
                Ok(Self { stream, socket })
            }
            _ => Ok(Self {
                stream: blocking::connect(plan, address)?,
                socket: None,
            }),
        }
    }

    /// Has the proxy connect to the target.
    fn through(self, proxy: &ProxyClient, exchange: &mut Exchange) -> Result<Self, TunnelError> {
        let begin_ns = monotonic_ns();
        let stream = blocking::through(proxy, self.stream)?;
        // A proxy that is only asked for each request has no such phase.
        let has_phase = proxy.tls.is_some() || matches!(&*proxy.route, Route::Tunnel(_));
        let proxy_ns = monotonic_ns().saturating_sub(begin_ns);
        exchange.phases.proxy_ns = has_phase.then_some(proxy_ns);
        Ok(Self { stream, ..self })
    }
}

/// Connects to the first address that accepts.
fn connect(
    plan: &RunPlan,
    addresses: &[Address],
    exchange: &mut Exchange,
) -> Result<(OpenConnection, Address), NoConnection> {
    let begin_ns = monotonic_ns();
    let mut last = None;
    for address in addresses {
        let outcome = OpenConnection::to(plan, address);
        exchange.attempts.push(Attempt {
            address: match address {
                Address::Tcp(address) => address.to_string(),
                Address::Unix(path) => path.display().to_string(),
            },
            error: outcome.as_ref().err().map(plain),
        });
        match outcome {
            Ok(connected) => {
                let connect_ns = monotonic_ns().saturating_sub(begin_ns);
                // A socket of datagrams connects to nobody: the handshake does.
                exchange.phases.connect_ns = connected.socket.is_none().then_some(connect_ns);
                return Ok((connected, address.clone()));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(NoConnection(last))
}

fn with_protocol(
    plan: &RunPlan,
    tls: Option<TlsClient>,
    line: TimedStream<'_>,
    text: &[u8],
    exchange: &mut Exchange,
) -> Result<Response, OnceError> {
    let limits = h1::Limits::default();
    match plan.load.protocol {
        Protocol::Http1 => {
            let shared = h1::H1Context::new(limits, true);
            with_session::<H1>(plan, tls, shared, line, text, exchange)
        }
        protocol @ (Protocol::Http2 | Protocol::Grpc) => {
            let shared = h2::H2Context::new(h2::ClientSettings {
                streams_max: 1,
                scheme: plan.target.scheme.name(),
                calls: protocol.is_grpc(),
                capture: true,
                captured_body_bytes_max: limits.captured_body_bytes_max,
            });
            with_session::<H2>(plan, tls, shared, line, text, exchange)
        }
        protocol @ (Protocol::Http3 | Protocol::GrpcHttp3) => {
            let client = tls.ok_or(OnceError::NoTls)?;
            let mut shared = over_quic(client, limits, protocol.is_grpc())?;
            let talk = SessionDriver::<H3>::new(&mut shared, line);
            let outcome = talk.run(text, exchange, H3::details);
            note_verification(plan, exchange);
            outcome
        }
    }
}

/// What a session over QUIC needs.
#[expect(
    clippy::disallowed_methods,
    reason = "any moment will do as the base to which the times of the session are added"
)]
fn over_quic(
    client: TlsClient,
    limits: h1::Limits,
    calls: bool,
) -> Result<h3::H3Context, TlsConfigError> {
    let settings = h3::ClientSettings {
        streams_max: 1,
        idle_timeout_ms: 0,
        // The socket does not forbid fragments.
        discovers_mtu: false,
        calls,
        capture: true,
        captured_body_bytes_max: limits.captured_body_bytes_max,
    };
    // IDs of connections must differ from those of other exchanges with the same server.
    let seed = fastrand::u64(..);
    let TlsClient { config, name, .. } = client;
    h3::H3Context::new(settings, &config, name, Instant::now(), seed)
}

fn note_verification(plan: &RunPlan, exchange: &mut Exchange) {
    if let Some(facts) = &mut exchange.tls {
        facts.is_verified = plan.tls.verify;
    }
}

fn with_session<S: Session>(
    plan: &RunPlan,
    tls: Option<TlsClient>,
    mut shared: S::Shared,
    line: TimedStream<'_>,
    text: &[u8],
    exchange: &mut Exchange,
) -> Result<Response, OnceError> {
    let Some(TlsClient { config, name, .. }) = tls else {
        return SessionDriver::<S>::new(&mut shared, line).run(text, exchange, |_| None);
    };
    let alpn = plan.load.protocol.alpn();
    let spoken = AlpnProtocol {
        name: alpn.name().as_bytes(),
        is_implied: Alpn::chosen(None) == Some(alpn),
    };
    let mut shared = tls::TlsContext::new(config, name, spoken, shared);
    let outcome = SessionDriver::<Tls<S>>::new(&mut shared, line).run(text, exchange, Tls::details);
    note_verification(plan, exchange);
    outcome
}

/// What carries the bytes of a session, and how long it may be silent.
struct TimedStream<'a> {
    stream: &'a mut dyn Stream,
    /// The socket of datagrams, whose reads also end when a timer of the session is due. The reads
    /// of other connections have their limit already.
    socket: Option<&'a UdpSocket>,
    limit_ns: u64,
    /// When something arrived last.
    heard_ns: u64,
}

impl<'a> TimedStream<'a> {
    fn new(plan: &RunPlan, stream: &'a mut dyn Stream, socket: Option<&'a UdpSocket>) -> Self {
        let limit_ns = plan.time_limit().as_nanos();
        Self {
            stream,
            socket,
            limit_ns: u64::try_from(limit_ns).unwrap_or(u64::MAX),
            heard_ns: monotonic_ns(),
        }
    }

    /// Reads once. Over datagrams it fails with a timeout when the timer is due.
    fn read(&mut self, timer_ns: Option<u64>, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(socket) = self.socket {
            let until_ns = self.heard_ns.saturating_add(self.limit_ns);
            let until_ns = until_ns.min(timer_ns.unwrap_or(u64::MAX));
            let wait_ns = until_ns
                .saturating_sub(monotonic_ns())
                .max(SHORTEST_WAIT_NS);
            socket.set_read_timeout(Some(Duration::from_nanos(wait_ns.min(LONGEST_WAIT_NS))))?;
        }
        let length = self.stream.read(buffer)?;
        self.heard_ns = monotonic_ns();
        Ok(length)
    }

    /// Whether this error only means that a timer of the session may be due.
    fn is_timer(&self, error: &io::Error) -> bool {
        let is_timeout = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        let silent_ns = monotonic_ns().saturating_sub(self.heard_ns);
        self.socket.is_some() && is_timeout && silent_ns < self.limit_ns
    }
}

/// A session on a connection.
struct SessionDriver<'a, 'l, S: Session> {
    session: S,
    shared: &'a mut S::Shared,
    line: TimedStream<'l>,
    output: Vec<u8>,
    events: Vec<Event>,
    buffer: Vec<u8>,
    /// The first bytes that arrived, if the session does not encrypt them.
    heard: Vec<u8>,
}

impl<'a, 'l, S: Session> SessionDriver<'a, 'l, S> {
    fn new(shared: &'a mut S::Shared, line: TimedStream<'l>) -> Self {
        S::at(shared, monotonic_ns());
        Self {
            session: S::new(shared),
            shared,
            line,
            output: Vec::new(),
            events: Vec::new(),
            buffer: vec![0; READ_BYTES],
            heard: Vec::new(),
        }
    }

    /// Sends the request and reads its response. If what arrives is none, the exchange has its
    /// beginning.
    fn run(
        mut self,
        text: &[u8],
        exchange: &mut Exchange,
        details: impl Fn(&S) -> Option<Details>,
    ) -> Result<Response, OnceError> {
        let outcome = self.talk(text, exchange, details);
        if outcome.is_err() && exchange.response.is_none() && !self.heard.is_empty() {
            exchange.unreadable = Some(String::from_utf8_lossy(&self.heard).into_owned());
        }
        outcome
    }

    fn talk(
        &mut self,
        text: &[u8],
        exchange: &mut Exchange,
        details: impl Fn(&S) -> Option<Details>,
    ) -> Result<Response, OnceError> {
        let begin_ns = monotonic_ns();
        let ready = self.handshake();
        let ready_ns = monotonic_ns();
        exchange.tls = details(&self.session).map(facts);
        ready?;
        if exchange.tls.is_some() {
            exchange.phases.tls_ns = Some(ready_ns.saturating_sub(begin_ns));
        }
        self.send(text)?;
        let sent_ns = monotonic_ns();
        exchange.phases.send_ns = Some(sent_ns.saturating_sub(ready_ns));
        let mut first_ns = None;
        let outcome = loop {
            if let Some(outcome) = self.outcome() {
                break outcome;
            }
            self.read()?;
            if first_ns.is_none() && self.events.iter().any(is_of_response) {
                first_ns = Some(monotonic_ns());
            }
        };
        let outcome = match outcome {
            Err(failure) if !failure.error.is_response() => return Err(failure.error.into()),
            outcome => outcome,
        };
        let first_ns = first_ns.unwrap_or(sent_ns);
        exchange.phases.first_byte_ns = Some(first_ns.saturating_sub(sent_ns));
        exchange.phases.rest_ns = Some(monotonic_ns().saturating_sub(first_ns));
        self.session.close(self.shared, &mut self.output);
        // The server may have closed already.
        let _ = self.line.stream.write_all(&self.output);
        outcome.map_err(|failure| {
            // It is complete, and says itself that the call has failed.
            let captured = failure.captured.unwrap_or_default();
            exchange.response = Some(received(Response {
                status: captured.status,
                reusable: false,
                bytes: failure.bytes,
                captured: Some(captured),
            }));
            failure.error.into()
        })
    }

    fn handshake(&mut self) -> Result<(), OnceError> {
        self.session.begin(self.shared, &mut self.output)?;
        self.write()?;
        while !self.session.is_ready() || self.session.capacity() == 0 {
            self.read()?;
        }
        Ok(())
    }

    fn send(&mut self, text: &[u8]) -> Result<(), OnceError> {
        let mut prepared = Vec::new();
        for request in split(text) {
            prepared.push(S::prepare(self.shared, &request?));
            if !S::SENDS_TEXT {
                break;
            }
        }
        let requests = Requests {
            text,
            prepared: &prepared,
        };
        self.session
            .start(self.shared, EXCHANGE, requests, &mut self.output)?;
        if S::TRANSPARENT {
            self.output.extend_from_slice(text);
        }
        self.write()
    }

    /// Writes all output, also what the session has held back.
    fn write(&mut self) -> Result<(), OnceError> {
        S::at(self.shared, monotonic_ns());
        self.session.flush(self.shared, &mut self.output)?;
        while !self.output.is_empty() {
            let stream = &mut self.line.stream;
            let written = stream.write_all(&self.output);
            let written = written.and_then(|()| stream.flush());
            let missing = "the server did not take the request";
            written.map_err(|error| StreamError::new(error, missing))?;
            self.output.clear();
            self.session.resume(self.shared, &mut self.output)?;
        }
        Ok(())
    }

    /// Reads once, and answers what has to be answered.
    fn read(&mut self) -> Result<(), OnceError> {
        let timer_ns = self.session.next_timeout_ns();
        let length = match self.line.read(timer_ns, &mut self.buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) if self.line.is_timer(&error) => return self.handle_timer(),
            Err(error) => {
                let missing = self.session.awaits().unwrap_or("no response");
                return Err(StreamError::new(error, missing).into());
            }
        };
        if length == 0 && self.line.socket.is_none() {
            return self.end();
        }
        if S::TRANSPARENT {
            let more = HEARD_BYTES_MAX.saturating_sub(self.heard.len()).min(length);
            self.heard.extend_from_slice(&self.buffer[..more]);
        }
        S::at(self.shared, monotonic_ns());
        let received = self.session.receive(
            self.shared,
            &self.buffer[..length],
            &mut self.output,
            &mut self.events,
        );
        self.go_on(received)
    }

    /// A timer of the session may be due.
    fn handle_timer(&mut self) -> Result<(), OnceError> {
        let (shared, output, events) = (&mut *self.shared, &mut self.output, &mut self.events);
        let now_ns = monotonic_ns();
        let handled = self.session.handle_timeout(shared, now_ns, output, events);
        self.go_on(handled)
    }

    /// Sends what the session has to send after it was called with this outcome.
    fn go_on(&mut self, called: Result<(), SessionError>) -> Result<(), OnceError> {
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
    fn end(&mut self) -> Result<(), OnceError> {
        let ended = self.session.end(self.shared, &mut self.events);
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
            | Event::StreamEnded(..)
            | Event::Draining
            | Event::ProxyReady => None,
        })
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

/// What to try if the two sides do not agree on TLS; empty for other errors.
fn advice(error: &SessionError) -> &'static str {
    let kind = match error {
        SessionError::NotTls => Some(results::ErrorKind::NotTls),
        SessionError::TlsClosed => Some(results::ErrorKind::TlsClosed),
        SessionError::TlsOnPlain => Some(results::ErrorKind::TlsOnPlain),
        _ => None,
    };
    kind.map_or("", scheme_advice)
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

fn certificate(parsed: Certificate) -> CertificateFacts {
    CertificateFacts {
        subject: parsed.subject,
        issuer: parsed.issuer,
        not_before: parsed.not_before,
        not_after: parsed.not_after,
        names: parsed.names,
    }
}
