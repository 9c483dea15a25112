//! TCP servers whose connections do what a test says, and addresses without a server.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use socket2::{Domain, Socket, Type};

/// A server with a thread for each connection. It stops accepting when this is dropped; the threads
/// of its connections end when the clients do.
#[derive(Debug)]
pub struct TestServer {
    address: SocketAddr,
    peers: Arc<Mutex<Vec<SocketAddr>>>,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Listens on a free port of loopback.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", serve).expect("a port of loopback is free")
    }

    /// Listens at an address. `serve` is called for each connection, in a thread of its own; its
    /// error is the end of the connection and no failure.
    ///
    /// # Errors
    /// If it cannot listen there.
    pub fn start_at(
        address: impl ToSocketAddrs,
        serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let is_over = Arc::<AtomicBool>::default();
        let peers = Arc::<Mutex<Vec<SocketAddr>>>::default();
        let (over, seen) = (Arc::clone(&is_over), Arc::clone(&peers));
        let serve = Arc::new(serve);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                if let (Ok(peer), Ok(mut seen)) = (stream.peer_addr(), seen.lock()) {
                    seen.push(peer);
                }
                let serve = Arc::clone(&serve);
                std::thread::spawn(move || drop(serve(stream)));
            }
        });
        Ok(Self {
            address,
            peers,
            is_over,
            accepting: Some(accepting),
        })
    }

    /// Address and port on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the connections came from that were accepted so far, in their order.
    ///
    /// # Panics
    /// Never: the accepting thread does not panic.
    #[must_use]
    pub fn peers(&self) -> Vec<SocketAddr> {
        self.peers.lock().expect("no holder panics").clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// An address at which connections are refused. The port is taken, and nobody listens on it, so no
/// other test can get it meanwhile.
#[derive(Debug)]
pub struct Refusing {
    socket: Socket,
}

impl Refusing {
    /// A port of loopback.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it takes a port")]
    pub fn new() -> Self {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket
            .bind(&any.into())
            .expect("a port of loopback is free");
        Self { socket }
    }

    /// The address.
    ///
    /// # Panics
    /// Never: a bound socket has an address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let address = self.socket.local_addr().expect("it is bound");
        address.as_socket().expect("it is an IP address")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn every_connection_is_served_and_the_port_is_free_afterwards() {
        let server = TestServer::start(|mut stream| stream.write_all(b"hello"));
        for _ in 0..2 {
            let mut text = String::new();
            let mut stream = TcpStream::connect(server.address()).expect("it listens");
            stream.read_to_string(&mut text).expect("it answers");
            assert_eq!(text, "hello");
        }
        assert_eq!(server.peers().len(), 2);
        let address = server.address();
        drop(server);
        // A child that another test is just starting shares the listener until it executes its
        // program. 100 connections fit in the backlog.
        let is_refused = |_| {
            std::thread::yield_now();
            TcpStream::connect(address).is_err()
        };
        assert!((0..100).any(is_refused));
    }

    #[test]
    fn nobody_listens_at_a_refusing_address() {
        let refusing = Refusing::new();
        let error = TcpStream::connect(refusing.address()).expect_err("it refuses");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(TcpListener::bind(refusing.address()).is_err());
    }
}
