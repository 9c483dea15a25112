//! Sockets that block until a deadline, and proxies in front of them.

use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use eventloop::{Address, monotonic_ns};
use plan::RunPlan;
use protocol::proxy::{Opening, ProxyClient, ProxyFault, Route, Tunnel};
use protocol::tls::{self, TlsClient};
use protocol::{SessionError, datagrams};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::resolve::{any_address_like, ask_for_versions, plain};

/// A connection, plain or within TLS.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// The kernel cannot count all times; those that are later are no limit.
const LONGEST_WAIT_NS: u64 = 1 << 60;

/// When a socket gives up. Clones are the same deadline.
#[derive(Clone)]
pub(crate) struct Deadline(Arc<TimeLimit>);

struct TimeLimit {
    /// On the monotonic clock.
    end_ns: AtomicU64,
    limit_ns: u64,
    /// The limit is for an exchange as a whole, not for each of its steps.
    is_whole: bool,
    /// The limit in words, for messages.
    name: String,
}

impl Deadline {
    /// Each step may take as long as the plan says.
    pub(crate) fn of_plan(plan: &RunPlan) -> Self {
        Self::new(
            plan.time_limit(),
            false,
            "the timeout (--timeout)".to_owned(),
        )
    }

    /// An exchange may take this long as a whole. The name is for messages.
    pub(crate) fn of_exchange(limit: Duration, name: String) -> Self {
        Self::new(limit, true, name)
    }

    fn new(limit: Duration, is_whole: bool, name: String) -> Self {
        Self(Arc::new(TimeLimit {
            end_ns: AtomicU64::new(u64::MAX),
            limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
            is_whole,
            name,
        }))
    }

    /// An exchange begins.
    pub(crate) fn begin_exchange(&self) {
        self.set_ns(monotonic_ns().saturating_add(self.0.limit_ns));
    }

    /// A step of an exchange begins.
    pub(crate) fn begin_step(&self) {
        if !self.0.is_whole {
            self.begin_exchange();
        }
    }

    pub(crate) fn ns(&self) -> u64 {
        self.0.end_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ns(&self, end_ns: u64) {
        self.0.end_ns.store(end_ns, Ordering::Relaxed);
    }

    /// The time that is left; `None` without a limit.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.ns().saturating_sub(monotonic_ns()) {
            0 => Err(ErrorKind::TimedOut.into()),
            LONGEST_WAIT_NS.. => Ok(None),
            left_ns => Ok(Some(Duration::from_nanos(left_ns).max(SHORTEST_WAIT))),
        }
    }

    /// Why a stream failed. `missing` is what did not happen if the error is a timeout.
    pub(crate) fn error(&self, error: io::Error, missing: &'static str) -> StreamError {
        if is_timeout(&error) {
            StreamError::Timeout(missing, self.0.name.clone())
        } else {
            StreamError::System(error)
        }
    }
}

/// The kernel takes 0 for no limit, and microseconds for the rest.
const SHORTEST_WAIT: Duration = Duration::from_micros(1);

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// A socket whose reads and writes end at a deadline.
struct TimedSocket {
    socket: Socket,
    deadline: Deadline,
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.deadline.left()?)?;
        self.socket.read(buffer)
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.deadline.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connects, which is a step of its own.
///
/// # Errors
/// Those of the system.
pub(crate) fn connect(
    plan: &RunPlan,
    address: &Address,
    deadline: &Deadline,
) -> io::Result<Box<dyn Stream>> {
    deadline.begin_step();
    let socket = match address {
        Address::Unix(path) => {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // It also limits how long a full queue of the server is waited for (unix(7)).
            socket.set_write_timeout(deadline.left()?)?;
            socket.connect(&SockAddr::unix(path)?)?;
            socket
        }
        Address::Tcp(address) => {
            let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
            if let Some(source) = plan.load.source {
                socket.bind(&SockAddr::from(SocketAddr::new(source.nth(0), 0)))?;
            }
            match deadline.left()? {
                Some(left) => socket.connect_timeout(&SockAddr::from(*address), left)?,
                None => socket.connect(&SockAddr::from(*address))?,
            }
            socket.set_tcp_nodelay(true)?;
            socket
        }
    };
    let deadline = deadline.clone();
    Ok(Box::new(TimedSocket { socket, deadline }))
}

/// A UDP socket as a stream: what is written are batches of datagrams, and each read is one
/// datagram.
struct Datagrams(TimedSocket);

/// A socket for datagrams to this address, if the server may speak QUIC there.
///
/// # Errors
/// Those of the system, such as a port that is closed.
pub(crate) fn connect_datagrams(
    plan: &RunPlan,
    address: SocketAddr,
    deadline: &Deadline,
) -> io::Result<Box<dyn Stream>> {
    deadline.begin_step();
    ask_for_versions(address, plan.time_limit())?;
    let local = match plan.load.source {
        Some(source) => source.nth(0),
        None => any_address_like(address),
    };
    let socket = UdpSocket::bind((local, 0))?;
    socket.connect(address)?;
    Ok(Box::new(Datagrams(TimedSocket {
        socket: socket.into(),
        deadline: deadline.clone(),
    })))
}

impl Read for Datagrams {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Datagrams {
    fn write(&mut self, output: &[u8]) -> io::Result<usize> {
        for batch in datagrams::batches(output) {
            for datagram in batch.datagrams() {
                self.0.write(datagram)?;
            }
        }
        Ok(output.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Goes on from a connection to the proxy to where requests are sent: within TLS if it is an https
/// proxy, and to the other end of the tunnel unless the proxy gets each request.
///
/// # Errors
/// Why the proxy opened no tunnel.
pub(crate) fn through(
    proxy: &ProxyClient,
    stream: Box<dyn Stream>,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, TunnelError> {
    deadline.begin_step();
    let stream = match &proxy.tls {
        None => stream,
        Some(TlsClient { config, name, .. }) => {
            let within = tls::blocking_stream(config, name.clone(), stream);
            Box::new(within.map_err(|why| ProxyFault::Tls(why.to_string()))?)
        }
    };
    match &*proxy.route {
        Route::Forward(_) => Ok(stream),
        Route::Tunnel(tunnel) => open(tunnel, stream, deadline),
    }
}

fn open(
    tunnel: &Tunnel,
    mut stream: Box<dyn Stream>,
    deadline: &Deadline,
) -> Result<Box<dyn Stream>, TunnelError> {
    let no_answer = |error| deadline.error(error, "the proxy did not answer");
    let mut opening = Opening::default();
    let mut output = Vec::new();
    opening.begin(tunnel, &mut output);
    let mut buffer = [0; 4096];
    loop {
        let written = stream.write_all(&output).and_then(|()| stream.flush());
        written.map_err(no_answer)?;
        output.clear();
        let length = match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            length => length.map_err(no_answer)?,
        };
        if length == 0 {
            return Err(ProxyFault::Closed.into());
        }
        let rest = opening.receive(tunnel, &buffer[..length], &mut output);
        if let Some(rest) = rest? {
            let begin = Cursor::new(rest);
            return Ok(Box::new(PrefixedStream { begin, stream }));
        }
    }
}

/// No address accepts a connection. The error is that of the last one; `None` if there is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "unable to connect: {}",
    .0.as_ref().map_or_else(|| "no address".to_owned(), plain)
)]
pub(crate) struct NoConnection(pub(crate) Option<io::Error>);

/// Why a stream cannot be used, one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// What did not happen in time, and the limit.
    #[error("{0} within {1}")]
    Timeout(&'static str, String),
    #[error("{}", plain(.0))]
    System(io::Error),
}

/// Why a proxy opened no tunnel, one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TunnelError {
    #[error("{}", SessionError::Proxy(.0.clone()))]
    Fault(#[from] ProxyFault),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// A connection of which the first bytes have been read already.
struct PrefixedStream {
    begin: Cursor<Vec<u8>>,
    stream: Box<dyn Stream>,
}

impl Read for PrefixedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.begin.read(buffer)? {
            0 => self.stream.read(buffer),
            length => Ok(length),
        }
    }
}

impl Write for PrefixedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
