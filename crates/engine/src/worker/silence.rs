//! Pauses of the load generator that met a stall of the server.
//!
//! A request that was sent late because the load generator had paused is late by the pause, if the
//! server responds as usual. If the server is silent then, the request would have waited for the
//! end of that stall anyway, at whatever time of the pause it was due. When the stall began is not
//! known: nothing was sent in the pause. So the pause is taken back from what such requests were
//! late by, which is then a lower bound. The requests of a short pause in a long stall are delayed
//! by the stall alone.

use super::accounting::Accounting;
use super::pool::ConnectionPool;
use crate::exchanges::Exchange;

/// A server is silent if its first response to what was sent after a pause takes longer than this,
/// more than [`SILENT_FACTOR`] times what [`USUAL_PERCENT`] of the responses take.
const SILENT_MIN_NS: u64 = 10_000_000;
const SILENT_FACTOR: u64 = 2;
const USUAL_PERCENT: f64 = 90.0;

/// More pauses than this in one silence are not followed.
const PAUSES_MAX: usize = 256;

/// Follows whether the server responds to what is sent after a pause.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// The pauses, from and to, after which the server has not responded yet, in order.
    pauses_ns: Vec<(u64, u64)>,
    /// When the last response arrived.
    last_arrival_ns: u64,
    /// When bytes last arrived. 0 before the first ones.
    heard_ns: u64,
    /// The longest time in which no bytes arrived.
    longest_ns: u64,
}

impl Silence {
    pub(super) fn last_arrival_ns(&self) -> u64 {
        self.last_arrival_ns
    }

    /// Bytes have arrived. This is called for each read and not for each response, of which there
    /// are many more with pipelining.
    #[inline]
    pub(super) fn note_bytes(&mut self, at_ns: u64) {
        let silent_ns = at_ns.saturating_sub(self.heard_ns);
        if silent_ns > self.longest_ns && self.heard_ns > 0 {
            self.longest_ns = silent_ns;
        }
        self.heard_ns = at_ns;
    }

    fn note_pause(&mut self, pause_ns: (u64, u64)) {
        if self.pauses_ns.len() < PAUSES_MAX {
            self.pauses_ns.push(pause_ns);
        }
    }

    /// Takes the pause back that ended before this request was sent.
    fn take_back(pauses_ns: &[(u64, u64)], exchange: &mut Exchange) {
        let before = pauses_ns.partition_point(|(_, to_ns)| *to_ns <= exchange.sent_ns);
        if let Some((from_ns, to_ns)) = before.checked_sub(1).and_then(|at| pauses_ns.get(at)) {
            let pause_ns = to_ns.saturating_sub(*from_ns);
            exchange.own_ns = exchange.own_ns.saturating_sub(pause_ns);
        }
    }

    /// Takes pauses back from all that is in flight.
    fn take_back_in_flight<S>(&self, pool: &mut ConnectionPool<S>) {
        for connection in &mut pool.connections {
            let exchanges = &mut connection.exchanges;
            exchanges.for_each_mut(|exchange| Self::take_back(&self.pauses_ns, exchange));
        }
    }
}

impl Accounting {
    /// The worker did not run from the one time to the other.
    #[cold]
    pub(super) fn note_standstill(&mut self, gap_ns: (u64, u64)) {
        let end_ns = self.times.end_ns;
        self.recorder().stood_still(gap_ns, end_ns);
        if self.is_paced {
            self.silence.note_pause(gap_ns);
        }
    }

    /// Tells the watch how soon responses arrived in the pause before this turn. The requests that
    /// were in flight are answered within the usual service time. The watch is interested in the
    /// first response on each connection, which comes earlier the more requests the connection has.
    #[cold]
    pub(super) fn expect_answers<S>(&mut self, pool: &ConnectionPool<S>) {
        let recorder = self.recorder.as_ref();
        let times = recorder.map(|recorder| recorder.corrected_service_time());
        if let Some(times) = times.filter(|times| times.count() > 0) {
            let in_flight_each = pool.outstanding.checked_div(pool.established).unwrap_or(0);
            let usual_ns = times.value_at_percentile(USUAL_PERCENT);
            self.watch.expect_within(usual_ns / in_flight_each.max(1));
        }
    }

    /// The response to this request arrived at `arrived_ns`. If it is the first one to what was
    /// sent after a pause, it tells whether the server was silent.
    #[inline]
    pub(super) fn note_end_of_silence<S>(
        &mut self,
        pool: &mut ConnectionPool<S>,
        exchange: &mut Exchange,
        arrived_ns: u64,
    ) {
        self.silence.last_arrival_ns = self.silence.last_arrival_ns.max(arrived_ns);
        if let Some((_, first_ns)) = self.silence.pauses_ns.first()
            && exchange.sent_ns >= *first_ns
        {
            self.end_silence(pool, exchange, arrived_ns);
        }
    }

    #[cold]
    fn end_silence<S>(
        &mut self,
        pool: &mut ConnectionPool<S>,
        exchange: &mut Exchange,
        arrived_ns: u64,
    ) {
        let waited_ns = arrived_ns.saturating_sub(exchange.sent_ns);
        if self.was_silent(waited_ns) {
            Silence::take_back(&self.silence.pauses_ns, exchange);
            self.silence.take_back_in_flight(pool);
        }
        self.silence.pauses_ns.clear();
    }

    /// This request timed out at `at_ns`. Returns how much of its age is the load generator's.
    pub(super) fn own_ns_of_unanswered<S>(
        &mut self,
        pool: &mut ConnectionPool<S>,
        exchange: &Exchange,
        at_ns: u64,
    ) -> u64 {
        let mut exchange = *exchange;
        if let Some((_, first_ns)) = self.silence.pauses_ns.first()
            && exchange.sent_ns >= *first_ns
        {
            self.end_silence(pool, &mut exchange, at_ns);
        }
        exchange.own_ns + exchange.queued_ns
    }

    /// The run ended at this time. The server may have been silent since a pause.
    pub(super) fn end_silence_at<S>(&mut self, pool: &mut ConnectionPool<S>, ended_ns: u64) {
        let Some((_, first_ns)) = self.silence.pauses_ns.first().copied() else {
            return;
        };
        let in_flight = pool.connections.iter().flat_map(|it| it.exchanges.iter());
        let sent_ns = in_flight.map(|it| it.sent_ns).filter(|it| *it >= first_ns);
        let unread_ns = pool.connections.iter().filter_map(|it| it.arrived_ns);
        let Some(sent_ns) = sent_ns.min() else { return };
        let heard_ns = unread_ns
            .filter(|it| *it >= sent_ns)
            .fold(ended_ns, u64::min);
        if self.was_silent(heard_ns.saturating_sub(sent_ns)) {
            self.silence.take_back_in_flight(pool);
        }
        self.silence.pauses_ns.clear();
    }

    /// Whether the server once sent nothing for much longer than a request usually takes.
    pub(super) fn has_been_silent(&self) -> bool {
        self.was_silent(self.silence.longest_ns)
    }

    fn was_silent(&self, waited_ns: u64) -> bool {
        let recorder = self.recorder.as_ref();
        let Some(recorder) = recorder.filter(|_| waited_ns >= SILENT_MIN_NS) else {
            return false;
        };
        let times = recorder.corrected_service_time();
        if times.count() == 0 {
            // Nothing tells how long the server usually takes.
            return false;
        }
        let usual_ns = times.value_at_percentile(USUAL_PERCENT);
        waited_ns >= SILENT_MIN_NS.saturating_add(usual_ns.saturating_mul(SILENT_FACTOR))
    }
}
