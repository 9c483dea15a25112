//! A server that misbehaves byte for byte as configured and counts what it did.
//!
//! Unlike the built-in server it knows nothing of HTTP/1.1 but where a request ends, so that it can
//! say anything, and it knows exactly how many requests it has treated badly. Over HTTP/2, `http2`
//! reads the requests; `http3` is a server of its own.

mod http2;
mod http3;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use origin::{Identity, TlsSettings};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::SockRef;
use testkit::TestServer;

pub(crate) use http2::{Exchange, Http2, block};
pub(crate) use http3::{
    Arrivals, CONTROL, Http3, Http3Adversary, Http3Exchange, bidi, data, framed, headers, section,
};

/// The response of a server that does nothing wrong.
pub(crate) const RIGHT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright";

/// A valid response whose body ends with the connection.
pub(crate) const UNTIL_CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nto the end";

/// One thing that the server does on a connection.
#[derive(Debug, Clone)]
pub(crate) enum ServerStep {
    Send(Vec<u8>),
    /// Sends each byte separately, with TLS in its own record.
    EachByte(Vec<u8>),
    /// Sends these bytes in two pieces, cut at another position for each request.
    CutAnywhere(Vec<u8>),
    /// Sends each byte separately, with a pause in milliseconds.
    Drip(Vec<u8>, u64),
    /// Sends these bytes repeatedly until the client closes.
    Endless(Vec<u8>),
    /// The same, and reads what the client sends meanwhile.
    EndlessReading(Vec<u8>),
    /// Over HTTP/2: writes frames, which are sent together.
    Frames(fn(&mut Exchange<'_>)),
    /// Over HTTP/2: sends the frames written so far, each byte separately.
    Split,
    /// Sends these bytes below TLS.
    Raw(Vec<u8>),
    /// Sends nothing for this time, milliseconds.
    Pause(u64),
    /// Reads what has arrived, up to some bytes.
    ReadSome,
    /// Changes the keys of TLS 1.3 this number of times.
    ChangeKeys(u32),
    /// Sends nothing more and reads until the client closes.
    Hang,
    /// Neither sends nor reads until the client closes.
    Freeze,
    /// Shuts down sending and continues to serve.
    HalfClose,
    /// Closes the connection, with TLS after the closing alert.
    Fin,
    /// Closes the connection, with TLS without the closing alert.
    BareFin,
    /// RST: the connection ends at once.
    Reset,
}

/// `ServerStep::Send`, from anything with bytes.
pub(crate) fn send(bytes: impl AsRef<[u8]>) -> ServerStep {
    ServerStep::Send(bytes.as_ref().to_vec())
}

/// When the server misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// When a request has arrived, instead of responding.
    Asked,
    /// When a connection is accepted, below TLS.
    Connected,
}

/// How bytes are transported.
#[derive(Debug, Clone)]
pub(crate) enum Layer {
    Plain,
    Tls(Arc<ServerConfig>),
    /// TLS whose records, including those of the handshake, are sent byte by byte.
    SlicedTls(Arc<ServerConfig>),
}

impl Layer {
    pub(crate) fn is_tls(&self) -> bool {
        !matches!(self, Self::Plain)
    }
}

/// The certificate of all servers here.
pub(crate) static IDENTITY: LazyLock<Identity> =
    LazyLock::new(|| Identity::self_signed(&["localhost", "127.0.0.1"]).unwrap());

/// Both versions of TLS, no client certificate.
pub(crate) fn usual_tls() -> Layer {
    Layer::Tls(TlsSettings::new(IDENTITY.clone()).config().unwrap())
}

/// What a server does, and to which requests.
#[derive(Debug, Clone)]
pub(crate) struct Misbehavior {
    pub(crate) when: When,
    pub(crate) steps: Vec<ServerStep>,
    /// One of this number of requests (or connections) is affected; 1 means each.
    pub(crate) every: u64,
    pub(crate) layer: Layer,
    /// `None`: HTTP/1.1.
    pub(crate) http2: Option<Http2>,
    /// Whether Nagle's algorithm stays on.
    pub(crate) is_slow_start: bool,
}

/// What a server has seen and done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    connections: AtomicU64,
    requests: AtomicU64,
    wrong: AtomicU64,
}

impl Tally {
    /// Requests read to their end.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// The affected requests or connections.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::SeqCst)
    }
}

/// A server that behaves as configured.
pub(crate) struct Adversary {
    server: TestServer,
    scheme: &'static str,
    tally: Arc<Tally>,
}

impl Adversary {
    pub(crate) fn start(misbehavior: Misbehavior) -> Self {
        let is_tls = misbehavior.layer.is_tls();
        let tally = Arc::<Tally>::default();
        let counts = Arc::clone(&tally);
        Self {
            server: TestServer::start(move |stream| serve(stream, &misbehavior, &counts)),
            scheme: if is_tls { "https" } else { "http" },
            tally,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}/", self.scheme, self.server.address())
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// A socket that can send byte by byte.
struct Wire {
    stream: TcpStream,
    is_sliced: bool,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let end = if self.is_sliced { 1 } else { bytes.len() };
        self.stream.write(&bytes[..end.min(bytes.len())])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

enum Link {
    Plain(Wire),
    Tls(Box<StreamOwned<ServerConnection, Wire>>),
}

impl Link {
    fn stream(&self) -> &TcpStream {
        match self {
            Self::Plain(wire) => &wire.stream,
            Self::Tls(tls) => &tls.sock.stream,
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(wire) => wire.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(wire) => wire.write_all(bytes),
            Self::Tls(tls) => {
                tls.write_all(bytes)?;
                tls.flush()
            }
        }
    }
}

fn serve(stream: TcpStream, misbehavior: &Misbehavior, tally: &Tally) -> io::Result<()> {
    stream.set_nodelay(!misbehavior.is_slow_start)?;
    let number = tally.connections.fetch_add(1, Ordering::SeqCst);
    let mut plain = Link::Plain(Wire {
        stream,
        is_sliced: false,
    });
    if misbehavior.when == When::Connected && is_chosen(number, misbehavior.every) {
        tally.wrong.fetch_add(1, Ordering::SeqCst);
        return perform(&misbehavior.steps, number, &mut plain).map(drop);
    }
    let Link::Plain(wire) = plain else {
        return Ok(());
    };
    let mut link = match &misbehavior.layer {
        Layer::Plain => Link::Plain(wire),
        Layer::Tls(config) => tls(wire, config, false)?,
        Layer::SlicedTls(config) => tls(wire, config, true)?,
    };
    let served = match misbehavior.http2 {
        None => answer(&mut link, misbehavior, tally),
        Some(http2) => http2::answer(&mut link, http2, misbehavior, tally),
    };
    if served.is_err()
        && let Link::Tls(tls) = &mut link
    {
        // The alert of the TLS library must arrive.
        while tls.conn.wants_write() {
            tls.conn.write_tls(&mut tls.sock)?;
        }
        bare_fin(&link)?;
    }
    served
}

/// Answers the requests of a connection.
fn answer(link: &mut Link, misbehavior: &Misbehavior, tally: &Tally) -> io::Result<()> {
    let mut input = Vec::new();
    while let Some(head) = read_head(link, &mut input)? {
        let number = tally.requests.fetch_add(1, Ordering::SeqCst);
        let is_wrong = misbehavior.when == When::Asked && is_chosen(number, misbehavior.every);
        if !is_wrong || head.is_body_awaited {
            skip(link, &mut input, head.body_bytes)?;
        }
        if !is_wrong {
            let body_bytes = if head.is_head { b"right".len() } else { 0 };
            link.send(&RIGHT[..RIGHT.len() - body_bytes])?;
            continue;
        }
        let number = tally.wrong.fetch_add(1, Ordering::SeqCst);
        if perform(&misbehavior.steps, number, link)? == Flow::Over {
            return Ok(());
        }
        if !head.is_body_awaited {
            skip(link, &mut input, head.body_bytes)?;
        }
    }
    Ok(())
}

/// The first is not affected unless all are, so that a connection has served before.
fn is_chosen(number: u64, every: u64) -> bool {
    number % every == every - 1
}

fn tls(wire: Wire, config: &Arc<ServerConfig>, is_sliced: bool) -> io::Result<Link> {
    let session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
    let wire = Wire { is_sliced, ..wire };
    Ok(Link::Tls(Box::new(StreamOwned::new(session, wire))))
}

/// What a request's head says.
struct Head {
    /// HEAD: the response has no body.
    is_head: bool,
    body_bytes: usize,
    /// Whether the body is read first: it is small, and the client does not use Expect.
    is_body_awaited: bool,
}

/// Takes the head of a request from the input, reading more as needed; `None` at the end of the
/// connection.
fn read_head(link: &mut Link, input: &mut Vec<u8>) -> io::Result<Option<Head>> {
    /// Longer bodies are not read first.
    const AWAITED_MAX: usize = 1_000_000;
    loop {
        if let Some(at) = input.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&input[..at + 2]).to_ascii_lowercase();
            input.drain(..at + 4);
            let body_bytes = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |value| value.trim().parse().unwrap());
            let is_asked = text.contains("\r\nexpect: ");
            return Ok(Some(Head {
                is_head: text.starts_with("head "),
                body_bytes,
                is_body_awaited: body_bytes <= AWAITED_MAX && !is_asked,
            }));
        }
        if !read_more(link, input)? {
            return Ok(None);
        }
    }
}

/// Takes bytes of a request's body from the input.
fn skip(link: &mut Link, input: &mut Vec<u8>, mut bytes: usize) -> io::Result<()> {
    loop {
        let here = bytes.min(input.len());
        input.drain(..here);
        bytes -= here;
        if bytes == 0 || !read_more(link, input)? {
            return Ok(());
        }
    }
}

fn read_more(link: &mut Link, input: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 16 * 1024];
    let count = link.read(&mut buffer)?;
    input.extend_from_slice(&buffer[..count]);
    Ok(count > 0)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Goes,
    Over,
}

/// Does the steps, for the `number`-th time.
fn perform(steps: &[ServerStep], number: u64, link: &mut Link) -> io::Result<Flow> {
    for step in steps {
        match step {
            ServerStep::Send(bytes) => link.send(bytes)?,
            ServerStep::EachByte(bytes) => {
                for byte in bytes {
                    link.send(&[*byte])?;
                }
            }
            ServerStep::CutAnywhere(bytes) => {
                let cut = usize::try_from(number).unwrap_or_default() % bytes.len();
                link.send(&bytes[..cut])?;
                // The pause lets the client usually read the pieces separately.
                pause(1);
                link.send(&bytes[cut..])?;
            }
            ServerStep::Drip(bytes, pause_ms) => {
                for byte in bytes {
                    link.send(&[*byte])?;
                    pause(*pause_ms);
                }
            }
            ServerStep::Endless(bytes) => loop {
                link.send(bytes)?;
            },
            ServerStep::EndlessReading(bytes) => {
                let reading = link.stream().try_clone()?;
                return std::thread::scope(|scope| {
                    scope.spawn(|| io::copy(&mut &reading, &mut io::sink()));
                    loop {
                        link.send(bytes)?;
                    }
                });
            }
            // Those of HTTP/2 have no meaning over HTTP/1.1.
            ServerStep::Frames(_) | ServerStep::Split => {}
            ServerStep::Raw(bytes) => link.stream().write_all(bytes)?,
            ServerStep::Pause(pause_ms) => pause(*pause_ms),
            ServerStep::ReadSome => drop(link.read(&mut [0; 16 * 1024])?),
            ServerStep::ChangeKeys(times) => {
                let Link::Tls(tls) = link else { continue };
                for _ in 0..*times {
                    tls.conn.refresh_traffic_keys().map_err(io::Error::other)?;
                    tls.flush()?;
                }
            }
            ServerStep::Hang => return drain(link).map(|()| Flow::Over),
            ServerStep::Freeze => return freeze(link).map(|()| Flow::Over),
            ServerStep::HalfClose => link.stream().shutdown(Shutdown::Write)?,
            ServerStep::Fin => {
                if let Link::Tls(tls) = link {
                    tls.conn.send_close_notify();
                    tls.flush()?;
                }
                return bare_fin(link).map(|()| Flow::Over);
            }
            ServerStep::BareFin => return bare_fin(link).map(|()| Flow::Over),
            ServerStep::Reset => {
                SockRef::from(link.stream()).set_linger(Some(Duration::ZERO))?;
                return Ok(Flow::Over);
            }
        }
    }
    Ok(Flow::Goes)
}

/// Part of the configured behaviour. It does not wait for an event.
fn pause(pause_ms: u64) {
    std::thread::sleep(Duration::from_millis(pause_ms));
}

/// Closing with unread bytes sends a reset (RFC 2525 section 2.17), so they are read first.
fn bare_fin(link: &Link) -> io::Result<()> {
    link.stream().shutdown(Shutdown::Write)?;
    drain(link)
}

fn drain(link: &Link) -> io::Result<()> {
    io::copy(&mut link.stream(), &mut io::sink()).map(drop)
}

/// Waits for the end of the connection without reading, so that the client cannot send more than
/// the socket takes. A reset is told at once; an end in order is looked for.
fn freeze(link: &Link) -> io::Result<()> {
    const PAUSE_MS: u64 = 20;
    // A client that has ended leaves a connection that nobody reads; it is given up after a minute.
    for _ in 0..60_000 / PAUSE_MS {
        if link.stream().take_error()?.is_some() {
            return Ok(());
        }
        pause(PAUSE_MS);
    }
    Ok(())
}
