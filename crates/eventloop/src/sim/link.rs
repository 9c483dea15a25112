//! The state of one simulated connection, both ends of it.

use crate::{Payload, Token};
use std::collections::VecDeque;

/// One connection attempt and what became of it. Links are kept for the whole simulation, so an
/// event that comes late finds the one it belongs to.
#[derive(Debug)]
pub(super) struct Link {
    /// Which of the world's loops it belongs to.
    pub(super) owner: usize,
    pub(super) key: u32,
    pub(super) token: Token,
    /// Its received bytes have stamps.
    pub(super) stamped: bool,
    pub(super) client: Client,
    pub(super) far_end: FarEnd,
    /// The far end's FIN has been shown to the client.
    pub(super) receive_ended: bool,
    /// The client has asked for FIN; it follows the last byte.
    pub(super) send_ended: bool,
    pub(super) fin_sent: bool,
    /// Payloads that have not wholly gone into the send buffer.
    pub(super) queue: VecDeque<Pending>,
    /// The kernel's send buffer, oldest first, cut for the wire.
    pub(super) buffered: VecDeque<Vec<u8>>,
    pub(super) buffered_bytes: usize,
    /// The oldest buffered bytes are on their way out.
    pub(super) transmitting: bool,
    pub(super) peer_reads: bool,
    pub(super) peer_finished: bool,
    /// When the last thing the far end asked for leaves it.
    pub(super) last_departure_ns: u64,
    /// Bytes that come next and that the caller does not want.
    pub(super) discard_bytes: u64,
    pub(super) last_at_client_ns: u64,
    pub(super) last_at_peer_ns: u64,
}

/// The client's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Connecting,
    Open,
    /// Reset by the far end, not yet closed.
    Broken,
    /// Closed by the caller, or never connected.
    Gone,
}

/// The socket at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FarEnd {
    Opening,
    Open,
    Closed,
}

/// A payload on its way into the send buffer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) payload: Payload,
    pub(super) taken: usize,
}

impl Link {
    pub(super) const fn new(owner: usize, key: u32, token: Token, stamped: bool) -> Self {
        Self {
            owner,
            key,
            token,
            stamped,
            client: Client::Connecting,
            far_end: FarEnd::Opening,
            receive_ended: false,
            send_ended: false,
            fin_sent: false,
            queue: VecDeque::new(),
            buffered: VecDeque::new(),
            buffered_bytes: 0,
            transmitting: false,
            peer_reads: true,
            peer_finished: false,
            last_departure_ns: 0,
            discard_bytes: 0,
            last_at_client_ns: 0,
            last_at_peer_ns: 0,
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

    /// Whether bytes of the far end are shown to the client.
    pub(super) fn receives(&self) -> bool {
        self.client == Client::Open && !self.receive_ended
    }

    /// Whether FIN is wanted and everything before it is on the wire.
    pub(super) fn fin_is_due(&self) -> bool {
        let can_send = matches!(self.client, Client::Open | Client::Gone);
        can_send && self.send_ended && !self.fin_sent && self.queue.is_empty()
    }
}

impl Pending {
    pub(super) const fn new(payload: Payload) -> Self {
        Self { payload, taken: 0 }
    }

    /// The next bytes, at most `longest` of them.
    pub(super) fn piece<'a>(&'a self, shared: &'a [Vec<u8>], longest: usize) -> &'a [u8] {
        let bytes = match &self.payload {
            Payload::Shared { bytes, range } => &shared[bytes.0 as usize][range.clone()],
            Payload::Owned(bytes) => bytes,
        };
        let end = bytes.len().min(self.taken.saturating_add(longest));
        &bytes[self.taken..end]
    }

    pub(super) fn remaining(&self) -> usize {
        let length = match &self.payload {
            Payload::Shared { range, .. } => range.len(),
            Payload::Owned(bytes) => bytes.len(),
        };
        length - self.taken
    }
}
