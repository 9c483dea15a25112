//! Handles what comes from the server: bytes become events, and events are recorded.

use super::breakdown::Ended;
use super::conversations::AnsweredTurn;
use super::network::Network;
use super::queued_sends::AGE_MAX_IN_SCRIPT_NS;
use super::{StopReason, Worker};
use crate::connection::ConnectionState;
use crate::error_kinds;
use crate::exchanges::{Exchange, TokenTimes};
use eventloop::EventLoop;
use protocol::{Event, ExchangeId, Failure, Response, Said, Session, SessionError, Transport};
use results::ErrorKind;

/// Below this, discarding costs as much as copying.
const DISCARD_BYTES_MIN: u64 = 16 * 1024;

impl<L: EventLoop, S: Session> Network<L, S> {
    /// Gives a session what has arrived.
    #[inline]
    fn receive(&mut self, key: u32) -> Result<(), SessionError> {
        let connection = &mut self.pool[key];
        let input = self.io.received();
        let (context, output, events) = (&mut self.context, &mut self.output, &mut self.events);
        let mut receive = |bytes: &[u8]| {
            let session = &mut connection.session;
            session.receive(context, bytes, output, events)
        };
        match S::TRANSPORT {
            Transport::Stream => receive(input),
            Transport::Datagrams => {
                let segment = self.io.received_segment().unwrap_or(input.len());
                input.chunks(segment.max(1)).try_for_each(receive)
            }
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    pub(super) fn on_received(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        self.accounting
            .note_receive_delay(&mut self.network, key, at_ns);
        if S::TRANSPORT == Transport::Datagrams {
            self.accounting
                .count_batch(key, self.network.io.received_drops());
        }
        let received = self.network.receive(key);
        self.after_input(key, received, at_ns)
    }

    /// The session has taken what arrived, or a timer.
    #[inline]
    pub(super) fn after_input(
        &mut self,
        key: u32,
        received: Result<(), SessionError>,
        at_ns: u64,
    ) -> Result<(), StopReason> {
        if !self.network.output.is_empty() {
            self.network.flush_output(key);
        }
        let reusable = self.take_events(key, at_ns)?;
        if let Err(error) = received {
            self.fail_session(key, &error, at_ns);
            return Ok(());
        }
        if S::TRANSPORT == Transport::Datagrams {
            self.network.note_unflushed(key);
            if self.network.pool[key].session.has_ended() {
                return self.on_end(key, at_ns);
            }
        }
        if !reusable {
            return self.on_announced_close(key, at_ns);
        }
        self.after_receive(key, at_ns)
    }

    /// Bytes of a body were discarded.
    pub(super) fn on_discarded(
        &mut self,
        key: u32,
        bytes: u64,
        at_ns: u64,
    ) -> Result<(), StopReason> {
        self.accounting
            .note_receive_delay(&mut self.network, key, at_ns);
        let connection = &mut self.network.pool[key];
        connection.session.skip(bytes, &mut self.network.events);
        if self.take_events(key, at_ns)? {
            self.after_receive(key, at_ns)
        } else {
            self.on_announced_close(key, at_ns)
        }
    }

    /// After the events are recorded: discards bytes that are not needed, and lets the connection
    /// continue.
    fn after_receive(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        let connection = &self.network.pool[key];
        let skippable_bytes = connection.session.skippable_bytes();
        if skippable_bytes >= DISCARD_BYTES_MIN
            && let Some(token) = connection.token
        {
            self.network.io.discard(token, skippable_bytes);
        }
        if connection.state == ConnectionState::Handshaking {
            self.go_on_with_handshake(key, at_ns);
        }
        self.go_on(key, at_ns)
    }

    /// Bytes of a handshake were received.
    #[inline(never)]
    fn go_on_with_handshake(&mut self, key: u32, at_ns: u64) {
        let connection = &mut self.network.pool[key];
        connection.own_ns += self.accounting.read_late.first_ns;
        if connection.session.is_ready() {
            connection.state = ConnectionState::Open;
            connection.since_ns = at_ns;
            self.network
                .note_opened(key, at_ns, &mut self.accounting.usage);
            self.note_server(key, false);
        }
    }

    /// Lets a connection continue, possibly together with others.
    #[inline]
    pub(super) fn go_on(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        if self.sender.refills_together() {
            self.sender
                .refill_later(key, &mut self.network.pool[key], at_ns);
            return Ok(());
        }
        self.go_on_now(key, at_ns)
    }

    /// Lets an open connection continue, or replaces it if nothing more can be sent on it.
    pub(super) fn go_on_now(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        let connection = &self.network.pool[key];
        if connection.state != ConnectionState::Open {
            return Ok(());
        }
        let is_idle = connection.exchanges.outstanding() == 0;
        if is_idle && connection.is_draining {
            self.accounting.note_reconnect(at_ns);
            self.replace(key, at_ns);
            return Ok(());
        }
        if is_idle && connection.sent >= self.settings.requests_per_connection {
            self.replace(key, at_ns);
            return Ok(());
        }
        self.advance(key, at_ns)
    }

    /// An exchange has failed, but not its connection.
    fn on_failed(&mut self, key: u32, exchange: ExchangeId, failure: &Failure, at_ns: u64) {
        let kind = error_kinds::of_session(&failure.error);
        self.accounting.note_detail(kind, &failure.error);
        if failure.error.is_response() {
            self.note_served(key, at_ns);
        }
        self.fail_exchange(key, exchange, kind, failure.bytes, at_ns);
    }

    /// Counts the failure of one exchange.
    pub(super) fn fail_exchange(
        &mut self,
        key: u32,
        exchange: ExchangeId,
        kind: ErrorKind,
        bytes: u64,
        at_ns: u64,
    ) {
        self.sender.forget(key, exchange, at_ns);
        let pool = &mut self.network.pool;
        let tokens = pool[key].exchanges.take_tokens(exchange);
        let trace = pool[key].exchanges.take_trace(exchange);
        if let Some(exchange) = pool.end_exchange(key, exchange) {
            let failed = (kind, bytes);
            self.accounting
                .count_failure(pool, key, (&exchange, &tokens, trace), failed, at_ns);
            if kind == ErrorKind::Timeout {
                let unanswered = (&exchange, trace);
                self.accounting
                    .break_down_unanswered(&mut self.network, key, unanswered, at_ns);
            }
        }
    }

    /// The server announced that this response was the last one on the connection.
    pub(super) fn on_announced_close(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        let connection = &self.network.pool[key];
        let used_up = connection.sent >= self.settings.requests_per_connection;
        if connection.exchanges.outstanding() > 0 {
            self.fail(key, ErrorKind::Stale, at_ns);
        } else {
            // If the client asked for it (`Connection: close`), it is not counted.
            if !used_up {
                self.accounting.note_reconnect(at_ns);
            }
            self.replace(key, at_ns);
        }
        Ok(())
    }

    /// Records the events of the session. Returns false if the connection must not be used again.
    pub(super) fn take_events(&mut self, key: u32, at_ns: u64) -> Result<bool, StopReason> {
        let mut reusable = true;
        let mut events = std::mem::take(&mut self.network.events);
        if self.accounting.watch.awaits_answers() {
            let answers = events
                .iter()
                .filter(|event| matches!(event, Event::Finished(..)));
            self.accounting.watch.note_answers(answers.count());
        }
        for event in events.drain(..) {
            match event {
                Event::Finished(exchange, response) => {
                    reusable = response.reusable;
                    self.on_finished(key, exchange, response, at_ns)?;
                }
                Event::Began(exchange) => {
                    let exchanges = &mut self.network.pool[key].exchanges;
                    if let Some(exchange) = exchanges.get_mut(exchange) {
                        exchange.began_ns = Some(at_ns);
                    }
                }
                Event::Streamed(exchange, found) => {
                    self.accounting.denial.note_stream();
                    let exchanges = &mut self.network.pool[key].exchanges;
                    if self.accounting.streamed(exchanges, exchange, found, at_ns) {
                        self.note_works(key, at_ns);
                    }
                }
                Event::StreamEnded(exchange, total) => {
                    let exchanges = &mut self.network.pool[key].exchanges;
                    self.accounting
                        .stream_ended(exchanges, exchange, total, at_ns);
                }
                Event::Said(exchange, said) => self.on_said((key, exchange), *said, at_ns),
                Event::Failed(exchange, failure) => {
                    self.on_failed(key, exchange, &failure, at_ns);
                }
                Event::Draining => self.network.pool[key].is_draining = true,
                Event::ProxyReady => {
                    let connection = &mut self.network.pool[key];
                    let took_ns = at_ns.saturating_sub(connection.since_ns);
                    // What follows, TLS with the target, has its own time and time limit.
                    connection.since_ns = at_ns;
                    if self.accounting.recorder().is_in_window(at_ns) {
                        self.accounting.recorder().proxied(took_ns);
                    }
                }
                Event::Ready(handshake) => {
                    let connection = &mut self.network.pool[key];
                    let took_ns = at_ns.saturating_sub(connection.since_ns);
                    if S::TRANSPORT == Transport::Datagrams {
                        self.note_connection(key, at_ns);
                    }
                    if self.accounting.recorder().is_in_window(at_ns) {
                        self.accounting
                            .recorder()
                            .handshaken(took_ns, handshake.resumed);
                    }
                    // Otherwise it is noted when the connection becomes open.
                    if self.network.pool[key].state == ConnectionState::Open {
                        self.note_server(key, false);
                    }
                }
            }
        }
        self.network.events = events;
        Ok(reusable)
    }

    /// The server of a language model says something in a response.
    #[cold]
    fn on_said(&mut self, (key, exchange): (u32, ExchangeId), said: Said, at_ns: u64) {
        match said {
            Said::Error { status, body } => self.accounting.recorder().first_error(status, &body),
            Said::Wait { retry_after_s } => self.pause_user((key, exchange), retry_after_s, at_ns),
            Said::Answer(answer) => {
                if let Some(conversations) = &mut self.sender.conversations {
                    conversations.said(key, exchange, answer);
                }
            }
        }
    }

    /// A whole response has arrived.
    #[inline]
    fn note_served(&mut self, key: u32, at_ns: u64) {
        self.network.pool[key].answered += 1;
        self.note_works(key, at_ns);
    }

    /// A whole response has arrived, or an event of a stream, which may never end. So the server
    /// and this connection work.
    #[inline]
    fn note_works(&mut self, key: u32, at_ns: u64) {
        self.network.pool[key].failures = 0;
        self.note_server(key, true);
        self.accounting.stall.note_response(at_ns);
    }

    /// A response has arrived as a whole, but its request has failed.
    #[cold]
    fn on_failing_response(
        &mut self,
        (key, id): (u32, ExchangeId),
        exchange: (&Exchange, &TokenTimes, u128),
        failed: (ErrorKind, u64),
        at_ns: u64,
    ) {
        self.sender.forget(key, id, at_ns);
        self.note_served(key, at_ns);
        let pool = &mut self.network.pool;
        self.accounting
            .count_failure(pool, key, exchange, failed, at_ns);
    }

    /// A response of so many bytes has arrived, and some runs look at what it says: whether it was
    /// good, whether the server refuses all requests, and what a conversation goes on with.
    #[inline(never)]
    fn judge(
        &mut self,
        id: (u32, ExchangeId),
        (ended, tokens): (&Ended<'_>, &TokenTimes),
        (arrived_ns, bytes): (u64, u64),
    ) {
        let (exchange, status, at_ns) = (ended.exchange, ended.status, ended.at_ns);
        self.accounting.denial.note_status(status);
        let recorder = self.accounting.recorder();
        let is_good = !recorder.judges() || recorder.judge((exchange, tokens), status, at_ns);
        if recorder.makes_records() && recorder.measures(exchange.due_ns) {
            self.accounting.record_answer(id.0, (ended, tokens), bytes);
        }
        let answered = AnsweredTurn {
            arrived_ns,
            status,
            tokens,
            is_good,
        };
        self.sender.turn_answered(id, &answered);
    }

    #[inline]
    pub(super) fn on_finished(
        &mut self,
        key: u32,
        id: ExchangeId,
        response: Response,
        at_ns: u64,
    ) -> Result<(), StopReason> {
        let pool = &mut self.network.pool;
        let tokens = pool[key].exchanges.take_tokens(id);
        let trace = if self.sender.writes_text {
            pool[key].exchanges.take_trace(id)
        } else {
            0
        };
        let Some(mut exchange) = pool.end_exchange(key, id) else {
            return Ok(());
        };
        let failure = match tokens.has_error {
            true => Some(ErrorKind::StreamError),
            false if self.sender.per_client => {
                let (client, _) = self.network.slot_and_host(key);
                self.sender
                    .receive((key, client), (id, &exchange), &response)
            }
            false => None,
        };
        if let Some(kind) = failure {
            let failed = (kind, response.bytes);
            self.on_failing_response((key, id), (&exchange, &tokens, trace), failed, at_ns);
            return Ok(());
        }
        self.note_served(key, at_ns);
        let service_ns = at_ns.saturating_sub(exchange.sent_ns);
        self.sender.note_response(at_ns, service_ns);
        let late_ns = self.accounting.late_ns(&exchange, service_ns);
        let (pool, arrived_ns) = (&mut self.network.pool, at_ns.saturating_sub(late_ns));
        self.accounting
            .note_end_of_silence(pool, &mut exchange, arrived_ns);
        let own_ns = exchange.own_ns + late_ns;
        pool[key].own_ns = own_ns;
        self.accounting.recorder().left(1, at_ns);
        let ended = Ended {
            exchange: &exchange,
            trace,
            status: response.status,
            own_ns,
            read_late_ns: late_ns,
            at_ns,
        };
        self.accounting
            .count_answer(&mut self.network, key, &ended, &response);
        if self.accounting.has_extras {
            let arrived = (arrived_ns, response.bytes);
            self.judge((key, id), (&ended, &tokens), arrived);
        }
        if let Some(captured) = response
            .captured
            .filter(|_| self.sender.source.wants_responses)
        {
            self.call_source(|source| source.response(&captured))?;
            let now_ns = self.network.io.now_ns();
            self.submit_if_old(now_ns, AGE_MAX_IN_SCRIPT_NS);
        }
        Ok(())
    }
}
