//! A server over QUIC whose HTTP/3 is what a row writes. QUIC itself follows the rules.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use origin::TlsSettings;
use protocol::h3::frame::{self, stream_type};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, EndpointEvent,
    Event, Incoming, ReadError, ServerConfig, Side, StreamEvent, StreamId, TransportConfig, VarInt,
    WriteError,
};

use super::{IDENTITY, Tally, is_chosen};

#[path = "../../../../protocol/tests/h3/written.rs"]
mod written;
pub(crate) use written::{data, framed};

/// The type of the control stream, its first byte.
pub(crate) const CONTROL: u8 = stream_type::CONTROL as u8;

/// The longest wait for a datagram. The end of the test is noticed afterwards.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// The shortest one: with a timeout of 0, a socket waits forever.
const WAIT_MIN: Duration = Duration::from_micros(1);

/// Datagrams that are read before anything is sent.
const ARRIVALS_MAX: usize = 64;

/// Bytes that are written to a stream without end before anything is read.
const ENDLESS_BYTES_MAX: usize = 1 << 20;

/// The body of the usual response.
const BODY: [u8; 100] = [b'x'; 100];

/// What the server does with a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Arrivals {
    #[default]
    Accepted,
    /// The client must show first that its address is its own.
    Retried,
    Refused,
    Ignored,
}

/// What a server does, and to which requests.
#[derive(Debug, Clone)]
pub(crate) struct Http3 {
    /// What happens to an affected request.
    pub(crate) act: fn(&mut Http3Exchange<'_>),
    /// One of this number of requests is affected; 1 means each.
    pub(crate) every: u64,
    pub(crate) arrivals: Arrivals,
    /// It sends SETTINGS.
    pub(crate) has_control: bool,
    /// Reads the bodies of requests.
    pub(crate) reads: bool,
    /// The window for the body of a request.
    pub(crate) window_bytes: u32,
    /// Requests that may be open at a time.
    pub(crate) streams_max: u32,
    pub(crate) protocol: &'static str,
    /// `None`: version 1.
    pub(crate) version: Option<u32>,
}

impl Default for Http3 {
    fn default() -> Self {
        Self {
            act: |x| x.respond(&[]),
            every: 1,
            arrivals: Arrivals::Accepted,
            has_control: true,
            reads: true,
            window_bytes: 1 << 20,
            streams_max: 256,
            protocol: "h3",
            version: None,
        }
    }
}

/// A server that behaves as configured, until it is dropped.
pub(crate) struct Http3Adversary {
    address: SocketAddr,
    /// The server alone keeps it open.
    socket: Weak<UdpSocket>,
    clients: Arc<Mutex<Vec<SocketAddr>>>,
    tally: Arc<Tally>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Http3Adversary {
    pub(crate) fn start(behavior: Http3) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let (tally, is_over) = (Arc::<Tally>::default(), Arc::<AtomicBool>::default());
        let (config, server_config) = configs(&behavior);
        let (socket, clients) = (Arc::new(socket), Arc::<Mutex<Vec<_>>>::default());
        let weak = Arc::downgrade(&socket);
        let mut server = Server {
            endpoint: Endpoint::new(config, Some(server_config), true, None),
            socket,
            clients: Arc::clone(&clients),
            behavior,
            tally: Arc::clone(&tally),
            links: HashMap::new(),
            has_quit: false,
        };
        let until = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !until.load(Ordering::SeqCst) && !server.has_quit {
                server.turn();
            }
        });
        Self {
            address,
            socket: weak,
            clients,
            tally,
            is_over,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}/", self.address)
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Where its connections came from.
    pub(crate) fn clients(&self) -> Vec<SocketAddr> {
        self.clients.lock().unwrap().clone()
    }

    /// Sends bytes to a client, below QUIC.
    pub(crate) fn send_raw(&self, datagram: &[u8], to: SocketAddr) {
        let socket = self.socket.upgrade().expect("it runs");
        socket.send_to(datagram, to).unwrap();
    }
}

impl Drop for Http3Adversary {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server has panicked");
        }
    }
}

fn configs(behavior: &Http3) -> (Arc<EndpointConfig>, Arc<ServerConfig>) {
    let mut tls =
        rustls::ServerConfig::clone(&TlsSettings::new(IDENTITY.clone()).config().unwrap());
    tls.alpn_protocols = vec![behavior.protocol.as_bytes().to_vec()];
    let crypto = QuicServerConfig::try_from(tls).unwrap();
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(behavior.window_bytes))
        .receive_window(VarInt::from_u32(behavior.window_bytes.saturating_mul(16)))
        .max_concurrent_bidi_streams(VarInt::from_u32(behavior.streams_max));
    let mut server_config = ServerConfig::with_crypto(Arc::new(crypto));
    server_config.transport_config(Arc::new(transport));
    let mut config = EndpointConfig::default();
    if let Some(version) = behavior.version {
        config.supported_versions(vec![version]);
    }
    (Arc::new(config), Arc::new(server_config))
}

struct Server {
    endpoint: Endpoint,
    socket: Arc<UdpSocket>,
    clients: Arc<Mutex<Vec<SocketAddr>>>,
    behavior: Http3,
    tally: Arc<Tally>,
    links: HashMap<ConnectionHandle, Link>,
    has_quit: bool,
}

/// A connection.
struct Link {
    quic: Connection,
    socket: Arc<UdpSocket>,
    client: SocketAddr,
    control: Option<StreamId>,
    /// What QUIC has not taken yet, and whether the stream ends then.
    unsent: Vec<(StreamId, Vec<u8>, bool)>,
    endless: Vec<Endless>,
    /// The server forgets the connection.
    is_forgotten: bool,
    /// The server ends.
    quits: bool,
}

/// What is sent until the client ends it.
enum Endless {
    /// These bytes on a stream, with the place where to go on.
    Bytes(StreamId, Vec<u8>, usize),
    /// Streams of these bytes.
    Streams(Vec<u8>),
}

impl Server {
    /// Waits for something to happen, and handles it.
    fn turn(&mut self) {
        let now = Instant::now();
        let links = self.links.values_mut();
        let due = links.filter_map(|link| link.quic.poll_timeout()).min();
        let wait = due.map_or(WAIT_MAX, |due| due.saturating_duration_since(now));
        let wait = wait.clamp(WAIT_MIN, WAIT_MAX);
        self.receive(wait);
        let now = Instant::now();
        for (handle, mut link) in std::mem::take(&mut self.links) {
            if link.quic.poll_timeout().is_some_and(|due| due <= now) {
                link.quic.handle_timeout(now);
            }
            self.process(handle, &mut link);
            link.send_endless();
            link.flush();
            self.has_quit |= link.quits;
            if link.is_forgotten {
                self.endpoint.handle_event(handle, EndpointEvent::drained());
            } else if !link.quic.is_drained() {
                self.links.insert(handle, link);
            }
        }
    }

    /// Waits for something to arrive, and reads what is there.
    fn receive(&mut self, wait: Duration) {
        let mut datagram = [0; 2048];
        self.socket.set_read_timeout(Some(wait)).unwrap();
        for _ in 0..ARRIVALS_MAX {
            // An error may be the end of the wait, or a port that is closed by now.
            let Ok((length, from)) = self.socket.recv_from(&mut datagram) else {
                break;
            };
            self.on_datagram(&datagram[..length], from);
            self.socket.set_nonblocking(true).unwrap();
        }
        self.socket.set_nonblocking(false).unwrap();
    }

    fn on_datagram(&mut self, datagram: &[u8], from: SocketAddr) {
        let mut reply = Vec::new();
        let now = Instant::now();
        let bytes = datagram.into();
        match self
            .endpoint
            .handle(now, from, None, None, bytes, &mut reply)
        {
            None => {}
            Some(DatagramEvent::Response(transmit)) => {
                let _ = self.socket.send_to(&reply[..transmit.size], from);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.greet(incoming, from),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(link) = self.links.get_mut(&handle) {
                    link.quic.handle_event(event);
                }
            }
        }
    }

    fn greet(&mut self, incoming: Incoming, from: SocketAddr) {
        let mut reply = Vec::new();
        let is_validated = incoming.remote_address_validated();
        let transmit = match self.behavior.arrivals {
            Arrivals::Ignored => {
                self.endpoint.ignore(incoming);
                return;
            }
            Arrivals::Refused => self.endpoint.refuse(incoming, &mut reply),
            Arrivals::Retried if !is_validated => {
                let retry = self.endpoint.retry(incoming, &mut reply);
                retry.unwrap_or_else(|_| panic!("the address is not validated"))
            }
            Arrivals::Accepted | Arrivals::Retried => {
                let now = Instant::now();
                match self.endpoint.accept(incoming, now, &mut reply, None) {
                    Ok((handle, quic)) => {
                        let link = Link {
                            quic,
                            socket: Arc::clone(&self.socket),
                            client: from,
                            control: None,
                            unsent: Vec::new(),
                            endless: Vec::new(),
                            is_forgotten: false,
                            quits: false,
                        };
                        self.links.insert(handle, link);
                        self.clients.lock().unwrap().push(from);
                        return;
                    }
                    // An alert of TLS, for example.
                    Err(error) => match error.response {
                        Some(transmit) => transmit,
                        None => return,
                    },
                }
            }
        };
        let _ = self.socket.send_to(&reply[..transmit.size], from);
    }

    /// Handles what QUIC has to tell.
    fn process(&mut self, handle: ConnectionHandle, link: &mut Link) {
        let mut complete = Vec::new();
        loop {
            while let Some(event) = link.quic.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(handle, event) {
                    link.quic.handle_event(event);
                }
            }
            let Some(event) = link.quic.poll() else {
                break;
            };
            match event {
                Event::Connected if self.behavior.has_control => {
                    let mut bytes = vec![CONTROL];
                    frame::append_settings(&[], &mut bytes);
                    link.control = link.open(&bytes, false);
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = link.quic.streams().accept(dir) {
                        complete.extend(link.read(id, self.behavior.reads));
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    complete.extend(link.read(id, self.behavior.reads));
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let _ = link.quic.send_stream(id).reset(error_code);
                }
                _ => {}
            }
        }
        for stream in complete {
            let number = self.tally.requests.fetch_add(1, Ordering::SeqCst);
            let mut exchange = Http3Exchange { stream, link };
            if is_chosen(number, self.behavior.every) {
                self.tally.wrong.fetch_add(1, Ordering::SeqCst);
                (self.behavior.act)(&mut exchange);
            } else {
                exchange.respond(&[]);
            }
            // A fault of the connection would take with it the responses in the same packet.
            link.flush();
        }
    }
}

impl Link {
    /// Reads a stream. Returns it if it is a request that is complete.
    fn read(&mut self, id: StreamId, reads_bodies: bool) -> Option<StreamId> {
        if id.dir() == Dir::Bi && !reads_bodies {
            return None;
        }
        let mut stream = self.quic.recv_stream(id);
        let mut chunks = stream.read(true).ok()?;
        let is_complete = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(_)) => {}
                Ok(None) => break true,
                Err(ReadError::Blocked | ReadError::Reset(_)) => break false,
            }
        };
        let _ = chunks.finalize();
        (is_complete && id.dir() == Dir::Bi).then_some(id)
    }

    fn open(&mut self, bytes: &[u8], ends: bool) -> Option<StreamId> {
        let id = self.quic.streams().open(Dir::Uni)?;
        self.unsent.push((id, bytes.to_vec(), ends));
        Some(id)
    }

    /// Passes to QUIC what it takes.
    fn write(&mut self) {
        let Self { quic, unsent, .. } = self;
        unsent.retain_mut(|(id, bytes, ends)| {
            while !bytes.is_empty() {
                match quic.send_stream(*id).write(bytes) {
                    Ok(sent) => drop(bytes.drain(..sent)),
                    Err(WriteError::Blocked) => return true,
                    Err(_) => return false,
                }
            }
            if *ends {
                let _ = quic.send_stream(*id).finish();
            }
            false
        });
    }

    fn send_endless(&mut self) {
        self.write();
        let Self { quic, endless, .. } = self;
        endless.retain_mut(|endless| match endless {
            Endless::Bytes(id, bytes, at) => {
                let mut left = ENDLESS_BYTES_MAX;
                loop {
                    match quic.send_stream(*id).write(&bytes[*at..]) {
                        Ok(sent) => {
                            *at = (*at + sent) % bytes.len();
                            left = left.saturating_sub(sent);
                        }
                        Err(WriteError::Blocked) => return true,
                        Err(_) => return false,
                    }
                    if left == 0 {
                        return true;
                    }
                }
            }
            Endless::Streams(bytes) => {
                while let Some(id) = quic.streams().open(Dir::Uni) {
                    let _ = quic.send_stream(id).write(bytes);
                    let _ = quic.send_stream(id).finish();
                }
                true
            }
        });
    }

    /// Sends what may be sent now.
    fn flush(&mut self) {
        self.write();
        let mut buffer = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(Instant::now(), 1, &mut buffer) {
            let sent = self.socket.send_to(&buffer[..transmit.size], self.client);
            // The client may have closed its port.
            let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            assert!(sent.as_ref().err().is_none_or(is_closed), "{sent:?}");
            buffer.clear();
        }
    }
}

/// An affected request.
pub(crate) struct Http3Exchange<'a> {
    pub(crate) stream: StreamId,
    link: &'a mut Link,
}

impl Http3Exchange<'_> {
    /// Sends the usual response with these fields, too.
    pub(crate) fn respond(&mut self, fields: &[(&str, &str)]) {
        self.send(&headers("200", fields));
        self.end(&data(&BODY));
    }

    /// Sends bytes on the stream of the request.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.send_on(self.stream, bytes, false);
    }

    /// The same, and ends the stream.
    pub(crate) fn end(&mut self, bytes: &[u8]) {
        self.send_on(self.stream, bytes, true);
    }

    pub(crate) fn send_on(&mut self, id: StreamId, bytes: &[u8], ends: bool) {
        self.link.unsent.push((id, bytes.to_vec(), ends));
    }

    /// Sends each byte in a packet of its own, and ends the stream.
    pub(crate) fn end_in_pieces(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.send(&[*byte]);
            self.link.flush();
        }
        self.end(b"");
    }

    /// Opens a stream with this byte, unless the connection is flooded already, and sends the same
    /// bytes again and again.
    pub(crate) fn open_and_send_endlessly(&mut self, first: u8, bytes: Vec<u8>) {
        if self.link.endless.is_empty()
            && let Some(id) = self.link.open(&[first], false)
        {
            self.link.write();
            self.send_endlessly(id, bytes);
        }
    }

    /// Sends the same bytes again and again.
    pub(crate) fn send_endlessly(&mut self, id: StreamId, bytes: Vec<u8>) {
        self.link.endless.push(Endless::Bytes(id, bytes, 0));
    }

    /// Opens streams with these bytes again and again.
    pub(crate) fn open_endlessly(&mut self, bytes: &[u8]) {
        self.link.endless.push(Endless::Streams(bytes.to_vec()));
    }

    /// The control stream of the server.
    pub(crate) fn control(&self) -> StreamId {
        self.link.control.expect("it was opened")
    }

    /// Opens a unidirectional stream with these bytes, if the connection is not closed.
    pub(crate) fn open(&mut self, bytes: &[u8], ends: bool) {
        let _ = self.link.open(bytes, ends);
    }

    /// Sends GOAWAY: requests from this stream on are not processed.
    pub(crate) fn goaway(&mut self, first: u64) {
        let mut bytes = Vec::new();
        frame::append_goaway(first, &mut bytes);
        self.send_on(self.control(), &bytes, false);
    }

    /// Sends what was written, and then RESET_STREAM.
    pub(crate) fn reset(&mut self, id: StreamId, code: u64) {
        self.link.flush();
        let code = VarInt::from_u64(code).unwrap();
        // It fails if the client has closed the connection.
        let _ = self.link.quic.send_stream(id).reset(code);
    }

    /// Sends STOP_SENDING.
    pub(crate) fn stop(&mut self, id: StreamId, code: u64) {
        let code = VarInt::from_u64(code).unwrap();
        let _ = self.link.quic.recv_stream(id).stop(code);
    }

    /// Sends what was written, and closes the connection with this code of HTTP/3.
    pub(crate) fn close(&mut self, code: u64, reason: &'static str) {
        self.link.flush();
        let (now, code) = (Instant::now(), VarInt::from_u64(code).unwrap());
        let reason = reason.as_bytes().into();
        self.link.quic.close(now, code, reason);
    }

    /// Forgets the connection, like a server that has started anew.
    pub(crate) fn forget(&mut self) {
        self.link.is_forgotten = true;
    }

    /// Ends the server, without a word to its clients.
    pub(crate) fn quit(&mut self) {
        self.link.quits = true;
    }

    /// Sends bytes below QUIC.
    pub(crate) fn send_raw(&mut self, datagram: &[u8]) {
        let _ = self.link.socket.send_to(datagram, self.link.client);
    }
}

/// The stream of the request with this number, from 0, of a connection.
pub(crate) fn bidi(number: u64) -> StreamId {
    StreamId::new(Side::Client, Dir::Bi, number)
}

/// These fields, behind this status if it is not empty.
fn behind<'a>(status: &'a str, fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let status = (!status.is_empty()).then_some((":status", status));
    status.into_iter().chain(fields.iter().copied()).collect()
}

/// A field section, with this status if it is not empty.
pub(crate) fn section(status: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    written::section(&behind(status, fields))
}

/// A HEADERS frame, with this status if it is not empty.
pub(crate) fn headers(status: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    written::headers(&behind(status, fields))
}
