//! A worker's connections: opened, replaced, given up, and what their ends mean.

use super::{BACK_OFF_FIRST_NS, BACK_OFF_LAST_NS, STAMPED_AT_LEAST, STAMPED_ONE_IN, Stop, Worker};
use crate::connection::{Connection, State};
use crate::failure;
use eventloop::{CloseMode, EventLoop};
use protocol::{Session, SessionError};
use results::ErrorKind;

impl<L: EventLoop, S: Session> Worker<L, S> {
    pub(super) fn open(&mut self, key: u32) {
        let connection = &mut self.connections[key as usize];
        connection.state = State::Connecting;
        connection.sent = 0;
        connection.answered = 0;
        connection.send_failed = false;
        let mut options = self.settings.options.clone();
        options.timestamps = key < STAMPED_AT_LEAST || key.is_multiple_of(STAMPED_ONE_IN);
        if let Some(range) = &self.settings.source {
            options.source = Some(range.nth(self.source_index));
            self.source_index += u128::from(self.settings.workers);
        }
        // Read here, since a turn may open several: the time of one is not the other's.
        let since_ns = self.io.now_ns();
        connection.since_ns = since_ns;
        connection.tried_ns = since_ns;
        let token = self.io.connect(key, &self.settings.address, &options);
        connection.token = Some(token);
        self.deadlines
            .set(key, since_ns.saturating_add(self.settings.timeout_ns));
    }

    pub(super) fn on_connected(&mut self, key: u32, at_ns: u64) -> Result<(), Stop> {
        let connection = &mut self.connections[key as usize];
        let took_ns = at_ns.saturating_sub(connection.since_ns);
        connection.connect_took_ns = took_ns;
        self.standing += 1;
        connection.connected_ns = at_ns;
        connection.since_ns = at_ns;
        let begun = connection.session.begin(&mut self.shared, &mut self.output);
        let ready = connection.session.is_ready();
        connection.state = if ready {
            State::Open
        } else {
            State::Handshaking
        };
        if self.recorder().measures(at_ns) {
            self.recorder().connected(took_ns);
        }
        self.flush_output(key);
        match begun {
            Err(error) => {
                self.fail_session(key, &error, at_ns);
                Ok(())
            }
            Ok(()) if ready => {
                self.note_server(key, false);
                self.advance(key, at_ns)
            }
            Ok(()) => {
                self.deadlines
                    .set(key, at_ns.saturating_add(self.settings.timeout_ns));
                Ok(())
            }
        }
    }

    /// Closes the socket and forgets what was outstanding; bytes that did arrive are counted.
    pub(super) fn disconnect(&mut self, key: u32, at_ns: u64) {
        let connection = &mut self.connections[key as usize];
        if let Some(token) = connection.token.take() {
            self.io.close(token, CloseMode::Graceful);
        }
        self.standing -= u64::from(connection.is_standing());
        let oldest_ns = connection.flights.oldest().map(|flight| flight.due_ns);
        let partial = connection.session.partial_bytes();
        let outstanding = u64::from(connection.flights.outstanding());
        self.outstanding -= outstanding;
        connection.flights.clear();
        connection.began_ns = None;
        connection.state = State::Waiting;
        let recorder = self.recorder();
        recorder.left(outstanding, at_ns);
        if outstanding > 0 {
            self.settled_ns = at_ns;
        }
        let recorder = self.recorder();
        if oldest_ns.is_some_and(|due_ns| recorder.measures(due_ns)) {
            recorder.bytes(partial);
        }
    }

    /// Replaces a connection that ended in good order.
    pub(super) fn reopen(&mut self, key: u32, now_ns: u64) {
        self.disconnect(key, now_ns);
        if self.wanted() == 0 || self.has_enough_opening(now_ns) {
            self.connections[key as usize].state = State::Done;
        } else {
            self.open(key);
        }
    }

    /// Whether connections that are being set up will use the budget up: one more would carry no
    /// request. Those that fail are tried again, so that they suffice.
    pub(super) fn has_enough_opening(&self, now_ns: u64) -> bool {
        let is_opening = |connection: &&Connection<S>| {
            matches!(connection.state, State::Connecting | State::Handshaking)
        };
        // Counted only near the end, since it is a walk over all connections.
        let wanted = self.wanted();
        now_ns >= self.schedule.measure_ns
            && wanted < self.connections.len() as u64
            && self.connections.iter().filter(is_opening).count() as u64 >= wanted
    }

    /// Replaces a connection that the server closed while we were thinking, when the thought is due.
    /// Earlier it would only be closed again, and thinking anew would put the request off for ever.
    pub(super) fn reopen_when_due(&mut self, key: u32, now_ns: u64) {
        let due_ns = self.connections[key as usize].due_ns;
        self.disconnect(key, now_ns);
        let connection = &mut self.connections[key as usize];
        connection.rested = true;
        connection.due_ns = due_ns;
        self.wakes.set(key, due_ns);
    }

    /// Replaces a connection that failed. In a closed loop that is after a pause that grows with failures in a
    /// row, since each failure is followed by the next attempt. With a rate, a connection that failed a request is
    /// replaced at once, as the schedule says how often that can be.
    pub(super) fn reopen_later(&mut self, key: u32, now_ns: u64) {
        let connection = &self.connections[key as usize];
        let failed_request = connection.flights.outstanding() > 0;
        let was_standing = connection.is_standing();
        self.disconnect(key, now_ns);
        let connection = &mut self.connections[key as usize];
        connection.failures = connection.failures.saturating_add(1);
        if self.is_paced() && failed_request {
            return self.reopen(key, now_ns);
        }
        if was_standing {
            self.note_unserved();
        }
        let connection = &self.connections[key as usize];
        if connection.failures > 1 && self.is_cut_off() {
            return self.await_server(key, now_ns);
        }
        let doublings = connection.failures.saturating_sub(2).min(20);
        // The first failure after a success is followed up at once, as servers do reset connections.
        let pause_ns = match connection.failures {
            0 | 1 => 0,
            _ => (BACK_OFF_FIRST_NS << doublings).min(BACK_OFF_LAST_NS),
        };
        if pause_ns == 0 {
            return self.reopen(key, now_ns);
        }
        let jitter = self.random.f64().mul_add(0.5, 0.5);
        let connection = &mut self.connections[key as usize];
        connection.due_ns = now_ns + (pause_ns as f64 * jitter) as u64;
        let due_ns = connection.due_ns;
        self.wakes.set(key, due_ns);
    }

    /// Counts a failure once, with the requests that it ended, and replaces the connection.
    pub(super) fn fail(&mut self, key: u32, kind: ErrorKind, at_ns: u64) {
        let Self {
            connections,
            recorder,
            ..
        } = self;
        let flights = &connections[key as usize].flights;
        if let Some(recorder) = recorder {
            let measured = flights
                .iter()
                .filter(|flight| recorder.measures(flight.due_ns))
                .map(|flight| u64::from(flight.requests))
                .sum();
            let alone = flights.outstanding() == 0 && recorder.measures(at_ns);
            if measured > 0 || alone {
                recorder.failed(kind, measured);
            } else {
                recorder.failed_early(at_ns);
            }
            if kind == ErrorKind::Timeout {
                for flight in flights.iter() {
                    let measured = recorder.measures(flight.due_ns);
                    for _ in 0..if measured { flight.requests } else { 0 } {
                        let age_ns = at_ns.saturating_sub(flight.sent_ns);
                        recorder.timed_out(age_ns, at_ns.saturating_sub(flight.due_ns));
                    }
                }
            }
        }
        if kind == ErrorKind::Stale {
            self.note_reconnect(at_ns);
        }
        self.reopen_later(key, at_ns);
    }

    pub(super) fn note_reconnect(&mut self, at_ns: u64) {
        if self.recorder().measures(at_ns) {
            self.recorder().reconnect();
        }
    }

    pub(super) fn on_end(&mut self, key: u32, at_ns: u64) -> Result<(), Stop> {
        let connection = &mut self.connections[key as usize];
        let ended = connection.session.end(&mut self.shared, &mut self.events);
        self.take_events(key, at_ns)?;
        let outstanding = self.connections[key as usize].flights.outstanding() > 0;
        match ended {
            Err(error) => self.fail_session(key, &error, at_ns),
            // Answers that were still to come when the last one had announced the close.
            Ok(()) if outstanding => self.fail(key, ErrorKind::Stale, at_ns),
            Ok(()) if self.connections[key as usize].state == State::Thinking => {
                self.note_reconnect(at_ns);
                self.reopen_when_due(key, at_ns);
            }
            Ok(()) => {
                self.note_reconnect(at_ns);
                // A server that closes without having answered anything is not hurried.
                if self.connections[key as usize].answered == 0 {
                    self.reopen_later(key, at_ns);
                } else {
                    self.reopen(key, at_ns);
                }
            }
        }
        Ok(())
    }

    /// Counts that a session cannot go on. A close without any answer is not always the server's
    /// failure; it may come as the end of the stream, or as bytes, since TLS has an end of its own.
    pub(super) fn fail_session(&mut self, key: u32, error: &SessionError, at_ns: u64) {
        let connection = &self.connections[key as usize];
        let kind = match error {
            SessionError::ClosedEarly if connection.looks_stale(at_ns) => ErrorKind::Stale,
            SessionError::ClosedEarly if connection.send_failed => ErrorKind::BrokenPipe,
            error => failure::of_session(error),
        };
        if let (None, Some(detail)) = (&self.first_trouble, failure::detail(error)) {
            self.first_trouble = Some((kind, detail.to_owned()));
        }
        self.fail(key, kind, at_ns);
    }

    pub(super) fn on_receive_failed(&mut self, key: u32, errno: i32, at_ns: u64) {
        let connection = &self.connections[key as usize];
        let handshaking = connection.state == State::Handshaking;
        if connection.flights.outstanding() == 0 && connection.answered > 0 {
            let thinking = connection.state == State::Thinking;
            self.note_reconnect(at_ns);
            if thinking {
                self.reopen_when_due(key, at_ns);
            } else {
                self.reopen(key, at_ns);
            }
        } else if connection.looks_stale(at_ns) {
            // A server that closes with our request unread sends RST, not FIN.
            self.fail(key, ErrorKind::Stale, at_ns);
        } else if handshaking {
            self.fail(key, ErrorKind::TlsClosed, at_ns);
        } else {
            self.fail(key, failure::of_receive(errno), at_ns);
        }
    }

    pub(super) fn on_wake(&mut self, key: u32, now_ns: u64) -> Result<(), Stop> {
        let connection = &mut self.connections[key as usize];
        if !matches!(connection.state, State::Waiting | State::Thinking) {
            return Ok(());
        }
        if connection.due_ns > now_ns {
            self.wakes.set(key, connection.due_ns);
            return Ok(());
        }
        if connection.state == State::Waiting {
            // Others may count on it, see `has_enough_opening`.
            if self.wanted() > 0 {
                self.open(key);
            } else {
                self.connections[key as usize].state = State::Done;
            }
            return Ok(());
        }
        connection.state = State::Open;
        self.go_on(key, now_ns)
    }

    pub(super) fn on_deadline(&mut self, key: u32, now_ns: u64) {
        let connection = &self.connections[key as usize];
        let (since_ns, kind) = match connection.state {
            State::Connecting | State::Handshaking => {
                (connection.since_ns, ErrorKind::ConnectTimeout)
            }
            _ => match connection.flights.oldest_sent_ns() {
                Some(sent_ns) => (sent_ns, ErrorKind::Timeout),
                None => return,
            },
        };
        let due_ns = since_ns.saturating_add(self.settings.timeout_ns);
        if due_ns > now_ns {
            self.deadlines.set(key, due_ns);
        } else {
            self.fail(key, kind, now_ns);
        }
    }
}
