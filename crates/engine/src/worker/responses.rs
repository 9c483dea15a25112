//! Handles what comes from the server: bytes become events, and events are recorded.

use super::accounting::Accounting;
use super::breakdown::Ended;
use super::queued_sends::AGE_MAX_IN_SCRIPT_NS;
use super::read_late::ReadLate;
use super::sender::Cookies;
use super::{StopReason, Worker};
use crate::connection::ConnectionState;
use crate::error_kinds;
use crate::exchanges::{Exchange, TokenTimes};
use crate::recorder::{AnsweredTimes, ArrivedEvents, ArrivedTokens, CompletedResponse, Labels};
use eventloop::EventLoop;
use protocol::{
    Event, ExchangeId, Failure, Found, Response, Session, SessionError, StreamTotal, Transport,
};
use results::{Attribution, ErrorKind};

/// Below this, discarding costs as much as copying.
const DISCARD_BYTES_MIN: u64 = 16 * 1024;

impl<L: EventLoop, S: Session> Worker<L, S> {
    pub(super) fn on_received(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        self.note_receive_delay(key, at_ns);
        if S::TRANSPORT == Transport::Datagrams {
            self.count_batch(key);
        }
        let connection = &mut self.network.pool[key];
        let input = self.network.io.received();
        let mut receive = |bytes: &[u8]| {
            let (shared, output) = (&mut self.network.shared, &mut self.network.output);
            let events = &mut self.network.events;
            connection.session.receive(shared, bytes, output, events)
        };
        let received = match S::TRANSPORT {
            Transport::Stream => receive(input),
            Transport::Datagrams => {
                let segment = self.network.io.received_segment().unwrap_or(input.len());
                input.chunks(segment.max(1)).try_for_each(receive)
            }
        };
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
        self.note_receive_delay(key, at_ns);
        let connection = &mut self.network.pool[key];
        connection.session.skip(bytes, &mut self.network.events);
        if self.take_events(key, at_ns)? {
            self.after_receive(key, at_ns)
        } else {
            self.on_announced_close(key, at_ns)
        }
    }

    fn note_receive_delay(&mut self, key: u32, at_ns: u64) {
        let Some(delay_ns) = self.network.io.receive_delay_ns() else {
            return;
        };
        // The kernel's timestamp, that of the last bytes, is better than what the worker knows.
        let mut first_ns = delay_ns;
        if self.settings.pipeline > 1 && self.accounting.read_late.first_ns > delay_ns {
            first_ns = self.first_late_ns(key, delay_ns);
        }
        self.accounting.read_late = ReadLate::between(first_ns, delay_ns);
        if self.accounting.watch.is_open()
            && self
                .accounting
                .watch
                .note_arrival(at_ns.saturating_sub(first_ns))
        {
            self.settle_doubts(first_ns);
        }
        if self.accounting.recorder().is_in_window(at_ns) {
            self.accounting.recorder().record_receive_delay(delay_ns);
        }
    }

    /// How long the first bytes of a read waited, if the last ones waited for `delay_ns`. They
    /// arrived no longer before the last ones than their requests were sent.
    #[inline(never)]
    fn first_late_ns(&self, key: u32, delay_ns: u64) -> u64 {
        let exchanges = &self.network.pool[key].exchanges;
        if delay_ns < Attribution::MIN_NS || exchanges.outstanding() < 2 {
            return delay_ns;
        }
        let longest_ns = delay_ns.saturating_add(exchanges.sent_over_ns());
        self.accounting.read_late.first_ns.min(longest_ns)
    }

    /// A timestamp may still show that this response was read late.
    #[cold]
    fn note_doubt(&mut self, key: u32, exchange: &Exchange, at_ns: u64) {
        let times = AnsweredTimes {
            due_ns: exchange.due_ns,
            sent_ns: exchange.sent_ns,
            completed_ns: at_ns,
        };
        self.accounting.doubtful.push((key, times));
    }

    /// A timestamp has shown that the responses before it were read late, too.
    #[cold]
    fn settle_doubts(&mut self, late_ns: u64) {
        let is_paced = self.is_paced();
        let Accounting {
            doubtful, recorder, ..
        } = &mut self.accounting;
        let pool = &mut self.network.pool;
        for (key, answered) in doubtful.drain(..) {
            if let Some(recorder) = recorder {
                recorder.was_read_late(&answered, late_ns);
            }
            if is_paced {
                let connection = &mut pool[key];
                connection.was_read_late(answered.completed_ns, late_ns);
            }
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
            self.note_opened(key, at_ns);
            self.note_server(key, false);
        }
    }

    /// Lets a connection continue, possibly together with others.
    #[inline]
    pub(super) fn go_on(&mut self, key: u32, at_ns: u64) -> Result<(), StopReason> {
        if self.refills_together() {
            self.refill_later(key, at_ns);
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
            self.note_reconnect(at_ns);
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
        self.note_detail(kind, &failure.error);
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
        if let Some(Cookies { jars, .. }) = &mut self.sender.cookies {
            jars[key as usize].forget(exchange);
        }
        let connection = &mut self.network.pool[key];
        let tokens = connection.exchanges.take_tokens(exchange);
        let trace = connection.exchanges.take_trace(exchange);
        if let Some(exchange) = connection.exchanges.answer(exchange) {
            self.count_failure(key, (&exchange, &tokens), kind, bytes, at_ns);
            if kind == ErrorKind::Timeout {
                self.break_down_unanswered(key, &exchange, trace, at_ns);
            }
        }
    }

    /// Counts the failure of an exchange that is in flight no more.
    fn count_failure(
        &mut self,
        key: u32,
        (exchange, tokens): (&Exchange, &TokenTimes),
        kind: ErrorKind,
        bytes: u64,
        at_ns: u64,
    ) {
        let labels = Labels {
            name: exchange.name,
            address: self.network.pool[key].address,
        };
        self.network.pool.outstanding -= 1;
        self.accounting.stall.settled_ns = at_ns;
        let own_ns = match kind {
            ErrorKind::Timeout => self.own_ns_of_unanswered(exchange, at_ns),
            _ => 0,
        };
        let recorder = self.accounting.recorder();
        recorder.left(1, at_ns);
        if kind == ErrorKind::Timeout {
            recorder.stream_is_open(exchange.event_ns, at_ns);
        }
        if recorder.measures(exchange.due_ns) {
            recorder.failed(kind, 1);
            recorder.failed_labelled(kind, 1, labels);
            recorder.bytes(bytes, labels);
            if kind == ErrorKind::Timeout {
                let age_ns = at_ns.saturating_sub(exchange.sent_ns);
                let age_due_ns = at_ns.saturating_sub(exchange.due_ns);
                recorder.timed_out(age_ns, age_due_ns, labels);
                recorder.own_share_of_unanswered(1, age_due_ns, own_ns);
                recorder.timed_out_in_stream((exchange, tokens), age_ns, age_due_ns);
            }
        } else {
            recorder.failed_early(at_ns);
            self.count_bytes_of_warmup(key, bytes, labels, at_ns);
        }
    }

    /// Counts the bytes of an unfinished response to a request of the warm-up.
    fn count_bytes_of_warmup(&mut self, key: u32, bytes: u64, labels: Labels, at_ns: u64) {
        let bytes = self.network.pool[key].since_window(bytes);
        let recorder = self.accounting.recorder();
        if recorder.is_in_window(at_ns) {
            recorder.bytes(bytes, labels);
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
                self.note_reconnect(at_ns);
            }
            self.replace(key, at_ns);
        }
        Ok(())
    }

    /// Records the events of the session. Returns false if the connection must not be used again.
    pub(super) fn take_events(&mut self, key: u32, at_ns: u64) -> Result<bool, StopReason> {
        let mut reusable = true;
        let mut events = std::mem::take(&mut self.network.events);
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
                Event::Streamed(exchange, found) => self.on_streamed(key, exchange, found, at_ns),
                Event::StreamEnded(exchange, total) => {
                    self.on_stream_ended(key, exchange, total, at_ns);
                }
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

    /// Events of a streaming response have arrived.
    fn on_streamed(&mut self, key: u32, id: ExchangeId, found: Found, at_ns: u64) {
        let is_in_window = self.accounting.recorder().is_in_window(at_ns);
        let exchanges = &mut self.network.pool[key].exchanges;
        let Some(exchange) = exchanges.get_mut(id) else {
            return;
        };
        let (due_ns, sent_ns) = (exchange.due_ns, exchange.sent_ns);
        let events = ArrivedEvents {
            due_ns,
            sent_ns,
            last_ns: std::mem::replace(&mut exchange.event_ns, at_ns),
            count: found.events,
        };
        let tokens = (found.tokens > 0).then(|| {
            let times = exchanges.tokens_mut(id);
            let has_first_text = found.texts > 0 && times.first_text_ns == 0;
            if has_first_text {
                times.first_text_ns = at_ns;
            }
            if times.first_ns == 0 {
                times.first_ns = at_ns;
            }
            if is_in_window {
                times.in_window += u64::from(found.tokens);
            }
            ArrivedTokens {
                due_ns,
                sent_ns,
                last_ns: std::mem::replace(&mut times.last_ns, at_ns),
                count: found.tokens,
                has_first_text,
            }
        });
        let recorder = self.accounting.recorder();
        recorder.events(&events, at_ns);
        if let Some(tokens) = tokens {
            recorder.tokens(&tokens, at_ns);
        }
        self.note_works(key, at_ns);
    }

    fn on_stream_ended(&mut self, key: u32, id: ExchangeId, mut total: StreamTotal, at_ns: u64) {
        let exchanges = &mut self.network.pool[key].exchanges;
        let Some(exchange) = exchanges.get_mut(id) else {
            return;
        };
        let due_ns = exchange.due_ns;
        let mut in_window = 0;
        if let Some(stream) = &mut total.llm {
            let times = exchanges.tokens_mut(id);
            let known = |ns: u64| (ns > 0).then_some(ns);
            stream.first_token_ns = known(times.first_ns);
            stream.first_text_ns = known(times.first_text_ns);
            stream.last_token_ns = known(times.last_ns);
            times.has_error = stream.has_error;
            in_window = times.in_window;
            let per_token = stream.time_per_token();
            times.per_token_ns = per_token.map_or(0, |time| time.ns.round() as u64);
        }
        let has_error = total.llm.as_ref().is_some_and(|stream| stream.has_error);
        // A stream with an error in it has its end, if not the one that was hoped for.
        let is_unfinished = self.settings.has_end_marker() && !total.has_end_marker && !has_error;
        if is_unfinished {
            exchanges.tokens_mut(id).is_without_end = true;
        }
        let recorder = self.accounting.recorder();
        recorder.stream_ended(due_ns, &total, is_unfinished);
        if let Some(stream) = &total.llm {
            recorder.llm_ended(due_ns, at_ns, stream, in_window);
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

    #[inline]
    pub(super) fn on_finished(
        &mut self,
        key: u32,
        exchange: ExchangeId,
        response: Response,
        at_ns: u64,
    ) -> Result<(), StopReason> {
        let id = exchange;
        let connection = &mut self.network.pool[key];
        let tokens = connection.exchanges.take_tokens(id);
        let trace = if self.sender.writes_text {
            connection.exchanges.take_trace(id)
        } else {
            0
        };
        let Some(mut exchange) = connection.exchanges.answer(id) else {
            return Ok(());
        };
        let failure = match tokens.has_error {
            true => Some(ErrorKind::StreamError),
            false if self.sender.per_client => {
                self.received_by_client(key, (id, &exchange), &response)
            }
            false => None,
        };
        if let Some(kind) = failure {
            if let Some(Cookies { jars, .. }) = &mut self.sender.cookies {
                jars[key as usize].forget(id);
            }
            self.note_served(key, at_ns);
            self.count_failure(key, (&exchange, &tokens), kind, response.bytes, at_ns);
            return Ok(());
        }
        self.network.pool.outstanding -= 1;
        self.note_served(key, at_ns);
        let service_ns = at_ns.saturating_sub(exchange.sent_ns);
        if self.sender.response_poll.is_possible() {
            self.sender.response_poll.note_response(service_ns);
        }
        if self.refills_together() {
            self.sender.refills.note_response(at_ns, service_ns);
        }
        let late_ns = self.late_ns(&exchange, service_ns);
        self.note_end_of_silence(&mut exchange, at_ns.saturating_sub(late_ns));
        let own_ns = exchange.own_ns + late_ns;
        self.network.pool[key].own_ns = own_ns;
        let recorder = self.accounting.recorder();
        recorder.left(1, at_ns);
        if recorder.judges() {
            recorder.judge((&exchange, &tokens), response.status, at_ns);
        }
        let ended = Ended {
            exchange: &exchange,
            trace,
            status: response.status,
            own_ns,
            read_late_ns: late_ns,
            at_ns,
        };
        self.count_answer(key, &ended, &response);
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

    /// Counts and times a response, if its request belongs to the window.
    #[inline]
    fn count_answer(&mut self, key: u32, ended: &Ended<'_>, response: &Response) {
        let Ended {
            exchange,
            own_ns,
            read_late_ns,
            at_ns,
            ..
        } = *ended;
        let labels = Labels {
            name: exchange.name,
            address: self.network.pool[key].address,
        };
        let timed = !self.settings.plan.load.batch_latency || exchange.requests == 0;
        let recorder = self.accounting.recorder();
        if !recorder.measures(exchange.due_ns) {
            let bytes = self.network.pool[key].since_window(response.bytes);
            let recorder = self.accounting.recorder();
            return recorder.answered_early(exchange.due_ns, at_ns, bytes, labels);
        }
        recorder.answered(&CompletedResponse {
            due_ns: exchange.due_ns,
            sent_ns: exchange.sent_ns,
            first_byte_ns: exchange.began_ns.unwrap_or(at_ns),
            completed_ns: at_ns,
            status: response.status,
            bytes: response.bytes,
            timed,
            own_ns,
            late_ns: read_late_ns,
            labels,
            logged_status: exchange.logged_status,
        });
        // What may still be learned of the response: when it arrived, and what its latency is.
        if timed && self.accounting.watch.is_in_doubt() && own_ns < Attribution::MIN_NS {
            self.note_doubt(key, exchange, at_ns);
        }
        if timed && self.accounting.breakdown.is_some() {
            self.break_down(key, ended, response.captured.as_deref());
        }
    }

    /// How long a request waited to be submitted, and its response to be read.
    #[inline]
    fn late_ns(&mut self, exchange: &Exchange, service_ns: u64) -> u64 {
        let read_late_ns = self.accounting.read_late.of(exchange.sent_ns);
        match (exchange.queued_ns + read_late_ns).min(service_ns) {
            // Any load generator takes that long to wake up. After a stall, it would add up over
            // the responses of a connection.
            0..Attribution::MIN_NS => 0,
            late_ns => late_ns,
        }
    }

    /// Gives a response to its client, which keeps its cookies and the values that are captured.
    /// Returns the failure if a response without an error status lacks such a value.
    fn received_by_client(
        &mut self,
        key: u32,
        (id, exchange): (ExchangeId, &Exchange),
        response: &Response,
    ) -> Option<ErrorKind> {
        let captured = response.captured.as_deref()?;
        if let Some(Cookies { jars, .. }) = &mut self.sender.cookies {
            jars[key as usize].receive(id, &captured.headers, exchange.requests == 0);
        }
        let (client, _) = self.network.slot_and_host(key);
        let has_all = self.sender.writer.receive(client, captured);
        (!has_all && response.status < 400).then_some(ErrorKind::MissingValue)
    }
}
