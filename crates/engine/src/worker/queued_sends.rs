//! Requests that wait in the worker until they are passed to the kernel.
//!
//! A loop like io_uring's sends at the end of a turn, and so do sessions over datagrams. The time
//! of a request begins when the session has it, so a turn that takes long, because a script or
//! another program needs the CPU, would count as the server's. So a turn that takes long submits in
//! between, and what has waited all the same counts as the load generator's.

use super::Worker;
use super::network::Network;
use eventloop::EventLoop;
use protocol::{Session, Transport};
use results::Attribution;

/// While a script runs, what has waited this long is submitted before the turn ends. A part of
/// [`Attribution::MIN_NS`], so that it need not be attributed; and long enough for several requests
/// to share a system call.
pub(super) const AGE_MAX_IN_SCRIPT_NS: u64 = Attribution::MIN_NS / 2;

/// The requests that sessions have and the kernel has not.
#[derive(Debug, Default)]
pub(super) struct QueuedSends {
    /// Their connections.
    keys: Vec<u32>,
    /// When the session got the first of them.
    since_ns: u64,
    /// When sessions over datagrams last sent what they had.
    pub(super) flushed_ns: u64,
}

impl<L: EventLoop, S: Session> Network<L, S> {
    /// A session has got a request.
    #[inline]
    pub(super) fn note_queued(&mut self, key: u32, sent_ns: u64) {
        if S::TRANSPORT == Transport::Stream && !self.io.queues_sends() {
            return;
        }
        if self.queued.keys.is_empty() {
            self.queued.since_ns = sent_ns;
        }
        if self.queued.keys.last() != Some(&key) {
            self.queued.keys.push(key);
        }
    }

    /// The kernel has got what was queued.
    #[inline]
    pub(super) fn note_submitted(&mut self) {
        if self.queued.keys.is_empty() {
            return;
        }
        let submitted_ns = if self.io.queues_sends() {
            self.io.submitted_ns()
        } else {
            self.queued.flushed_ns
        };
        if submitted_ns.saturating_sub(self.queued.since_ns) >= Attribution::MIN_NS {
            self.delay_queued(submitted_ns);
        }
        self.queued.keys.clear();
    }

    /// Attributes the time in the queue to the load generator.
    #[cold]
    fn delay_queued(&mut self, submitted_ns: u64) {
        let QueuedSends { keys, since_ns, .. } = &mut self.queued;
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let exchanges = &mut self.pool[*key].exchanges;
            exchanges.queued_until(*since_ns, submitted_ns);
        }
    }
}

impl<L: EventLoop, S: Session> Worker<L, S> {
    /// Submits what is queued if it has waited for long.
    #[inline]
    pub(super) fn submit_if_old(&mut self, now_ns: u64, age_max_ns: u64) {
        let queued = &self.network.queued;
        if !queued.keys.is_empty() && now_ns.saturating_sub(queued.since_ns) >= age_max_ns {
            self.flush_sessions();
            self.network.io.submit();
            self.network.note_submitted();
        }
    }
}
