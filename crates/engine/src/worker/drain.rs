//! After the window: nothing new is sent, and responses are read until those to the requests of the
//! window have ended, for at most the time of the plan (`--drain`).
//!
//! Without it, a run whose responses take long knows only the short ones. What ends in the drain is
//! recorded like any other response, but is no part of what the server did in the window
//! ([`Recorder::end_window`](crate::recorder::Recorder::end_window)).

use super::{Phase, StopReason, TICK_NS, Worker};
use crate::control::RunState;
use eventloop::EventLoop;
use protocol::Session;

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// The window is over. Returns whether it is drained: not if the plan does not want it, nor if
    /// the time for it has passed.
    #[cold]
    pub(super) fn begin_drain(&mut self, now_ns: u64) -> bool {
        let drain = self.settings.plan.drain_limit().as_nanos();
        let drain_ns = u64::try_from(drain).unwrap_or(u64::MAX);
        let limit_ns = self.times.end_ns.saturating_add(drain_ns);
        if self.phase != Phase::Window || drain_ns == 0 || now_ns >= limit_ns {
            return false;
        }
        self.end_window(self.times.end_ns);
        (0..self.pool.connections.len() as u32).for_each(|key| self.count_packets(key));
        self.phase = Phase::Drain;
        self.limit_ns = limit_ns;
        // No connection is needed any more, and none is filled.
        self.budget = 0;
        self.stall.stops_sending = true;
        self.io.poll_until(0);
        true
    }

    /// One turn of the drain. The times of requests end as usual.
    pub(super) fn drain_turn(
        &mut self,
        now_ns: u64,
        state: &RunState,
    ) -> Result<Option<u64>, StopReason> {
        self.slept_until_ns = None;
        let is_over = now_ns >= self.limit_ns || self.recorder().outstanding() == 0;
        if is_over || state.is_raised() {
            return Ok(None);
        }
        S::at(&mut self.session_shared, now_ns);
        while let Some(key) = self.pool.deadlines.take_due(now_ns) {
            self.on_deadline(key, now_ns)?;
        }
        self.handle_session_timers(now_ns)?;
        self.flush_sessions();
        let next_ns = [
            self.pool.deadlines.next_ns(),
            self.pool.session_timers.next_ns(),
        ];
        let latest_ns = self.limit_ns.min(now_ns + TICK_NS);
        let until_ns = next_ns.into_iter().flatten().fold(latest_ns, u64::min);
        self.watch.begin_wait(until_ns);
        Ok(Some(until_ns))
    }
}
