//! The far end of simulated connections, as a test writes it.

use crate::{Address, SocketOptions};
use std::sync::{Arc, Mutex, PoisonError};

/// Decides what the far end does. All times are virtual nanoseconds, and are those at which the
/// far end sees things: the wire's latency lies between them and what the loop sees.
///
/// `connection` counts the connection attempts of the loop from 0 and is never used twice.
pub trait Peer {
    /// Somebody wants to connect.
    fn on_connect(&mut self, attempt: &Attempt<'_>, now_ns: u64) -> ConnectAnswer {
        let _ = (attempt, now_ns);
        ConnectAnswer::Accept { after_ns: 0 }
    }

    /// The connection stands; the far end may speak first.
    fn on_open(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        let _ = (connection, now_ns, actions);
    }

    /// Bytes arrived, at least one, cut as the wire cut them.
    fn on_bytes(&mut self, connection: u32, bytes: &[u8], now_ns: u64, actions: &mut Actions);

    /// The client will send no more. Closes in turn, unless overridden.
    fn on_end_of_stream(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        let _ = (connection, now_ns);
        actions.close(0);
    }

    /// The client has reset the connection, or bytes were sent to a client that is gone.
    fn on_reset(&mut self, connection: u32, now_ns: u64) {
        let _ = (connection, now_ns);
    }

    /// A delay asked for with [`Actions::wake`] is over.
    fn on_wake(&mut self, connection: u32, now_ns: u64, actions: &mut Actions) {
        let _ = (connection, now_ns, actions);
    }
}

/// One attempt to connect, as the far end sees it.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// Counts the attempts from 0.
    pub connection: u32,
    /// The key the caller gave the socket.
    pub key: u32,
    /// The address the caller asked for.
    pub address: &'a Address,
    /// The options the caller asked for.
    pub options: &'a SocketOptions,
}

/// How the far end answers an attempt to connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectAnswer {
    /// The connection stands after a while.
    Accept {
        /// From the arrival of the attempt, in nanoseconds.
        after_ns: u64,
    },
    /// The attempt fails after a while.
    Fail {
        /// From the arrival of the attempt, in nanoseconds.
        after_ns: u64,
        /// What the client sees, e.g. [`libc::ECONNREFUSED`].
        errno: i32,
    },
    /// No answer ever comes.
    Ignore,
}

impl ConnectAnswer {
    /// Refused at once, as a host does on which nobody listens.
    #[must_use]
    pub const fn refuse() -> Self {
        Self::Fail {
            after_ns: 0,
            errno: libc::ECONNREFUSED,
        }
    }
}

/// What the far end wants done on one connection, each after a delay in nanoseconds counted from the
/// call of [`Peer`] it was asked in.
///
/// Bytes, FIN and RST leave in the order they were asked for, whatever their delays: a later one
/// with a shorter delay leaves together with the one before it.
#[derive(Debug)]
pub struct Actions {
    now_ns: u64,
    last_departure_ns: u64,
    list: Vec<(u64, Action)>,
}

/// One thing the far end does.
#[derive(Debug)]
pub(super) enum Action {
    Send(Vec<u8>),
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

    /// Sends bytes. Returns when they will leave the far end, if the connection lives that long.
    pub fn send(&mut self, after_ns: u64, bytes: impl Into<Vec<u8>>) -> u64 {
        self.depart(after_ns, Action::Send(bytes.into()))
    }

    /// Sends FIN and goes on reading. Returns when it leaves.
    pub fn finish(&mut self, after_ns: u64) -> u64 {
        self.depart(after_ns, Action::Finish)
    }

    /// Closes: sends FIN, and answers what still arrives with RST. Returns when it leaves.
    pub fn close(&mut self, after_ns: u64) -> u64 {
        self.depart(after_ns, Action::Close)
    }

    /// Sends RST. Returns when it leaves.
    pub fn reset(&mut self, after_ns: u64) -> u64 {
        self.depart(after_ns, Action::Reset)
    }

    /// Asks for [`Peer::on_wake`].
    pub fn wake(&mut self, after_ns: u64) {
        self.list
            .push((self.now_ns.saturating_add(after_ns), Action::Wake));
    }

    /// Takes no more bytes from the connection: they pile up at the client.
    pub fn stop_reading(&mut self, after_ns: u64) {
        self.list
            .push((self.now_ns.saturating_add(after_ns), Action::StopReading));
    }

    /// Takes bytes again.
    pub fn resume_reading(&mut self, after_ns: u64) {
        self.list
            .push((self.now_ns.saturating_add(after_ns), Action::ResumeReading));
    }

    /// What was asked for with its times, and when the last of it leaves.
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

/// A peer that the test goes on looking at while the simulator owns it.
impl<P: Peer> Peer for Arc<Mutex<P>> {
    fn on_connect(&mut self, attempt: &Attempt<'_>, now_ns: u64) -> ConnectAnswer {
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
