//! Counts and times responses, and the events of streaming ones: when they arrived, and when they
//! were read.

use super::accounting::Accounting;
use super::breakdown::Ended;
use super::network::Network;
use super::pool::ConnectionPool;
use super::read_late::ReadLate;
use crate::exchanges::{Exchange, Exchanges};
use crate::recorder::{AnsweredTimes, ArrivedEvents, ArrivedTokens, CompletedResponse, Labels};
use eventloop::EventLoop;
use protocol::{ExchangeId, Found, Response, Session, StreamTotal};
use results::Attribution;

impl Accounting {
    /// Counts and times a response, if its request belongs to the window.
    #[inline]
    pub(super) fn count_answer<L: EventLoop, S: Session>(
        &mut self,
        network: &mut Network<L, S>,
        key: u32,
        ended: &Ended<'_>,
        response: &Response,
    ) {
        let Ended {
            exchange,
            own_ns,
            read_late_ns,
            at_ns,
            ..
        } = *ended;
        let labels = Labels {
            name: exchange.name,
            address: network.pool[key].address,
        };
        let timed = !self.batch_latency || exchange.requests == 0;
        let recorder = self.recorder();
        if !recorder.measures(exchange.due_ns) {
            let bytes = network.pool[key].since_window(response.bytes);
            let recorder = self.recorder();
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
        if timed && self.watch.is_in_doubt() && own_ns < Attribution::MIN_NS {
            self.note_doubt(key, exchange, at_ns);
        }
        if timed && self.breakdown.is_some() {
            self.break_down(network, key, ended, response.captured.as_deref());
        }
    }

    /// How long a request waited to be submitted, and its response to be read.
    #[inline]
    pub(super) fn late_ns(&mut self, exchange: &Exchange, service_ns: u64) -> u64 {
        let read_late_ns = self.read_late.of(exchange.submitted_ns());
        match (exchange.queued_ns + read_late_ns).min(service_ns) {
            // Any load generator takes that long to wake up. After a stall, it would add up over
            // the responses of a connection.
            0..Attribution::MIN_NS => {
                self.fastest_ns = self.fastest_ns.min(service_ns);
                0
            }
            late_ns if self.read_late.is_known() => {
                self.fastest_ns = self.fastest_ns.min(service_ns - late_ns);
                late_ns
            }
            late_ns => possible_late_ns(late_ns, service_ns, self.fastest_ns),
        }
    }

    /// Bytes have arrived, maybe with a timestamp.
    pub(super) fn note_receive_delay<L: EventLoop, S: Session>(
        &mut self,
        network: &mut Network<L, S>,
        key: u32,
        at_ns: u64,
    ) {
        let mut postponed_ns = None;
        if self.has_postponed {
            postponed_ns = network.pool[key].arrived_ns.take();
            if let Some(arrived_ns) = postponed_ns {
                self.read_late = ReadLate::since(at_ns.saturating_sub(arrived_ns));
            }
        }
        let arrived_ns = at_ns.saturating_sub(self.read_late.first_ns);
        self.silence.note_bytes(arrived_ns);
        let Some(delay_ns) = network.io.receive_delay_ns() else {
            return;
        };
        // The kernel's timestamp, that of the last bytes, is better than what the worker knows.
        let mut first_ns = delay_ns;
        if network.pool.pipeline > 1 && self.read_late.first_ns > delay_ns {
            first_ns = self.first_late_ns(&network.pool[key].exchanges, delay_ns);
        }
        self.read_late = ReadLate::between(first_ns, delay_ns);
        // What was postponed has not arrived in its turn.
        let tells = postponed_ns.is_none() && self.watch.is_open();
        if tells && self.watch.note_arrival(at_ns.saturating_sub(first_ns)) {
            self.settle_doubts(&mut network.pool, first_ns);
        }
        if self.recorder().is_in_window(at_ns) {
            self.recorder().record_receive_delay(delay_ns);
        }
    }

    /// How long the first bytes of a read waited, if the last ones waited for `delay_ns`. They
    /// arrived no longer before the last ones than their requests were sent.
    #[inline(never)]
    fn first_late_ns(&self, exchanges: &Exchanges, delay_ns: u64) -> u64 {
        if delay_ns < Attribution::MIN_NS || exchanges.outstanding() < 2 {
            return delay_ns;
        }
        let longest_ns = delay_ns.saturating_add(exchanges.sent_over_ns());
        self.read_late.first_ns.min(longest_ns)
    }

    /// A timestamp may still show that this response was read late.
    #[cold]
    fn note_doubt(&mut self, key: u32, exchange: &Exchange, at_ns: u64) {
        let times = AnsweredTimes {
            due_ns: exchange.due_ns,
            sent_ns: exchange.sent_ns,
            completed_ns: at_ns,
        };
        self.doubtful.push((key, times));
    }

    /// A timestamp has shown that the responses before it were read late, too.
    #[cold]
    fn settle_doubts<S: Session>(&mut self, pool: &mut ConnectionPool<S>, late_ns: u64) {
        for (key, answered) in self.doubtful.drain(..) {
            let service_ns = answered.completed_ns.saturating_sub(answered.sent_ns);
            let late_ns = possible_late_ns(late_ns, service_ns, self.fastest_ns);
            if late_ns == 0 {
                continue;
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.was_read_late(&answered, late_ns);
                if let Some(records) = recorder.records() {
                    records.was_read_late(key, answered.completed_ns, late_ns);
                }
            }
            if self.is_paced {
                pool[key].was_read_late(answered.completed_ns, late_ns);
            }
        }
    }

    /// Events of a streaming response have arrived. Returns false if nobody waits for them.
    pub(super) fn streamed(
        &mut self,
        exchanges: &mut Exchanges,
        id: ExchangeId,
        found: Found,
        at_ns: u64,
    ) -> bool {
        let is_in_window = self.recorder().is_in_window(at_ns);
        let Some(exchange) = exchanges.get_mut(id) else {
            return false;
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
        let recorder = self.recorder();
        recorder.events(&events, at_ns);
        if let Some(tokens) = tokens {
            recorder.tokens(&tokens, at_ns);
        }
        true
    }

    /// A streaming response has ended.
    pub(super) fn stream_ended(
        &mut self,
        exchanges: &mut Exchanges,
        id: ExchangeId,
        mut total: StreamTotal,
        at_ns: u64,
    ) {
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
            let count = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
            times.prompt = count(stream.usage.prompt.unwrap_or(0));
            times.generated = count(stream.tokens().0);
            times.cached = count(stream.usage.cached.unwrap_or(0));
            in_window = times.in_window;
            let per_token = stream.time_per_token();
            times.per_token_ns = per_token.map_or(0, |time| time.ns.round() as u64);
        }
        let has_error = total.llm.as_ref().is_some_and(|stream| stream.has_error);
        // A stream with an error in it has its end, if not the one that was hoped for.
        let is_unread = has_error || total.is_compressed;
        let is_unfinished = self.has_end_marker && !total.has_end_marker && !is_unread;
        if is_unfinished {
            exchanges.tokens_mut(id).is_without_end = true;
        }
        let recorder = self.recorder();
        recorder.stream_ended(due_ns, &total, is_unfinished);
        if let Some(stream) = &total.llm {
            recorder.llm_ended(due_ns, at_ns, stream, in_window);
        }
    }
}

/// How much of the `late_ns` that a response may have been late can be the load generator's, if the
/// response took `service_ns`: the server needed at least `fastest_ns`. `u64::MAX` is not known,
/// and leaves nothing to the load generator.
#[inline]
fn possible_late_ns(late_ns: u64, service_ns: u64, fastest_ns: u64) -> u64 {
    match late_ns.min(service_ns.saturating_sub(fastest_ns)) {
        0..Attribution::MIN_NS => 0,
        late_ns => late_ns,
    }
}
