//! At a fixed rate: during an outage of the server, one connection retries often, and all reconnect
//! at once when the server is back.
//!
//! Pauses between attempts are caused by this program, and they are part of the response times of
//! requests that are due meanwhile. So they are short, and how much of them affected requests is
//! recorded. To limit the load on a server that refuses connections to a few hundred attempts per
//! second, one connection of a worker tries for all.

use super::Worker;
use super::network::Network;
use super::opening::OPENED_PER_TURN;
use crate::connection::ConnectionState;
use eventloop::EventLoop;
use protocol::Session;
use std::collections::VecDeque;

/// The longest pause before the next attempt. The shortest is half of it.
const PROBE_NS: u64 = 4_000_000;

/// What a worker knows of an outage of the server.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// The connection that retries.
    probe: Option<u32>,
    /// The connections that wait for it.
    away: VecDeque<u32>,
    /// The connections to be opened, because the server is back.
    returning: VecDeque<u32>,
    /// The server accepts connections but closes them without a response. Then it is back when it
    /// sends its first response.
    closes_unserved: bool,
    /// When the last pause began.
    pause_began_ns: u64,
    /// The last pause before the server was back. In earlier pauses, the server was certainly away.
    last_pause_ns: (u64, u64),
}

impl Outage {
    /// Whether there are connections to be opened now.
    pub(super) fn is_over(&self) -> bool {
        !self.returning.is_empty()
    }

    /// How much of the time from `due_ns` to `sent_ns` was the last pause, in which the request
    /// could possibly have been sent.
    #[inline]
    pub(super) fn paused_ns(&self, due_ns: u64, sent_ns: u64) -> u64 {
        let (began_ns, ended_ns) = self.last_pause_ns;
        ended_ns.min(sent_ns).saturating_sub(began_ns.max(due_ns))
    }

    fn release(&mut self) {
        self.probe = None;
        self.returning.append(&mut self.away);
    }
}

impl<L, S: Session> Network<L, S> {
    /// Makes a connection without a socket wait until the server is back, or retry for all.
    pub(super) fn await_server(&mut self, key: u32, now_ns: u64) {
        self.pool[key].due_ns = u64::MAX;
        self.outage.away.push_back(key);
        if self.outage.probe.is_some_and(|probe| probe != key) {
            return;
        }
        // In turns, so that not all attempts are made from the same source address, which may not
        // work.
        self.outage.probe = self.outage.away.pop_front();
        self.outage.pause_began_ns = now_ns;
        if let Some(probe) = self.outage.probe {
            self.pool.wake_after(probe, now_ns, PROBE_NS);
        }
    }

    /// A connection was closed before it had a response, or its handshake failed.
    pub(super) fn note_unserved(&mut self) {
        self.outage.closes_unserved = true;
    }

    /// [`Worker::note_server`] calls this.
    #[inline]
    pub(super) fn note_server(&mut self, key: u32, is_response: bool) {
        if is_response {
            self.outage.closes_unserved = false;
        }
        if self.outage.probe.is_none() {
            return;
        }
        if self.outage.probe == Some(key) {
            let connection = &self.pool[key];
            let tried_ns = connection.tried_ns;
            self.outage.last_pause_ns = (self.outage.pause_began_ns, tried_ns);
        }
        if !self.outage.closes_unserved {
            self.outage.release();
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// A connection is ready for requests, or has received a response.
    #[inline]
    pub(super) fn note_server(&mut self, key: u32, is_response: bool) {
        self.accounting.stall.note_ready();
        self.network.note_server(key, is_response);
    }

    /// Opens some of the connections that have waited for the server.
    pub(super) fn reopen_after_outage(&mut self) {
        for _ in 0..OPENED_PER_TURN {
            let Some(key) = self.network.outage.returning.pop_front() else {
                return;
            };
            let is_awaited = self
                .sender
                .slots
                .as_ref()
                .is_some_and(|slots| slots.awaits(key));
            if self.sender.remaining() == 0 && !is_awaited {
                self.network.pool[key].state = ConnectionState::Done;
            } else {
                self.network.open(key);
            }
        }
    }
}
