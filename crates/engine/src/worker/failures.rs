//! Counts what has failed.

use super::accounting::Accounting;
use super::network::Network;
use super::pool::ConnectionPool;
use super::records::EndedWithout;
use crate::connection::Connection;
use crate::error_kinds;
use crate::exchanges::{Exchange, TokenTimes};
use crate::recorder::Labels;
use eventloop::EventLoop;
use protocol::{Session, SessionError};
use results::ErrorKind;
use results::records::WithoutResponse;

impl Accounting {
    /// Counts the failure of a connection once, with the requests that it has ended.
    pub(super) fn count_failed<S>(
        &mut self,
        (key, connection): (u32, &Connection<S>),
        kind: ErrorKind,
        at_ns: u64,
    ) {
        if kind == ErrorKind::Stale {
            self.note_reconnect(at_ns);
        }
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if recorder.makes_records() {
            recorder.record_failed(key, connection, kind, at_ns);
        }
        let Connection {
            exchanges, address, ..
        } = connection;
        let labels = |exchange: &Exchange| Labels {
            name: exchange.name,
            address: *address,
        };
        let measured = exchanges
            .iter()
            .filter(|exchange| recorder.measures(exchange.due_ns))
            .map(|exchange| u64::from(exchange.requests))
            .sum();
        let alone = exchanges.outstanding() == 0 && recorder.is_in_window(at_ns);
        if measured > 0 || alone {
            recorder.failed(kind, measured);
            if alone {
                recorder.failed_labelled(kind, 0, Labels::of_address(*address));
            }
        } else {
            recorder.failed_early(at_ns);
        }
        for exchange in exchanges.iter() {
            if recorder.measures(exchange.due_ns) {
                let requests = u64::from(exchange.requests);
                recorder.failed_labelled(kind, requests, labels(exchange));
            }
        }
        if kind == ErrorKind::Timeout {
            for (exchange, tokens) in exchanges.iter_with_tokens() {
                recorder.stream_is_open(exchange.event_ns, at_ns);
                let measured = recorder.measures(exchange.due_ns);
                for _ in 0..if measured { exchange.requests } else { 0 } {
                    let age_ns = at_ns.saturating_sub(exchange.sent_ns);
                    let age_due_ns = at_ns.saturating_sub(exchange.due_ns);
                    recorder.timed_out(age_ns, age_due_ns, labels(exchange));
                    let own_ns = exchange.own_ns + exchange.queued_ns;
                    recorder.own_share_of_unanswered(1, age_due_ns, own_ns);
                    recorder.timed_out_in_stream((exchange, &tokens), age_ns, age_due_ns);
                }
            }
        }
    }

    /// The requests of a connection have timed out together.
    pub(super) fn note_timed_out<L: EventLoop, S: Session>(
        &mut self,
        network: &mut Network<L, S>,
        key: u32,
        at_ns: u64,
    ) {
        if let Some(oldest) = network.pool[key].exchanges.oldest().copied() {
            self.own_ns_of_unanswered(&mut network.pool, &oldest, at_ns);
        }
        if self.breakdown.is_some() {
            self.break_down_timed_out(network, key, at_ns);
        }
    }

    /// Counts the failure of an exchange that is in flight no more.
    pub(super) fn count_failure<S: Session>(
        &mut self,
        pool: &mut ConnectionPool<S>,
        key: u32,
        (exchange, tokens, trace): (&Exchange, &TokenTimes, u128),
        (kind, bytes): (ErrorKind, u64),
        at_ns: u64,
    ) {
        let labels = Labels {
            name: exchange.name,
            address: pool[key].address,
        };
        self.stall.settled_ns = at_ns;
        let own_ns = match kind {
            ErrorKind::Timeout => self.own_ns_of_unanswered(pool, exchange, at_ns),
            _ => exchange.own_ns + exchange.queued_ns,
        };
        let recorder = self.recorder();
        recorder.left(1, at_ns);
        if recorder.makes_records() {
            let ended = EndedWithout {
                reason: WithoutResponse::Failed(kind),
                at_ns,
                own_ns,
                bytes,
            };
            recorder.record_without((exchange, tokens), (key, trace), 1, ended);
        }
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
            // The bytes of an unfinished response to a request of the warm-up.
            let bytes = pool[key].since_window(bytes);
            if recorder.is_in_window(at_ns) {
                recorder.bytes(bytes, labels);
            }
        }
    }

    /// A connection was closed without an error and is opened again.
    pub(super) fn note_reconnect(&mut self, at_ns: u64) {
        if self.recorder().is_in_window(at_ns) {
            self.recorder().reconnect();
        }
    }

    /// Keeps the details of the first session error that has any.
    pub(super) fn note_detail(&mut self, kind: ErrorKind, error: &SessionError) {
        if self.first_error_detail.is_none()
            && let Some(detail) = error_kinds::detail(error)
        {
            self.note_text(kind, detail);
        }
    }

    pub(super) fn note_text(&mut self, kind: ErrorKind, detail: String) {
        self.first_error_detail.get_or_insert((kind, detail));
    }
}
