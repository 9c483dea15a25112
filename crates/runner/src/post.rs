//! POST requests to a server that is not the target, one at a time over HTTP/1.1, on a connection
//! that is kept.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use engine::{Address, TlsClient, monotonic_ns};
use plan::secrets::hide_secrets;
use plan::{RunPlan, Scheme, Target};
use protocol::h1::{self, H1};
use protocol::request::{Request, RequestText, encode};
use protocol::tls::{HandshakeError, blocking_stream};
use protocol::{Event, ExchangeId, Requests, Response, Session, SessionError};

use crate::blocking::{self, NoConnection, Stream};
use crate::resolve::{SystemNetwork, plain};
use crate::tls::{self, OptionNames, Peer};
use crate::{Permit, RunnerError, TargetError};

const EXCHANGE: ExchangeId = ExchangeId(0);

/// Bytes that are read at once.
const READ_BYTES: usize = 16 * 1024;

/// Bytes of the body of a response. Servers answer with little more than a status.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A server for POST requests.
#[derive(Debug, Clone)]
pub struct PostServer<'a> {
    /// Its URL. The path of a request is given with it.
    pub target: &'a Target,
    /// How long a request and its response may take, connecting included.
    pub limit: Duration,
    /// A file with certificate authorities to trust in place of the system's, and the option that
    /// names it.
    pub cacert: (&'static str, Option<&'a Path>),
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostResponse {
    /// The status code, 100..=999.
    pub status: u16,
    /// The value of `Retry-After`, if it is text.
    pub retry_after: Option<String>,
    /// The body as it was sent.
    pub body: Vec<u8>,
}

/// Sends POST requests to one server.
pub struct PostClient {
    /// Of the server, for what connecting needs.
    plan: RunPlan,
    addresses: Vec<Address>,
    tls: Option<TlsClient>,
    limit_ns: u64,
    open: Option<Connection>,
}

impl PostClient {
    /// Resolves the name of the server and reads the files of TLS. Connects only with the first
    /// request.
    ///
    /// # Errors
    /// If there is no such name, or a file cannot be read or used.
    pub fn prepare(server: &PostServer<'_>) -> Result<Self, RunnerError> {
        let target = server.target;
        let mut plan = RunPlan::new(target.clone());
        plan.timeout = server.limit;
        let tls = match target.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(tls_client(server)?),
        };
        let network = SystemNetwork::new(&plan, Permit::default());
        let addresses = network.permitted_addresses(&target.host, &target.service);
        let place = || format!("the host of {}", hide_secrets(&target.url));
        let addresses = addresses.map_err(|error| TargetError::Unresolved(place(), error))?;
        Ok(Self {
            plan,
            addresses,
            tls,
            limit_ns: u64::try_from(server.limit.as_nanos()).unwrap_or(u64::MAX),
            open: None,
        })
    }

    /// Sends a request and reads its response. A connection that the server has closed since the
    /// last one is opened again.
    ///
    /// # Errors
    /// Why there is no response.
    pub fn post(
        &mut self,
        path: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<PostResponse, PostError> {
        let deadline_ns = monotonic_ns().saturating_add(self.limit_ns);
        let mut text = Vec::new();
        let request = Request {
            method: b"POST",
            target: path.as_bytes(),
            host: self.plan.target.host_header.as_bytes(),
            headers,
            body: Some(body),
        };
        encode(&request, &mut text);
        if let Some(mut kept) = self.open.take() {
            match kept.exchange(&text, deadline_ns) {
                Ok(response) => return Ok(self.keep(kept, response)),
                Err(failure) if failure.is_stale => {}
                Err(failure) => return Err(failure.reason),
            }
        }
        let mut fresh = self.connect(deadline_ns)?;
        match fresh.exchange(&text, deadline_ns) {
            Ok(response) => Ok(self.keep(fresh, response)),
            Err(failure) => Err(failure.reason),
        }
    }

    /// Keeps the connection for the next request if the response permits it.
    fn keep(&mut self, connection: Connection, response: Response) -> PostResponse {
        self.open = response.reusable.then_some(connection);
        let captured = response.captured.unwrap_or_default();
        let retry_after = captured.headers.iter().find_map(|(name, value)| {
            let value = std::str::from_utf8(value).ok()?;
            name.eq_ignore_ascii_case(b"retry-after")
                .then(|| value.trim().to_owned())
        });
        PostResponse {
            status: response.status,
            retry_after,
            body: captured.body,
        }
    }

    /// Connects to the first address that accepts.
    fn connect(&self, deadline_ns: u64) -> Result<Connection, PostError> {
        let mut last = None;
        for address in &self.addresses {
            match blocking::connect(&self.plan, address) {
                Ok(stream) => return Connection::new(self.within_tls(stream)?),
                Err(error) => last = Some(error),
            }
            if monotonic_ns() >= deadline_ns {
                break;
            }
        }
        Err(NoConnection(last).into())
    }

    fn within_tls(&self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, HandshakeError> {
        Ok(match &self.tls {
            None => stream,
            Some(TlsClient { config, name, .. }) => {
                Box::new(blocking_stream(config, name.clone(), stream)?)
            }
        })
    }
}

fn tls_client(server: &PostServer<'_>) -> Result<TlsClient, RunnerError> {
    let (option, cacert) = server.cacert;
    tls::to_peer(&Peer {
        host: &server.target.host,
        alpn: &[b"http/1.1"],
        verify: true,
        cacert,
        identity: None,
        full_handshakes: false,
        early_data: false,
        options: OptionNames {
            verify: option,
            cacert: option,
        },
        seen: None,
    })
}

/// Why there is no response, one line.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// No address accepts a connection.
    #[error(transparent)]
    Connect(#[from] NoConnection),
    /// There is no TLS.
    #[error(transparent)]
    Tls(#[from] HandshakeError),
    /// What the server sent is no response.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The time is over.
    #[error("no complete response in time")]
    Timeout,
    /// The connection cannot be used.
    #[error("{}", plain(.0))]
    System(io::Error),
}

/// Why an exchange has failed.
struct Failure {
    /// The server had closed the connection before anything of a response arrived, as servers do
    /// with idle connections.
    is_stale: bool,
    reason: PostError,
}

impl Failure {
    fn of_session(error: SessionError, is_stale: bool) -> Self {
        Self {
            is_stale,
            reason: error.into(),
        }
    }

    fn of_system(error: io::Error, is_first: bool) -> Self {
        let is_timeout = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
        Self {
            is_stale: is_first && !is_timeout,
            reason: if is_timeout {
                PostError::Timeout
            } else {
                PostError::System(error)
            },
        }
    }
}

/// A connection to the server.
struct Connection {
    stream: Box<dyn Stream>,
    session: H1,
    shared: h1::H1Context,
}

impl Connection {
    fn new(stream: Box<dyn Stream>) -> Result<Self, PostError> {
        let limits = h1::Limits {
            captured_body_bytes_max: BODY_BYTES_MAX,
            ..h1::Limits::default()
        };
        let mut shared = h1::H1Context::new(limits, true);
        let mut session = H1::new(&mut shared);
        session.begin(&mut shared, &mut Vec::new())?;
        Ok(Self {
            stream,
            session,
            shared,
        })
    }

    fn exchange(&mut self, text: &[u8], deadline_ns: u64) -> Result<Response, Failure> {
        let kind = H1::prepare(&mut self.shared, &RequestText::OPAQUE);
        let requests = Requests {
            text,
            prepared: &[kind],
        };
        self.session
            .start(&mut self.shared, EXCHANGE, requests, &mut Vec::new())
            .map_err(|error| Failure::of_session(error, false))?;
        let written = self.stream.write_all(text);
        written
            .and_then(|()| self.stream.flush())
            .map_err(|error| Failure::of_system(error, true))?;
        let (mut buffer, mut events) = (vec![0; READ_BYTES], Vec::new());
        let mut is_first = true;
        loop {
            let length = match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                length => length.map_err(|error| Failure::of_system(error, is_first))?,
            };
            let shared = &mut self.shared;
            let called = match &buffer[..length] {
                [] => self.session.end(shared, &mut events),
                input => (self.session).receive(shared, input, &mut Vec::new(), &mut events),
            };
            let finished = events.drain(..).find_map(|event| match event {
                Event::Finished(_, response) => Some(response),
                _ => None,
            });
            if let Some(response) = finished {
                return Ok(response);
            }
            let is_stale = length == 0 && is_first;
            called.map_err(|error| Failure::of_session(error, is_stale))?;
            if length == 0 {
                return Err(Failure::of_session(SessionError::ClosedEarly, is_stale));
            }
            is_first = false;
            // A server that sends a byte now and then would take forever.
            if monotonic_ns() >= deadline_ns {
                return Err(Failure::of_system(ErrorKind::TimedOut.into(), false));
            }
        }
    }
}
