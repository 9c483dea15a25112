//! After the window: nothing new is sent, and responses are read until those to the requests of the
//! window have ended, for at most the time of the plan (`--drain`).
//!
//! Without it, a run whose responses take long knows only the short ones. What ends in the drain is
//! recorded like any other response, but is no part of what the server did in the window
//! ([`Recorder::end_window`](crate::recorder::Recorder::end_window)).

use super::{Phase, StopReason, Worker};
use crate::control::RunState;
use eventloop::EventLoop;
use plan::{EventsFormat, RunPlan};
use protocol::Session;

/// Whether the plan alone says how long the window is drained: it does if it is asked for, and the
/// responses of a language model always end. Of other streams it is not known: they may be feeds,
/// which go on until the client leaves.
pub(super) fn is_certain(plan: &RunPlan) -> bool {
    let events = plan.events.as_ref();
    plan.drain.is_some() || events.is_none_or(|events| events.format == EventsFormat::Llm)
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Looks whether this worker or another one has had a whole response.
    #[cold]
    pub(super) fn note_streams_end(&mut self, state: &RunState) {
        if self.accounting.recorder().has_responses() {
            state.note_whole_response();
        }
        self.streams_end = state.has_responses();
    }

    /// The window is over. Returns whether it is drained: not if the plan does not want it, if
    /// streams seem to never end, or if the time for it has passed.
    #[cold]
    pub(super) fn begin_drain(&mut self, now_ns: u64) -> bool {
        let drain = self.settings.plan.drain_limit().as_nanos();
        let drain_ns = u64::try_from(drain).unwrap_or(u64::MAX);
        let limit_ns = self.times.end_ns.saturating_add(drain_ns);
        let is_wanted =
            drain_ns > 0 && (self.streams_end || self.accounting.recorder().has_responses());
        if self.phase != Phase::Window || !is_wanted || now_ns >= limit_ns {
            return false;
        }
        self.end_window(self.times.end_ns);
        self.accounting.end_packets(&self.network.pool);
        self.phase = Phase::Drain;
        self.network.stops_opening = true;
        self.limit_ns = limit_ns;
        // No connection is needed any more, and none is filled.
        self.sender.budget = 0;
        self.accounting.stall.stops_sending = true;
        self.network.io.poll_until(0);
        true
    }

    /// One turn of the drain. The times of requests end as usual.
    pub(super) fn drain_turn(
        &mut self,
        now_ns: u64,
        state: &RunState,
    ) -> Result<Option<u64>, StopReason> {
        self.slept_until_ns = None;
        let is_over = now_ns >= self.limit_ns || self.accounting.recorder().outstanding() == 0;
        if is_over || state.is_raised() {
            return Ok(None);
        }
        S::at(&mut self.network.context, now_ns);
        while let Some(key) = self.network.pool.deadlines.take_due(now_ns) {
            self.on_deadline(key, now_ns)?;
        }
        self.handle_session_timers(now_ns)?;
        self.flush_sessions();
        let next_ns = [
            self.network.pool.deadlines.next_ns(),
            self.network.pool.session_timers.next_ns(),
        ];
        let latest_ns = self.limit_ns.min(now_ns + self.tick_ns);
        self.waits_roughly = true;
        let until_ns = next_ns.into_iter().flatten().fold(latest_ns, u64::min);
        self.accounting.watch.begin_wait(
            until_ns,
            self.network.io.has_more(),
            &mut self.accounting.usage,
        );
        Ok(Some(until_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{RunTimes, StuckGuard};
    use crate::source::Fixed;
    use crate::{AddressBook, WorkerParts, WorkerSettings};
    use eventloop::Address;
    use eventloop::sim::{Actions, Peer, Sim, SimOptions};
    use plan::Target;
    use protocol::h1::{H1, H1Context, Limits};
    use std::time::Duration;

    const S: u64 = 1_000_000_000;

    /// It never responds.
    struct Silent;

    impl Peer for Silent {
        fn on_bytes(&mut self, _: u32, _: &[u8], _: u64, _: &mut Actions) {}
    }

    fn parts() -> WorkerParts<Sim<Silent>, H1> {
        let plan = RunPlan {
            drain: Some(Duration::from_hours(1)),
            ..RunPlan::new(Target::parse("http://h/").expect("a URL"))
        };
        let address = Address::Tcp(([127, 0, 0, 1], 80).into());
        WorkerParts {
            io: Sim::new(SimOptions::default(), Silent),
            context: H1Context::new(Limits::default(), false),
            settings: WorkerSettings {
                plan,
                addresses: AddressBook::new(vec![address], false),
                options: eventloop::SocketOptions::default(),
                connections: 4,
                hosts: 1,
                pipeline: 1,
                requests_per_connection: u64::MAX,
                idle_connections: 0,
                timeout_ns: 3_600 * S,
                requests: None,
                seed: 0,
                recorded_gap_ns: None,
                has_conversations: false,
                histories_max_bytes: crate::HISTORIES_MAX_BYTES,
                worker_base: 0,
                worker: 0,
                workers: 1,
                workers_elsewhere: 0,
                weighted: None,
                records: None,
            },
            source: Box::new(Fixed::new(b"GET / HTTP/1.1\r\n\r\n".to_vec())),
            usage_probe: None,
        }
    }

    #[test]
    fn an_interrupt_ends_the_drain_at_once_and_nothing_is_lost() {
        let state = RunState::default();
        let worker = Worker::new(parts(), None, StuckGuard::default());
        let mut worker = worker.expect("it is set up");
        worker.begin(RunTimes {
            start_ns: 0,
            measure_ns: 0,
            end_ns: S,
        });
        while worker.now_ns() < 5 * S {
            let until_ns = worker.turn(&state).ok().flatten();
            let until_ns = until_ns.expect("it goes on");
            assert!(worker.wait(until_ns).is_ok());
            assert!(worker.take_completions().is_ok());
        }
        assert_eq!(worker.phase, Phase::Drain);
        state.raise();
        assert!(matches!(worker.turn(&state), Ok(None)));
        let result = worker.end(Ok(())).expect("nobody has taken it");
        let drained_ns = result.drained_ns.expect("it was drained");
        assert!((4 * S..5 * S).contains(&drained_ns), "{drained_ns}");
        assert_eq!(result.ended_ns, S);
        let counters = &result.recording.counters;
        assert_eq!((counters.sent, counters.in_flight), (4, 4));
        assert_eq!(counters.in_flight_time_ns, 4 * S);
        assert_eq!(counters.drained_time_ns, 4 * drained_ns);
    }
}
