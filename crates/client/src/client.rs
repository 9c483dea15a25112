//! Sends requests to one server, one at a time.

use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use eventloop::{Address, monotonic_ns};
use plan::secrets::hide_secrets;
use plan::{Alpn, Protocol, RunPlan, Scheme, Target};
use protocol::h1::{self, H1};
use protocol::h2::{self, H2};
use protocol::h3::{self, H3};
use protocol::proxy::{ProxyClient, Route};
use protocol::request::{Request, RequestError, RequestText, encode, split};
use protocol::tls::{AlpnProtocol, SeenCertificate, Tls, TlsClient, TlsConfigError, TlsContext};
use protocol::{Response, Session, SessionError};
use results::exchange::{Attempt, Exchange, ReceivedResponse, SentRequest};

use crate::connection::{Connection, Talk, certificate, received};
use crate::resolve::{SystemNetwork, plain};
use crate::stream::{self, Deadline, NoConnection, Stream, StreamError, TunnelError};
use crate::tls::{self, OptionNames, TARGET_OPTIONS};
use crate::{ClientError, Permit, TargetError, proxy_client};

/// Bytes of the body of a response to a POST. Servers answer with little more than a status.
const POST_BODY_BYTES_MAX: usize = 64 * 1024;

/// A server that is not the target of a plan.
#[derive(Debug, Clone)]
pub struct Server<'a> {
    /// Its URL. The path of a request is given with it.
    pub target: &'a Target,
    /// How long a request and its response may take, connecting included, and what sets that.
    pub limit: (Duration, &'static str),
    /// A file with certificate authorities to trust in place of the system's, and the option that
    /// names it.
    pub cacert: (&'static str, Option<&'a Path>),
}

/// Sends requests to one server.
pub struct Client {
    plan: RunPlan,
    permit: Permit,
    tls: Option<TlsClient>,
    proxy: Option<ProxyClient>,
    /// Where the certificate of the server is noted.
    seen: SeenCertificate,
    /// Those to connect to; `None` if they are looked up for each connection.
    addresses: Option<Vec<Address>>,
    deadline: Deadline,
    limits: h1::Limits,
    heads_only: bool,
    /// Whether a connection is kept for the next request. Only over HTTP/1.1.
    keeps_connection: bool,
    kept: Option<Box<dyn Talk + Send>>,
}

impl Client {
    /// For the target of a plan, by the options of the plan. Its timeout limits each step:
    /// connecting, a proxy, a handshake, and a request with its response.
    ///
    /// # Errors
    /// If a file cannot be read, or TLS or the proxy cannot be set up.
    pub fn of_plan(plan: RunPlan, permit: Permit) -> Result<Self, ClientError> {
        Self::with(plan, permit, TARGET_OPTIONS)
    }

    /// For POST requests to another server, on a connection that is kept. Resolves its name and
    /// reads the files of TLS, but does not connect yet.
    ///
    /// # Errors
    /// If there is no such name, or a file cannot be read or used.
    pub fn of_server(server: &Server<'_>) -> Result<Self, ClientError> {
        let target = server.target;
        let (option, cacert) = server.cacert;
        let (limit, name) = server.limit;
        let mut plan = RunPlan::new(target.clone());
        plan.timeout = limit;
        plan.tls.verify = true;
        plan.tls.cacert = cacert.map(Path::to_owned);
        let options = OptionNames {
            verify: option,
            cacert: option,
        };
        let deadline = Deadline::of_exchange(limit, format!("the timeout ({name})"));
        let client = Self::with(plan, Permit::default(), options)?;
        client.for_target(target, deadline, POST_BODY_BYTES_MAX)
    }

    /// The client with the addresses of a target, for exchanges on one connection that is kept.
    fn for_target(
        mut self,
        target: &Target,
        deadline: Deadline,
        body_bytes_max: usize,
    ) -> Result<Self, ClientError> {
        let network = self.network();
        let addresses = network.permitted_addresses(&target.host, &target.service);
        let place = || format!("the host of {}", hide_secrets(&target.url));
        self.addresses = Some(addresses.map_err(|error| TargetError::Unresolved(place(), error))?);
        self.deadline = deadline;
        self.limits.captured_body_bytes_max = body_bytes_max;
        self.keeps_connection = true;
        Ok(self)
    }

    /// For GET requests of one page, on a connection that is kept. Certificates are not verified.
    /// Resolves the name of the server, but does not connect yet. A longer body is an error.
    ///
    /// # Errors
    /// If there is no such name.
    pub fn of_page(
        target: &Target,
        limit: Duration,
        body_bytes_max: usize,
    ) -> Result<Self, ClientError> {
        let deadline = Deadline::of_exchange(limit, plan::units::time(limit));
        let plan = RunPlan::new(target.clone());
        let client = Self::with(plan, Permit::default(), TARGET_OPTIONS)?;
        client.for_target(target, deadline, body_bytes_max)
    }

    /// Reads the page of [`Self::of_page`].
    ///
    /// # Errors
    /// If there is no response.
    pub fn get(&mut self, headers: &[(String, String)]) -> Result<ReceivedResponse, NoResponse> {
        let target = &self.plan.target;
        let mut text = Vec::new();
        let request = Request {
            method: b"GET",
            target: target.path.split('#').next().unwrap_or("/").as_bytes(),
            host: target.host_header.as_bytes(),
            headers,
            body: None,
        };
        encode(&request, &mut text);
        self.response(text)
    }

    fn with(plan: RunPlan, permit: Permit, options: OptionNames) -> Result<Self, ClientError> {
        let seen = SeenCertificate::default();
        let tls = match plan.target.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(tls::client_noting(&plan, options, Some(seen.clone()))?),
        };
        Ok(Self {
            proxy: proxy_client(&plan, &permit)?,
            deadline: Deadline::of_plan(&plan),
            plan,
            permit,
            tls,
            seen,
            addresses: None,
            limits: h1::Limits::default(),
            heads_only: false,
            keeps_connection: false,
            kept: None,
        })
    }

    /// Connects to one of these addresses in place of those of the name.
    #[must_use]
    pub fn at(mut self, addresses: Vec<Address>) -> Self {
        self.addresses = Some(addresses);
        self
    }

    /// Sends a POST request and reads its response.
    ///
    /// # Errors
    /// If there is no response.
    pub fn post(
        &mut self,
        path: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<ReceivedResponse, NoResponse> {
        let mut text = Vec::new();
        let request = Request {
            method: b"POST",
            target: path.as_bytes(),
            host: self.plan.target.host_header.as_bytes(),
            headers,
            body: Some(body),
        };
        encode(&request, &mut text);
        self.response(text)
    }

    fn response(&mut self, text: Vec<u8>) -> Result<ReceivedResponse, NoResponse> {
        let exchange = self.exchange(text).map_err(NoResponse::new)?;
        match (exchange.response, exchange.error) {
            (Some(response), None) => Ok(response),
            (_, error) => Err(NoResponse(
                error.unwrap_or_else(|| "no response".to_owned()),
            )),
        }
    }

    /// Sends a request, given as HTTP/1.1 text, and reads its response. A kept connection that the
    /// server has closed meanwhile is opened again. What goes wrong is part of the exchange.
    ///
    /// # Errors
    /// If the text is no request.
    pub fn exchange(&mut self, text: Vec<u8>) -> Result<Exchange, ClientError> {
        let begin_ns = monotonic_ns();
        let text = self.for_proxy(text);
        let mut exchange = Exchange {
            request: sent(&text)?,
            protocol: name_of(self.plan.load.protocol),
            ..Exchange::default()
        };
        self.deadline.begin_exchange();
        let outcome = self.attempt(&text, &mut exchange);
        exchange.phases.whole_ns = monotonic_ns().saturating_sub(begin_ns);
        match &mut exchange.tls {
            Some(facts) => facts.is_verified = self.plan.tls.verify,
            None => exchange.refused_certificate = self.seen.get().map(certificate),
        }
        match outcome {
            Ok(response) => exchange.response = Some(received(response)),
            Err(error) => exchange.error = Some(error.to_string()),
        }
        Ok(exchange)
    }

    fn attempt(&mut self, text: &[u8], exchange: &mut Exchange) -> Result<Response, ExchangeError> {
        if let Some(kept) = self.kept.take() {
            match self.talk(kept, text, exchange) {
                Err(error) if error.is_stale(exchange) => {}
                outcome => return outcome,
            }
        }
        let stream = self.connect(exchange)?;
        match self.plan.load.protocol {
            Protocol::Http1 => {
                let context = h1::H1Context::new(self.limits, true);
                let fresh: Box<dyn Talk + Send> = match self.within_tls(context) {
                    Ok(context) => Box::new(self.on::<Tls<H1>>(context, stream, Tls::details)),
                    Err(context) => Box::new(self.on::<H1>(context, stream, |_| None)),
                };
                self.talk(fresh, text, exchange)
            }
            protocol @ (Protocol::Http2 | Protocol::Grpc) => {
                let context = self.h2_context(protocol.is_grpc());
                match self.within_tls(context) {
                    Ok(context) => talk(
                        self.on::<Tls<H2>>(context, stream, Tls::details),
                        text,
                        exchange,
                    ),
                    Err(context) => talk(self.on::<H2>(context, stream, |_| None), text, exchange),
                }
            }
            protocol @ (Protocol::Http3 | Protocol::GrpcHttp3) => {
                let context = self.h3_context(protocol.is_grpc())?;
                talk(self.on::<H3>(context, stream, H3::details), text, exchange)
            }
        }
    }

    /// One exchange, after which the connection is kept if it can be.
    fn talk(
        &mut self,
        mut connection: Box<dyn Talk + Send>,
        text: &[u8],
        exchange: &mut Exchange,
    ) -> Result<Response, ExchangeError> {
        let response = connection.talk(text, exchange)?;
        if self.keeps_connection && response.reusable {
            self.kept = Some(connection);
        } else {
            connection.close();
        }
        Ok(response)
    }

    fn on<S: Session>(
        &self,
        context: S::Context,
        stream: Box<dyn Stream>,
        details: fn(&S) -> Option<protocol::tls::Details>,
    ) -> Connection<S> {
        let deadline = self.deadline.clone();
        Connection::new(context, stream, deadline, details, self.heads_only)
    }

    /// What a session within TLS shares, or without it if there is none.
    fn within_tls<T>(&self, inner: T) -> Result<TlsContext<T>, T> {
        let Some(TlsClient { config, name, .. }) = self.tls.clone() else {
            return Err(inner);
        };
        let alpn = self.plan.load.protocol.alpn();
        let spoken = AlpnProtocol {
            name: alpn.name().as_bytes(),
            is_implied: Alpn::chosen(None) == Some(alpn),
        };
        Ok(TlsContext::new(config, name, spoken, inner))
    }

    fn h2_context(&self, calls: bool) -> h2::H2Context {
        h2::H2Context::new(h2::ClientSettings {
            streams_max: 1,
            scheme: self.plan.target.scheme.name(),
            calls,
            capture: true,
            captured_body_bytes_max: self.limits.captured_body_bytes_max,
        })
    }

    /// What a session over QUIC needs.
    #[expect(
        clippy::disallowed_methods,
        reason = "any moment will do as the base to which the times of the session are added"
    )]
    fn h3_context(&self, calls: bool) -> Result<h3::H3Context, ExchangeError> {
        let settings = h3::ClientSettings {
            streams_max: 1,
            idle_timeout_ms: 0,
            // The socket does not forbid fragments.
            discovers_mtu: false,
            calls,
            capture: true,
            captured_body_bytes_max: self.limits.captured_body_bytes_max,
        };
        // IDs of connections must differ from those of other exchanges with the same server.
        let seed = fastrand::u64(..);
        let TlsClient { config, name, .. } = self.tls.clone().ok_or(ExchangeError::NoTls)?;
        Ok(h3::H3Context::new(
            settings,
            &config,
            name,
            Instant::now(),
            seed,
        )?)
    }

    fn network(&self) -> SystemNetwork {
        SystemNetwork::new(&self.plan, self.permit.clone())
    }

    /// The addresses of the target, or of the proxy.
    fn look_up(&self, exchange: &mut Exchange) -> Result<Vec<Address>, TargetError> {
        if let Some(known) = &self.addresses {
            return Ok(known.clone());
        }
        let (network, target) = (self.network(), &self.plan.target);
        let begin_ns = monotonic_ns();
        let addresses = network.permitted_addresses(&target.host, &target.service);
        let lookup_ns = monotonic_ns().saturating_sub(begin_ns);
        exchange.phases.lookup_ns = target.unix_socket.is_none().then_some(lookup_ns);
        addresses.map_err(|error| network.unresolved(target, error))
    }

    /// Connects to the first address that accepts, and through the proxy.
    fn connect(&mut self, exchange: &mut Exchange) -> Result<Box<dyn Stream>, ExchangeError> {
        let addresses = self.look_up(exchange)?;
        let (stream, address) = self.connect_to_one_of(&addresses, exchange)?;
        if let Some(tls) = self.tls.as_ref().filter(|_| self.plan.lets_server_choose()) {
            tls::negotiate(&mut self.plan, tls, self.proxy.as_ref(), &address)?;
            exchange.protocol = name_of(self.plan.load.protocol);
        }
        let Some(proxy) = &self.proxy else {
            return Ok(stream);
        };
        let begin_ns = monotonic_ns();
        let stream = stream::through(proxy, stream, &self.deadline)?;
        // A proxy that is only asked for each request has no such phase.
        let has_phase = proxy.tls.is_some() || matches!(&*proxy.route, Route::Tunnel(_));
        let proxy_ns = monotonic_ns().saturating_sub(begin_ns);
        exchange.phases.proxy_ns = has_phase.then_some(proxy_ns);
        Ok(stream)
    }

    fn connect_to_one_of(
        &self,
        addresses: &[Address],
        exchange: &mut Exchange,
    ) -> Result<(Box<dyn Stream>, Address), NoConnection> {
        let is_quic = self.plan.load.protocol.is_http3();
        let begin_ns = monotonic_ns();
        let mut last = None;
        for address in addresses {
            let outcome = match address {
                Address::Tcp(address) if is_quic => {
                    stream::connect_datagrams(&self.plan, *address, &self.deadline)
                }
                address => stream::connect(&self.plan, address, &self.deadline),
            };
            exchange.attempts.push(Attempt {
                address: match address {
                    Address::Tcp(address) => address.to_string(),
                    Address::Unix(path) => path.display().to_string(),
                },
                error: outcome.as_ref().err().map(plain),
            });
            match outcome {
                Ok(stream) => {
                    let connect_ns = monotonic_ns().saturating_sub(begin_ns);
                    // A socket of datagrams connects to nobody: the handshake does.
                    exchange.phases.connect_ns = (!is_quic).then_some(connect_ns);
                    return Ok((stream, address.clone()));
                }
                Err(error) => last = Some(error),
            }
        }
        Err(NoConnection(last))
    }

    /// The request as a proxy that gets each request wants it.
    fn for_proxy(&self, text: Vec<u8>) -> Vec<u8> {
        match self.proxy.as_ref().map(|proxy| &*proxy.route) {
            Some(Route::Forward(forward)) => {
                let mut rewritten = Vec::new();
                forward.rewrite(&text, &mut rewritten);
                rewritten
            }
            _ => text,
        }
    }
}

/// One exchange on a connection of its own.
fn talk<S: Session>(
    mut connection: Connection<S>,
    text: &[u8],
    exchange: &mut Exchange,
) -> Result<Response, ExchangeError> {
    let outcome = connection.talk(text, exchange);
    if outcome.is_ok() || exchange.response.is_some() {
        connection.close();
    }
    outcome
}

/// Requests a URL once, and returns the status of the response without waiting for its body. The
/// limit is for everything but resolving the name.
///
/// # Errors
/// If the URL is not valid, or there was no response.
pub fn status(url: &str, limit: Duration) -> Result<u16, NoResponse> {
    let target = Target::parse(url).map_err(NoResponse::new)?;
    let mut headers = vec![("Connection".to_owned(), "close".to_owned())];
    headers.extend(basic_authorization(&target));
    let mut text = Vec::new();
    let request = Request {
        method: b"GET",
        target: target.path.split('#').next().unwrap_or("/").as_bytes(),
        host: target.host_header.as_bytes(),
        headers: &headers,
        body: None,
    };
    encode(&request, &mut text);
    let mut client =
        Client::of_plan(RunPlan::new(target), Permit::default()).map_err(NoResponse::new)?;
    client.deadline = Deadline::of_exchange(limit, plan::units::time(limit));
    client.heads_only = true;
    client.response(text).map(|response| response.status)
}

/// The header for the credentials in a URL, if it has any.
#[must_use]
pub fn basic_authorization(target: &Target) -> Option<(String, String)> {
    let credentials = BASE64_STANDARD.encode(target.credentials()?);
    Some(("Authorization".to_owned(), format!("Basic {credentials}")))
}

/// Why there is no response, one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoResponse(String);

impl NoResponse {
    fn new(error: impl std::error::Error) -> Self {
        Self(error.to_string())
    }
}

/// What goes wrong in an exchange, one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Connect(#[from] NoConnection),
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// The server could not choose the protocol.
    #[error(transparent)]
    Negotiation(#[from] ClientError),
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

impl ExchangeError {
    /// Whether the server had closed a kept connection before anything of a response arrived, as
    /// servers do with idle connections.
    fn is_stale(&self, exchange: &Exchange) -> bool {
        let is_close = matches!(
            self,
            Self::Session(SessionError::ClosedEarly) | Self::Stream(StreamError::System(_))
        );
        is_close && exchange.phases.first_byte_ns.is_none()
    }
}

/// What to try if the two sides do not agree on TLS; empty for other errors.
fn advice(error: &SessionError) -> &'static str {
    let kind = match error {
        SessionError::NotTls => results::ErrorKind::NotTls,
        SessionError::TlsClosed => results::ErrorKind::TlsClosed,
        SessionError::TlsOnPlain => results::ErrorKind::TlsOnPlain,
        _ => return "",
    };
    scheme_advice(kind)
}

/// What to try if the two sides do not agree on TLS; empty for other errors.
#[must_use]
pub fn scheme_advice(kind: results::ErrorKind) -> &'static str {
    match kind {
        results::ErrorKind::NotTls => ": use http://?",
        results::ErrorKind::TlsClosed => ": if the port does not speak TLS, use http://",
        results::ErrorKind::TlsOnPlain => ": use https://?",
        _ => "",
    }
}

/// The first request of the text.
fn sent(text: &[u8]) -> Result<SentRequest, RequestError> {
    let request = split(text).next().unwrap_or(Ok(RequestText::OPAQUE))?;
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

fn name_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http1 => "HTTP/1.1",
        Protocol::Http2 => "HTTP/2",
        Protocol::Grpc => "gRPC",
        Protocol::Http3 => "HTTP/3",
        Protocol::GrpcHttp3 => "gRPC over HTTP/3",
    }
}
