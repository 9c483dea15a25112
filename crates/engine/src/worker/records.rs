//! A record for each request of the window (`--records`). Nothing of it happens in other runs.

use super::accounting::Accounting;
use super::breakdown::Ended;
use crate::connection::Connection;
use crate::exchanges::{Exchange, TokenTimes};
use crate::recorder::Recorder;
use results::ErrorKind;
use results::records::{RequestRecord, WithoutResponse};

/// Why and when requests ended without a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedWithout {
    pub(super) reason: WithoutResponse,
    pub(super) at_ns: u64,
    pub(super) own_ns: u64,
    /// As [`RequestRecord::bytes`].
    pub(super) bytes: u64,
}

impl Accounting {
    /// A request that was due in the window has its response.
    #[inline(never)]
    pub(super) fn record_answer(
        &mut self,
        key: u32,
        (ended, tokens): (&Ended<'_>, &TokenTimes),
        bytes: u64,
    ) {
        let Ended {
            exchange,
            trace,
            status,
            own_ns,
            at_ns,
            ..
        } = *ended;
        if let Some(records) = self.recorder().records() {
            records.add(RequestRecord {
                first_byte_ns: exchange.began_ns.unwrap_or(at_ns),
                ended_ns: at_ns,
                own_ns,
                bytes,
                status,
                without_response: None,
                ..sent((exchange, tokens), (key, trace))
            });
        }
    }
}

impl Recorder {
    /// The requests of a connection have failed together.
    #[cold]
    pub(super) fn record_failed<S>(
        &mut self,
        key: u32,
        connection: &Connection<S>,
        kind: ErrorKind,
        at_ns: u64,
    ) {
        for (exchange, tokens, trace) in connection.exchanges.iter_with_all() {
            let ended = EndedWithout {
                reason: WithoutResponse::Failed(kind),
                at_ns,
                own_ns: exchange.own_ns + exchange.queued_ns,
                bytes: RequestRecord::UNKNOWN,
            };
            let requests = exchange.requests;
            self.record_without((exchange, &tokens), (key, trace), requests, ended);
        }
    }

    /// This many requests of an exchange have no response. Only those of the window have records.
    #[cold]
    pub(super) fn record_without(
        &mut self,
        (exchange, tokens): (&Exchange, &TokenTimes),
        (key, trace): (u32, u128),
        requests: u32,
        ended: EndedWithout,
    ) {
        if !self.measures(exchange.due_ns) {
            return;
        }
        let Some(records) = self.records() else {
            return;
        };
        let first = RequestRecord {
            first_byte_ns: exchange.began_ns.unwrap_or(0),
            ended_ns: ended.at_ns,
            own_ns: ended.own_ns,
            bytes: ended.bytes,
            without_response: Some(ended.reason),
            ..sent((exchange, tokens), (key, trace))
        };
        // What has arrived, and the trace, are those of the first one.
        let other = RequestRecord {
            first_byte_ns: 0,
            first_token_ns: 0,
            trace: 0,
            ..first
        };
        records.add(first);
        (1..requests).for_each(|_| records.add(other));
    }
}

/// What is known of a request that was sent, whatever has become of it.
fn sent((exchange, tokens): (&Exchange, &TokenTimes), (key, trace): (u32, u128)) -> RequestRecord {
    RequestRecord {
        due_ns: exchange.due_ns,
        sent_ns: exchange.sent_ns,
        first_byte_ns: 0,
        first_token_ns: tokens.first_ns,
        ended_ns: 0,
        own_ns: 0,
        bytes: RequestRecord::UNKNOWN,
        trace,
        tokens_in: tokens.prompt,
        tokens_out: tokens.generated,
        conversation: tokens.conversation,
        turn: tokens.turn,
        name: exchange.name,
        connection: key,
        status: 0,
        without_response: None,
    }
}
