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
    /// When something that was put off is to happen (reconnect, next request); see `state`.
    pub(crate) due_ns: u64,
    pub(crate) flights: Flights,
    /// First byte of the oldest outstanding answer, if it came before its last one.
    pub(crate) began_ns: Option<u64>,
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

/// Requests written together: they share the moment of sending.
#[derive(Debug, Clone, Copy)]
struct Flight {
    sent_ns: u64,
    requests: u32,
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
    pub(crate) fn push(&mut self, sent_ns: u64, requests: u32) {
        let flight = Flight { sent_ns, requests };
        self.outstanding += requests;
        if self.front.is_none() {
            self.front = Some(flight);
        } else {
            self.more.push_back(flight);
        }
    }

    /// When the oldest outstanding request was sent.
    #[inline]
    pub(crate) fn oldest_sent_ns(&self) -> Option<u64> {
        self.front.map(|flight| flight.sent_ns)
    }

    /// The oldest request is answered; when was it sent?
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        let flight = self.front.as_mut()?;
        let sent_ns = flight.sent_ns;
        flight.requests -= 1;
        self.outstanding -= 1;
        if flight.requests == 0 {
            self.front = self.more.pop_front();
        }
        Some(sent_ns)
    }

    #[inline]
    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Outstanding requests with the moment each was sent.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.front
            .iter()
            .chain(&self.more)
            .map(|flight| (flight.sent_ns, u64::from(flight.requests)))
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
            due_ns: 0,
            flights: Flights::default(),
            began_ns: None,
            connect_took_ns: 0,
            sent: 0,
            answered: 0,
            failures: 0,
            send_failed: false,
            rested: false,
        }
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
        let mut flights = Flights::default();
        flights.push(10, 2);
        flights.push(20, 1);
        assert_eq!(flights.outstanding(), 3);
        assert_eq!(flights.iter().collect::<Vec<_>>(), [(10, 2), (20, 1)]);
        assert_eq!(flights.pop(), Some(10));
        assert_eq!(flights.pop(), Some(10));
        assert_eq!(flights.oldest_sent_ns(), Some(20));
        assert_eq!(flights.pop(), Some(20));
        assert_eq!(flights.pop(), None);
        assert_eq!(flights.outstanding(), 0);
    }
}
