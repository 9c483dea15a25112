//! Pauses of the load generator that met a stall of the server.
//!
//! A request that was sent late because the load generator had paused is late by the pause, if the
//! server responds as usual. If the server is silent then, the request would have waited for the
//! end of that stall anyway, at whatever time of the pause it was due. When the stall began is not
//! known: nothing was sent in the pause. So the pause is taken back from what such requests were
//! late by, which is then a lower bound. The requests of a short pause in a long stall are delayed
//! by the stall alone.

use eventloop::EventLoop;
use protocol::Session;

use super::Worker;
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
}

impl Silence {
    pub(super) fn last_arrival_ns(&self) -> u64 {
        self.last_arrival_ns
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
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// The worker did not run from the one time to the other.
    #[cold]
    pub(super) fn note_standstill(&mut self, gap_ns: (u64, u64)) {
        let end_ns = self.times.end_ns;
        self.accounting.recorder().stood_still(gap_ns, end_ns);
        if self.is_paced() {
            self.accounting.silence.note_pause(gap_ns);
            self.network
                .opening
                .note_standstill(gap_ns.1.saturating_sub(gap_ns.0));
        }
    }

    /// The response to this request arrived at `arrived_ns`. If it is the first one to what was
    /// sent after a pause, it tells whether the server was silent.
    #[inline]
    pub(super) fn note_end_of_silence(&mut self, exchange: &mut Exchange, arrived_ns: u64) {
        self.accounting.silence.last_arrival_ns =
            self.accounting.silence.last_arrival_ns.max(arrived_ns);
        if let Some((_, first_ns)) = self.accounting.silence.pauses_ns.first()
            && exchange.sent_ns >= *first_ns
        {
            self.end_silence(exchange, arrived_ns);
        }
    }

    #[cold]
    fn end_silence(&mut self, exchange: &mut Exchange, arrived_ns: u64) {
        let waited_ns = arrived_ns.saturating_sub(exchange.sent_ns);
        if self.was_silent(waited_ns) {
            Silence::take_back(&self.accounting.silence.pauses_ns, exchange);
            self.take_back_in_flight();
        }
        self.accounting.silence.pauses_ns.clear();
    }

    /// Takes pauses back from all that is in flight.
    fn take_back_in_flight(&mut self) {
        let silence = &self.accounting.silence;
        for connection in &mut self.network.pool.connections {
            let exchanges = &mut connection.exchanges;
            exchanges.for_each_mut(|exchange| Silence::take_back(&silence.pauses_ns, exchange));
        }
    }

    /// This request timed out at `at_ns`. Returns how much of its age is the load generator's.
    pub(super) fn own_ns_of_unanswered(&mut self, exchange: &Exchange, at_ns: u64) -> u64 {
        let mut exchange = *exchange;
        if let Some((_, first_ns)) = self.accounting.silence.pauses_ns.first()
            && exchange.sent_ns >= *first_ns
        {
            self.end_silence(&mut exchange, at_ns);
        }
        exchange.own_ns + exchange.queued_ns
    }

    /// The run ended at this time. The server may have been silent since a pause.
    pub(super) fn end_silence_at(&mut self, ended_ns: u64) {
        let Some((_, first_ns)) = self.accounting.silence.pauses_ns.first().copied() else {
            return;
        };
        let connections = self.network.pool.connections.iter();
        let in_flight = connections.flat_map(|it| it.exchanges.iter());
        let sent_ns = in_flight.map(|it| it.sent_ns).filter(|it| *it >= first_ns);
        let unread_ns = self
            .network
            .pool
            .connections
            .iter()
            .filter_map(|it| it.arrived_ns);
        let Some(sent_ns) = sent_ns.min() else { return };
        let heard_ns = unread_ns
            .filter(|it| *it >= sent_ns)
            .fold(ended_ns, u64::min);
        if self.was_silent(heard_ns.saturating_sub(sent_ns)) {
            self.take_back_in_flight();
        }
        self.accounting.silence.pauses_ns.clear();
    }

    fn was_silent(&self, waited_ns: u64) -> bool {
        let Some(recorder) = self
            .accounting
            .recorder
            .as_ref()
            .filter(|_| waited_ns >= SILENT_MIN_NS)
        else {
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
