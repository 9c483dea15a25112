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

    /// How late a request was sent without the pause that ended before.
    fn take_back(pauses_ns: &[(u64, u64)], sent_ns: u64, own_ns: u64) -> u64 {
        let before = pauses_ns.partition_point(|(_, to_ns)| *to_ns <= sent_ns);
        match before.checked_sub(1).and_then(|at| pauses_ns.get(at)) {
            Some((from_ns, to_ns)) => own_ns.saturating_sub(to_ns.saturating_sub(*from_ns)),
            None => own_ns,
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// The worker did not run from the one time to the other.
    #[cold]
    pub(super) fn note_standstill(&mut self, gap_ns: (u64, u64)) {
        let end_ns = self.times.end_ns;
        self.recorder().stood_still(gap_ns, end_ns);
        if self.is_paced() {
            self.silence.note_pause(gap_ns);
        }
    }

    /// With a rate: the response to a request that was sent at `sent_ns`, late by `own_ns`, arrived
    /// at `arrived_ns`. Returns what it was late by. If it is the first response to what was sent
    /// after a pause, it tells whether the server was silent.
    #[inline]
    pub(super) fn own_after_silence(
        &mut self,
        (sent_ns, own_ns): (u64, u64),
        arrived_ns: u64,
    ) -> u64 {
        self.silence.last_arrival_ns = self.silence.last_arrival_ns.max(arrived_ns);
        match self.silence.pauses_ns.first() {
            Some((_, first_ns)) if sent_ns >= *first_ns => {
                self.end_silence((sent_ns, own_ns), arrived_ns)
            }
            _ => own_ns,
        }
    }

    #[cold]
    fn end_silence(&mut self, (sent_ns, own_ns): (u64, u64), arrived_ns: u64) -> u64 {
        let mut pauses_ns = std::mem::take(&mut self.silence.pauses_ns);
        let mut ideal_own_ns = own_ns;
        if self.was_silent(arrived_ns.saturating_sub(sent_ns)) {
            ideal_own_ns = Silence::take_back(&pauses_ns, sent_ns, own_ns);
            for connection in &mut self.pool.connections {
                connection.exchanges.for_each_mut(|it| {
                    it.own_ns = Silence::take_back(&pauses_ns, it.sent_ns, it.own_ns);
                });
            }
        }
        pauses_ns.clear();
        self.silence.pauses_ns = pauses_ns;
        ideal_own_ns
    }

    fn was_silent(&self, waited_ns: u64) -> bool {
        let Some(recorder) = self
            .recorder
            .as_ref()
            .filter(|_| waited_ns >= SILENT_MIN_NS)
        else {
            return false;
        };
        let times = recorder.corrected_service_time();
        let usual_ns = times.value_at_percentile(USUAL_PERCENT);
        waited_ns >= SILENT_MIN_NS.saturating_add(usual_ns.saturating_mul(SILENT_FACTOR))
    }
}
