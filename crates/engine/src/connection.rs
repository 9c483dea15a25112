//! One connection: its session, its socket, and the requests that are on their way.

use eventloop::Token;
use protocol::Session;
use std::collections::VecDeque;

/// A place for a connection. It is reconnected for the whole run and keeps its number.
pub(crate) struct Connection<S> {
    pub(crate) session: S,
    pub(crate) token: Option<Token>,
    pub(crate) state: State,
    /// When the present state began.
    pub(crate) since_ns: u64,
    /// When the last attempt to connect began.
    pub(crate) tried_ns: u64,
    /// When something that was put off is to happen (reconnect, next request); see `state`.
    pub(crate) due_ns: u64,
    pub(crate) flights: Flights,
    /// First byte of the oldest outstanding answer, if it came before its last one.
    pub(crate) began_ns: Option<u64>,
    /// When the socket was connected.
    pub(crate) connected_ns: u64,
    /// How long the kernel took to connect: a round trip, and what the server's queue added.
    pub(crate) connect_took_ns: u64,
    /// Requests sent since the connection was made.
    pub(crate) sent: u64,
    /// Answers since the connection was made: with one, the connection is a reused one.
    pub(crate) answered: u64,
    /// Failures in a row, for the back-off.
    pub(crate) failures: u32,
    /// The kernel refused to send; what became of the answer is still to be seen.
    pub(crate) send_failed: bool,
    /// The delay before the next request has passed already, on the connection before this one.
    pub(crate) rested: bool,
    /// With a rate: stands among the worker's free connections.
    pub(crate) offered: bool,
    /// With a rate: since when a request could have been sent.
    pub(crate) free_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No socket; connects again at `due_ns`.
    Waiting,
    /// The kernel is connecting.
    Connecting,
    /// The session's handshake is under way.
    Handshaking,
    /// Requests may be sent, or are under way.
    Open,
    /// Open, and the next request goes out at `due_ns` (a script's delay).
    Thinking,
    /// No socket, and none will be opened again.
    Done,
}

/// Requests written together: they share the moment of sending, and the one at which they were due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flight {
    /// In a closed loop the same as `sent_ns`.
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    /// Still unanswered.
    pub(crate) requests: u32,
}

/// Outstanding requests, oldest first. The first flight stands inline, since mostly there is just one.
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

    /// Those that wait longest.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Flight> {
        self.front.as_ref()
    }

    /// When the oldest outstanding request was sent.
    #[inline]
    pub(crate) fn oldest_sent_ns(&self) -> Option<u64> {
        self.front.map(|flight| flight.sent_ns)
    }

    /// The oldest request is answered: its flight, with what is left of it.
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

    /// How many batches are under way.
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
            state: State::Waiting,
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
            rested: false,
            offered: false,
            free_ns: 0,
        }
    }

    /// Whether the connection stands, and has since before `moment_ns`.
    pub(crate) fn stood_at(&self, moment_ns: u64) -> bool {
        self.is_standing() && self.connected_ns < moment_ns
    }

    /// Whether there is a connected socket.
    pub(crate) fn is_standing(&self) -> bool {
        matches!(
            self.state,
            State::Handshaking | State::Open | State::Thinking
        )
    }

    /// Whether a close seen at `at_ns`, without a byte of an answer, was sent before the outstanding
    /// requests reached the server: it ended a connection that was idle as far as the server knew,
    /// and did not fail them. Such a close is seen within a round trip of sending, and connecting took
    /// at least one. Whatever comes later counts as the server's failure: better one too many.
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
