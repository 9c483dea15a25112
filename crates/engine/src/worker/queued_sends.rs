//! Requests that wait in the event loop until it passes them to the kernel.
//!
//! A loop like io_uring's sends at the end of a turn. The time of a request begins when it is
//! handed to the loop, so a turn that takes long, because a script or another program needs the
//! CPU, would count as the server's. So a turn that takes long submits in between, and what has
//! waited all the same counts as the load generator's.

use super::Worker;
use eventloop::EventLoop;
use protocol::Session;
use results::Attribution;

/// While a script runs, what has waited this long is submitted before the turn ends. A part of
/// [`Attribution::MIN_NS`], so that it need not be attributed; and long enough for several requests
/// to share a system call.
pub(super) const AGE_MAX_IN_SCRIPT_NS: u64 = Attribution::MIN_NS / 2;

/// The requests that were handed to the loop and not yet to the kernel.
#[derive(Debug, Default)]
pub(super) struct QueuedSends {
    /// Their connections.
    keys: Vec<u32>,
    /// When the first of them was handed over.
    since_ns: u64,
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// A request was handed to the loop.
    #[inline]
    pub(super) fn note_queued(&mut self, key: u32, sent_ns: u64) {
        if !self.io.queues_sends() {
            return;
        }
        if self.queued.keys.is_empty() {
            self.queued.since_ns = sent_ns;
        }
        if self.queued.keys.last() != Some(&key) {
            self.queued.keys.push(key);
        }
    }

    /// Submits what is queued if it has waited for long.
    #[inline]
    pub(super) fn submit_if_old(&mut self, now_ns: u64, age_max_ns: u64) {
        if !self.queued.keys.is_empty() && now_ns.saturating_sub(self.queued.since_ns) >= age_max_ns
        {
            self.io.submit();
            self.note_submitted();
        }
    }

    /// The loop has passed what was queued to the kernel.
    #[inline]
    pub(super) fn note_submitted(&mut self) {
        if self.queued.keys.is_empty() {
            return;
        }
        let submitted_ns = self.io.submitted_ns();
        if submitted_ns.saturating_sub(self.queued.since_ns) >= Attribution::MIN_NS {
            self.delay_queued(submitted_ns);
        }
        self.queued.keys.clear();
    }

    /// Attributes the time in the queue to the load generator.
    #[cold]
    fn delay_queued(&mut self, submitted_ns: u64) {
        let QueuedSends { keys, since_ns } = &mut self.queued;
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let exchanges = &mut self.pool.connections[*key as usize].exchanges;
            exchanges.queued_until(*since_ns, submitted_ns);
        }
    }
}
