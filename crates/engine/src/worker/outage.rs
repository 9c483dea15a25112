//! With a rate: a server that is away is tried often by one connection, and taken back by all at once.
//!
//! Pauses between attempts are this program's doing, and they are part of the response times of requests that are
//! due meanwhile. So they are short, and how much of them the requests met is recorded. That it costs a server
//! that refuses no more than a few hundred attempts a second, one connection of a worker tries for all.

use super::Worker;
use super::opening::OPENED_PER_TURN;
use crate::connection::State;
use eventloop::EventLoop;
use protocol::Session;
use std::collections::VecDeque;

/// The longest pause before the next attempt; the shortest is half of it.
const PROBE_NS: u64 = 4_000_000;

/// What a worker knows of a server that is away.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// The connection that tries.
    probe: Option<u32>,
    /// Those that wait for it.
    away: VecDeque<u32>,
    /// Those that are to be opened, since the server is back.
    returning: VecDeque<u32>,
    /// The server lets connections in and closes them without a response: then it is back with its first response.
    closes_unserved: bool,
    /// When the last pause began.
    pause_began_ns: u64,
    /// The last pause before the server was back. Of earlier ones it is known that the server was away still.
    last_pause_ns: (u64, u64),
}

impl Outage {
    /// Whether connections are to be opened now.
    pub(super) fn is_over(&self) -> bool {
        !self.returning.is_empty()
    }

    /// How much of the time from `due_ns` to `sent_ns` was the last pause, in which a request could have been
    /// sent for all that is known.
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

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Whether a connection that failed should wait with the others, since no connection of this worker stands.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_paced() && self.standing == 0
    }

    /// Lets a connection without a socket wait until the server is back, or be the one that tries.
    pub(super) fn await_server(&mut self, key: u32, now_ns: u64) {
        self.connections[key as usize].due_ns = u64::MAX;
        self.outage.away.push_back(key);
        if self.outage.probe.is_some_and(|probe| probe != key) {
            return;
        }
        // By turns, so that one source address that does not work is not all that is tried.
        self.outage.probe = self.outage.away.pop_front();
        self.outage.pause_began_ns = now_ns;
        if let Some(probe) = self.outage.probe {
            let pause = self.random.f64().mul_add(0.5, 0.5);
            let due_ns = now_ns + (PROBE_NS as f64 * pause) as u64;
            self.connections[probe as usize].due_ns = due_ns;
            self.wakes.set(probe, due_ns);
        }
    }

    /// A connection was closed that had carried no request, or its handshake failed.
    pub(super) fn note_unserved(&mut self) {
        self.outage.closes_unserved = true;
    }

    /// A connection is ready for requests, or has had a response.
    #[inline]
    pub(super) fn note_server(&mut self, key: u32, is_response: bool) {
        if is_response {
            self.outage.closes_unserved = false;
        }
        if self.outage.probe.is_none() {
            return;
        }
        if self.outage.probe == Some(key) {
            let connection = &self.connections[key as usize];
            let tried_ns = connection.tried_ns;
            self.outage.last_pause_ns = (self.outage.pause_began_ns, tried_ns);
        }
        if !self.outage.closes_unserved {
            self.outage.release();
        }
    }

    /// Opens some of the connections that have waited for the server.
    pub(super) fn return_some(&mut self) {
        for _ in 0..OPENED_PER_TURN {
            let Some(key) = self.outage.returning.pop_front() else {
                return;
            };
            if self.wanted() == 0 {
                self.connections[key as usize].state = State::Done;
            } else {
                self.open(key);
            }
        }
    }
}
