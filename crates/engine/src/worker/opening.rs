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

use super::network::Network;
use super::usage::{ThreadTimes, UsageMeter};
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
    /// The times of the thread when the run began.
    at_start: ThreadTimes,
    /// Time in the script since then.
    script_ns: u64,
    /// How long the thread has stood still since then.
    stood_still_ns: u64,
    unopened: Unopened,
}

/// When the connections of a fixed rate that are not open yet could take requests, if the load
/// generator had never been late.
///
/// If a connection is opened late, an older one takes its request and is busy for longer. In the
/// schedule without delays, the two have changed places: the request is sent when the late one
/// would have been free, and the late one is busy for as long as the older one.
#[derive(Debug, Default)]
struct Unopened {
    /// How many requests they could take from the beginning.
    unused: u64,
    /// When they could take more, after those that others took.
    used: BinaryHeap<Reverse<u64>>,
}

impl Unopened {
    #[inline]
    fn is_empty(&self) -> bool {
        self.unused == 0 && self.used.is_empty()
    }

    /// A connection takes a request that would have been free at `ideal_ns`. Returns when the first
    /// of all connections would have been free, if these are opened late by `late_ns`.
    fn first_free_ns(&mut self, ideal_ns: u64, late_ns: u64) -> u64 {
        let possible_ns = ideal_ns.saturating_sub(late_ns);
        if self.unused > 0 {
            self.unused -= 1;
            self.used.push(Reverse(ideal_ns));
            return possible_ns;
        }
        match self.used.peek_mut() {
            Some(mut first) if first.0 < ideal_ns => {
                std::mem::replace(&mut first.0, ideal_ns).max(possible_ns)
            }
            _ => ideal_ns,
        }
    }

    /// One of them is opened at `now_ns`, late by `late_ns`, for this many requests at a time.
    /// Returns how much earlier it would have been free.
    fn opens(&mut self, now_ns: u64, late_ns: u64, requests: u32) -> u64 {
        let unused = self.unused.min(u64::from(requests));
        self.unused -= unused;
        let mut first_ns = (unused > 0).then_some(0);
        for _ in unused..u64::from(requests) {
            let used_ns = self.used.pop().map(|Reverse(free_ns)| free_ns);
            first_ns = first_ns.or(used_ns);
        }
        now_ns
            .saturating_sub(first_ns.unwrap_or(now_ns))
            .min(late_ns)
    }
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
            at_start: ThreadTimes::default(),
            script_ns: 0,
            stood_still_ns: 0,
            unopened: Unopened::default(),
        }
    }

    /// A run at a fixed rate began, in which this many requests can be in flight.
    pub(super) fn start(&mut self, requests: u64, times: ThreadTimes) {
        self.at_start = times;
        self.unopened.unused = requests;
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
    fn late_ns_max(&self, elapsed_ns: u64, times: &ThreadTimes) -> u64 {
        let waits_ns = times.cpu_wait_ns.zip(self.at_start.cpu_wait_ns);
        waits_ns
            .map_or(0, |(now_ns, before_ns)| now_ns.saturating_sub(before_ns))
            .saturating_add(self.script_ns)
            .saturating_add(self.stood_still_ns)
            .min(self.late_ns(elapsed_ns, times))
    }

    /// How much later the next connection is opened than by a load generator that did nothing but
    /// what a run needs: the time that was spent in the script, and the time in which the thread
    /// had no CPU. While there are connections to open, the thread does not sleep.
    fn late_ns(&self, elapsed_ns: u64, times: &ThreadTimes) -> u64 {
        let used_ns = times.cpu_ns.zip(self.at_start.cpu_ns);
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

impl<L: EventLoop, S: Session> Network<L, S> {
    /// Opens the next connections of a thread.
    fn open_next(&mut self, now_ns: u64, thread: &mut UsageMeter) {
        let begin = self.opening.opened;
        let batch_end = (begin / OPENED_PER_BATCH + 1) * OPENED_PER_BATCH;
        let connections = self.pool.connections.len() as u32;
        let end = (begin + OPENED_PER_TURN).min(batch_end).min(connections);
        for key in begin..end {
            self.open(key);
        }
        self.opening.opened = end;
        if let Some(start_ns) = self.paced_since_ns {
            let elapsed_ns = now_ns.saturating_sub(start_ns);
            let late_ns = self.opening.late_ns(elapsed_ns, &thread.times());
            let requests = self.pool.pipeline as u32;
            for key in begin..end {
                if self.pool.is_idle(key) {
                    break;
                }
                let own_ns = self.opening.unopened.opens(now_ns, late_ns, requests);
                self.pool[key].own_ns = own_ns;
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
    pub(super) fn note_opened(&mut self, key: u32, at_ns: u64, thread: &mut UsageMeter) {
        if self.paced_since_ns.is_some() && self.pool[key].own_ns > 0 {
            let late_ns = self.opening_late_ns_max(at_ns, thread);
            let connection = &mut self.pool[key];
            connection.own_ns = connection.own_ns.min(late_ns);
        }
    }

    /// The most that the load generator can have delayed a connection until `now_ns`.
    fn opening_late_ns_max(&self, now_ns: u64, thread: &mut UsageMeter) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.paced_since_ns.unwrap_or(now_ns));
        self.opening.late_ns_max(elapsed_ns, &thread.times())
    }

    /// When a request that is due at `due_ns` could be sent on a connection that is free, if the
    /// load generator had never been late.
    #[inline]
    pub(super) fn ideal_free_ns(&mut self, key: u32, due_ns: u64, thread: &mut UsageMeter) -> u64 {
        let ideal_ns = self.pool[key].ideal_free_ns();
        if ideal_ns <= due_ns || self.opening.unopened.is_empty() {
            return ideal_ns;
        }
        let late_ns = self.opening_late_ns_max(self.io.now_ns(), thread);
        self.opening.unopened.first_free_ns(ideal_ns, late_ns)
    }

    /// When the connections that are not open at `now_ns` could have taken their requests, if the
    /// load generator had never been late.
    pub(super) fn ideal_free_of_unopened(&self, now_ns: u64, thread: &mut UsageMeter) -> Vec<u64> {
        let possible_ns = now_ns.saturating_sub(self.opening_late_ns_max(now_ns, thread));
        let Unopened { unused, used } = &self.opening.unopened;
        let used_ns = used
            .iter()
            .map(|Reverse(free_ns)| possible_ns.max(*free_ns));
        used_ns
            .chain(std::iter::repeat_n(possible_ns, *unused as usize))
            .collect()
    }

    /// Checks whether the response to the probe has arrived, or will not arrive.
    fn end_probe(&mut self, now_ns: u64) {
        let Some((key, until_ns)) = self.opening.probe else {
            return;
        };
        let connection = &self.pool[key];
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

    /// Tells the other workers when the connections are open, and stops holding requests back once
    /// those of all `workers` are.
    fn end_hold(&mut self, now_ns: u64, run: &RunState, workers: u32) {
        let all = self.pool.connections.len() as u32;
        let opening = &mut self.opening;
        let is_ready = opening.opened == all && opening.probe.is_none();
        if is_ready && !opening.is_told {
            opening.is_told = true;
            run.note_opened();
        }
        let are_ready = is_ready && run.opened_workers() >= workers;
        if are_ready || now_ns >= opening.hold_until_ns {
            opening.hold_until_ns = 0;
            opening.probe = None;
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
        let network = &mut self.network;
        network.end_probe(now_ns);
        let connections = network.pool.connections.len() as u32;
        if network.opening.opened < connections && network.opening.probe.is_none() {
            network.open_next(now_ns, &mut self.accounting.usage);
        }
        if network.opening.is_holding() {
            network.end_hold(now_ns, run, self.settings.workers);
        }
        if !network.opening.is_holding() && !network.opening.held.is_empty() {
            self.release_held()?;
        }
        Ok(())
    }

    fn release_held(&mut self) -> Result<(), StopReason> {
        for _ in 0..RELEASED_PER_TURN {
            if self.sender.stretch.is_over() {
                break;
            }
            let Some(key) = self.network.opening.held.pop_front() else {
                break;
            };
            // It may have been closed and opened again in the meantime.
            if self.network.pool[key].state == ConnectionState::Open {
                let now_ns = self.network.io.now_ns();
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

    fn times(cpu_ns: u64, cpu_wait_ns: u64) -> ThreadTimes {
        ThreadTimes {
            cpu_ns: Some(cpu_ns),
            cpu_wait_ns: Some(cpu_wait_ns),
        }
    }

    #[test]
    fn a_connection_is_late_by_no_more_than_what_held_up_the_thread() {
        let mut opening = Opening::new();
        opening.start(1, times(0, 3 * MS));
        assert_eq!(opening.late_ns_max(99 * MS, &times(0, 3 * MS)), 0);
        opening.note_script(40 * MS);
        opening.note_standstill(20 * MS);
        assert_eq!(opening.late_ns_max(99 * MS, &times(0, 8 * MS)), 65 * MS);
        // It was at work for most of the time.
        let at_work = times(90 * MS, 8 * MS);
        assert_eq!(opening.late_ns_max(99 * MS, &at_work), 49 * MS);
    }

    #[test]
    fn connections_are_opened_late_by_the_script_and_by_pauses() {
        let mut opening = Opening::new();
        opening.start(1, times(5 * MS, 0));
        assert_eq!(opening.late_ns(2 * MS, &times(7 * MS, 0)), 0);
        opening.note_script(40 * MS);
        assert_eq!(opening.late_ns(50 * MS, &times(55 * MS, 0)), 40 * MS);
        // Then another program used the CPU for 30 ms.
        assert_eq!(opening.late_ns(80 * MS, &times(55 * MS, 0)), 70 * MS);
    }

    #[test]
    fn without_a_clock_of_the_thread_no_connection_is_late() {
        let mut opening = Opening::new();
        opening.note_script(40 * MS);
        assert_eq!(opening.late_ns(50 * MS, &times(MS, 0)), 0);
        opening.start(1, times(MS, 0));
        let unknown = ThreadTimes::default();
        assert_eq!(opening.late_ns_max(50 * MS, &unknown), 0);
    }

    #[test]
    fn a_request_is_sent_when_the_connection_that_is_late_would_have_been_free() {
        let mut unopened = Unopened {
            unused: 2,
            ..Unopened::default()
        };
        // Two would have been open, one of them after all that did not hold up the thread.
        assert_eq!(unopened.first_free_ns(40, 80), 0);
        assert_eq!(unopened.first_free_ns(50, 20), 30);
        // They are busy until 40 and 50.
        assert_eq!(unopened.first_free_ns(60, 80), 40);
        assert_eq!(unopened.first_free_ns(45, 80), 45);
        assert!(!unopened.is_empty());
    }

    #[test]
    fn a_connection_that_is_opened_has_changed_places_with_older_ones() {
        let mut unopened = Unopened {
            unused: 3,
            ..Unopened::default()
        };
        assert_eq!(unopened.first_free_ns(50, 80), 0);
        assert_eq!(unopened.opens(90, 70, 1), 70);
        // Two requests at a time: one could be sent from the beginning, one after 50.
        assert_eq!(unopened.opens(90, 80, 2), 80);
        assert!(unopened.is_empty());
        assert_eq!(unopened.opens(90, 80, 1), 0);
        unopened.used.push(Reverse(60));
        assert_eq!(unopened.opens(90, 80, 1), 30);
    }
}
