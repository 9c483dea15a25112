//! A simulated HTTP/3 server: the session that the built-in server uses, behind datagrams of the
//! simulated network. It responds as the test says.

use crate::simulation::waits_ns;
use eventloop::sim::{Actions, Peer};
use protocol::h2::RequestHead;
use protocol::h3::error::ErrorCode;
use protocol::h3::heads::Heads;
use protocol::h3::qpack::{SectionLimits, encode};
use protocol::h3::server::{Received, Server, StreamId};
use protocol::h3::{Arrival, Endpoint, Greeting, ServerSettings};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// What the server does with a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    /// It responds after this time.
    After(u64),
    /// It never responds.
    Silence,
    /// It sends GOAWAY, and responds after this time.
    LastOne(u64),
    /// It closes the connection with this code.
    Close(ErrorCode),
}

/// The truth about one request, as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Served {
    /// When all of the request had arrived.
    pub(crate) arrived_ns: u64,
    /// When the response was given to QUIC.
    pub(crate) answered_ns: Option<u64>,
}

/// What the server knows of a run, also while the simulator owns the server.
pub(crate) type Log = Rc<RefCell<Vec<Served>>>;

/// The server. `reply` gets the number of the request, from 0, over all connections.
pub(crate) struct QuicServer<F> {
    reply: F,
    /// What arrives within this time waits for its end.
    pub(crate) stall_ns: Range<u64>,
    /// Datagrams of the client that arrive within this time are lost.
    pub(crate) deaf_ns: Range<u64>,
    /// Datagrams of the server within this time are lost.
    pub(crate) mute_ns: Range<u64>,
    log: Log,
    endpoint: Endpoint,
    heads: Heads<Rc<RequestHead>>,
    /// By the index of the endpoint.
    connections: BTreeMap<usize, Connection>,
}

struct Connection {
    /// The number of the simulated socket.
    socket: u32,
    session: Server,
    /// Responses that are due, by time and number of the request.
    due: BTreeMap<(u64, usize), StreamId>,
    /// When the simulator wakes the server for it.
    woken_ns: Option<u64>,
}

/// The usual settings of the server.
pub(crate) const SETTINGS: ServerSettings = ServerSettings {
    streams_max: 1_000,
    window_bytes: 1 << 20,
    section_bytes_max: 16 * 1024,
    idle_timeout_ms: 30_000,
    greeting: Greeting::Accept,
    handshakes_max: 1_000,
    has_grease: false,
    streams_delay_ns: 0,
};

impl<F: FnMut(u64) -> Reply> QuicServer<F> {
    pub(crate) fn new(reply: F) -> Self {
        Self::with(SETTINGS, reply)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "any moment; from there on the time is simulated"
    )]
    pub(crate) fn with(settings: ServerSettings, reply: F) -> Self {
        let endpoint = Endpoint::new(settings, &certified(), Instant::now(), 1);
        Self {
            reply,
            stall_ns: 0..0,
            deaf_ns: 0..0,
            mute_ns: 0..0,
            log: Log::default(),
            endpoint: endpoint.expect("the settings are good"),
            heads: Heads::new(SectionLimits::default()),
            connections: BTreeMap::new(),
        }
    }

    pub(crate) fn log(&self) -> Log {
        Rc::clone(&self.log)
    }

    /// Lets the connection do everything that is possible now.
    fn drive(&mut self, index: usize, now_ns: u64, actions: &mut Actions) {
        let Self {
            reply,
            stall_ns,
            log,
            endpoint,
            heads,
            connections,
            ..
        } = self;
        let Some(connection) = connections.get_mut(&index) else {
            return;
        };
        let session = &mut connection.session;
        if session
            .next_timeout_ns()
            .is_some_and(|at_ns| at_ns <= now_ns)
        {
            session.handle_timeout(endpoint);
        }
        let mut received = Vec::new();
        session.process(endpoint, heads, &mut received);
        for stream in received.iter().filter_map(complete) {
            let number = log.borrow().len();
            log.borrow_mut().push(Served {
                arrived_ns: now_ns,
                answered_ns: None,
            });
            match reply(number as u64) {
                Reply::Silence => {}
                Reply::Close(code) => session.close(endpoint, code),
                Reply::After(after_ns) => {
                    let at_ns = now_ns + waits_ns(stall_ns, now_ns) + after_ns;
                    connection.due.insert((at_ns, number), stream);
                }
                Reply::LastOne(after_ns) => {
                    session.send_goaway();
                    connection.due.insert((now_ns + after_ns, number), stream);
                }
            }
        }
        while let Some(first) = connection.due.first_entry()
            && first.key().0 <= now_ns
        {
            let ((_, number), stream) = first.remove_entry();
            log.borrow_mut()[number].answered_ns = Some(now_ns);
            respond(session, stream);
        }
        session.write();
        self.transmit(index, now_ns, actions);
    }

    fn transmit(&mut self, index: usize, now_ns: u64, actions: &mut Actions) {
        let Some(connection) = self.connections.get_mut(&index) else {
            return;
        };
        let mut buffer = Vec::new();
        while let Some((to, segment)) = connection.session.transmit(&mut self.endpoint, &mut buffer)
        {
            assert_eq!(to, address(connection.socket), "no client moves");
            for datagram in buffer.chunks(usize::from(segment)) {
                if !self.mute_ns.contains(&now_ns) {
                    actions.send_datagram(0, datagram);
                }
            }
        }
        if connection.session.is_drained() {
            self.connections.remove(&index);
            return;
        }
        let response_ns = connection.due.keys().next().map(|(at_ns, _)| *at_ns);
        let timeout_ns = connection.session.next_timeout_ns();
        let next_ns = response_ns.into_iter().chain(timeout_ns).min();
        if let Some(next_ns) = next_ns
            && connection.woken_ns.is_none_or(|at_ns| next_ns < at_ns)
        {
            connection.woken_ns = Some(next_ns);
            actions.wake(next_ns.saturating_sub(now_ns));
        }
    }
}

impl<F: FnMut(u64) -> Reply> Peer for QuicServer<F> {
    fn on_bytes(&mut self, _connection: u32, _bytes: &[u8], _now_ns: u64, _actions: &mut Actions) {
        unreachable!("QUIC has datagrams only");
    }

    fn on_datagram(&mut self, socket: u32, datagram: &[u8], now_ns: u64, actions: &mut Actions) {
        if self.deaf_ns.contains(&now_ns) {
            return;
        }
        self.endpoint.at(now_ns);
        let mut reply = Vec::new();
        let from = address(socket);
        let index = match self.endpoint.receive(from, datagram, &mut reply) {
            Arrival::Packet(index, packet) => {
                if let Some(connection) = self.connections.get_mut(&index) {
                    connection.session.receive(packet);
                }
                index
            }
            Arrival::Connection(index, session) => {
                let connection = Connection {
                    socket,
                    session,
                    due: BTreeMap::new(),
                    woken_ns: None,
                };
                self.connections.insert(index, connection);
                index
            }
            Arrival::Reply => {
                actions.send_datagram(0, reply);
                return;
            }
            Arrival::Nothing => return,
        };
        self.drive(index, now_ns, actions);
    }

    fn on_wake(&mut self, socket: u32, now_ns: u64, actions: &mut Actions) {
        self.endpoint.at(now_ns);
        let mut connections = self.connections.iter_mut();
        let found = connections.find(|(_, connection)| connection.socket == socket);
        if let Some((&index, connection)) = found {
            if connection.woken_ns.is_some_and(|at_ns| at_ns <= now_ns) {
                connection.woken_ns = None;
            }
            self.drive(index, now_ns, actions);
        }
    }
}

/// The stream of a request that is complete with this.
fn complete(received: &Received) -> Option<StreamId> {
    match received {
        Received::Request {
            stream,
            is_whole: true,
            ..
        }
        | Received::Content {
            stream,
            is_last: true,
            ..
        } => Some(*stream),
        _ => None,
    }
}

/// 200, and two bytes.
fn respond(session: &mut Server, stream: StreamId) {
    let mut section = Vec::new();
    encode::prefix(&mut section);
    encode::field(b":status", b"200", &mut section);
    encode::field(b"content-length", b"2", &mut section);
    session.send_head(stream, &section, false);
    session.send_data(stream, 2, true, |output| output.extend_from_slice(b"ok"));
}

/// Each simulated socket has an address of its own.
fn address(socket: u32) -> SocketAddr {
    let host = Ipv4Addr::from(0x0a00_0000 | socket);
    SocketAddr::new(IpAddr::V4(host), 4000)
}

/// Signatures of Ed25519 have one length, so the same seed gives the same datagrams.
fn certified() -> rustls::ServerConfig {
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key can be made");
    let params = CertificateParams::new(["simulated".to_owned()]).expect("the name is good");
    let certificate = params.self_signed(&key).expect("it signs itself");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("the key is PKCS #8");
    rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider knows TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("the certificate is good")
}
