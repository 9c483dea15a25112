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
use std::collections::VecDeque;

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
        }
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
        // A single batch needs no probe, because no batch follows it.
        let is_batch_end = end == batch_end || end == connections;
        let has_batches = connections > OPENED_PER_BATCH;
        let may_probe = self.opening.is_prompt && self.opening.hold_until_ns > 0;
        if is_batch_end && has_batches && may_probe && !self.pool.is_idle(end - 1) {
            self.opening.probe = Some((end - 1, now_ns.saturating_add(PROBE_NS)));
        }
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
