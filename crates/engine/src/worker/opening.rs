//! The start of a run: connections are opened in batches, and in a closed loop requests wait for
//! them.
//!
//! Servers such as nginx accept one connection each time they have served all readable ones. Once
//! the first connections send as fast as they can, the others wait in the accept queue. To the
//! client they are connected, but their first request has no response for up to a second. So no
//! request is sent before every worker has opened its connections, except one on the last
//! connection of each batch. The accept queue is served in order, so its response shows that the
//! batch has been accepted. A server that does not respond in time is not probed again, and does
//! not delay the start.

use super::{StopReason, Worker};
use crate::connection::ConnectionState;
use crate::control::RunState;
use eventloop::EventLoop;
use protocol::Session;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Connections opened before checking clock, completions and stop: on loopback, the kernel takes up
/// to a tenth of a millisecond for each, and there may be a million.
pub(super) const OPENED_PER_TURN: u32 = 8;
/// Connections per batch, after which a request probes whether the server keeps up. Far below the
/// usual accept queues of 128 and more, even with several workers.
const OPENED_PER_BATCH: u32 = 64;
/// The longest wait for the response to a probe: enough for a server that has nothing else to do.
const PROBE_NS: u64 = 5_000_000;
/// Requests wait for connections no longer than this, and no longer than a part of the run.
const HOLD_NS: u64 = 1_000_000_000;
const HOLD_SHARE: u64 = 10;
/// How often to check whether the other workers are ready.
const CHECK_NS: u64 = 200_000;
/// Waiting connections that send per turn.
const RELEASED_PER_TURN: usize = 64;

/// The progress of a worker in opening its connections.
pub(super) struct Opening {
    /// Number of connections opened so far.
    opened: u32,
    /// Requests wait until then at the latest. 0 if they do not wait, or no longer wait.
    hold_until_ns: u64,
    /// The connection of the current probe, and until when to wait for its response.
    probe: Option<(u32, u64)>,
    /// The server has responded to each probe so far.
    is_prompt: bool,
    /// The other workers know that this one is ready.
    is_told: bool,
    /// Connections that wait to send, in the order in which they were opened.
    held: VecDeque<u32>,
    /// At a fixed rate: the CPU time of the thread when the run began.
    cpu_at_start_ns: Option<u64>,
    /// How long the thread had waited for a CPU then.
    cpu_wait_at_start_ns: u64,
    /// Time in the script since then.
    script_ns: u64,
    /// How long the thread has stood still since then.
    stood_still_ns: u64,
    /// At a fixed rate: when the connections that are not open yet could each take a request, if
    /// the load generator had never been late.
    ideal_free_ns: BinaryHeap<Reverse<u64>>,
}

impl Opening {
    /// Does not hold back requests.
    pub(super) fn new() -> Self {
        Self {
            opened: 0,
            hold_until_ns: 0,
            probe: None,
            is_prompt: true,
            is_told: false,
            held: VecDeque::new(),
            cpu_at_start_ns: None,
            cpu_wait_at_start_ns: 0,
            script_ns: 0,
            stood_still_ns: 0,
            ideal_free_ns: BinaryHeap::new(),
        }
    }

    /// A run at a fixed rate began at `start_ns`, with this many requests that can be in flight.
    /// The thread has used so much CPU time, and waited so long for a CPU.
    pub(super) fn start(
        &mut self,
        start_ns: u64,
        requests: usize,
        cpu_ns: Option<u64>,
        cpu_wait_ns: Option<u64>,
    ) {
        self.cpu_at_start_ns = cpu_ns;
        self.cpu_wait_at_start_ns = cpu_wait_ns.unwrap_or(0);
        if cpu_ns.is_some() {
            self.ideal_free_ns = vec![Reverse(start_ns); requests].into();
        }
    }

    /// Whether some connections for requests are not open yet.
    #[inline]
    fn is_incomplete(&self) -> bool {
        !self.ideal_free_ns.is_empty()
    }

    /// A connection takes a request that would have been free at `ideal_ns` if the load generator
    /// had never been late. Returns when one of all connections would have been free, if the others
    /// are opened late by `late_ns`. That leaves the other time to one that is not open yet.
    fn ideal_free_ns(&mut self, ideal_ns: u64, late_ns: u64) -> u64 {
        match self.ideal_free_ns.peek_mut() {
            Some(mut first) if first.0 < ideal_ns => {
                let first_ns = std::mem::replace(&mut first.0, ideal_ns);
                first_ns.max(ideal_ns.saturating_sub(late_ns))
            }
            _ => ideal_ns,
        }
    }

    /// A connection is opened at `now_ns`, for this many requests at a time. Returns how much
    /// earlier it would have been free.
    fn opens(&mut self, now_ns: u64, late_ns: u64, requests: u32) -> u64 {
        let mut taken = (0..requests).filter_map(|_| self.ideal_free_ns.pop());
        let first_ns = taken.next().map_or(now_ns, |Reverse(first_ns)| first_ns);
        taken.for_each(drop);
        now_ns.saturating_sub(first_ns).min(late_ns)
    }

    /// The script took this time.
    #[inline]
    pub(super) fn note_script(&mut self, took_ns: u64) {
        self.script_ns = self.script_ns.saturating_add(took_ns);
    }

    /// The thread did not run for this long.
    pub(super) fn note_standstill(&mut self, length_ns: u64) {
        self.stood_still_ns = self.stood_still_ns.saturating_add(length_ns);
    }

    /// The most that the load generator can have delayed a connection since the run began. What
    /// arrived while it was busy with the handshakes of other connections was read late as well,
    /// but that is the work of any load generator.
    fn late_ns_max(&self, elapsed_ns: u64, usage: (Option<u64>, Option<u64>)) -> u64 {
        let (cpu_ns, cpu_wait_ns) = usage;
        let waited_ns =
            cpu_wait_ns.map_or(0, |now_ns| now_ns.saturating_sub(self.cpu_wait_at_start_ns));
        waited_ns
            .saturating_add(self.script_ns)
            .saturating_add(self.stood_still_ns)
            .min(self.late_ns(elapsed_ns, cpu_ns))
    }

    /// How much later the next connection is opened than by a load generator that did nothing but
    /// what a run needs: the time that was spent in the script, and the time in which the thread
    /// had no CPU. While there are connections to open, the thread does not sleep.
    fn late_ns(&self, elapsed_ns: u64, cpu_ns: Option<u64>) -> u64 {
        let used_ns = cpu_ns.zip(self.cpu_at_start_ns);
        used_ns.map_or(0, |(now_ns, before_ns)| {
            let used_ns = now_ns.saturating_sub(before_ns);
            elapsed_ns.saturating_sub(used_ns.saturating_sub(self.script_ns))
        })
    }

    /// Leaves it to others to open these connections.
    pub(super) fn skip(&mut self, connections: u32) {
        self.opened = connections;
    }

    /// Holds back requests in a run from `start_ns` to `end_ns`.
    pub(super) fn hold(&mut self, start_ns: u64, end_ns: u64) {
        let longest_ns = (end_ns.saturating_sub(start_ns) / HOLD_SHARE).min(HOLD_NS);
        self.hold_until_ns = start_ns.saturating_add(longest_ns);
    }

    /// Holds back a connection that could send. Returns false if it may send now.
    #[inline]
    pub(super) fn takes(&mut self, key: u32, is_answered: bool) -> bool {
        let is_probe = || self.probe.is_some_and(|(probe, _)| probe == key) && !is_answered;
        if self.hold_until_ns == 0 || is_probe() {
            return false;
        }
        self.held.push_back(key);
        true
    }

    /// Whether requests are held back.
    pub(super) fn is_holding(&self) -> bool {
        self.hold_until_ns > 0
    }

    /// When to continue if nothing happens. `None` when all connections have been opened.
    pub(super) fn next_ns(&self, connections: u32, now_ns: u64) -> Option<u64> {
        let is_open = self.opened >= connections;
        match self.probe {
            Some((_, until_ns)) => Some(until_ns.max(now_ns)),
            None if !is_open => Some(now_ns),
            None if self.hold_until_ns > 0 => Some(now_ns.saturating_add(CHECK_NS)),
            None => (!self.held.is_empty()).then_some(now_ns),
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Opens the next connections, and releases the waiting ones once all are open.
    pub(super) fn open_next_connections(
        &mut self,
        now_ns: u64,
        run: &RunState,
    ) -> Result<(), StopReason> {
        self.end_probe(now_ns);
        let connections = self.settings.connections_total();
        if self.opening.opened < connections && self.opening.probe.is_none() {
            self.open_next(now_ns);
        }
        if self.opening.hold_until_ns > 0 {
            let is_ready = self.opening.opened == connections && self.opening.probe.is_none();
            if is_ready && !self.opening.is_told {
                self.opening.is_told = true;
                run.note_opened();
            }
            let are_ready = is_ready && run.opened_workers() >= self.settings.workers;
            if are_ready || now_ns >= self.opening.hold_until_ns {
                self.opening.hold_until_ns = 0;
                self.opening.probe = None;
            }
        }
        if self.opening.hold_until_ns == 0 && !self.opening.held.is_empty() {
            self.release_held()?;
        }
        Ok(())
    }

    fn open_next(&mut self, now_ns: u64) {
        let begin = self.opening.opened;
        let batch_end = (begin / OPENED_PER_BATCH + 1) * OPENED_PER_BATCH;
        let connections = self.settings.connections_total();
        let end = (begin + OPENED_PER_TURN).min(batch_end).min(connections);
        for key in begin..end {
            self.open(key);
        }
        self.opening.opened = end;
        if self.is_paced() {
            let elapsed_ns = now_ns.saturating_sub(self.times.start_ns);
            let late_ns = self.opening.late_ns(elapsed_ns, self.usage.cpu_ns());
            let requests = self.settings.pipeline;
            for key in begin..end {
                if self.pool.is_idle(key) {
                    break;
                }
                let own_ns = self.opening.opens(now_ns, late_ns, requests);
                self.pool.connections[key as usize].own_ns = own_ns;
            }
        }
        // A single batch needs no probe, because no batch follows it.
        let is_batch_end = end == batch_end || end == connections;
        let has_batches = connections > OPENED_PER_BATCH;
        let may_probe = self.opening.is_prompt && self.opening.hold_until_ns > 0;
        if is_batch_end && has_batches && may_probe && !self.pool.is_idle(end - 1) {
            self.opening.probe = Some((end - 1, now_ns.saturating_add(PROBE_NS)));
        }
    }

    /// At a fixed rate, a connection can send from now on.
    pub(super) fn note_opened(&mut self, key: u32, at_ns: u64) {
        if self.is_paced() && self.pool.connections[key as usize].own_ns > 0 {
            let late_ns = self.opening_late_ns_max(at_ns);
            let connection = &mut self.pool.connections[key as usize];
            connection.own_ns = connection.own_ns.min(late_ns);
        }
    }

    /// The most that the load generator can have delayed a connection until `now_ns`.
    fn opening_late_ns_max(&mut self, now_ns: u64) -> u64 {
        let usage = (self.usage.cpu_ns(), self.usage.run_queue_wait_ns());
        let elapsed_ns = now_ns.saturating_sub(self.times.start_ns);
        self.opening.late_ns_max(elapsed_ns, usage)
    }

    /// When a request that is due at `due_ns` could be sent on a connection that is free, if the
    /// load generator had never been late.
    #[inline]
    pub(super) fn ideal_free_ns(&mut self, key: u32, due_ns: u64) -> u64 {
        let ideal_ns = self.pool.connections[key as usize].ideal_free_ns();
        if ideal_ns <= due_ns || !self.opening.is_incomplete() {
            return ideal_ns;
        }
        let late_ns = self.opening_late_ns_max(self.io.now_ns());
        self.opening.ideal_free_ns(ideal_ns, late_ns)
    }

    /// When the connections that are not open at `now_ns` could each take a request, if the load
    /// generator had never been late.
    pub(super) fn ideal_free_of_unopened(&mut self, now_ns: u64) -> Vec<u64> {
        let late_ns = self.opening_late_ns_max(now_ns);
        let possible_ns = now_ns.saturating_sub(late_ns);
        let free_ns = self.opening.ideal_free_ns.iter();
        free_ns
            .map(|Reverse(free_ns)| possible_ns.max(*free_ns))
            .collect()
    }

    /// Checks whether the response to the probe has arrived, or will not arrive.
    fn end_probe(&mut self, now_ns: u64) {
        let Some((key, until_ns)) = self.opening.probe else {
            return;
        };
        let connection = &self.pool.connections[key as usize];
        let is_answered = connection.answered > 0;
        let has_failed = matches!(
            connection.state,
            ConnectionState::Waiting | ConnectionState::Done
        );
        if is_answered || has_failed || now_ns >= until_ns {
            self.opening.is_prompt = is_answered;
            self.opening.probe = None;
        }
    }

    fn release_held(&mut self) -> Result<(), StopReason> {
        for _ in 0..RELEASED_PER_TURN {
            let Some(key) = self.opening.held.pop_front() else {
                break;
            };
            // It may have been closed and opened again in the meantime.
            if self.pool.connections[key as usize].state == ConnectionState::Open {
                let now_ns = self.io.now_ns();
                self.send_requests(key, now_ns)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_connection_is_late_by_no_more_than_what_held_up_the_thread() {
        let mut opening = Opening::new();
        opening.start(0, 1, Some(0), Some(3 * MS));
        assert_eq!(opening.late_ns_max(99 * MS, (Some(0), Some(3 * MS))), 0);
        assert_eq!(opening.late_ns_max(99 * MS, (Some(0), None)), 0);
        opening.note_script(40 * MS);
        opening.note_standstill(20 * MS);
        let waited = Some(8 * MS);
        assert_eq!(opening.late_ns_max(99 * MS, (Some(0), waited)), 65 * MS);
        // It was at work for most of the time.
        assert_eq!(
            opening.late_ns_max(99 * MS, (Some(90 * MS), waited)),
            49 * MS
        );
    }

    #[test]
    fn connections_are_opened_late_by_the_script_and_by_pauses() {
        let mut opening = Opening::new();
        opening.start(0, 1, Some(5 * MS), None);
        assert_eq!(opening.late_ns(2 * MS, Some(7 * MS)), 0);
        opening.note_script(40 * MS);
        assert_eq!(opening.late_ns(50 * MS, Some(55 * MS)), 40 * MS);
        // Then another program used the CPU for 30 ms.
        assert_eq!(opening.late_ns(80 * MS, Some(55 * MS)), 70 * MS);
    }

    #[test]
    fn a_request_goes_to_the_connection_that_would_have_been_open() {
        let mut opening = Opening::new();
        opening.start(10 * MS, 2, Some(0), None);
        assert!(opening.is_incomplete());
        // Two others would have been open, one of them after all that did not hold up the thread.
        assert_eq!(opening.ideal_free_ns(40 * MS, 80 * MS), 10 * MS);
        assert_eq!(opening.ideal_free_ns(50 * MS, 20 * MS), 30 * MS);
        assert_eq!(opening.ideal_free_ns(60 * MS, 80 * MS), 40 * MS);
        // One of them is opened, and would have been busy until 50 ms.
        assert_eq!(opening.opens(90 * MS, 80 * MS, 1), 40 * MS);
        assert_eq!(opening.opens(90 * MS, 20 * MS, 1), 20 * MS);
        assert_eq!(opening.opens(90 * MS, 20 * MS, 1), 0);
        assert!(!opening.is_incomplete());
    }

    #[test]
    fn without_a_clock_of_the_thread_no_connection_is_late() {
        let mut opening = Opening::new();
        assert_eq!(opening.late_ns(50 * MS, Some(MS)), 0);
        opening.start(0, 1, Some(MS), None);
        assert_eq!(opening.late_ns(50 * MS, None), 0);
    }
}
