//! Connections that block, for what is done before a run or instead of one.

use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use engine::{Address, ProxyClient, TlsClient};
use plan::RunPlan;
use protocol::proxy::{Opening, ProxyFault, Route, Tunnel};
use protocol::tls;
use protocol::{SessionError, datagrams};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::resolve::{any_address_like, ask_for_versions, plain};

/// A connection, plain or within TLS.
pub(crate) trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// Connects. The timeout of the plan limits the connect, and each read and write.
///
/// # Errors
/// Those of the system.
pub(crate) fn connect(plan: &RunPlan, address: &Address) -> io::Result<Box<dyn Stream>> {
    let limit = plan.time_limit().max(Duration::from_millis(1));
    // The kernel has no limit in place of one that it cannot count.
    let kept = (limit < Duration::from_secs(1 << 30)).then_some(limit);
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(kept)?;
            stream.set_write_timeout(kept)?;
            Ok(Box::new(stream))
        }
        Address::Tcp(address) => {
            let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
            if let Some(source) = plan.load.source {
                socket.bind(&SockAddr::from(SocketAddr::new(source.nth(0), 0)))?;
            }
            match kept {
                Some(limit) => socket.connect_timeout(&SockAddr::from(*address), limit)?,
                None => socket.connect(&SockAddr::from(*address))?,
            }
            let stream = TcpStream::from(socket);
            stream.set_nodelay(true)?;
            stream.set_read_timeout(kept)?;
            stream.set_write_timeout(kept)?;
            Ok(Box::new(stream))
        }
    }
}

/// A UDP socket as a stream: what is written are batches of datagrams, and each read is one
/// datagram.
pub(crate) struct Datagrams(UdpSocket);

impl Datagrams {
    /// A socket that is connected to this address, if the server may speak QUIC there.
    ///
    /// # Errors
    /// Those of the system, such as a port that is closed.
    pub(crate) fn connect(plan: &RunPlan, address: SocketAddr) -> io::Result<Self> {
        ask_for_versions(address, plan.time_limit())?;
        let local = match plan.load.source {
            Some(source) => source.nth(0),
            None => any_address_like(address),
        };
        let socket = UdpSocket::bind((local, 0))?;
        socket.connect(address)?;
        Ok(Self(socket))
    }

    /// Another handle for the same socket, with which reads are limited.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn handle(&self) -> io::Result<UdpSocket> {
        self.0.try_clone()
    }
}

impl Read for Datagrams {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.recv(buffer)
    }
}

impl Write for Datagrams {
    fn write(&mut self, output: &[u8]) -> io::Result<usize> {
        for batch in datagrams::batches(output) {
            for datagram in batch.datagrams() {
                self.0.send(datagram)?;
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
) -> Result<Box<dyn Stream>, TunnelError> {
    let stream = match &proxy.tls {
        None => stream,
        Some(TlsClient { config, name, .. }) => {
            let within = tls::blocking_stream(config, name.clone(), stream);
            Box::new(within.map_err(|why| ProxyFault::Tls(why.to_string()))?)
        }
    };
    match &*proxy.route {
        Route::Forward(_) => Ok(stream),
        Route::Tunnel(tunnel) => open(tunnel, stream),
    }
}

fn open(tunnel: &Tunnel, mut stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, TunnelError> {
    let no_answer = |error| StreamError::new(error, "the proxy did not answer");
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
pub struct NoConnection(pub(crate) Option<io::Error>);

/// Why a stream cannot be used, one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// What did not happen in time.
    #[error("{0} within the timeout (--timeout)")]
    Timeout(&'static str),
    #[error("{}", plain(.0))]
    System(io::Error),
}

impl StreamError {
    /// `missing` is what did not happen if the error is a timeout.
    pub(crate) fn new(error: io::Error, missing: &'static str) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::Timeout(missing),
            _ => Self::System(error),
        }
    }
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
