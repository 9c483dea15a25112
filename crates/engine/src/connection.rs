//! One connection: its session, its socket, and its requests in flight.

use eventloop::Token;
use protocol::Session;
use std::collections::VecDeque;

/// A connection slot. It is reconnected for the whole run and keeps its index.
pub(crate) struct Connection<S> {
    pub(crate) session: S,
    pub(crate) token: Option<Token>,
    pub(crate) state: ConnectionState,
    /// When the current state began.
    pub(crate) since_ns: u64,
    /// When the last attempt to connect began.
    pub(crate) tried_ns: u64,
    /// When a deferred action is due (reconnect, next request); see `state`.
    pub(crate) due_ns: u64,
    pub(crate) flights: Flights,
    /// When the first byte of the oldest outstanding response arrived, if that was before its last
    /// byte.
    pub(crate) began_ns: Option<u64>,
    /// When the socket was connected.
    pub(crate) connected_ns: u64,
    /// How long the kernel took to connect: a round trip, plus the delay of the server's accept
    /// queue.
    pub(crate) connect_took_ns: u64,
    /// Requests sent on this connection.
    pub(crate) sent: u64,
    /// Responses received on this connection. With at least one, the connection has been reused.
    pub(crate) answered: u64,
    /// Consecutive failures, for the back-off.
    pub(crate) failures: u32,
    /// The kernel refused to send. The fate of the outstanding requests is not known yet.
    pub(crate) send_failed: bool,
    /// The delay before the next request has already passed, on the previous connection.
    pub(crate) has_waited: bool,
    /// At a fixed rate: is in the worker's queue of free connections.
    pub(crate) offered: bool,
    /// At a fixed rate: since when a request could have been sent.
    pub(crate) free_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// No socket. Reconnects at `due_ns`.
    Waiting,
    /// The kernel is connecting.
    Connecting,
    /// The session's handshake is in progress.
    Handshaking,
    /// Requests can be sent or are in flight.
    Open,
    /// Open, and the next request is sent at `due_ns` (a script's delay).
    Thinking,
    /// No socket, and no further connection.
    Done,
}

/// Requests written together. They share the time of sending and the time at which they were due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flight {
    /// Equal to `sent_ns` in a closed loop.
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    /// Requests without a response so far.
    pub(crate) requests: u32,
}

/// Outstanding requests, oldest first. The first flight is stored inline, because there usually is
/// only one.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    front: Option<Flight>,
    more: VecDeque<Flight>,
    outstanding: u32,
}

impl Flights {
    #[inline]
    pub(crate) fn push(&mut self, flight: Flight) {
        self.outstanding += flight.requests;
        if self.front.is_none() {
            self.front = Some(flight);
        } else {
            self.more.push_back(flight);
        }
    }

    /// The flight that has waited longest.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Flight> {
        self.front.as_ref()
    }

    /// When the oldest outstanding request was sent.
    #[inline]
    pub(crate) fn oldest_sent_ns(&self) -> Option<u64> {
        self.front.map(|flight| flight.sent_ns)
    }

    /// Removes the oldest request, which has its response. Returns its flight with the remaining
    /// requests.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Flight> {
        let flight = self.front.as_mut()?;
        flight.requests -= 1;
        let popped = *flight;
        self.outstanding -= 1;
        if popped.requests == 0 {
            self.front = self.more.pop_front();
        }
        Some(popped)
    }

    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Number of batches in flight.
    #[inline]
    pub(crate) fn batches(&self) -> usize {
        usize::from(self.front.is_some()) + self.more.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Flight> + '_ {
        self.front.iter().chain(&self.more)
    }

    pub(crate) fn clear(&mut self) {
        self.front = None;
        self.more.clear();
        self.outstanding = 0;
    }
}

impl<S: Session> Connection<S> {
    pub(crate) fn new(session: S) -> Self {
        Self {
            session,
            token: None,
            state: ConnectionState::Waiting,
            since_ns: 0,
            tried_ns: 0,
            due_ns: 0,
            flights: Flights::default(),
            began_ns: None,
            connected_ns: 0,
            connect_took_ns: 0,
            sent: 0,
            answered: 0,
            failures: 0,
            send_failed: false,
            has_waited: false,
            offered: false,
            free_ns: 0,
        }
    }

    /// Whether the connection is established, and was already before `moment_ns`.
    pub(crate) fn was_established_before(&self, moment_ns: u64) -> bool {
        self.is_established() && self.connected_ns < moment_ns
    }

    /// Whether the connection is being established.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(
            self.state,
            ConnectionState::Connecting | ConnectionState::Handshaking
        )
    }

    /// Whether there is a connected socket.
    pub(crate) fn is_established(&self) -> bool {
        matches!(
            self.state,
            ConnectionState::Handshaking | ConnectionState::Open | ConnectionState::Thinking
        )
    }

    /// Whether a close seen at `at_ns`, without a byte of a response, was sent before the
    /// outstanding requests reached the server. It then ended a connection that the server
    /// considered idle, and the requests did not fail. Such a close is seen within one round trip
    /// after sending, and connecting took at least one round trip. A later close counts as a
    /// failure of the server: it is better to report one too many.
    pub(crate) fn looks_stale(&self, at_ns: u64) -> bool {
        let out_ns = self
            .flights
            .oldest_sent_ns()
            .map_or(0, |sent_ns| at_ns.saturating_sub(sent_ns));
        self.answered > 0
            && out_ns <= self.connect_took_ns
            && self.began_ns.is_none()
            && self.session.partial_bytes() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flights_are_answered_in_the_order_they_were_sent() {
        let flight = |due_ns, sent_ns, requests| Flight {
            due_ns,
            sent_ns,
            requests,
        };
        let mut flights = Flights::default();
        flights.push(flight(5, 10, 2));
        flights.push(flight(15, 20, 1));
        assert_eq!((flights.outstanding(), flights.batches()), (3, 2));
        let waiting: Vec<Flight> = flights.iter().copied().collect();
        assert_eq!(waiting, [flight(5, 10, 2), flight(15, 20, 1)]);
        assert_eq!(flights.pop(), Some(flight(5, 10, 1)));
        assert_eq!(flights.pop(), Some(flight(5, 10, 0)));
        assert_eq!(flights.oldest_sent_ns(), Some(20));
        assert_eq!(flights.pop(), Some(flight(15, 20, 0)));
        assert_eq!(flights.pop(), None);
        assert_eq!((flights.outstanding(), flights.batches()), (0, 0));
    }
}
