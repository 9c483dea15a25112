//! The state of one simulated connection, at both ends.

use crate::{Address, Payload, SocketOptions, Token};
use std::collections::VecDeque;
use std::sync::Arc;

/// One connection attempt and its event. Links are kept for the whole simulation, so that a late
/// event finds the link it belongs to.
#[derive(Debug)]
pub(super) struct Link {
    /// The loop it belongs to.
    pub(super) owner: usize,
    pub(super) key: u32,
    pub(super) token: Token,
    /// Its received bytes have timestamps.
    pub(super) timestamped: bool,
    pub(super) client: ClientSocket,
    pub(super) peer_socket: PeerSocket,
    /// The peer's FIN has been reported to the client.
    pub(super) receive_ended: bool,
    /// The client has asked for FIN, which follows the last byte.
    pub(super) send_ended: bool,
    pub(super) fin_sent: bool,
    /// Payloads that do not fit into the send buffer yet.
    pub(super) queue: VecDeque<Pending>,
    /// The payloads wait until the completion of the one before was taken.
    pub(super) keeps_sends: bool,
    /// The kernel's send buffer, oldest bytes first, split into segments.
    pub(super) buffered: VecDeque<Vec<u8>>,
    pub(super) buffered_bytes: usize,
    /// The oldest buffered bytes are being sent.
    pub(super) transmitting: bool,
    pub(super) peer_reads: bool,
    pub(super) peer_finished: bool,
    /// When the last thing that the peer asked for leaves it.
    pub(super) last_departure_ns: u64,
    /// How many of the next bytes to discard.
    pub(super) discard_bytes: u64,
    pub(super) last_at_client_ns: u64,
    pub(super) last_at_peer_ns: u64,
    /// What the peer is asked about a datagram socket. `None` for streams.
    pub(super) datagrams: Option<Box<(Address, SocketOptions)>>,
}

/// The state of the client's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientSocket {
    Connecting,
    Open,
    /// Reset by the far end, not yet closed.
    Broken,
    /// Closed by the caller, or never connected.
    Gone,
}

/// The state of the peer's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerSocket {
    Opening,
    Open,
    Closed,
}

/// A payload that is moving into the send buffer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) payload: Payload,
    pub(super) taken: usize,
}

impl Link {
    pub(super) const fn new(owner: usize, key: u32, token: Token, timestamped: bool) -> Self {
        Self {
            owner,
            key,
            token,
            timestamped,
            client: ClientSocket::Connecting,
            peer_socket: PeerSocket::Opening,
            receive_ended: false,
            send_ended: false,
            fin_sent: false,
            queue: VecDeque::new(),
            keeps_sends: false,
            buffered: VecDeque::new(),
            buffered_bytes: 0,
            transmitting: false,
            peer_reads: true,
            peer_finished: false,
            last_departure_ns: 0,
            discard_bytes: 0,
            last_at_client_ns: 0,
            last_at_peer_ns: 0,
            datagrams: None,
        }
    }

    pub(super) fn buffer(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.buffered_bytes += bytes.len();
            self.buffered.push_back(bytes);
        }
    }

    pub(super) fn take_buffered(&mut self) -> Option<Vec<u8>> {
        let bytes = self.buffered.pop_front()?;
        self.buffered_bytes -= bytes.len();
        Some(bytes)
    }

    pub(super) fn drop_buffered(&mut self) {
        self.buffered.clear();
        self.buffered_bytes = 0;
    }

    /// Whether the client is shown bytes of the peer.
    pub(super) fn receives(&self) -> bool {
        self.client == ClientSocket::Open && !self.receive_ended
    }

    /// Whether FIN has been requested and everything before it has been sent.
    pub(super) fn fin_is_due(&self) -> bool {
        let can_send = matches!(self.client, ClientSocket::Open | ClientSocket::Gone);
        can_send && self.send_ended && !self.fin_sent && self.queue.is_empty()
    }
}

impl Pending {
    pub(super) const fn new(payload: Payload) -> Self {
        Self { payload, taken: 0 }
    }

    /// The next bytes, at most `longest` of them.
    pub(super) fn piece<'a>(&'a self, shared: &'a [Arc<[u8]>], longest: usize) -> &'a [u8] {
        let bytes = self.payload.bytes(shared);
        let end = bytes.len().min(self.taken.saturating_add(longest));
        &bytes[self.taken..end]
    }

    pub(super) fn remaining(&self) -> usize {
        self.payload.length() - self.taken
    }
}
