//! The remote end of simulated connections, as described by a test.

use crate::{Address, SocketOptions};
use std::sync::{Arc, Mutex, PoisonError};

/// The behavior of the remote end. All times are virtual nanoseconds as seen by the peer. They
/// differ from those of the loop by the network's latency.
///
/// `connection` counts the connection attempts of the loop from 0 and is never reused.
pub trait Peer {
    /// A connection attempt has arrived.
    fn on_connect(&mut self, attempt: &Attempt<'_>, now_ns: u64) -> ConnectReaction {
        let _ = (attempt, now_ns);
        ConnectReaction::Accept { after_ns: 0 }
    }

    /// The connection is established. The peer may send first.
    fn on_open(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        let _ = (connection, now_ns, actions);
    }

    /// Bytes arrived, at least one, as split by the network.
    fn on_bytes(&mut self, connection: u32, bytes: &[u8], now_ns: u64, actions: &mut Actions);

    /// A datagram arrived, which is not empty. Ignored, unless overridden.
    ///
    /// A datagram socket opens nothing at the peer. [`Self::on_connect`] is asked with each of its
    /// datagrams until it accepts, and a failure is reported to the client for that datagram. The
    /// delays of its answer do not matter.
    fn on_datagram(
        &mut self,
        connection: u32,
        datagram: &[u8],
        now_ns: u64,
        actions: &mut Actions,
    ) {
        let _ = (connection, datagram, now_ns, actions);
    }

    /// The client will send no more. Closes the connection too, unless overridden.
    fn on_end_of_stream(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        let _ = (connection, now_ns);
        actions.close(0);
    }

    /// The client has reset the connection, or bytes were sent to a client that is gone.
    fn on_reset(&mut self, connection: u32, now_ns: u64) {
        let _ = (connection, now_ns);
    }

    /// A delay requested with [`Actions::wake`] is over.
    fn on_wake(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        let _ = (connection, now_ns, actions);
    }
}

/// A connection attempt, as the peer sees it.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// Number of the attempt, from 0.
    pub connection: u32,
    /// The key that the caller passed.
    pub key: u32,
    /// The address that the caller passed.
    pub address: &'a Address,
    /// The options that the caller passed.
    pub options: &'a SocketOptions,
    /// It is a datagram that has arrived, from a datagram socket (UDP).
    pub is_datagram: bool,
}

/// The reaction to a connection attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectReaction {
    /// The connection is established after a delay.
    Accept {
        /// Nanoseconds since the attempt arrived.
        after_ns: u64,
    },
    /// The attempt fails after a delay.
    Fail {
        /// Nanoseconds since the attempt arrived.
        after_ns: u64,
        /// What the client sees, e.g. [`libc::ECONNREFUSED`].
        errno: i32,
    },
    /// There is never a reaction.
    Ignore,
}

impl ConnectReaction {
    /// Refuses at once, like a host without a listener.
    #[must_use]
    pub const fn refuse() -> Self {
        Self::Fail {
            after_ns: 0,
            errno: libc::ECONNREFUSED,
        }
    }
}

/// What the peer wants to be done on one connection. Each delay is in nanoseconds, counted from the
/// call of [`Peer`] in which it was requested.
///
/// Bytes, FIN and RST leave in the order in which they were requested, whatever their delays: if a
/// later one has a shorter delay, it leaves together with the one before it.
#[derive(Debug)]
pub struct Actions {
    now_ns: u64,
    last_departure_ns: u64,
    list: Vec<(u64, Action)>,
}

#[derive(Debug)]
pub(super) enum Action {
    Send(Vec<u8>),
    SendDatagram(Vec<u8>),
    Finish,
    Close,
    Reset,
    Wake,
    StopReading,
    ResumeReading,
}

impl Actions {
    /// Starts an empty list for a call made at `now_ns`.
    pub(super) const fn new(now_ns: u64, last_departure_ns: u64) -> Self {
        Self {
            now_ns,
            last_departure_ns,
            list: Vec::new(),
        }
    }

    /// Sends bytes. Returns when they will leave the peer, if the connection lives that long.
    pub fn send(&mut self, after_ns: u64, bytes: impl Into<Vec<u8>>) -> u64 {
        self.depart(after_ns, Action::Send(bytes.into()))
    }

    /// Sends a datagram to a datagram socket. Datagrams leave in order like bytes, and an empty one
    /// disappears. Returns when it leaves.
    pub fn send_datagram(&mut self, after_ns: u64, datagram: impl Into<Vec<u8>>) -> u64 {
        self.depart(after_ns, Action::SendDatagram(datagram.into()))
    }

    /// Sends FIN and keeps reading. Returns when it leaves.
    pub fn finish(&mut self, after_ns: u64) -> u64 {
        self.depart(after_ns, Action::Finish)
    }

    /// Closes: sends FIN, and replies with RST to anything that still arrives. Returns when it
    /// leaves.
    pub fn close(&mut self, after_ns: u64) -> u64 {
        self.depart(after_ns, Action::Close)
    }

    /// Sends RST. Returns when it leaves.
    pub fn reset(&mut self, after_ns: u64) -> u64 {
        self.depart(after_ns, Action::Reset)
    }

    /// Requests a call of [`Peer::on_wake`].
    pub fn wake(&mut self, after_ns: u64) {
        self.list
            .push((self.now_ns.saturating_add(after_ns), Action::Wake));
    }

    /// Stops reading from the connection, so that bytes pile up at the client.
    pub fn stop_reading(&mut self, after_ns: u64) {
        self.list
            .push((self.now_ns.saturating_add(after_ns), Action::StopReading));
    }

    /// Starts reading again, beginning with what has piled up.
    pub fn resume_reading(&mut self, after_ns: u64) {
        self.list
            .push((self.now_ns.saturating_add(after_ns), Action::ResumeReading));
    }

    /// The requested actions with their times, and when the last of them leaves.
    pub(super) fn into_parts(self) -> (Vec<(u64, Action)>, u64) {
        (self.list, self.last_departure_ns)
    }

    fn depart(&mut self, after_ns: u64, action: Action) -> u64 {
        let at_ns = self
            .now_ns
            .saturating_add(after_ns)
            .max(self.last_departure_ns);
        self.last_departure_ns = at_ns;
        self.list.push((at_ns, action));
        at_ns
    }
}

/// A peer that the test can still inspect while the simulator owns it.
impl<P: Peer> Peer for Arc<Mutex<P>> {
    fn on_connect(&mut self, attempt: &Attempt<'_>, now_ns: u64) -> ConnectReaction {
        self.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .on_connect(attempt, now_ns)
    }

    fn on_open(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        self.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .on_open(connection, now_ns, actions);
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], now_ns: u64, actions: &mut Actions) {
        let mut peer = self.lock().unwrap_or_else(PoisonError::into_inner);
        peer.on_bytes(connection, bytes, now_ns, actions);
    }

    fn on_datagram(
        &mut self,
        connection: u32,
        datagram: &[u8],
        now_ns: u64,
        actions: &mut Actions,
    ) {
        let mut peer = self.lock().unwrap_or_else(PoisonError::into_inner);
        peer.on_datagram(connection, datagram, now_ns, actions);
    }

    fn on_end_of_stream(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        let mut peer = self.lock().unwrap_or_else(PoisonError::into_inner);
        peer.on_end_of_stream(connection, now_ns, actions);
    }

    fn on_reset(&mut self, connection: u32, now_ns: u64) {
        self.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .on_reset(connection, now_ns);
    }

    fn on_wake(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        self.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .on_wake(connection, now_ns, actions);
    }
}
