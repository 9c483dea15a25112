//! The remote end of cases with datagrams: it records what arrives and answers each datagram the
//! same way, from a thread with a real socket or in the simulator.
#![allow(unsafe_code, reason = "UDP_SEGMENT has no safe form in std")]

use crate::client::Client;
use eventloop::EventLoop;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A peer that waits longer for the client gives up, so that no thread stays for ever.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// What the peer sends for each datagram that arrives.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Nothing,
    /// The datagram itself.
    Echo,
    /// An empty datagram, and then the datagram itself.
    EmptyAndEcho,
    /// These datagrams, in one call of the kernel.
    Burst(Batch),
}

/// Datagrams of a length, of which the last one may be shorter.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) segment: usize,
}

impl Batch {
    fn single(datagram: &[u8]) -> Self {
        Self {
            bytes: datagram.to_vec(),
            segment: datagram.len(),
        }
    }

    pub(crate) fn datagrams(&self) -> Vec<Vec<u8>> {
        if self.bytes.is_empty() {
            vec![Vec::new()]
        } else {
            self.bytes.chunks(self.segment).map(Into::into).collect()
        }
    }
}

/// Records and answers. Clones are the same peer.
#[derive(Debug, Clone)]
pub(crate) struct Answerer {
    answer: Answer,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
    is_listening: Arc<AtomicBool>,
}

impl Answerer {
    pub(crate) fn new(answer: Answer) -> Self {
        Self {
            answer,
            received: Arc::default(),
            is_listening: Arc::new(AtomicBool::new(true)),
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::SeqCst)
    }

    /// Records a datagram. Returns the answer.
    pub(crate) fn take(&self, datagram: &[u8]) -> Vec<Batch> {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.push(datagram.to_vec());
        match &self.answer {
            Answer::Nothing => Vec::new(),
            Answer::Echo => vec![Batch::single(datagram)],
            Answer::EmptyAndEcho => vec![Batch::single(&[]), Batch::single(datagram)],
            Answer::Burst(batch) => vec![batch.clone()],
        }
    }
}

/// The test's handle of the peer.
pub(crate) struct DatagramPeer {
    pub(crate) address: SocketAddr,
    answerer: Answerer,
    /// The socket of a thread that has not been started.
    is_simulated: bool,
}

impl DatagramPeer {
    /// Receives at a port of this address.
    pub(crate) fn on_loopback(host: &str, answer: Answer) -> io::Result<Self> {
        let socket = UdpSocket::bind((host, 0))?;
        let peer = Self {
            address: socket.local_addr()?,
            answerer: Answerer::new(answer),
            is_simulated: false,
        };
        peer.serve(socket);
        Ok(peer)
    }

    pub(crate) fn simulated(answerer: Answerer) -> Self {
        Self {
            address: ([127, 0, 0, 1], 443).into(),
            answerer,
            is_simulated: true,
        }
    }

    /// The same kind of peer at another port, at which nobody receives before [`Self::listen`].
    pub(crate) fn into_deserted(mut self, host: IpAddr) -> Self {
        self.answerer = if self.is_simulated {
            self.answerer
        } else {
            Answerer::new(self.answerer.answer)
        };
        self.answerer.is_listening.store(false, Ordering::SeqCst);
        if !self.is_simulated {
            let socket = UdpSocket::bind((host, 0)).expect("loopback works");
            self.address = socket.local_addr().expect("it is bound");
        }
        self
    }

    /// Begins to receive at the port.
    pub(crate) fn listen(&self) {
        self.answerer.is_listening.store(true, Ordering::SeqCst);
        if !self.is_simulated {
            self.serve(UdpSocket::bind(self.address).expect("the port is still free"));
        }
    }

    /// What has arrived.
    pub(crate) fn received(&self) -> Vec<Vec<u8>> {
        let received = self.answerer.received.lock();
        received.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets the client work until this many datagrams have arrived, and returns them.
    pub(crate) fn await_received<L: EventLoop>(
        &self,
        client: &mut Client<L>,
        count: usize,
    ) -> Vec<Vec<u8>> {
        client.until("the datagrams at the peer", |_| {
            self.received().len() >= count
        });
        self.received()
    }

    fn serve(&self, socket: UdpSocket) {
        let answerer = self.answerer.clone();
        let timeout = socket.set_read_timeout(Some(WAIT_LIMIT));
        timeout.expect("timeouts can be set");
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                for batch in answerer.take(&buffer[..length]) {
                    send(&socket, &batch, from);
                }
            }
        });
    }
}

/// Sends datagrams in one call.
fn send(socket: &UdpSocket, batch: &Batch, to: SocketAddr) {
    let segment: libc::c_int = if batch.bytes.len() > batch.segment {
        batch.segment as libc::c_int
    } else {
        0
    };
    // SAFETY: the option value is a live int of the given size.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const segment).cast(),
            size_of_val(&segment) as libc::socklen_t,
        )
    };
    assert!(set == 0 || segment == 0, "the kernel has UDP_SEGMENT");
    // The client may be gone.
    let _ = socket.send_to(&batch.bytes, to);
}
