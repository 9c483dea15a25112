//! The connections of a worker, with their timers and the queue of free ones.

use crate::WorkerSettings;
use crate::connection::{Connection, ConnectionState};
use crate::exchanges::Exchange;
use crate::timers::Timers;
use plan::{Lanes, SourceRange};
use protocol::{ExchangeId, Session, Transport};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::{Index, IndexMut};

/// The connections of a worker. They are addressed by index, the key of their completions.
pub(super) struct ConnectionPool<S> {
    pub(super) connections: Vec<Connection<S>>,
    /// The first of the connections on which nothing is sent, which are the last ones.
    first_idle: u32,
    /// When deferred actions are due.
    pub(super) wakes: Timers,
    /// When requests and connection attempts time out.
    pub(super) deadlines: Timers,
    /// Over datagrams: when the timers of sessions are due.
    pub(super) session_timers: Timers,
    /// At a fixed rate: connections that can take a request, the one that has been free longest
    /// first.
    free: VecDeque<u32>,
    /// Outstanding requests of all connections.
    pub(super) outstanding: u64,
    /// Number of established connections.
    pub(super) established: u64,
    /// Batches in flight per connection.
    pub(super) pipeline: usize,
    /// Requests after which a connection is replaced.
    requests_per_connection: u64,
    random: fastrand::Rng,
}

impl<S: Session> ConnectionPool<S> {
    pub(super) fn new(context: &mut S::Context, settings: &WorkerSettings) -> Self {
        let connections: Vec<Connection<S>> = (0..settings.connections_total())
            .map(|_| Connection::new(S::new(context)))
            .collect();
        Self {
            wakes: Timers::new(connections.len()),
            deadlines: Timers::new(connections.len()),
            session_timers: Timers::new(match S::TRANSPORT {
                Transport::Stream => 0,
                Transport::Datagrams => connections.len(),
            }),
            connections,
            first_idle: settings.connections_for_requests(),
            free: VecDeque::new(),
            outstanding: 0,
            established: 0,
            pipeline: settings.pipeline as usize,
            requests_per_connection: settings.requests_per_connection,
            random: fastrand::Rng::with_seed(settings.seed),
        }
    }

    /// Whether a request can be sent on the connection now.
    #[inline]
    pub(super) fn has_room(&self, key: u32) -> bool {
        let connection = &self[key];
        connection.state == ConnectionState::Open
            && connection.token.is_some()
            && connection.exchanges.len() < self.pipeline
            && connection.sent < self.requests_per_connection
            && connection.session.capacity() > 0
    }

    /// Adds a connection to the free ones, if it has room and is not one of them.
    #[inline]
    pub(super) fn offer(&mut self, key: u32, now_ns: u64) {
        if self.has_room(key) {
            let connection = &mut self[key];
            if !connection.offered {
                connection.offered = true;
                connection.free_ns = now_ns;
                self.free.push_back(key);
            }
        }
    }

    /// The connection that has been free longest.
    #[inline]
    pub(super) fn first_free(&mut self) -> Option<u32> {
        while let Some(key) = self.free.front().copied() {
            if self.has_room(key) {
                return Some(key);
            }
            // It was closed while it was free.
            self.take_first_free();
        }
        None
    }

    /// Removes the first of the free connections.
    #[inline]
    pub(super) fn take_first_free(&mut self) {
        if let Some(key) = self.free.pop_front() {
            self[key].offered = false;
        }
    }

    /// Returns a connection to the free ones, if there is still room with pipelining.
    #[inline]
    pub(super) fn offer_again(&mut self, key: u32) {
        if self.has_room(key) {
            self[key].offered = true;
            self.free.push_back(key);
        }
    }

    /// An exchange has ended. `None` if it is not in flight.
    #[inline]
    pub(super) fn end_exchange(&mut self, key: u32, exchange: ExchangeId) -> Option<Exchange> {
        // Returned as it is, because rebuilding the option would copy the exchange.
        let ended = self[key].exchanges.answer(exchange);
        self.outstanding -= u64::from(ended.is_some());
        ended
    }

    #[inline]
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Number of connections that were established before `moment_ns` and still are.
    pub(super) fn established_before(&self, moment_ns: u64) -> u64 {
        let connections = self.connections.iter();
        let established = connections.filter(|it| it.was_established_before(moment_ns));
        established.count() as u64
    }

    /// Whether nothing is sent on the connection.
    #[inline]
    pub(super) fn is_idle(&self, key: u32) -> bool {
        key >= self.first_idle
    }

    pub(super) fn is_any_opening(&self) -> bool {
        self.opening().next().is_some()
    }

    /// The connections for requests that are being established, or wait for their turn.
    fn opening(&self) -> impl Iterator<Item = &Connection<S>> {
        let all = self.connections.iter().take(self.first_idle as usize);
        all.filter(|it| it.is_opening() || it.has_turn)
    }

    /// Whether the connections that are being established are enough for the remaining requests:
    /// one more would not send any. Those that fail are retried, so they are sufficient.
    pub(super) fn are_enough_opening(&self, remaining: u64) -> bool {
        // Counted only near the end, because it iterates over all connections.
        remaining < u64::from(self.first_idle) && self.opening().count() as u64 >= remaining
    }

    /// Schedules a deferred action of the connection after `pause_ns`, shortened at random by up to
    /// half of it.
    pub(super) fn wake_after(&mut self, key: u32, now_ns: u64, pause_ns: u64) {
        let jitter = self.random.f64().mul_add(0.5, 0.5);
        self.wake_at(key, now_ns + (pause_ns as f64 * jitter) as u64);
    }

    /// Schedules a deferred action of the connection.
    pub(super) fn wake_at(&mut self, key: u32, due_ns: u64) {
        self[key].due_ns = due_ns;
        self.wakes.set(key, due_ns);
    }
}

impl<S> Index<u32> for ConnectionPool<S> {
    type Output = Connection<S>;

    #[inline]
    fn index(&self, key: u32) -> &Connection<S> {
        &self.connections[key as usize]
    }
}

impl<S> IndexMut<u32> for ConnectionPool<S> {
    #[inline]
    fn index_mut(&mut self, key: u32) -> &mut Connection<S> {
        &mut self.connections[key as usize]
    }
}

/// When a worker opens connections: at the even moments of the rate of all workers that are its
/// own. What was not used is not made up for.
pub(super) struct ConnectSchedule {
    next_ns: f64,
    gap_ns: f64,
}

impl ConnectSchedule {
    /// From `start_ns` on, for the worker with these lanes.
    pub(super) fn new(rate_per_sec: u32, lanes: Lanes, start_ns: u64) -> Self {
        let gap_of_all_ns = 1e9 / f64::from(rate_per_sec.max(1));
        let turns = |lanes_passed: u64| lanes_passed as f64 / lanes.width().max(1) as f64;
        Self {
            next_ns: gap_of_all_ns.mul_add(turns(lanes.first()), start_ns as f64),
            gap_ns: gap_of_all_ns * turns(lanes.total()),
        }
    }

    /// Takes the next turn, which may be now.
    pub(super) fn take(&mut self, now_ns: u64) -> u64 {
        let turn_ns = self.next_ns.max(now_ns as f64);
        self.next_ns = turn_ns + self.gap_ns;
        turn_ns as u64
    }
}

/// The local addresses of a worker's connections, used in turn. The workers share the range.
pub(super) struct SourceAddresses {
    range: Option<SourceRange>,
    next: u128,
    step: u128,
}

impl SourceAddresses {
    pub(super) fn new(settings: &WorkerSettings) -> Self {
        Self {
            range: settings.plan.load.source,
            next: u128::from(settings.worker),
            step: u128::from(settings.workers),
        }
    }

    pub(super) fn take(&mut self) -> Option<IpAddr> {
        let address = self.range.as_ref()?.nth(self.next);
        self.next += self.step;
        Some(address)
    }
}
