//! Handshakes at a time: addresses may be forged, so a client must show its own when there are
//! many, and nobody is let in when there are too many.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use protocol::h3::server::Server;
use protocol::h3::{Arrival, ServerSettings};
use quinn_proto::{Connection, ConnectionError, DatagramEvent, Event};

use crate::link::{Peer, SERVER, SETTINGS, client};

/// Of these, 2 may be with clients whose address is unknown.
const HANDSHAKES_MAX: usize = 32;

/// A server whose clients send nothing but the beginning of a handshake.
struct Site {
    peer: Peer,
    sessions: Vec<Server>,
}

/// One of these clients.
struct Client {
    endpoint: quinn_proto::Endpoint,
    quic: Connection,
    address: SocketAddr,
}

/// What the server does about a datagram.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    Accepted,
    Replied(Vec<u8>),
}

impl Done {
    /// RFC 9000 section 17.2.5.
    fn is_retry(&self) -> bool {
        matches!(self, Self::Replied(reply) if reply[0] & 0xf0 == 0xf0)
    }
}

impl Site {
    fn new() -> Self {
        let settings = ServerSettings {
            handshakes_max: HANDSHAKES_MAX,
            ..SETTINGS
        };
        Self {
            peer: Peer::begun(settings),
            sessions: Vec::new(),
        }
    }

    fn client(&self, number: u16) -> Client {
        let (endpoint, _, quic) = client(self.peer.now());
        Client {
            endpoint,
            quic,
            address: SocketAddr::from(([192, 0, 2, 3], number)),
        }
    }

    /// Gives the server the client's next datagram.
    fn send(&mut self, client: &mut Client) -> Done {
        let datagram = client.next_datagram(self.peer.now());
        let mut reply = Vec::new();
        let endpoint = &mut self.peer.endpoint;
        match endpoint.receive(client.address, &datagram, &mut reply) {
            Arrival::Connection(_, session) => {
                self.sessions.push(session);
                Done::Accepted
            }
            Arrival::Reply => Done::Replied(reply),
            other => panic!("{other:?}"),
        }
    }

    /// Begins handshakes that do not go on.
    fn begin(&mut self, count: u16) {
        for number in 0..count {
            let mut client = self.client(number);
            assert_eq!(self.send(&mut client), Done::Accepted);
        }
    }

    /// Lets a client show its address.
    fn retry(&mut self, client: &mut Client) -> Done {
        let done = self.send(client);
        assert!(done.is_retry(), "{done:?}");
        client.receive(self.peer.now(), done);
        self.send(client)
    }

    /// Lets this time pass.
    fn wait(&mut self, span: Duration) {
        self.peer.skip(span);
        let (endpoint, heads) = (&mut self.peer.endpoint, &mut self.peer.heads);
        for session in &mut self.sessions {
            session.handle_timeout(endpoint);
            session.process(endpoint, heads, &mut Vec::new());
        }
        self.sessions.retain(|session| !session.is_drained());
    }
}

impl Client {
    fn next_datagram(&mut self, now: Instant) -> Vec<u8> {
        let mut buffer = Vec::new();
        let transmit = self.quic.poll_transmit(now, 1, &mut buffer);
        buffer.truncate(transmit.expect("it has something to send").size);
        buffer
    }

    fn receive(&mut self, now: Instant, done: Done) {
        let Done::Replied(reply) = done else {
            panic!("{done:?}");
        };
        let (reply, mut unused) = (reply.as_slice().into(), Vec::new());
        let event = self
            .endpoint
            .handle(now, SERVER, None, None, reply, &mut unused);
        let Some(DatagramEvent::ConnectionEvent(_, event)) = event else {
            panic!("it is for this connection");
        };
        self.quic.handle_event(event);
    }

    fn lost(&mut self) -> Option<ConnectionError> {
        std::iter::from_fn(|| self.quic.poll()).find_map(|event| match event {
            Event::ConnectionLost { reason } => Some(reason),
            _ => None,
        })
    }
}

#[test]
fn with_many_handshakes_a_client_must_show_its_address() {
    let mut site = Site::new();
    site.begin(2);
    let mut client = site.client(2);
    assert_eq!(site.retry(&mut client), Done::Accepted);
    // Who has given up is forgotten.
    site.wait(Duration::from_millis(SETTINGS.idle_timeout_ms.into()));
    assert!(site.sessions.is_empty(), "{:?}", site.sessions);
    site.begin(2);
}

#[test]
fn with_too_many_handshakes_nobody_is_let_in() {
    let mut site = Site::new();
    site.begin(2);
    for number in 2..HANDSHAKES_MAX as u16 {
        let mut client = site.client(number);
        assert_eq!(site.retry(&mut client), Done::Accepted);
    }
    let mut client = site.client(HANDSHAKES_MAX as u16);
    let done = site.send(&mut client);
    assert!(!done.is_retry(), "{done:?}");
    client.receive(site.peer.now(), done);
    let lost = client.lost();
    let Some(ConnectionError::ConnectionClosed(close)) = &lost else {
        panic!("{lost:?}");
    };
    // CONNECTION_REFUSED
    assert_eq!(u64::from(close.error_code), 2);
}

#[test]
fn handshakes_that_are_complete_leave_room_for_others() {
    let mut site = Site::new();
    site.peer.run();
    assert!(!site.peer.quic.is_handshaking());
    site.begin(2);
    let mut client = site.client(2);
    assert!(site.send(&mut client).is_retry());
}
